"""Some of many environments, in a process of their own or the caller's: they step side by side."""

from __future__ import annotations

import multiprocessing
import pickle
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

from pixelgait.robot.cli.processes import deferred_interrupt, serve
from pixelgait.robot.errors import UserError
from pixelgait.sim.environments.gait_env import GaitEnv, side_by_side
from pixelgait.sim.workers.process_pool import WHY_LOST

CONTEXT: Any = multiprocessing.get_context("forkserver")
Make = Callable[[], Any]  # a single environment
LOST = f"a worker of these environments has ended: {WHY_LOST}"


class EnvRequest(NamedTuple):
    """A method of a share, and its arguments, also by name."""

    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}


class Block(NamedTuple):
    """An array in memory that processes share.

    Without a lock: who is killed would leave its semaphore, of which Python warns.
    """

    memory: Any
    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: Any) -> Block:
        """A new one, all zeros."""
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        return cls(CONTEXT.RawArray("B", size), shape, dtype)

    def view(self) -> NDArray[Any]:
        """The array itself."""
        return np.frombuffer(self.memory, self.dtype).reshape(self.shape)


class SharedMemory(NamedTuple):
    """What n robots see, by name, their rewards, and whose episode is terminated, or truncated."""

    seen: Mapping[str, Block]
    judged: tuple[Block, Block, Block]

    @classmethod
    def of(cls, space: Any, robots: int) -> SharedMemory:
        """For so many robots' observations, of a `Dict` of boxes (n, ...)."""
        seen = {name: Block.of(box.shape, box.dtype) for name, box in space.items()}
        rewards, terminated, truncated = (Block.of((robots,), t) for t in (float, bool, bool))
        return cls(seen, (rewards, terminated, truncated))


class Share(SyncVectorEnv[Any, Any]):
    """So many environments; low levels step side by side, others one after the other."""

    def __init__(self, make: Make, robots: int) -> None:
        super().__init__([make] * robots, copy=False)
        self._on = np.zeros(robots, dtype=bool)  # whose episode goes on

    def write_into(self, memory: SharedMemory, where: slice) -> None:
        """From now on, what `reset` and `step` return but for the infos."""
        self._seen = {name: block.view()[where] for name, block in memory.seen.items()}
        self._judged = [block.view()[where] for block in memory.judged]

    def follow(self, order: EnvRequest) -> Any:
        """What a method returns that is not in the memory."""
        result = getattr(self, order.method)(*order.arguments, **order.named)
        if order.method not in ("reset", "step"):
            return result
        seen, *judged, infos = result
        for name, values in self._seen.items():
            values[:] = seen[name]
        for values, new in zip(self._judged, judged, strict=False):  # a reset judges nothing
            values[:] = new
        return infos

    def reset(self, **options: Any) -> Any:
        """As of a `SyncVectorEnv`."""
        self._on[:] = True
        return super().reset(**options)

    def step(self, actions: Any) -> Any:
        """As of a `SyncVectorEnv`, for which what each has to do has been done before."""
        single = [env.unwrapped for env in self.envs]
        going = [
            (env, action)
            for env, action, on in zip(single, actions, self._on.tolist(), strict=True)
            if on and type(env) is GaitEnv  # of one with another `step` nothing is known
        ]
        if going:
            spec = going[0][0].robot  # as of all of them
            results = side_by_side(spec, [env.stepping(action) for env, action in going])
            for (env, _), result in zip(going, results, strict=True):
                env.step_ahead(result)
        answer = super().step(actions)
        self._on = ~(answer[2] | answer[3])
        return answer


class EnvWorker:
    """A share in a process of its own."""

    def __init__(self, make: Make, memory: SharedMemory, where: slice) -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        arguments = (_work, theirs, make, memory, where)
        self.process = CONTEXT.Process(target=serve, args=arguments, daemon=True)
        with deferred_interrupt():
            self.process.start()
        theirs.close()  # or nobody would notice that the process has ended

    def ask(self, order: EnvRequest) -> None:
        """See `Share.follow`.

        Raises:
            UserError: the process has ended.
        """
        try:
            self._pipe.send_bytes(pickle.dumps(order))  # `send` takes half as long again
        except ConnectionError:
            raise UserError(LOST) from None

    def answer(self) -> Any:
        """What the share returns.

        Raises:
            UserError: the process has ended.
            Exception: what the share has raised.
        """
        try:
            answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise UserError(LOST) from None
        if isinstance(answer, Failure):
            raise answer.error from answer.cause()
        return answer

    def end(self) -> None:
        """At once, whatever it is at."""
        self.process.kill()
        self.process.join()
        self._pipe.close()


class WorkerTraceback(Exception):  # noqa: N818
    """Where in a worker something was raised."""


class Failure(NamedTuple):
    """What was raised in a worker, and where."""

    error: Exception
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """As it can be sent."""
        trace = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return cls(error, trace)

    def cause(self) -> WorkerTraceback | None:
        """What to name as the cause: nothing of what says all in its one line."""
        return None if isinstance(self.error, UserError) else WorkerTraceback(f"\n{self.trace}")


def _work(pipe: Connection, make: Make, memory: SharedMemory, where: slice) -> None:
    """The process of a worker."""
    try:
        share = Share(make, where.stop - where.start)
        share.write_into(memory, where)
        while True:
            pipe.send(share.follow(pipe.recv()))
    except Exception as error:
        pipe.send(Failure.of(error))
        pipe.recv()  # until it is read: then this process is ended
