"""Pairs are sealed while a method runs: it is handed those that it may see, and loads no others.

This guards against mistakes, such as a method that loads the dataset by name. Against intent, a cell is handed no path
to pairs, the kernel hides their files where it can (``xmcbench.runner.isolation``), and another process scores.
"""

from __future__ import annotations

import os

from xmcbench.errors import DataError

_VARIABLE = "XMCBENCH_SEALED"


def seal() -> None:
    """Refuse pairs and filters from here on, in this process and in those that it starts."""
    os.environ[_VARIABLE] = "1"


def check_open(what: str) -> None:
    """Raise DataError where pairs are sealed."""
    if os.environ.get(_VARIABLE):
        hint = "fit is handed the texts and the pairs that it may use"
        raise DataError(f"{what} cannot be read while a method runs", hint)
