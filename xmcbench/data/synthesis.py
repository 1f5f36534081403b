"""Synthetic datasets of any size, or of the size and shape of a known one, for tests of scale.

The frequencies of labels and words follow Zipf's law, so that many labels have no training pair, and a text has words
of its labels, but not all of them. The stream of numpy's RandomState is frozen (NEP 19), and only draws that need no
libm are made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from scipy.sparse import csr_matrix

from xmcbench.data.card import write_card
from xmcbench.data.catalog import bare_card, find
from xmcbench.data.exchange import output_folder
from xmcbench.data.sources.source import TEST_FILTER, Instance
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.data.xc_matrix import write_filter
from xmcbench.errors import DataError, UsageError

_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
#: Words of a text and labels of an instance, relative to their means. Whole numbers: no result depends on libm.
_LENGTHS = np.array([2, 3, 4, 5, 6, 7, 8, 10, 13, 18, 30])
_LABELS = np.array([1, 1, 1, 2, 2, 3, 5])
#: Labels of a plain instance, with equal probability, and words that are not of them.
_LABELS_EACH, _OWN_WORDS = np.array([1, 1, 2, 2, 3, 5]), 12
#: The mean number of labels of an instance where no card says it, words of a topic, and words of a title.
_PAIRS, _WORDS_OF_TOPIC, _TITLE = 2.0, 200, 8
#: Of 20 words so many are of the topic, and so many of a label.
_OF_TOPIC, _OF_LABEL = 7, 3
#: Instances generated at a time.
_BLOCK = 8_192


def synthesize(out: Path, instances: int, labels: int, seed: int = 0, force: bool = False) -> Path:
    """Write a synthetic dataset in the XC raw layout into the new folder ``out``; equal arguments give equal bytes.

    instances: training instances; a quarter as many, at least one, are test instances. labels: L. Returns ``out``.
    Raises UsageError for invalid arguments and if ``out`` is not empty, and DataError if its name cannot name files;
    force: other files in it stay, and files of the same names are replaced.
    """
    if instances < 1 or labels < 1 or not 0 <= seed < 2**32:
        what = f"cannot make {instances} instances and {labels} labels with seed {seed}"
        raise UsageError(what, "sizes must be at least 1, the seed in 0..2^32-1")
    card = replace(bare_card(out.resolve().name), description="made up", source="synthetic")
    corpus = _PlainCorpus(seed, labels)
    with output_folder(out, force) as folder:
        write_labels(folder / "lbl.json.gz", corpus.labels())
        for side, size in (("trn", instances), ("tst", max(1, instances // 4))):
            write_instances(folder / f"{side}.json.gz", corpus.instances(side, size))
        write_card(folder / "card.toml", card)
    return out


def imitate(out: Path, like: str, scale: float = 1.0, words: int = 100, seed: int = 0, force: bool = False) -> Path:
    """Write a synthetic dataset like the one called ``like`` into the new folder ``out``, in the XC raw layout.

    Counts and propensity constants are those of the card. Half as many test instances as there are labels or test
    instances, whichever are fewer, are labels too, with the uid and the words of the label. It is none of their true
    labels: the filter ``self`` removes it, and so does the filter file. Nothing else is taken from the known dataset.

    scale: of all counts. words: the mean number of a text. force, result and errors are as in ``synthesize``, and
    DataError for a card without counts.
    """
    if not 0 < scale <= 100 or words < 1 or not 0 <= seed < 2**32:
        what = f"cannot imitate {like} at scale {scale:g} with {words} words and seed {seed}"
        raise UsageError(what, "the scale is in (0, 100], there is at least 1 word, the seed is in 0..2^32-1")
    listing = find(like)
    counts = {str(name): number for name, number in (listing.card.counts if listing.card else {}).items()}
    missing = [name for name in ("train", "test", "labels") if not counts.get(name)]
    if listing.card is None or missing:
        raise DataError(f"the card of {like} does not say how many {missing[0] if missing else 'labels'} there are")
    made = f"made up, with the counts of {listing.name} times {scale:g} and texts of {words} words"
    card = bare_card(out.resolve().name)
    card = replace(card, description=made, source="synthetic", propensity=listing.card.propensity)
    train, test, labels = (max(2, round(scale * counts[name])) for name in ("train", "test", "labels"))
    side = next((name for name in ("train", "test") if counts.get(f"{name}_pairs")), None)
    corpus = _Corpus(seed, labels, words, counts[f"{side}_pairs"] / counts[side] if side else _PAIRS)
    with output_folder(out, force) as folder:
        # Not gzipped: at these sizes that would take most of the time.
        write_labels(folder / "lbl.json", corpus.labels())
        write_instances(folder / "trn.json", corpus.instances("trn", train, np.zeros(0, np.int64)))
        own = corpus.random.permutation(labels)[: min(labels, test) // 2]
        write_instances(folder / "tst.json", corpus.instances("tst", test, own))
        pairs = (np.ones(len(own), np.float32), (np.arange(len(own)), own))
        write_filter(folder / TEST_FILTER[0], csr_matrix(pairs, shape=(test, labels)))
        write_card(folder / "card.toml", card)
    return out


class _PlainCorpus:
    """Labels of two to four words, and streams of instances, each with about half of the words of its labels."""

    def __init__(self, seed: int, labels: int) -> None:
        self._random = np.random.RandomState(seed)
        vocabulary = max(1_000, 2 * labels)
        self._label_words = self._random.randint(vocabulary, size=(labels, 4))
        self._label_lengths = self._random.randint(2, 5, size=labels)
        self._label_law, self._word_law = _zipf(labels), _zipf(vocabulary)

    def labels(self) -> Iterator[tuple[str, str]]:
        """(uid, title) of every label."""
        for label, (words, length) in enumerate(zip(self._label_words, self._label_lengths, strict=True)):
            yield f"l{label}", " ".join(map(_word, words[:length]))

    def instances(self, side: str, size: int) -> Iterator[Instance]:
        """``size`` instances, drawn a block at a time."""
        for start in range(0, size, 2 * _BLOCK):
            rows = min(2 * _BLOCK, size - start)
            counts = _LABELS_EACH[self._random.randint(len(_LABELS_EACH), size=rows)]
            labels = _draw(self._random, self._label_law, (rows, int(_LABELS_EACH.max())))
            own = _draw(self._random, self._word_law, (rows, _OWN_WORDS))
            is_mentioned = self._random.random_sample((rows, labels.shape[1], 4)) < 0.5
            for row in range(rows):
                ids = np.unique(labels[row, : counts[row]])
                words: list[int] = []
                for place, label in enumerate(ids):
                    length = self._label_lengths[label]
                    words += [*self._label_words[label, :length][is_mentioned[row, place, :length]]]
                title, content = [*words[:2], *own[row, :3]], [*own[row, 3:], *words]
                yield f"{side}{start + row}", " ".join(map(_word, title)), " ".join(map(_word, content)), ids.tolist()


class _Corpus:
    """Labels, and streams of instances over them, with words of everybody, of a topic and of its labels.

    Label l is of topic l modulo the number of topics. Lengths vary by a factor of fifteen.
    """

    def __init__(self, seed: int, labels: int, words: int, pairs_each: float) -> None:
        self.random = np.random.RandomState(seed)
        self._size, self._words, self._pairs_each = labels, words, pairs_each
        self._topics = max(1, isqrt(labels))
        self._common = max(1_000, labels // 2)
        total = self._common + self._topics * _WORDS_OF_TOPIC
        self._names = np.array([_word(number) for number in range(total)], object)
        self._topic_law, self._label_law, self._word_law, self._own_law = (
            _zipf(size) for size in (self._topics, -(-labels // self._topics), self._common, _WORDS_OF_TOPIC)
        )
        # A rare word, and words of the topic.
        topics = np.arange(labels) % self._topics
        rare = self.random.randint(self._common, size=(labels, 1))
        self._label_words = np.hstack([rare, self._of_topic(np.repeat(topics, 4)).reshape(labels, 4)])
        self._label_lengths = self.random.randint(2, 6, size=labels)

    def labels(self) -> Iterator[tuple[str, str]]:
        """(uid, title) of every label."""
        for label, (ids, length) in enumerate(zip(self._label_words, self._label_lengths, strict=True)):
            yield f"l{label}", " ".join(self._names[ids[:length]])

    def instances(self, side: str, size: int, own: np.ndarray) -> Iterator[Instance]:
        """``size`` instances; the first ones are the labels ``own``."""
        for start in range(0, size, _BLOCK):
            rows = min(_BLOCK, size - start)
            mine = own[start : start + rows]
            topics = _draw(self.random, self._topic_law, rows)
            topics[: len(mine)] = mine % self._topics
            relative = _LABELS[self.random.randint(len(_LABELS), size=rows)]
            label_counts = np.maximum(1, np.rint(relative * self._pairs_each / 2)).astype(np.int64)
            label_ends = np.cumsum(label_counts)
            of_row = np.repeat(np.arange(rows), label_counts)
            ranks = _draw(self.random, self._label_law, len(of_row))
            labels = np.minimum(topics[of_row] + ranks * self._topics, self._size - 1)
            lengths = np.maximum(3, _LENGTHS[self.random.randint(len(_LENGTHS), size=rows)] * self._words // 9)
            texts = self._texts(topics, lengths, labels, label_ends).tolist()
            ends = np.cumsum(lengths).tolist()
            for row in range(rows):
                words = texts[ends[row] - lengths[row] : ends[row]]
                uid = f"{side}{start + row}"
                if row < len(mine):
                    label = mine[row]
                    uid = f"l{label}"
                    words = [*self._names[self._label_words[label, : self._label_lengths[label]]], *words]
                first = label_ends[row - 1] if row else 0
                ids = sorted({*labels[first : label_ends[row]].tolist()} - {*mine[row : row + 1].tolist()})
                # An instance that has lost its only label gets the next one of its topic.
                ids = ids or [int((mine[row] + self._topics) % self._size)]
                yield uid, " ".join(words[:_TITLE]), " ".join(words[_TITLE:]), ids

    def _texts(self, topics: np.ndarray, lengths: np.ndarray, labels: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The words of all texts, one after the other: object [sum of lengths]."""
        of_row = np.repeat(np.arange(len(lengths)), lengths)
        kind = self.random.randint(20, size=len(of_row))
        ids = _draw(self.random, self._word_law, len(of_row))
        topical = np.flatnonzero(kind < _OF_TOPIC)
        ids[topical] = self._of_topic(topics[of_row[topical]])
        about = np.flatnonzero(kind >= 20 - _OF_LABEL)
        counts = np.diff(ends, prepend=0)[of_row[about]]
        label = labels[ends[of_row[about]] - 1 - self.random.randint(1 << 30, size=len(about)) % counts]
        place = self.random.randint(1 << 30, size=len(about)) % self._label_lengths[label]
        ids[about] = self._label_words[label, place]
        return np.asarray(self._names[ids])

    def _of_topic(self, topics: np.ndarray) -> np.ndarray:
        """Draw a word of each topic."""
        return np.asarray(self._common + topics * _WORDS_OF_TOPIC + _draw(self.random, self._own_law, len(topics)))


def _zipf(size: int) -> np.ndarray:
    """The sums of 1/1, 1/2, ...: the inverse distribution function of Zipf's law is a search in them."""
    return np.asarray(np.cumsum(1 / np.arange(1, size + 1)))


def _draw(random: np.random.RandomState, law: np.ndarray, size: int | tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.searchsorted(law, random.random_sample(size) * law[-1]))


def _word(number: int) -> str:
    """The word of this number: its digits in base 70 as syllables, at least two."""
    number, rest = divmod(int(number), len(_SYLLABLES))
    word = _SYLLABLES[rest]
    while number >= len(_SYLLABLES):
        number, rest = divmod(number, len(_SYLLABLES))
        word = _SYLLABLES[rest] + word
    return _SYLLABLES[number] + word
