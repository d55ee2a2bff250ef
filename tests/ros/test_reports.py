"""The report of a walk, where not all of it can be written."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.ros.support import AUTO, Client, FakeRobot, Processes

# Standard output is a full disk, or a pipe that nobody reads any more.
ELSEWHERE = """
import os, sys
reader, writer = os.pipe()
os.close(reader)
os.dup2(os.open("/dev/full", os.O_WRONLY) if sys.argv[1] == "full" else writer, 1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("output", ["full", "closed"])
def test_an_output_that_cannot_be_written_costs_no_file(
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
