"""Datasets: cards, layouts of files that are read and written, and the loaded form.

The names below are the public ones, imported on first use: describing a dataset does not import numpy, and reading its
texts does not import scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcbench.data.card import Card
    from xmcbench.data.catalog import Listing, known_datasets, load_dataset
    from xmcbench.data.dataset import Dataset
    from xmcbench.data.exchange import convert, export
    from xmcbench.data.imitation import imitate
    from xmcbench.data.recipe import build, fetch
    from xmcbench.data.summary import statistics
    from xmcbench.data.synthesis import synthesize
    from xmcbench.data.verification import verify

_PUBLIC = {
    "Card": "card",
    "Dataset": "dataset",
    "Listing": "catalog",
    "build": "recipe",
    "convert": "exchange",
    "export": "exchange",
    "fetch": "recipe",
    "imitate": "imitation",
    "known_datasets": "catalog",
    "load_dataset": "catalog",
    "statistics": "summary",
    "synthesize": "synthesis",
    "verify": "verification",
}

__all__ = [
    "Card",
    "Dataset",
    "Listing",
    "build",
    "convert",
    "export",
    "fetch",
    "imitate",
    "known_datasets",
    "load_dataset",
    "statistics",
    "synthesize",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'xmcbench.data' has no attribute {name!r}")
    return getattr(import_module(f"xmcbench.data.{_PUBLIC[name]}"), name)
