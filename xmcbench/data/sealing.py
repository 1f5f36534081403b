"""Pairs are sealed while a method runs: it is given those that it may see, and cannot load others.

This guards against mistakes, such as a method that loads the dataset by name. Against intent, a cell is given no path
to pairs, the kernel hides their files where it can (``xmcbench.runner.isolation``), and another process scores.
"""

from __future__ import annotations

import os

from xmcbench.errors import DataError

_VARIABLE = "XMCBENCH_SEALED"


def seal() -> None:
    """From now on, refuse pairs and filters in this process and in its children."""
    os.environ[_VARIABLE] = "1"


def check_open(what: str) -> None:
    """Raise DataError if pairs are sealed."""
    if os.environ.get(_VARIABLE):
        hint = "fit is given the texts and the pairs that it may use"
        raise DataError(f"{what} cannot be read while a method runs", hint)
