"""Reports of a walk: outputs that cannot be written, a busy computer."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ros.support import AUTO, Client, FakeRobot, Processes, output_of

# Standard output is a full disk, or a pipe without a reader.
ELSEWHERE = """
import os, sys
reader, writer = os.pipe()
os.close(reader)
os.dup2(os.open("/dev/full", os.O_WRONLY) if sys.argv[1] == "full" else writer, 1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_failing_standard_output_does_not_lose_the_report_files(
    processes: Processes,
    iap_bundle: Path,
    tmp_path: Path,
    client: Client,
    robot: FakeRobot,
    output: str,
) -> None:
    from tests.test_endings import script

    line = (script("pixelgait-run"), iap_bundle, "--out", tmp_path / "out", *AUTO)
    run = processes.script(ELSEWHERE, output, *line)
    client.wait_for_state("walking")
    client.spin_for(0.5)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"latency.json", "decisions.npz"}
    assert "Traceback" not in said
    told = "standard output: the report cannot be written (No space left on device)"
    assert (told in said.splitlines()[-1]) == (output == "full"), said


@pytest.mark.parametrize(
    ("load", "misses", "says"),
    [
        (1.5, 10, None),
        (7.0, 0, "the computer is too busy (load 7.0 on 2 cores, 0 of 1000 deadlines missed): "),
        (0.5, 60, "the computer is too busy (load 0.5 on 2 cores, 60 of 1000 deadlines missed): "),
    ],
)
def test_a_busy_computer_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, load: float, misses: int, says: str | None
) -> None:
    from pixelgait.robot.runtime.report import busy_computer

    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    remedy = "end other programs, see docs/robot/timing.md"
    assert busy_computer(1000, misses) == (None if says is None else says + remedy)


@pytest.mark.parametrize("warnings", [{}, {"camera/color/image_raw": "the image is frozen"}])
def test_a_sensor_that_is_silent_for_another_reason_does_not_show_a_busy_computer(
    monkeypatch: pytest.MonkeyPatch, warnings: dict[str, str]
) -> None:
    from pixelgait.robot.runtime.report import cause_of

    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    fault = "camera/color/image_raw is silent for 2.01 s, at most 2.0 s is allowed"
    fault += "".join(f"; {topic}: {warning}" for topic, warning in warnings.items())
    link = SimpleNamespace(warnings=lambda: warnings)
    loop: Any = SimpleNamespace(fault=fault, link=link, steps=100, misses=0)
    assert ("too busy" in str(cause_of(loop, lambda: None))) is not bool(warnings)


@pytest.mark.slow
def test_a_silent_sensor_on_a_busy_computer_names_the_cause(
    processes: Processes, client: Client, robot: FakeRobot, iap_bundle: Path
) -> None:
    code = (
        "import os, sys; os.getloadavg = lambda: (99.0, 0.0, 0.0); sys.argv[0] = 'pixelgait-run'\n"
    )
    code += "from pixelgait.robot.ros.run import main; main()"
    run = processes.script(code, iap_bundle, *AUTO)
    client.wait_for_state("ready")
    robot.publish_joints = False
    client.spin(lambda: run.poll() is not None)
    last = output_of(run).splitlines()[-1]
    assert last.startswith("error: controller stopped: joint_states is silent for ")
    assert "; the computer is too busy (load 99.0 on " in last
