"""Datasets: cards, layouts of files that are read and written, and the loaded form.

The names below are the public ones, imported on first use: describing a dataset does not import numpy, and reading its
texts does not import scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcbench.data.audit import statistics as statistics
    from xmcbench.data.card import Card as Card
    from xmcbench.data.catalog import Listing as Listing
    from xmcbench.data.catalog import known_datasets as known_datasets
    from xmcbench.data.catalog import load_dataset as load_dataset
    from xmcbench.data.dataset import Dataset as Dataset
    from xmcbench.data.exchange import convert as convert
    from xmcbench.data.exchange import export as export
    from xmcbench.data.recipes import build as build
    from xmcbench.data.recipes import fetch as fetch
    from xmcbench.data.synthesis import imitate as imitate
    from xmcbench.data.synthesis import synthesize as synthesize

_MODULES = {
    "audit": ("statistics",),
    "card": ("Card",),
    "catalog": ("Listing", "known_datasets", "load_dataset"),
    "dataset": ("Dataset",),
    "exchange": ("convert", "export"),
    "recipes": ("build", "fetch"),
    "synthesis": ("imitate", "synthesize"),
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'xmcbench.data' has no attribute {name!r}")
    return getattr(import_module(f"xmcbench.data.{_PUBLIC[name]}"), name)
