"""`make colcon`: ROS 2's own tools build and install the package, from wheels, without a word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build" / "colcon"  # an environment of their own
IMPORT = "import pixelgait.robot; print(*pixelgait.robot.__path__)"


@pytest.mark.colcon
def test_colcon_builds_the_package_without_a_warning(tmp_path: Path) -> None:
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH")
    }
    tools = clean | {"PATH": f"{TOOLS / 'bin'}:{clean['PATH']}", "CMAKE_PREFIX_PATH": str(TOOLS)}
    python = f"-DPython3_EXECUTABLE={TOOLS / 'bin' / 'python'}"
    shown = ("--event-handlers", "console_direct+")
    built = subprocess.run(
        ["colcon", "build", "--paths", ROOT, *shown, "--cmake-args", python],
        cwd=tmp_path,
        env=tools,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert not built.stderr
    said = [line for line in built.stdout.splitlines() if not line.startswith("-- Installing")]
    assert not [line for line in said if re.search("warn|error|deprecat", line, re.IGNORECASE)]
    installed = tmp_path / "install" / "pixelgait"
    assert (installed / "share" / "pixelgait" / "launch" / "robot.launch.py").is_file()
    for name in ("pixelgait-run", "pixelgait-sim", "pixelgait-view"):
        assert in_workspace(tmp_path, clean, f"install/pixelgait/lib/pixelgait/{name} --help")
    folder = Path(in_workspace(tmp_path, clean, f"python -c '{IMPORT}'").strip())
    assert folder.is_relative_to(installed)


def in_workspace(folder: Path, environment: dict[str, str], line: str) -> str:
    """The output of a command in the workspace, with the tests' libraries."""
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment = {k: v for k, v in environment.items() if not k.startswith("_ROS_WHEELS")}
    done = subprocess.run(
        ["bash", "-c", f"source install/setup.bash && {line}"],
        cwd=folder,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
