"""Shared fixtures: exported bundles of untrained networks, and commands run as processes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, Run
from pixelgait.robot.bundle import CONTRACT
from pixelgait.robot.control.gait import PARAMETERS, STRIDE
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.ros.common.discovery import WHEEL_VARIABLES
from pixelgait.sim.scenes.houses.write_house import write_rooms

Command = Callable[..., subprocess.CompletedProcess[str]]


def write_run(
    folder: Path, task: str, weights: np.ndarray, encoder: str = "iap", **options: object
) -> Path:
    run = Run.create(folder, {"task": task, "encoder": encoder, **options})
    run.save(Checkpoint.first(weights, Normaliser.empty()), "best")
    return folder


def trotting_weights(stride: float = 0.15) -> np.ndarray:
    """Weights of a low level that trots ahead whatever it is told, its stride in [-1, 1]."""
    weights = np.zeros(LOW_LEVEL_WEIGHTS)
    weights[STRIDE - len(PARAMETERS)] = stride  # the biases come last
    return weights


def gentle_weights() -> np.ndarray:
    """Trotting weights plus small noise, so that every input matters."""
    noise = 0.02 * np.random.default_rng(0).standard_normal(LOW_LEVEL_WEIGHTS)
    return np.asarray(trotting_weights() + noise)


def make_bundle(folder: Path, encoder: str, name: str = "", **options: Any) -> Path:
    """A bundle of untrained networks; `options` are those of `Architecture`."""
    # Here, as torch takes seconds, which most of the workers' tests under ROS 2 never need.
    from pixelgait.export.exporter import export
    from pixelgait.export.options import ExportConfig
    from pixelgait.policies.high_level import Architecture, flat_weights, make_high_level

    low_level = write_run(folder / "low", "follow", gentle_weights())
    weights = flat_weights(make_high_level(Architecture(encoder, **options), seed=1))
    high_level = write_run(folder / "high", "course", weights, encoder, **options)
    bundle = folder / "bundle"
    export(
        ExportConfig(bundle, low_level, high_level=high_level, name=name or f"untrained-{encoder}")
    )
    return bundle


def shared_bundle(factory: pytest.TempPathFactory, name: str, encoder: str) -> Path:
    """One bundle for all pytest-xdist workers: the first exports it, the others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"shared-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "bundle" / CONTRACT).exists():
            return folder / "bundle"
        return make_bundle(folder, encoder)


@pytest.fixture(scope="session")
def iap_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_bundle(tmp_path_factory, "iap", "iap")


@pytest.fixture(scope="session")
def cnn_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_bundle(tmp_path_factory, "cnn", "cnn")


@pytest.fixture(scope="session")
def depth_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = "iap:channels=1,height=16,width=16,patch=4,stride=4,selected=4"
    return shared_bundle(tmp_path_factory, "depth", encoder)


@pytest.fixture(scope="session")
def rgbd_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_bundle(tmp_path_factory, "rgbd", "cnn:channels=4,height=24")


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in Gibson's layout."""
    folder = tmp_path_factory.mktemp("house")
    write_rooms(folder, seed=1, difficulty=1.0)
    return folder


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    """An invisible X screen, drawn without a GPU, by its name."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb: apt-get install xvfb")
    told, tells = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(tells), "-noreset", "-screen", "0", "640x480x24"],
        pass_fds=(tells,),
        stderr=subprocess.DEVNULL,
    )
    os.close(tells)
    with os.fdopen(told) as number:
        yield f":{number.readline().strip()}"
    server.terminate()
    server.wait()


@pytest.fixture
def display(screen: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The screen, for the processes of a test."""
    monkeypatch.setenv("DISPLAY", screen)
    return screen


def children(pid: int) -> list[int]:
    """Child processes of all threads of a process; threads that just ended have none."""
    started: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            started += map(int, (task / "children").read_text().split())
    return started


def child_environment() -> dict[str, str]:
    """The environment for a child Python, without what ROS wheels set for this process."""
    return {key: value for key, value in os.environ.items() if key not in WHEEL_VARIABLES}


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return False
    return state != "Z"


def run_code(
    code: str, *arguments: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run lines of Python in a process."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=child_environment() | environment,
    )


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run one of the console scripts as a user would."""

    def run(
        name: str, *arguments: object, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        script = Path(sys.executable).parent / name
        return subprocess.run(
            [script, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            env=child_environment(),
        )

    return run
