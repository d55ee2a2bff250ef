"""Rerun output: entries to its window or file. Only this file imports the library (0.8 GB)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import replacing
from pixelgait.robot.viewing import entries as view

TIME = "time"
MOST_WAITING = 20_000  # entries; single ones take 0.2 ms each, columns 1 us
START_S = 30.0  # until the window opens on a slow machine
# Colours of a leg's joints, from the body down: targets are paler than angles.
COLOURS = {
    view.ANGLE: [(230, 80, 60), (80, 190, 90), (90, 140, 255)],
    view.TARGET: [(250, 180, 170), (180, 230, 180), (190, 210, 255)],
}
HOLD = (view.COMMAND, view.DURATION)  # drawn as steps
CROWDED = (view.JOINTS, view.GAINS)  # without a legend, which would hide the lines
NO_WINDOW = "Rerun's window does not open, python -m rerun_cli says why: --save FILE.rrd"
CLOSED = (None, 0, -signal.SIGINT, -signal.SIGTERM)  # exit codes of a window that was closed
THIS_COMPUTER = "127.0.0.1"  # by default the window accepts connections from the network


class RerunLog:
    """Passes entries to Rerun in columns: at `flush`, or when many are waiting."""

    def __init__(self, recording: Any, rerun: Any) -> None:
        self._recording, self._rerun = recording, rerun
        self._waiting: dict[str, list[view.Entry]] = {}
        self._named: set[str] = set()
        self._count = 0

    def write(self, entries: Iterable[view.Entry]) -> None:
        """Queue entries; all entries of a path are of one kind."""
        for entry in entries:
            self._waiting.setdefault(entry.path, []).append(entry)
            self._count += 1
            if self._count >= MOST_WAITING:
                self.flush()

    def flush(self) -> None:
        """Send all waiting entries; the window is divided anew for new plots."""
        before = len(self._named)
        for path, entries in self._waiting.items():
            times = [entry.time_s for entry in entries]
            index = self._rerun.TimeColumn(TIME, timestamp=times)
            numbers = [entry for entry in entries if isinstance(entry, view.Numbers)]
            lines = [entry for entry in entries if isinstance(entry, view.Line)]
            if numbers:
                self._name(numbers[0])
                values = np.array([entry.values for entry in numbers])
                self._send(path, index, self._rerun.Scalars.columns(scalars=values))
            elif lines:
                texts, levels = [line.text for line in lines], [line.level for line in lines]
                self._send(path, index, self._rerun.TextLog.columns(text=texts, level=levels))
            else:
                self._draw(path, entries)
        self._waiting, self._count = {}, 0
        if len(self._named) > before:
            self._recording.send_blueprint(_blueprint(self._named))

    def _send(self, path: str, index: Any, columns: Any) -> None:
        self._recording.send_columns(path, indexes=[index], columns=columns)

    def _name(self, entry: view.Numbers) -> None:
        if entry.path not in self._named:
            self._named.add(entry.path)
            series = self._rerun.SeriesLines(
                names=entry.names,
                colors=COLOURS.get(entry.path.rpartition("/")[2]),
                interpolation_mode="stepafter" if entry.path in HOLD else "linear",
            )
            self._recording.log(entry.path, series, static=True)

    def _draw(self, path: str, entries: list[view.Entry]) -> None:
        """Send pictures one by one, as their sizes may differ."""
        self._named.add(path)
        for entry in entries:
            assert isinstance(entry, view.Picture)
            self._recording.set_time(TIME, timestamp=entry.time_s)
            self._recording.log(path, self._rerun.Image(entry.pixels))


def _library() -> Any:
    """Rerun with its usage data off.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    # Where CI is set, Rerun reports no usage data (re_analytics, Pipeline::new). The window
    # inherits it. The only other switch is a file below the home folder.
    os.environ.setdefault("CI", "1")
    # Errors are reported here in one line; Rerun's own lines also report a window that was closed.
    os.environ.setdefault("RUST_LOG", "off")
    import rerun

    return rerun


def _blueprint(paths: set[str]) -> Any:
    """Layout: camera on the left, plots with entries on the right, log lines below."""
    import rerun.blueprint as views

    plots = [
        views.TimeSeriesView(
            name=name,
            origin=path,
            plot_legend=views.PlotLegend(visible=not path.startswith(CROWDED)),
        )
        for name, path in view.PLOTS.items()
        if any(f"{each}/".startswith(f"{path}/") for each in paths)
    ]
    pictures = [views.Spatial2DView(name="Policy image, attention in red", origin=view.CAMERA)]
    if view.LOCAL_MAP in paths:
        title = "Local map, ahead up, obstacles in red"
        pictures.append(views.Spatial2DView(name=title, origin=view.LOCAL_MAP))
    seen = views.Vertical(*pictures)
    above = views.Horizontal(seen, views.Grid(*plots, grid_columns=3), column_shares=[1, 3])
    lines = views.TextLogView(name="States, faults, sensors", origin=view.LOG)
    return views.Blueprint(views.Vertical(above, lines, row_shares=[4, 1]), collapse_panels=True)


@contextmanager
def saved(path: Path) -> Iterator[RerunLog]:
    """A log to a file, which is written completely or not at all.

    Raises:
        ModuleNotFoundError: if Rerun is not installed.
        UserError: if the file could not be written.
    """
    rerun = _library()
    with replacing(path) as aside:
        recording = rerun.RecordingStream("pixelgait")
        recording.save(aside)
        log = RerunLog(recording, rerun)
        yield log
        log.flush()
        try:
            recording.flush()
        except RuntimeError as error:
            raise UserError(f"{path} could not be written, a full disk? ({error})") from None
        recording.disconnect()


@contextmanager
def shown() -> Iterator[tuple[RerunLog, subprocess.Popen[bytes]]]:
    """A log to a new window, and the window's process, which ends with this one.

    Raises:
        ModuleNotFoundError: if Rerun is not installed.
        UserError: if its window does not open, or ends with an error.
    """
    rerun = _library()
    port = _free_port()
    window = _window(port)
    try:
        _wait_for(window, port)
        recording = rerun.RecordingStream("pixelgait")
        recording.connect_grpc(f"rerun+http://{THIS_COMPUTER}:{port}/proxy")
        yield RerunLog(recording, rerun), window
        if window.poll() not in CLOSED:
            raise UserError(NO_WINDOW)
    finally:
        window.terminate()
        window.wait()


def _window(port: int) -> subprocess.Popen[bytes]:
    found = find_spec("rerun_cli")
    assert found is not None
    assert found.origin is not None
    program = Path(found.origin).with_name("rerun")
    address = ("--bind", THIS_COMPUTER, "--port", str(port), "--hide-welcome-screen")
    return subprocess.Popen(
        [str(program), *address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),
    )


def _wait_for(window: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while window.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((THIS_COMPUTER, port)) == 0:
                return
        time.sleep(0.1)
    raise UserError(NO_WINDOW)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((THIS_COMPUTER, 0))
        return int(probe.getsockname()[1])
