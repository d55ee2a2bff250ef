"""pixelgait-export: trained weights to a policy bundle."""

from __future__ import annotations

from pixelgait.export.options import ExportConfig, check
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command


def main() -> None:
    """Console entry point."""
    run_command(lambda: _export(parse(ExportConfig, "pixelgait-export")))


def _export(config: ExportConfig) -> None:
    for run in check(config):
        if run is not None:
            load_checkpoint(run / "best.npz")
    from pixelgait.export.exporter import export, trial_of_bundle  # takes seconds

    export(config)
    print(f"next: {trial_of_bundle(config)}")


if __name__ == "__main__":
    main()
