"""Trainings: a method with its parameters on the texts and pairs of a cell. What is made with pairs is kept by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xmcbench.storage.canonical import canonical_json, sha256_json

if TYPE_CHECKING:
    from xmcbench.plugins.description import Description
    from xmcbench.records import Cell


def training_name(method: str, parameters: Mapping[str, object]) -> str:
    """Return the name of a training within a cell."""
    return canonical_json([method, parameters])


def training_key(cell: Cell, method: str, parameters: Mapping[str, object], said: Description) -> str:
    """Return the key of the training of a method, the cell's own or a part of it.

    It is the same in all cells for which the training is the same: those of other seeds if the method does not depend
    on the seed, and those with other pairs if it does not look at pairs.
    """
    identity = {
        "dataset": cell.dataset_sha256,
        "pairs": None if said.supervision == "unused" else cell.subset_sha256,
        "method": method,
        "parameters": parameters,
        "seed": 0 if said.deterministic else cell.seed,
    }
    return sha256_json(identity)[:32]
