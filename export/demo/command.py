"""pixelgait-demo: train, export and walk under ROS 2 in a few minutes."""

from __future__ import annotations

from pixelgait.export.demo.options import DemoConfig
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.spec import find_robot


def main() -> None:
    """Console entry point."""
    run_command(lambda: _demo(parse(DemoConfig, "pixelgait-demo")))


def _demo(config: DemoConfig) -> None:
    find_robot(config.robot)
    from pixelgait.export.demo.demo import demo  # takes seconds

    demo(config)


if __name__ == "__main__":
    main()
