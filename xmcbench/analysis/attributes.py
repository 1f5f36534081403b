"""Attributes of test instances, by which they fall into groups: length, labels, known pairs, words in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.analysis.words import words
from xmcbench.metrics import TruePairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmcbench.records import Truth
    from xmcbench.texts import Texts

#: At most so many groups of one attribute, of about equal size.
_GROUPS = 10


@dataclass(frozen=True, eq=False)
class Attribute:
    """name: what is measured. groups: name -> members, bool [scored instances]."""

    name: str
    groups: dict[str, NDArray[np.bool_]]

    def slices(self) -> dict[str, NDArray[np.bool_]]:
        """The groups, each named with its attribute."""
        return {f"{self.name}: {group}": members for group, members in self.groups.items()}


def scored_rows(pairs: TruePairs) -> NDArray[np.int64]:
    """The test rows that have a true label, int64 [scored], rising."""
    return np.flatnonzero(np.bincount(pairs.rows, minlength=pairs.instances))


def of_labels(truth: Truth, seen: Sequence[NDArray[np.bool_]]) -> list[Attribute]:
    """What follows from the true pairs alone: number of labels, their training pairs, whether they were seen.

    seen: bool [L] for each run, the labels that have a pair among those given to it. The last attribute is left out
    where no run saw any label, or every run all.
    """
    rows, labels = truth.pairs.rows, truth.pairs.labels
    number = np.bincount(rows, minlength=truth.pairs.instances)
    scored = scored_rows(truth.pairs)
    found = [
        Attribute("true labels", _binned(number[scored])),
        Attribute("training pairs of its labels, median", _binned(_medians(truth.frequency[labels], number[scored]))),
    ]
    share = np.mean([each[labels] for each in seen], axis=0) if seen else np.zeros(len(labels))
    if share.any() and not share.all():
        known = np.bincount(rows, share, truth.pairs.instances)[scored] / number[scored]
        found.append(Attribute("labels with known pairs", _all_some_none(known)))
    return found


def of_texts(truth: Truth, instances: Texts, labels: Texts, common: frozenset[str]) -> list[Attribute]:
    """What needs texts: length of the instance and of its labels, and whether they have words in common.

    instances: all test instances. labels: all labels. common: words that do not count (``words.common_words``).
    """
    titles = labels.titles
    lengths, overlaps = [], []
    number = np.bincount(truth.pairs.rows, minlength=truth.pairs.instances)
    ends = np.cumsum(number)
    of_label: dict[int, str] = {int(each): titles[int(each)] for each in np.unique(truth.pairs.labels)}
    label_words = {label: words(text) - common for label, text in of_label.items()}
    for row, text in enumerate(instances):
        if not number[row]:
            continue
        own = words(text)
        lengths.append(len(text.split()))
        true = truth.pairs.labels[ends[row] - number[row] : ends[row]]
        overlaps.append(np.mean([bool(own & label_words[int(each)]) for each in true]))
    label_lengths = {label: len(text.split()) for label, text in of_label.items()}
    per_pair = np.array([label_lengths[int(each)] for each in truth.pairs.labels])
    return [
        Attribute("words of the text", _binned(np.array(lengths))),
        Attribute("words of its labels, median", _binned(_medians(per_pair, number[number > 0]))),
        Attribute("labels that share a word with the text", _all_some_none(np.array(overlaps))),
    ]


def _medians(values: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """The median of each run of ``lengths`` values."""
    return np.array([np.median(part) for part in np.split(values, np.cumsum(lengths)[:-1])])


def _all_some_none(share: NDArray[np.float64]) -> dict[str, NDArray[np.bool_]]:
    return {"all": share == 1, "some": (share > 0) & (share < 1), "none": share == 0}


def _binned(values: NDArray) -> dict[str, NDArray[np.bool_]]:
    """Groups of about equal size, of consecutive values; equal values are in one group."""
    if not len(values):
        return {}
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1], method="inverted_cdf"))
    place = np.searchsorted(edges, values, side="left")
    found = {}
    for group in np.unique(place):
        members = place == group
        low, high = values[members].min(), values[members].max()
        # Whole numbers and halves, all of whose digits are shown: groups are told apart by their names.
        found[f"{low:,.15g}" if low == high else f"{low:,.15g} to {high:,.15g}"] = members
    return found
