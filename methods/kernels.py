"""Compilation of kernels by numba, once for all processes: it takes longer than most predictions. Imports numba.

A kernel may call kernels of its own module only: numba compiles it again when its own file changes, not when another
one does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function with ``numba.njit`` and keeps the code where numba keeps it. options:
    of ``numba.njit``. A kernel with ``parallel=True`` gets its number of threads as an argument: one that asks numba
    for it cannot be kept."""

    def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            compiled: Callable[..., Any] = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder can be written: neither that of the module nor one in the home folder
            compiled = numba.njit(**options)(function)
        return compiled

    return compile_function
