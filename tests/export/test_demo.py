"""The demonstration's processes, and the study of the gait."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pixelgait.export.demo.demo import COURSE_EYES, shipped_pair
from pixelgait.export.demo.options import DemoConfig
from pixelgait.export.reports.gait_study import Gait, open_loop, turning
from pixelgait.robot.bundle import load_bundle
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import evaluate
from tests.conftest import alive, child_environment, children

ROBOT_AND_CONTROLLER = """
from pathlib import Path
from pixelgait.export.demo.ros import run_ros
run_ros("iap", Path("."), [], ["--duration", "60"])
"""


def test_robot_and_controller_die_with_the_demonstration(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", ROBOT_AND_CONTROLLER], cwd=tmp_path, env=child_environment()
    )
    deadline = time.monotonic() + 60.0
    while len(nodes := [pid for pid in children(demo.pid) if is_node(pid)]) < 2:
        assert demo.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    while any(alive(pid) for pid in nodes):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_node(pid: int) -> bool:
    """Whether the child has become one of the two nodes."""
    return b"pixelgait." in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_two_parts_of_a_turn_add_up_to_it() -> None:
    still, both = Gait(stride_m=0.05), turning(0.3, stride_m=0.05)
    parts = Gait(2.5, 0.05, 0.3, 0.0), Gait(2.5, 0.05, 0.0, 0.3)
    for phase in np.linspace(0.0, 6.0, 7):
        targets = [
            open_loop(lambda s=setting: s)(np.zeros(2), np.zeros(4), np.zeros(12), phase[None])[0]
            for setting in (still, both, *parts)
        ]
        np.testing.assert_allclose(targets[2] + targets[3], targets[0] + targets[1], atol=1e-12)
        assert not np.allclose(targets[2], targets[3])


@pytest.mark.slow
def test_every_robot_with_legs_that_are_shipped_has_eyes(tmp_path: Path) -> None:
    """A pair that nobody ships is made: another robot's eyes on its own legs, which walk."""
    pair = shipped_pair(DemoConfig(out=tmp_path, robot="laikago"), COURSE_EYES)
    bundle = load_bundle(str(pair))
    assert bundle.spec.name == "laikago"
    figures = evaluate(EvalConfig(str(pair), episodes=1, seconds=10.0, workers=1))
    assert figures["fall_rate"] == 0.0
    assert figures["distance_m"] > 3.0
