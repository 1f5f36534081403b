"""Attributes of test instances, by which they fall into groups: length, labels, known pairs, words in common."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from xmcbench.records import Truth
from xmcbench.texts import Texts

#: Members of each group of instances, bool [scored instances]. A name has the attribute, and its values in the group.
Groups = dict[str, NDArray[np.bool_]]

#: The most groups of one attribute, of about equal size.
_GROUPS = 10
#: A word of a text in ASCII: letters and digits, at least two.
_ASCII_WORD = re.compile(r"[^\W_]{2,}")
#: A word in more than this share of the label texts, such as "the", says nothing about any of them.
_COMMON = 0.02
#: Of fewer labels no word is common.
_FEW = 100


def of_labels(truth: Truth, seen: Sequence[NDArray[np.bool_]]) -> Groups:
    """Return groups by the true pairs alone: number of labels, their training pairs, whether they were seen.

    seen: per run bool [L], the labels that have a pair among those given to it. The last attribute is left out
    where no run saw any label, or every run all.
    """
    rows, labels, number = truth.pairs.rows, truth.pairs.labels, truth.pairs.lengths
    scored = np.flatnonzero(number)
    found = _bin("true labels", number[scored])
    found |= _bin("training pairs of its labels, median", _medians(truth.frequency[labels], number[scored]))
    share = np.mean([of_run[labels] for of_run in seen], axis=0) if seen else np.zeros(len(labels))
    if share.any() and not (share == 1).all():
        known = np.bincount(rows, share, truth.pairs.instances)[scored] / number[scored]
        found |= _all_some_none("labels with known pairs", known)
    return found


def of_texts(truth: Truth, instances: Texts, labels: Texts, common: frozenset[str]) -> Groups:
    """Return groups by the texts: length of the instance and of its labels, and whether they have words in common.

    instances: all test instances. labels: all labels. common: words that do not count (``common_words``).
    """
    titles, lengths, overlaps = labels.titles, [], []
    number = truth.pairs.lengths
    ends = np.cumsum(number)
    title_of: dict[int, str] = {label: titles[label] for label in np.unique(truth.pairs.labels).tolist()}
    label_words = {label: words(title) - common for label, title in title_of.items()}
    for row, text in enumerate(instances):
        if number[row]:
            own, true = words(text), truth.pairs.labels[ends[row] - number[row] : ends[row]].tolist()
            lengths.append(len(text.split()))
            overlaps.append(np.mean([bool(own & label_words[label]) for label in true]))
    label_lengths = {label: len(title.split()) for label, title in title_of.items()}
    per_pair = np.array([label_lengths[label] for label in truth.pairs.labels.tolist()])
    return {
        **_bin("words of the text", np.array(lengths)),
        **_bin("words of its labels, median", _medians(per_pair, number[number > 0])),
        **_all_some_none("labels that share a word with the text", np.array(overlaps)),
    }


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    lowered = text.casefold()
    return frozenset(word_pattern(lowered).findall(lowered))


def word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of the words of a text: letters and digits with their marks, at least two characters."""
    return _ASCII_WORD if text.isascii() else _marked_word()


@cache
def _marked_word() -> re.Pattern[str]:
    # For ``re`` the vowel signs of Hindi are no part of a word. This pattern is several times slower than the other.
    marks = "".join(sign for sign in map(chr, range(0x20000)) if unicodedata.category(sign) in ("Mn", "Mc"))
    return re.compile(rf"[^\W_](?:[^\W_]+|[{marks}]+)+")


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that are in more than 2% of the texts; none of fewer than 100 texts."""
    number, counts = 0, Counter[str]()
    for text in texts:
        counts.update(words(text))
        number += 1
    return frozenset(word for word, count in counts.items() if number >= _FEW and count > _COMMON * number)


def shared_words(text: str, label: str, common: frozenset[str]) -> tuple[str, ...]:
    """Return the words of both a text and a label, without the common ones, in order of the alphabet."""
    return tuple(sorted((words(text) & words(label)) - common))


def _medians(values: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the median of each run of ``lengths`` values."""
    starts = np.cumsum(lengths) - lengths
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(lengths)), lengths)))]
    return np.asarray((ordered[starts + (lengths - 1) // 2] + ordered[starts + lengths // 2]) / 2)


def _all_some_none(name: str, share: NDArray[np.float64]) -> Groups:
    return {f"{name}: all": share == 1, f"{name}: some": (share > 0) & (share < 1), f"{name}: none": share == 0}


def _bin(name: str, values: NDArray) -> Groups:
    """Return groups of about equal size, of consecutive values; equal values are in one group."""
    if not len(values):
        return {}
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1], method="inverted_cdf"))
    place = np.searchsorted(edges, values, side="left")
    found = {}
    for group in np.unique(place):
        members = place == group
        low, high = values[members].min(), values[members].max()
        # Whole numbers and halves, with all of their digits: groups are told apart by their names.
        found[f"{name}: {low:,.15g}" if low == high else f"{name}: {low:,.15g} to {high:,.15g}"] = members
    return found
