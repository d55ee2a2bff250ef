"""Compilation of kernels to machine code, kept on disk.

Kernels are in files of their own, which are imported where a kernel is called: Numba takes half a
second to import, and what only prints a help text does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """The kernel in machine code: operations in the order they are written, as numpy's.

    It is compiled in the first call, for seconds, and kept in `__pycache__` beside its file or in
    the user's cache folder. Numba does not notice if another file's kernel that it calls changes:
    remove `*.nbi` there.
    """
    return cast(Kernel, njit(cache=True, error_model="numpy")(kernel))
