"""pixelgait-eval --encoder: the whole loop with an untrained high level, ONNX included."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

import tyro

from pixelgait.export.bundle.export import ExportConfig, export
from pixelgait.robot.bundle import find_bundle
from pixelgait.robot.errors import run_command
from pixelgait.sim.evaluate import EvalConfig, report


@dataclass(frozen=True)
class EncoderEvalConfig(EvalConfig):
    """Evaluate an untrained high level of any encoder over the low level of a bundle.

    It is exported like a trained one, and runs in onnxruntime.
    """

    encoder: str = "iap"
    """A name, with options as in iap:patch=4,stride=4. height, width and channels (1 depth, 3 RGB,
    4 RGB-D) choose the camera."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: evaluate_encoder(tyro.cli(EncoderEvalConfig, prog="pixelgait-eval")))


def evaluate_encoder(config: EncoderEvalConfig) -> None:
    """Export to a temporary bundle and evaluate that.

    Raises:
        UserError: the bundle has no run of its low level beside it, or a value cannot be used.
    """
    values = {f.name: getattr(config, f.name) for f in fields(EvalConfig)}
    low_level = find_bundle(config.bundle) / "low_level"
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "untrained"
        export(ExportConfig(low_level, bundle, encoder=config.encoder, name=config.encoder))
        report(EvalConfig(**{**values, "bundle": str(bundle)}))


if __name__ == "__main__":
    main()
