#!/usr/bin/env python3
"""pixelgait-view: a recorded or live walk in Rerun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable
from pixelgait.robot.recording.reader import read_recording
from pixelgait.robot.recording.recorder import require_library
from pixelgait.robot.recording.replay import recorded_bundle
from pixelgait.robot.viewing.entries import recorded_entries
from pixelgait.robot.viewing.rerun_viewer import RerunLog, saved, shown

LIVE = "live"
SUFFIX = ".rrd"


@dataclass(frozen=True)
class ViewConfig:
    """Show a walk in Rerun: camera with attention, commands, joints, latency.

    A recording is shown completely, on its own clock; its bundle is run again for attention and
    decisions. Live shows what pixelgait-run publishes, until Ctrl-C, and publishes nothing. Rerun's
    usage data is off.
    """

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|live")]
    """An MCAP file of pixelgait-run --record, or `live`. Arguments for ROS follow --ros-args."""
    bundle: str | None = None
    """Folder or name of a bundle: instead of the recorded one. Live: the bundle that walks; without
    it an A1 with a colour camera is assumed."""
    save: Path | None = None
    """Write an .rrd file there, instead of opening a window."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: view(parse(ViewConfig, "pixelgait-view")))


def view(config: ViewConfig) -> None:
    """Show a recording until the window is closed, a live walk until Ctrl-C, or write a file.

    Raises:
        UserError: if the file is no recording, a bundle cannot be used, there is no display, the
            file cannot be written, or ROS 2 is not installed.
        ModuleNotFoundError: if Rerun is not installed.
    """
    if config.save is not None:
        require_writable(config.save, "save")
        if config.save.suffix != SUFFIX:
            raise UserError(f"--save {config.save}: expected a file {SUFFIX}")
    if config.source == LIVE:
        show_live(config)
    else:
        show_recording(config)


def require_display(config: ViewConfig) -> None:
    """Raises UserError if a window is wanted and none can be opened here."""
    if config.save is None and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise UserError(f"there is no display (DISPLAY is not set): --save FILE{SUFFIX}")


def show_recording(config: ViewConfig) -> None:
    """Show all of a recording at once."""
    require_library()
    recording = read_recording(Path(config.source))
    bundle = recorded_bundle(recording) if config.bundle is None else load_bundle(config.bundle)
    require_display(config)
    with _viewer(config.save) as (log, window):
        log.write(recorded_entries(recording, bundle))
        log.flush()
        if window is not None:
            window.wait()


def show_live(config: ViewConfig) -> None:
    """Show what the nodes publish, as it arrives."""
    bundle = load_bundle(config.bundle) if config.bundle is not None else None
    require_display(config)
    from pixelgait.robot.ros.common import ros2  # refuses a missing ROS 2

    stop = ros2.start(sys.argv)
    from pixelgait.robot.ros.listener import Listener

    try:
        with _viewer(config.save) as (log, window):
            listener = Listener(log.write, bundle)
            while not stop.is_set() and (window is None or window.poll() is None):
                listener.listen()
                log.flush()
            listener.close()
    finally:
        ros2.rclpy.utilities.try_shutdown()


@contextmanager
def _viewer(save: Path | None) -> Iterator[tuple[RerunLog, subprocess.Popen[bytes] | None]]:
    """The log for entries, and the window's process if there is one."""
    if save is None:
        with shown() as pair:
            yield pair
        return
    with saved(save) as log:
        yield log, None
    print(f"wrote {save}")


if __name__ == "__main__":
    main()
