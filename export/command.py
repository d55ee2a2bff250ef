"""pixelgait-export: trained weights to a policy bundle."""

from __future__ import annotations

from pixelgait.export.options import ExportConfig
from pixelgait.policies.runs.run import find_run
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command


def main() -> None:
    """Console entry point."""
    run_command(lambda: _export(parse(ExportConfig, "pixelgait-export")))


def _export(config: ExportConfig) -> None:
    find_run(config.low_level, "low_level")  # before what takes seconds to load
    if config.high_level is not None:
        find_run(config.high_level, "high_level")
    from pixelgait.export.exporter import export, trial_of_bundle

    export(config)
    print(f"next: {trial_of_bundle(config)}")


if __name__ == "__main__":
    main()
