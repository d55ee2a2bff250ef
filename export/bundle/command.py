"""pixelgait-export: trained weights to a policy bundle."""

from __future__ import annotations

from pixelgait.export.bundle.options import ExportConfig
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command


def main() -> None:
    """Console entry point."""
    run_command(lambda: _export(parse(ExportConfig, "pixelgait-export")))


def _export(config: ExportConfig) -> None:
    from pixelgait.export.bundle.export import export, trial_of_bundle

    export(config)
    print(f"next: {trial_of_bundle(config)}")


if __name__ == "__main__":
    main()
