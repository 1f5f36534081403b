"""Datasets from item to item: a label is an item too, and an item is no label of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcbench.data.sources.xc_raw import write_instances, write_labels

#: Share of training instances.
_TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Item:
    """An item: its title and content as text, and the names of the items that it is related to."""

    name: str
    title: str
    content: str
    related: frozenset[str]


#: An instance and the names of its labels.
Instance = tuple[Item, Sequence[str]]


def is_training(name: str) -> bool:
    """Tell whether the instance of this name is a training instance: its SHA-256 is in the first 70%."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") < _TRAIN_SHARE * 2**64


def labels_of(instances: Sequence[Instance]) -> set[str]:
    """The names of all labels of the instances."""
    return {name for _, names in instances for name in names}


def write_items(
    items: Mapping[str, Item], training: Sequence[Instance], testing: Sequence[Instance], out: Path
) -> None:
    """Write instances and the labels that they name, with the pairs (item, itself) as filter files."""
    from scipy.sparse import csr_matrix

    from xmcbench.data.xc_matrix import write_filter

    ids = {name: row for row, name in enumerate(sorted(labels_of([*training, *testing])))}
    write_labels(out / "lbl.json.gz", ((name, items[name].title) for name in ids))
    for short, side, instances in (("trn", "train", training), ("tst", "test", testing)):
        rows = ((item.name, item.title, item.content, [ids[name] for name in names]) for item, names in instances)
        write_instances(out / f"{short}.json.gz", rows)
        own = np.array([ids.get(item.name, -1) for item, _ in instances])
        (is_label,) = np.nonzero(own >= 0)
        pairs = (np.ones(len(is_label)), (is_label, own[is_label]))
        write_filter(out / f"filter_labels_{side}.txt", csr_matrix(pairs, shape=(len(instances), len(ids))))
