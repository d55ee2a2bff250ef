"""Compilation of kernels to machine code, kept on disk.

Kernels are in files of their own, which are imported where a kernel is called: Numba takes half a
second to import, and what only prints a help text does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """The kernel in machine code: operations in the order they are written, as numpy's.

    It is compiled in the first call, for seconds, and kept in `__pycache__` beside its file, in the
    user's cache folder if that is read-only, or in `NUMBA_CACHE_DIR`. Without any of them it is
    compiled in every process.
    """
    try:
        machine_code: Any = njit(cache=True, error_model="numpy")(kernel)
        kept = machine_code._cache._cache_file
        kept._source_stamp = (kept._source_stamp, _used(cast(FunctionType, kernel)))
    except (RuntimeError, AttributeError):  # no folder can be written; another Numba
        machine_code = njit(error_model="numpy")(kernel)
    return cast(Kernel, machine_code)


def _used(kernel: FunctionType) -> list[tuple[str, object]]:
    """Versions of the kernels and values of the constants that a kernel uses by their names.

    Numba itself only notices when the kernel's own file changes.
    """
    used: list[tuple[str, object]] = []
    for name in kernel.__code__.co_names:
        value = kernel.__globals__.get(name)
        if isinstance(value, bool | int | float | str | tuple | np.generic):
            used.append((name, value))
        elif isinstance(value, np.ndarray):
            used.append((name, value.tobytes()))
        elif value is not None and hasattr(value, "_cache"):
            used.append((name, value._cache._cache_file._source_stamp))
    return used
