"""The long texts of a dataset of titles, as a dataset with contents whose test instances are training instances.

Methods that learn from contents refuse a dataset of titles. Where some of its "titles" are whole abstracts, such
methods can be tuned on them: on texts of another kind than Debian's, and without reading a test instance of the source.

    instance   a training instance of the source with at least 40 words and 3 sentences
    title      its first sentence
    content    the other sentences, in one line
    label      every label of the source, in its order

The instances are permuted (numpy's RandomState, seed 0): the first 1,500 are for testing, the next 10,000 for training.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from xmcbench.data.card import Recipe
from xmcbench.data.catalog import find
from xmcbench.data.sources.source import Instance
from xmcbench.data.sources.xc_raw import read_rows, write_instances, write_labels
from xmcbench.errors import DataError

_MIN_WORDS, _MIN_SENTENCES = 40, 3
TEST, TRAIN = 1500, 10_000

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def indices(recipe: Recipe) -> tuple[str, str]:
    """The names of the two files of the source, in the XC raw layout."""
    return "trn.json", "lbl.json"


def fetch(recipe: Recipe, out: Path, progress: Callable[[str], None]) -> list[Path]:
    """Copy the files of the source, which is a known dataset. Raises DataError where it is not on this machine."""
    source = find(recipe.release)
    if source.place is None:
        raise DataError(f"the source of this dataset is needed: {source.problem}", source.hint)
    found = [path for name in indices(recipe) if (path := source.place.find(name))]
    return [Path(shutil.copy(path, out)) for path in found]


def write(recipe: Recipe, files: Sequence[Path], out: Path, progress: Callable[[str], None]) -> None:
    """Write the dataset in the XC raw layout. files: in the order of ``indices``. Raises DataError."""
    instances, labels = files
    found: list[Instance] = []
    for row in read_rows(instances, "instances"):
        sentences = [sentence for part in _SENTENCE_END.split(row.title) if (sentence := part.strip())]
        if len(row.title.split()) >= _MIN_WORDS and len(sentences) >= _MIN_SENTENCES:
            found.append((row.uid, sentences[0], " ".join(sentences[1:]), row.labels))
    if len(found) < TEST + TRAIN:
        raise DataError(f"{instances} has {len(found)} long texts", f"at least {TEST + TRAIN} are needed")
    order = np.random.RandomState(0).permutation(len(found))
    for name, part in (("tst", order[:TEST]), ("trn", order[TEST : TEST + TRAIN])):
        write_instances(out / f"{name}.json.gz", (found[row] for row in sorted(part)))
    write_labels(out / "lbl.json.gz", ((label.uid, label.title) for label in read_rows(labels, "labels")))
