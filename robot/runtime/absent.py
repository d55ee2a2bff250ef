"""Help without the extras: stand-ins for libraries that are not installed.

A command's help needs its configuration alone, but the modules around it import what it works with.
"""

from __future__ import annotations

import importlib.util
import sys
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# What the extras install; anything else that is missing is an error, also for help.
OPTIONAL = {"torch", "onnx", "onnxscript", "pybullet", "pybullet_data", "mujoco", "gymnasium"}
OPTIONAL |= {"tqdm", "imageio", "matplotlib", "cma", "tensorboard", "mcap", "mcap_ros2"}


class _Anything(ABCMeta):
    """Whatever is asked of it gives the same again: base class, decorator, constant or module."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing

    def __getitem__(cls, item: object) -> Any:
        return _Nothing

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return _Nothing if cls is _Nothing else super().__call__(*arguments, **options)


class _Nothing(metaclass=_Anything):
    pass


class _AbsentModule(ModuleType):
    __path__: list[str] = []  # noqa: RUF012 (a package: it has whatever submodule)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _Absent(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name.partition(".")[0] in OPTIONAL
        return importlib.util.spec_from_loader(name, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@contextmanager
def stand_ins() -> Iterator[None]:
    """Within it, optional libraries that are missing can be imported, but do nothing."""
    finder = _Absent()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
