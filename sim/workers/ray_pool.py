"""Jobs on a Ray cluster, behind the same `map` as the worker pool.

A job is a Ray task. Ray finds it a free CPU, whenever there is one: nodes may join, die, and go
until none is left. What was lost with a worker is repeated here, and counted. Results come in the
order of the jobs, so it is all the same who has done them.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pixelgait.robot.cli.provenance import code_sha256, version
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable, file_sha256
from pixelgait.robot.spec import find_robot
from pixelgait.sim.scenes.registry import Move
from pixelgait.sim.workers.process_pool import MOST_DEATHS, Pool
from pixelgait.sim.workers.ray_connection import connect

FOLDERS = ("robot", "sim", "policies")  # whose code workers run
LIBRARIES = ("numpy", "torch", "pybullet", "mujoco", "onnxruntime", "opencv-python-headless")
WAIT_S = 10.0  # for a first worker, before the user is told that there is none
BATCH_S = 0.2  # of work in a task at least: a task costs Ray some milliseconds

# Ray ends whoever has lost its raylet, without a word to Python: somebody else has the last one.
LAST_WORDS = (
    "\nerror: the cluster's node on this machine has died, or this command was killed: "
    "pixelgait-train --out RUN --resume goes on"
)

Argument = TypeVar("Argument", bound="Movable")


class Movable(Protocol):
    """What workers are initialised with, and may name files."""

    def moved(self: Argument, move: Move) -> Argument:
        """The same, its files moved."""


class ClusterPool(Pool):
    """Workers are all CPUs of a cluster; each calls `initialise(argument)` once, before its first
    job. The files that the argument names travel with it; the URDF of the robot that they simulate
    does not, and must be the same everywhere."""

    def __init__(
        self,
        address: str,
        initialise: Callable[[Argument], None],
        argument: Argument,
        robot: str,
    ) -> None:
        """Raises UserError if Ray is not installed, or no such cluster is there or lets us in."""
        with tempfile.TemporaryDirectory(prefix="pixelgait-") as aside:
            argument = argument.moved(_packer(Path(aside)))
            self._ray = connect(address, aside if os.listdir(aside) else None)
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        self._start = self._ray.put((installation(robot), robot, initialise, argument))
        self._shared: dict[Path, Readable] = {}
        self._job_s: dict[Callable[[Any], Any], float] = {}  # how long one took the last time
        self._workers: set[RayWorker] = set()
        self._work_s = self._held_s = 0.0  # what workers did; how long they were there to do it
        # It reads to the end of a pipe that ends with this process, however that does.
        survivor = f"read goodbye || echo {shlex.quote(LAST_WORDS)} >&2"
        self._survivor = subprocess.Popen(["sh", "-c", survivor], stdin=subprocess.PIPE)

    @property
    def hands(self) -> int:
        """CPUs of the nodes that are there now; nobody waits for none."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0.0)))

    def shared(self, file: Path) -> Readable:
        if file not in self._shared:
            self._shared[file] = SharedFile(str(file), self._ray.put(file.read_bytes()))
        return self._shared[file]

    def close(self) -> None:
        """Leave the cluster, which ends what it still does for us; says how it was used."""
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
        last: dict[RayWorker, float] = {}  # when it gave its latest result
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
        """How many jobs go into a task: some time's worth, but two tasks for every CPU."""
        if function not in self._job_s:
            return 1
        fair = jobs // (2 * self.hands)
        return max(1, min(int(BATCH_S / max(self._job_s[function], 1e-6)), fair))

    def _submit(self, function: Callable[[Any], Any], batch: list[Any]) -> Any:
        return self._task.remote([self._start, self._ray.put((function, batch))])

    def _next(self, refs: list[Any]) -> list[Any]:
        """The next that is done, or has failed; one line where nobody is there to do it."""
        told = False
        while not (done := self._ray.wait(refs, timeout=WAIT_S)[0]):
            if not told and not self._ray.cluster_resources().get("CPU"):
                print("cluster: no CPU at present, waiting for a node", file=sys.stderr)
                told = True
        return list(done)

    def _result(self, ref: Any) -> tuple[list[Any], float, RayWorker]:
        """Of a task.

        Raises:
            LostWorkerError: there is none, and nobody's fault but the worker's.
            UserError: the job says so, or the worker is another version.
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
def installation(robot: str) -> dict[str, str]:
    """What figures depend on to the last bit: the code, libraries by their versions, and the URDF
    of the robot by its content."""
    from pixelgait.sim.engines.urdf import find_urdf  # who asks for --help needs no simulator

    code = f"{version()} (code {code_sha256(FOLDERS)[:8]})"
    try:
        urdf = file_sha256(find_urdf(find_robot(robot)))[:8]
    except UserError as error:
        urdf = f"none ({error})"
    libraries = {name: version(name) or "none" for name in LIBRARIES}
    return {"pixelgait": code, **libraries, f"the {robot}'s URDF": urdf}


def _packer(folder: Path) -> Move:
    """Moves by copying to a folder, in which workers will be."""

    def pack(path: Path) -> Path:
        place = Path(str(len(os.listdir(folder)))) / path.name
        (folder / place).parent.mkdir()
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / place)
        return place

    return pack


_started: Any = None  # what this worker was initialised with


def _work(refs: list[Any]) -> tuple[list[Any], float, RayWorker]:
    """Results of a batch of jobs, seconds they took, and who has done them: in a worker.

    What to start with and the batch are fetched here, by reference: another version of this package
    may not even understand them.
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
