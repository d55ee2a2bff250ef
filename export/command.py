"""pixelgait-export: trained weights to a policy bundle."""

from __future__ import annotations

import shlex
from pathlib import Path

from pixelgait.export.options import ExportConfig, check
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command


def main() -> None:
    """Console entry point."""
    run_command(lambda: _export(parse(ExportConfig, "pixelgait-export")))


def _export(config: ExportConfig) -> None:
    for run in check(config):
        if run is not None:
            load_checkpoint(run / "best.npz")
    if config.walker is not None:
        from pixelgait.export.walker_exporter import export_walker

        export_walker(config)
        print(f"next: {trial_of_walker(config.out, seeing=config.high_level is not None)}")
        return
    from pixelgait.export.exporter import export, trial_of_bundle  # takes seconds

    export(config)
    print(f"next: {trial_of_bundle(config)}")


def trial_of_walker(out: Path, seeing: bool) -> str:
    """Command line that evaluates a walker: by its commands, or by the policy that drives it."""
    line = f"pixelgait-eval {shlex.quote(str(out))}"  # without torch, which an ONNX needs not
    if not seeing:
        return f"{line} --task follow --scene flat"
    return f"{line} --scene rooms" if "goal" in load_bundle(out).takes else line


if __name__ == "__main__":
    main()
