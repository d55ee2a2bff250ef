"""Ray cluster as a worker pool: jobs are Ray tasks, results come in the order of the jobs.

Nodes may join, die and leave at any time, even all of them. Jobs that are lost with a worker are
repeated and counted.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pixelgait.robot.cli.processes import silence_stderr
from pixelgait.robot.cli.provenance import code_sha256, version
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable, file_sha256
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.scenes.registry import Move
from pixelgait.sim.workers.process_pool import MOST_DEATHS, Pool

FOLDERS = ("robot", "sim", "policies")  # whose code workers run
LIBRARIES = ("numpy", "torch", "pybullet", "mujoco", "onnxruntime", "opencv-python-headless")
CONNECT_S = 5.0
WAIT_S = 10.0  # for a first worker, before a message that there is none
BATCH_S = 0.2  # least work in a task: its overhead is some milliseconds

# Ray kills a process that has lost its raylet without calling Python: a shell prints this instead.
LAST_WORDS = (
    "\nerror: the cluster's node on this machine has died, or this command was killed: "
    "pixelgait-train --out RUN --resume continues"
)

Argument = TypeVar("Argument", bound="Movable")


class Movable(Protocol):
    """Argument that workers are initialised with; it may name files."""

    def moved(self: Argument, move: Move) -> Argument:
        """A copy of it, for files that `move` moves."""


class ClusterPool(Pool):
    """All CPUs of a Ray cluster; each worker calls `initialise(argument)` before its first job.

    Files that the argument names are sent with it. The URDF of the simulated robot is not, and must
    be the same on every node.

    Raises:
        UserError: if Ray is not installed, there is no such cluster, or it refuses the connection.
    """

    def __init__(
        self,
        address: str,
        initialise: Callable[[Argument], None],
        argument: Argument,
        robot: RobotSpec,
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="pixelgait-") as aside:
            argument = argument.moved(_packer(Path(aside)))
            self._ray = connect(address, aside if os.listdir(aside) else None)
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        self._start = self._ray.put((installation(robot), robot, initialise, argument))
        self._shared: dict[Path, Readable] = {}
        self._job_s: dict[Callable[[Any], Any], float] = {}  # mean duration in the last `map`
        self._workers: set[RayWorker] = set()
        self._work_s = self._held_s = 0.0  # of all workers: at work, and until their last result
        # It reads a pipe that ends with this process, however that ends.
        survivor = f"read goodbye || echo {shlex.quote(LAST_WORDS)} >&2"
        self._survivor = subprocess.Popen(["sh", "-c", survivor], stdin=subprocess.PIPE)

    @property
    def capacity(self) -> int:
        """CPUs of the present nodes; at least 1."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0.0)))

    def shared(self, file: Path) -> Readable:
        if file not in self._shared:
            self._shared[file] = SharedFile(str(file), self._ray.put(file.read_bytes()))
        return self._shared[file]

    def close(self) -> None:
        """Leave the cluster, which ends pending tasks; report how it was used."""
        if self._held_s:
            nodes = {worker.node for worker in self._workers}
            died = f", {self.replaced} died" if self.replaced else ""
            print(
                f"cluster: {len(self._workers)} workers on {len(nodes)} nodes{died}, overhead "
                f"{100.0 * (1.0 - self._work_s / self._held_s):.1f} %",
                file=sys.stderr,
            )
        self._survivor.communicate(b"goodbye\n")
        self._ray.shutdown()

    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        size = self._batch_size(function, len(jobs))
        batches = [jobs[i : i + size] for i in range(0, len(jobs), size)]
        deaths = [0] * len(batches)
        started, work_s = time.monotonic(), 0.0
        last: dict[RayWorker, float] = {}  # time of its latest result [s]
        pending = {self._submit(function, batch): i for i, batch in enumerate(batches)}
        done: dict[int, list[Any]] = {}
        given = 0
        while pending:
            (ref,) = self._next(list(pending))
            i = pending.pop(ref)
            try:
                done[i], seconds, worker = self._result(ref)
            except LostWorkerError as lost:
                deaths[i] += 1
                self.replaced += 1
                if deaths[i] >= MOST_DEATHS:
                    raise UserError(f"workers died {deaths[i]} times at one job: {lost}") from None
                pending[self._submit(function, batches[i])] = i
                continue
            last[worker] = time.monotonic()
            work_s += seconds
            while given in done:
                yield from done.pop(given)
                given += 1
        self._workers |= last.keys()
        self._work_s += work_s
        self._held_s += sum(at - started for at in last.values())
        self._job_s[function] = work_s / max(len(jobs), 1)

    def _batch_size(self, function: Callable[[Any], Any], jobs: int) -> int:
        """Jobs of a task: `BATCH_S` of work, but at least two tasks for each CPU."""
        if function not in self._job_s:
            return 1
        fair = jobs // (2 * self.capacity)
        return max(1, min(int(BATCH_S / max(self._job_s[function], 1e-6)), fair))

    def _submit(self, function: Callable[[Any], Any], batch: list[Any]) -> Any:
        return self._task.remote([self._start, self._ray.put((function, batch))])

    def _next(self, refs: list[Any]) -> list[Any]:
        """Wait for the next task that is done or failed; report once if there is no CPU."""
        reported = False
        while not (done := self._ray.wait(refs, timeout=WAIT_S)[0]):
            if not reported and not self._ray.cluster_resources().get("CPU"):
                print("cluster: no CPU at present, waiting for a node", file=sys.stderr)
                reported = True
        return list(done)

    def _result(self, ref: Any) -> tuple[list[Any], float, RayWorker]:
        """Results of a task, seconds of work, and its worker.

        Raises:
            LostWorkerError: if the worker died.
            UserError: if the job raised it, or the worker has another version.
        """
        from ray.exceptions import RayError, RayTaskError

        try:
            result: tuple[list[Any], float, RayWorker] = self._ray.get(ref)
        except RayTaskError as error:
            why = error.cause
            if isinstance(why, UserError):
                raise why from None
            if isinstance(why, ImportError) or "failed to import" in str(why):
                node = re.search(r"ip=[^\s,)]+", str(error))
                last = str(why).strip().splitlines()[-1]
                raise UserError(f"cluster: node {node and node[0]}: {last}; {SAME}") from None
            raise
        except RayError as error:
            raise LostWorkerError(str(error).splitlines()[0]) from None
        return result


def connect(address: str, folder: str | None) -> Any:
    """Connect to a cluster, whose workers run in a copy of the folder; returns the ray module.

    A socket and one request come first: Ray itself would retry for minutes.

    Raises:
        UserError: if Ray is not installed, there is no such cluster, or it refuses the connection.
    """
    try:
        import ray
        from ray._private.services import canonicalize_bootstrap_address_or_die
        from ray.exceptions import RayError
    except ModuleNotFoundError as error:
        need = f"--cluster needs {error.name}: pip install 'pixelgait[cluster]'"
        raise UserError(need) from None
    try:
        head = canonicalize_bootstrap_address_or_die(address)
        host, _, port = head.rpartition(":")
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise UserError(f"--cluster {address}: {error}") from None
    try:
        _request(head)
        ray.init(
            address,
            runtime_env={"working_dir": folder} if folder else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError, RayError) as error:
        why = str(error).splitlines()[0].split(". ")[0]  # the rest is on making tokens
        need = "this machine must be part of the cluster, with its token and RAY_AUTH_MODE=token"
        raise UserError(f"--cluster {address}: {why}; {need}") from None
    return ray


def _request(head: str) -> None:
    """Send one request that needs the cluster's token, where Ray sends 20.

    Raises:
        RuntimeError, RayError: if there is no token here, or another one.
    """
    from ray._private.authentication import authentication_token_setup

    # Without a token the client would abort this process.
    authentication_token_setup.ensure_token_if_auth_enabled(create_token_if_missing=False)
    with silence_stderr():  # errors are raised as well
        import_module("ray._raylet").GcsClient(address=head)  # missing in Ray's stubs


SAME = "every node needs the same (docs/cluster.md)"


class LostWorkerError(Exception):
    """A worker or its node has died."""


@dataclass(frozen=True, slots=True)
class RayWorker:
    """A process of the cluster."""

    node: str
    pid: int


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file in the cluster's memory."""

    name: str
    ref: Any

    def __str__(self) -> str:
        return self.name

    def read_bytes(self) -> bytes:
        """All of it."""
        import ray

        content: bytes = ray.get(self.ref)
        return content


@cache
def installation(robot: RobotSpec) -> dict[str, str]:
    """Versions that figures depend on, bit for bit: code, libraries and the robot's URDF."""
    from pixelgait.sim.engines.urdf import find_urdf  # late: --help needs no simulator

    code = f"{version()} (code {code_sha256(FOLDERS)[:8]})"
    try:
        urdf = file_sha256(find_urdf(robot))[:8]
    except UserError as error:
        urdf = f"none ({error})"
    libraries = {name: version(name) or "none" for name in LIBRARIES}
    return {"pixelgait": code, **libraries, f"the {robot.name}'s URDF": urdf}


def _packer(folder: Path) -> Move:
    """A move that copies files to a folder, in which workers will run."""

    def pack(path: Path) -> Path:
        place = Path(str(len(os.listdir(folder)))) / path.name
        (folder / place).parent.mkdir()
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / place)
        return place

    return pack


_started: Any = None  # what this worker was initialised with


def _work(refs: list[Any]) -> tuple[list[Any], float, RayWorker]:
    """Run a batch of jobs in a worker; returns results, seconds of work, and the worker.

    The references are resolved here, where an error can be reported: a worker with another version
    of this package may not be able to unpickle them.
    """
    global _started
    import ray

    node = ray.get_runtime_context().get_node_id()
    start, batch = refs
    if start != _started:
        there, robot, initialise, argument = ray.get(start)
        for name, here in installation(robot).items():
            if here != there[name]:
                where = f"node {ray.util.get_node_ip_address()} ({socket.gethostname()})"
                raise UserError(f"cluster: {where} has {name} {here}, not {there[name]}; {SAME}")
        initialise(argument)
        _started = start
    function, jobs = ray.get(batch)
    began = time.perf_counter()
    results = [function(job) for job in jobs]
    return results, time.perf_counter() - began, RayWorker(node, os.getpid())
