"""The wheel: what it holds, which commands it brings, and what it asks pip for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from zipfile import ZipFile

import pytest

from pixelgait.robot.cli.commands import COMMANDS
from tests.test_architecture import ROOT

# Packages too large for a robot: PyPI's torch alone has several GB.
HEAVY = ("torch", "pybullet", "mujoco", "onnx", "matplotlib", "ray", "rerun-sdk", "ros-jazzy-rclpy")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    alone = ("--no-deps", "--no-build-isolation")  # nothing is downloaded
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *alone, "-q", "-w", str(folder), str(ROOT)],
        check=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    return ZipFile(next(folder.glob("*.whl")))


def told(wheel: ZipFile, name: str) -> str:
    """A file about the wheel."""
    (path,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    return Parser().parsestr(told(wheel, "METADATA"))


def test_the_wheel_carries_the_shipped_policies_and_every_command(wheel: ZipFile) -> None:
    names = wheel.namelist()
    assert "pixelgait/robot/control/controller.py" in names
    assert "pixelgait/policies/pretrained/iap/contract.json" in names
    assert "pixelgait/policies/pretrained/walk/low_level/best.npz" in names
    assert not any(name.startswith(("launch", "robot", "tests")) for name in names)
    scripts = [line.split(" = ")[0] for line in told(wheel, "entry_points.txt").splitlines()]
    assert {script for script in scripts if script.startswith("pixelgait")} == set(COMMANDS)


def test_the_wheel_has_licence_and_python_version(metadata: Message) -> None:
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.10"


def test_every_file_names_the_same_version(metadata: Message) -> None:
    version = metadata["Version"]
    assert f"<version>{version}</version>" in (ROOT / "package.xml").read_text()
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{version}}}" in (ROOT / "README.md").read_text()
    assert f"## {version}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_heavy_packages_come_with_extras_only(metadata: Message) -> None:
    """And torch none but those that train, by themselves or within another."""
    brought_by: dict[str, set[str]] = {}  # extras, by the package; "" where none is asked for
    for line in metadata.get_all("Requires-Dist", []):
        package, _, condition = line.partition("; extra == ")
        brought_by.setdefault(re.split("[<>=]", package)[0], set()).add(condition.strip('"'))
    assert {name for name, extras in brought_by.items() if "" in extras}.isdisjoint(HEAVY)
    assert brought_by.keys() >= set(HEAVY)
    assert brought_by["torch"] == {"train", "demo"}
    within = [extras for name, extras in brought_by.items() if re.search(r"\[.*(train|demo)", name)]
    assert within == [{"dev"}]
