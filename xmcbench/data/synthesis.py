"""Synthetic datasets of any size, for tests of scale: words are random, sizes and skew are realistic.

Labels have two to four words. The frequency of labels follows Zipf's law. An instance mentions about half of the words
of its labels, among other words, so that the text says something about the labels, but not everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from xmcbench.data.card import write_card
from xmcbench.data.catalog import bare_card
from xmcbench.data.output import check_free, output_folder
from xmcbench.data.xc_text import write_instances, write_labels
from xmcbench.errors import UsageError

_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]

#: Labels of an instance: one of these numbers, with equal probability.
_LABELS_EACH = np.array([1, 1, 2, 2, 3, 5])

#: Other words of an instance.
_OWN_WORDS = 12

#: Instances generated at a time.
_BLOCK = 16_384


def synthesize(out: Path, instances: int, labels: int, seed: int = 0, force: bool = False) -> Path:
    """Write a synthetic dataset in the XC raw layout into the new folder ``out``; equal arguments give equal bytes.

    instances: training instances; a quarter as many, at least one, are test instances. labels: L. Returns ``out``.
    Raises UsageError for sizes below 1, for a seed outside 0..2^32-1, or if ``out`` is not empty, and DataError if its
    name cannot name files; with ``force``, other files in it stay, and those of the same names are replaced.
    """
    if instances < 1 or labels < 1 or not 0 <= seed < 2**32:
        raise UsageError(
            f"cannot make {instances} instances and {labels} labels with seed {seed}",
            "sizes must be at least 1, the seed in 0..2^32-1",
        )
    card = replace(bare_card(out.resolve().name), description="made up", source="synthetic")
    check_free(out, force)
    # The stream of RandomState is frozen (NEP 19); only draws that need no libm are made from it.
    random = np.random.RandomState(seed)
    vocabulary = max(1_000, 2 * labels)
    label_words = random.randint(vocabulary, size=(labels, 4))
    label_lengths = random.randint(2, 5, size=labels)
    made = _Instances(random, label_words, label_lengths, vocabulary)
    with output_folder(out, force) as folder:
        titles = (_text(words[:length]) for words, length in zip(label_words, label_lengths, strict=True))
        write_labels(folder / "lbl.json.gz", ((f"l{row}", title) for row, title in enumerate(titles)))
        write_instances(folder / "trn.json.gz", made.rows("trn", instances))
        write_instances(folder / "tst.json.gz", made.rows("tst", max(1, instances // 4)))
        write_card(folder / "card.toml", card)
    return out


class _Instances:
    """A stream of instances over given labels."""

    def __init__(
        self, random: np.random.RandomState, label_words: np.ndarray, label_lengths: np.ndarray, vocabulary: int
    ) -> None:
        self._random, self._label_words, self._label_lengths = random, label_words, label_lengths
        # Inverse distribution functions of Zipf's law: over labels, over words.
        self._label_law, self._word_law = (
            np.cumsum(1 / np.arange(1, size + 1)) for size in (len(label_words), vocabulary)
        )

    def rows(self, side: str, size: int) -> Iterator[tuple[str, str, str, list[int]]]:
        """``size`` instances as (uid, title, content, label ids), drawn a block at a time."""
        for start in range(0, size, _BLOCK):
            block = min(_BLOCK, size - start)
            counts = _LABELS_EACH[self._random.randint(len(_LABELS_EACH), size=block)]
            labels = self._draw(self._label_law, (block, int(_LABELS_EACH.max())))
            own = self._draw(self._word_law, (block, _OWN_WORDS))
            mentioned = self._random.random_sample((block, labels.shape[1], 4)) < 0.5
            for row in range(block):
                ids = np.unique(labels[row, : counts[row]])
                said = [
                    word
                    for place, label in enumerate(ids)
                    for word in self._label_words[label, : self._label_lengths[label]][
                        mentioned[row, place, : self._label_lengths[label]]
                    ]
                ]
                title, content = [*said[:2], *own[row, :3]], [*own[row, 3:], *said]
                yield f"{side}{start + row}", _text(title), _text(content), ids.tolist()

    def _draw(self, law: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(np.searchsorted(law, self._random.random_sample(shape) * law[-1]))


def _text(words: Iterable[int]) -> str:
    return " ".join(map(word, words))


def word(number: int) -> str:
    """The word of this number: its digits in base 70 as syllables, at least two."""
    number, rest = divmod(int(number), len(_SYLLABLES))
    made = _SYLLABLES[rest]
    while number >= len(_SYLLABLES):
        number, rest = divmod(number, len(_SYLLABLES))
        made = _SYLLABLES[rest] + made
    return _SYLLABLES[number] + made
