"""Ray cluster of two nodes on this machine: results do not depend on workers that die."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from docs.figures.speed.learning import LESSONS, learn
from docs.figures.speed.speed import SpeedConfig, print_report
from pixelgait.policies.evaluation.evaluate import run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.policies.training.config import (
    ImitateConfig,
    WalkConfig,
)
from pixelgait.policies.training.evolution import ESConfig
from pixelgait.policies.training.loop import train
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1, LAIKAGO
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.workers.ray_pool import ClusterPool
from tests.conftest import Command, child_environment, children, run_code, wait_for
from tests.figures.test_speed import SHORT
from tests.policies import jobs
from tests.test_architecture import ROOT
from tests.test_commands import WITHOUT

STILL_S = 180.0
SOON_S = 15.0  # the command's own start included, on a busy machine
SCRIPT = Path(sys.executable).parent / "pixelgait-train"
TOKEN = secrets.token_hex(32)  # of all clusters: Ray reads it once in a process
needs_ray = pytest.mark.cluster


def eventually(what: Callable[[], bool]) -> None:
    wait_for(what, STILL_S)


def title(pid: int) -> str:
    """Title of a process; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


class Node:
    """A raylet and its processes."""

    def __init__(self, log: Path, *arguments: str, cpus: int = 2, **environment: str) -> None:
        line = [str(Path(sys.executable).parent / "ray"), "start", "--block"]
        line += [
            "--num-cpus",
            str(cpus),
            "--disable-usage-stats",
            "--object-store-memory",
            "100000000",
            *arguments,
        ]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                line, stdout=file, stderr=file, env={**child_environment(), **environment}
            )
        eventually(lambda: "Ray runtime started" in log.read_text() or not self.runs())
        assert self.runs(), log.read_text()
        (self.raylet,) = [p for p in children(self.process.pid) if "raylet/raylet" in title(p)]

    def runs(self) -> bool:
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """Worker processes, busy or idle."""
        return [pid for pid in children(self.raylet) if title(pid).startswith(("ray::_", "ray::I"))]

    def works(self) -> bool:
        """Whether a worker runs a task now."""
        return any(title(pid).startswith("ray::_work") for pid in self.workers())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(STILL_S)


class Cluster:
    """Nodes on this machine; the first is the head. Guarded by a token."""

    def __init__(self, folder: Path, cpus: int = 2) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.address = folder, f"127.0.0.1:{port}"
        head = ["--head", "--port", str(port), "--include-dashboard", "false"]
        head += ["--temp-dir", str(folder / "ray")]
        self.nodes = [Node(folder / "head.log", *head, cpus=cpus)]

    def add(self, **environment: str) -> Node:
        log = self.folder / f"{secrets.token_hex(4)}.log"
        self.nodes.append(Node(log, "--address", self.address, **environment))
        return self.nodes[-1]


@contextmanager
def running(cpus: int) -> Iterator[Cluster]:
    """A cluster that starts with one node of this many CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        patch.setenv("RAY_worker_niceness", "0")  # as local workers have
        folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # paths of sockets are short
        cluster = Cluster(folder, cpus)
        yield cluster
        for node in reversed(cluster.nodes):
            node.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def head() -> Iterator[Cluster]:
    """A cluster of one node with two CPUs."""
    with running(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(head: Cluster) -> Cluster:
    """A cluster of two nodes with two CPUs each."""
    head.add()
    return head


QUICK = dict(iterations=3, steps=100, validation_steps=100, validation_episodes=4)
WALK = WalkConfig(out=Path(), validate_every=2, es=ESConfig(directions=6, top=2), **QUICK)


def same(first: Path, second: Path) -> bool:
    """Whether two runs have bit-equal weights and curves."""
    one, other = (load_checkpoint(folder / "last.npz") for folder in (first, second))
    arrays = [{"weights": each.weights, **each.state} for each in (one, other)]
    curves = [[{**row, "perf/seconds": 0.0} for row in each.curve] for each in (one, other)]
    return curves[0] == curves[1] and all(
        np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0]
    )


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two local workers."""
    out = tmp_path_factory.mktemp("cluster") / "local"
    train(replace(WALK, out=out))
    return out


@needs_ray
def test_training_on_a_cluster_is_bit_equal_to_local_training(
    tmp_path: Path, cluster: Cluster, local: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(replace(WALK, out=tmp_path / "ray", cluster=cluster.address))
    assert same(local, tmp_path / "ray")
    assert "cluster: 4 workers on 2 nodes, overhead " in capfd.readouterr().err


@needs_ray
def test_imitation_on_a_cluster_is_bit_equal_to_local_imitation(
    tmp_path: Path, cluster: Cluster
) -> None:
    """Students are fitted to files of the run folder, which are sent to the workers."""
    dagger = DAggerConfig(courses=2, steps=5, students=2)
    config = ImitateConfig(out=tmp_path / "local", dagger=dagger, **{**QUICK, "iterations": 2})
    train(config)
    train(replace(config, out=tmp_path / "ray", cluster=cluster.address))
    assert same(tmp_path / "local", tmp_path / "ray")


@needs_ray
def test_bundle_and_scene_are_sent_to_the_workers(
    tmp_path: Path, cluster: Cluster, iap_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their relative names would mean nothing on another node."""
    shutil.copytree(iap_bundle, tmp_path / "mine")
    shutil.copy(ROOT / "examples" / "wall.py", tmp_path / "wall.py")
    monkeypatch.chdir(tmp_path)
    config = EvalConfig("mine", scene="mixture:wall.py,gates", episodes=3, seconds=1.0)
    here, there = (
        list(run_episodes(each)) for each in (config, replace(config, cluster=cluster.address))
    )
    assert [episode.seed for episode in there] == [episode.seed for episode in here]
    for one, other in zip(here, there, strict=True):
        assert (one.distance_m, one.return_m) == (other.distance_m, other.return_m)
        np.testing.assert_array_equal(one.decisions, other.decisions)


@needs_ray
def test_a_cluster_pool_keeps_order_and_reports_errors(tmp_path: Path, cluster: Cluster) -> None:
    """Also shared files that are deleted here, and jobs that kill every worker."""
    (tmp_path / "file").write_bytes(b"content")
    with ClusterPool(cluster.address, jobs.start, jobs.Nothing(), A1) as pool:
        assert pool.map(jobs.square, range(20)) == [n * n for n in range(20)]
        assert pool.map(jobs.square, range(50)) == [n * n for n in range(50)]  # in batches
        shared = pool.shared(tmp_path / "file")
        (tmp_path / "file").unlink()
        assert pool.map(jobs.content, [shared]) == [b"content"]
        with pytest.raises(UserError, match=r"^3 is refused$"):
            pool.map(jobs.refuse, [3])
        with pytest.raises(UserError, match="died 5 times at one job"):
            pool.map(jobs.die, [3])


def start_training(out: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SCRIPT, "--out", str(out), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


@needs_ray
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@needs_ray
def test_a_run_that_ends_on_a_cluster_resumes_locally_and_leaves_no_tasks(
    tmp_path: Path, cluster: Cluster, local: Path, how: signal.Signals
) -> None:
    """It starts here, goes on on a cluster, ends there, and goes on here."""
    out = tmp_path / "run"
    train(replace(WALK, out=out, iterations=1))
    iterations = ["--iterations", "1000", "--steps", "100"]
    driver = start_training(out, "--resume", "--cluster", cluster.address, *iterations)
    eventually(lambda: any(node.works() for node in cluster.nodes) or driver.poll() is not None)
    driver.send_signal(how)
    _, told = driver.communicate(timeout=STILL_S)
    eventually(lambda: not any(node.workers() for node in cluster.nodes))
    if how == signal.SIGINT:
        assert driver.returncode == 130
        last = told.splitlines()[-1]
        assert last.startswith("error: interrupted, pixelgait-train --out ")
        assert last.endswith(f" --resume --cluster {cluster.address} continues")
    assert "Traceback" not in told
    train(replace(WALK, out=out, resume=True))
    assert same(local, out)


@needs_ray
def test_the_death_of_a_node_does_not_change_the_result(
    tmp_path: Path, cluster: Cluster, local: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, node = tmp_path / "run", cluster.nodes[-1]

    def kill() -> None:
        eventually((out / "config.yaml").exists)  # early: on an idle machine it is soon over
        eventually(node.works)
        for pid in (node.raylet, *node.workers()):
            os.kill(pid, signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    train(replace(WALK, out=out, cluster=cluster.address))
    killer.join()
    assert same(local, out)
    assert "died, overhead" in capfd.readouterr().err


@needs_ray
def test_the_loss_of_the_local_raylet_is_reported_with_the_resume_command(
    tmp_path: Path, local: Path
) -> None:
    out = tmp_path / "run"
    train(replace(WALK, out=out, iterations=1))
    with running(2) as cluster:
        iterations = ["--iterations", "1000", "--steps", "100"]
        driver = start_training(out, "--resume", "--cluster", cluster.address, *iterations)
        (head,) = cluster.nodes
        eventually(lambda: head.works() or driver.poll() is not None)
        os.kill(head.raylet, signal.SIGKILL)
        _, told = driver.communicate(timeout=STILL_S)
    assert driver.returncode != 0
    assert "Traceback" not in told
    last = told.splitlines()[-1]
    assert last.startswith("error: the cluster's node on this machine has died")
    assert last.endswith("--resume continues")
    train(replace(WALK, out=out, resume=True))
    assert same(local, out)


@needs_ray
def test_a_run_waits_for_a_node_when_none_is_left(
    tmp_path: Path, local: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The head has no CPU, the only other node dies, and a new one joins later."""
    out, told = tmp_path / "run", []
    with running(0) as cluster:
        only = cluster.add()

        def replace_it() -> None:
            eventually(only.works)
            for pid in (only.raylet, *only.workers()):
                os.kill(pid, signal.SIGKILL)
            eventually(lambda: told.append(capfd.readouterr().err) or "waiting" in "".join(told))
            cluster.add()

        replacing = Thread(target=replace_it)
        replacing.start()
        train(replace(WALK, out=out, cluster=cluster.address))
        replacing.join()
    assert same(local, out)


@needs_ray
def test_a_node_with_another_version_is_named(tmp_path: Path, head: Cluster) -> None:
    shutil.copytree(ROOT / "robot", tmp_path / "pixelgait" / "robot")
    for room in ("sim", "policies"):
        (tmp_path / "pixelgait" / room).symlink_to(ROOT / room)
    with (tmp_path / "pixelgait" / "robot" / "gait.py").open("a") as file:
        file.write("# changed\n")
    other = head.add(PYTHONPATH=str(tmp_path))
    try:
        with pytest.raises(UserError, match=r"node [\d.]+ \(.+\) has pixelgait .+ \(code \w{8}\)"):
            train(replace(WALK, out=tmp_path / "run", cluster=head.address))
    finally:
        other.stop()
    assert load_checkpoint(tmp_path / "run" / "last.npz").iteration == 0


@needs_ray
def test_a_node_with_another_build_of_torch_is_named(tmp_path: Path, head: Cluster) -> None:
    """Builds of one version: those of PyPI and of torch's own index differ."""
    told = tmp_path / "torch-0.dist-info" / "METADATA"
    told.parent.mkdir()
    told.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cu999\n")
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    other = head.add(PYTHONPATH=os.pathsep.join(path))
    try:
        with pytest.raises(UserError, match=r"node .+ has torch 2\.13\.0\+cu999, not .+; "):
            train(replace(WALK, out=tmp_path / "run", cluster=head.address))
    finally:
        other.stop()


@needs_ray
def test_a_node_with_another_model_of_the_robot_is_named(tmp_path: Path, head: Cluster) -> None:
    """Only the URDF of the simulated robot counts."""
    urdf = find_urdf(LAIKAGO).read_text().replace('mass value="0.', 'mass value="0.1')
    (tmp_path / "heavier.urdf").write_text(urdf)
    other = head.add(PIXELGAIT_LAIKAGO_URDF=str(tmp_path / "heavier.urdf"))
    try:
        train(replace(WALK, out=tmp_path / "a1", cluster=head.address))
        with pytest.raises(UserError, match=r"node .+ has the laikago's URDF \w{8}, not \w{8}; "):
            train(replace(WALK, out=tmp_path / "run", robot="laikago", cluster=head.address))
    finally:
        other.stop()


@needs_ray
def test_an_interrupted_run_on_a_cluster_reports_its_use(
    tmp_path: Path,
    head: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ray itself would exit with another code."""
    ray = ("--cluster", head.address)
    never = replace(SHORT, learned=lambda row: False, limit_s=10.0)
    assert learn(never, 0, ray).seconds is None
    monkeypatch.setitem(LESSONS, "short", SHORT)
    report = tmp_path / "speed.json"
    print_report(SpeedConfig(1, ("short",), (), 8, head.address, report))
    figures = json.loads(report.read_text())
    assert figures["learning_s"]["short"]["Ray"][0] > 0.0
    assert figures["overhead"]["short"]["1 worker"] == [None]
    (overhead,) = figures["overhead"]["short"]["Ray"]
    assert 0.0 < overhead < 1.0
    assert re.search(rf"short, Ray: .*, overhead {overhead:.1%} \(", capsys.readouterr().out)


@needs_ray
def test_a_missing_cluster_is_reported_in_one_line(command: Command) -> None:
    done = command("pixelgait-train", "walk", "--out", "run", "--cluster", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr == "error: --cluster 127.0.0.1:1: [Errno 111] Connection refused\n"
    for address in ("nonsense", "nowhere.invalid:6379", "127.0.0.1:port"):
        with pytest.raises(UserError, match=f"^--cluster {address}: "):
            ClusterPool(address, jobs.start, jobs.Nothing(), A1)


@needs_ray
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"RAY_AUTH_TOKEN": secrets.token_hex(32)}, "token is missing or incorrect"),
        ({"RAY_AUTH_TOKEN": ""}, "no authentication token was found"),
        ({"RAY_AUTH_TOKEN": "", "RAY_AUTH_MODE": "disabled"}, "token is missing or incorrect"),
    ],
    ids=["another", "none", "no mode"],
)
def test_a_missing_token_is_reported_in_one_line(
    tmp_path: Path, head: Cluster, changed: dict[str, str], why: str
) -> None:
    """At once: Ray itself retries for 20 s, with a message every second."""
    environment = {**child_environment(), "HOME": str(tmp_path), **changed}
    out = tmp_path / "run"
    line = [SCRIPT, "walk", "--out", str(out), "--cluster", head.address]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=SOON_S)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"error: --cluster {head.address}: ")
    assert said.endswith("with its token and RAY_AUTH_MODE=token")
    assert why in said
    assert len(said) < 300
    assert not list(out.glob("*.npz"))


def test_a_missing_ray_is_reported_with_the_install_command(tmp_path: Path) -> None:
    code = """
sys.argv = ["pixelgait-eval", "walk", "--scene", "flat", "--cluster", "auto"]
main()
"""
    done = run_code(WITHOUT.format(names=("ray",)) + code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: --cluster needs ray: pip install 'pixelgait[cluster]'"
    )
