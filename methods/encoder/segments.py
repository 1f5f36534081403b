"""Pairs of random segments of documents (Zhang et al., Findings of EMNLP 2022): drawn again for every epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from xmcbench import MethodError, Texts
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import ContrastiveTask, View
from xmcbench.methods.encoder.tokens import Tokenizer

#: What a text of a pair is. A segment is words of a document's content.
_TITLE, _LABEL, _SEGMENT = range(3)
#: Documents whose words are kept.
_KEPT = 16


@dataclass(frozen=True)
class Segments:
    """Segments of documents: words ``starts`` to ``ends`` of the content of each document, int64 [n] each."""

    documents: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.documents)

    @classmethod
    def drawn(cls, words: np.ndarray, shortest: int, longest: int, rng: np.random.Generator) -> Segments:
        """Split every document into segments of a random number of words, ``shortest`` to ``longest``. words: of the
        content of each document, int64 [n]. A last segment with fewer than ``shortest // 2`` joins the one before; a
        document with fewer is one segment, and one without words has none."""
        most = -(-words // shortest)
        documents = np.repeat(np.arange(len(words)), most)
        lengths = rng.integers(shortest, longest + 1, len(documents))
        ends = np.cumsum(lengths)
        first = np.cumsum(most) - most
        before = np.concatenate([[0], ends])[first]
        ends = ends - before[documents]
        starts = ends - lengths
        kept = starts < words[documents]
        documents, starts, ends = documents[kept], starts[kept], ends[kept]
        ends = np.minimum(ends, words[documents])
        tail = (ends - starts < shortest // 2) & (starts > 0)
        ends[np.flatnonzero(tail) - 1] = ends[tail]
        return cls(documents[~tail], starts[~tail], ends[~tail])

    def match(self, rng: np.random.Generator) -> np.ndarray:
        """A random matching of the segments of each document: int64 [m, 2], pairs of positions. Each segment is in one
        pair at most; of an odd number one is left out."""
        order = np.lexsort((rng.random(len(self)), self.documents))
        owner = self.documents[order]
        place = np.arange(len(order)) - np.searchsorted(owner, owner)
        left = np.flatnonzero(place % 2 == 0)
        left = left[left + 1 < len(order)]
        left = left[owner[left] == owner[left + 1]]
        return np.column_stack([order[left], order[left + 1]])


@dataclass(frozen=True)
class SegmentCorpus:
    """The texts that pairs are drawn from. tokenizers: of instances and labels; lengths: their tokens at most."""

    texts: Texts
    labels: Texts
    tokenizers: tuple[Tokenizer, Tokenizer]
    lengths: tuple[int, int]

    def __getstate__(self) -> dict[str, object]:
        """Another process counts the words again."""
        made = ("words", "titled", "named", "_split")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    @cached_property
    def words(self) -> np.ndarray:
        """Words of the content of each document: int64 [N]."""
        return np.fromiter((len(content.split()) for content in self.texts.contents), np.int64, len(self.texts))

    @cached_property
    def titled(self) -> np.ndarray:
        """Documents that have a title: bool [N]."""
        return np.fromiter((bool(title.strip()) for title in self.texts.titles), bool, len(self.texts))

    @cached_property
    def named(self) -> np.ndarray:
        """The labels that have a text: int64 [n]."""
        return np.flatnonzero([bool(title.strip()) for title in self.labels.titles])

    @cached_property
    def _split(self) -> Callable[[int], list[str]]:
        """Split the content of a document into words. Those of the last few documents are kept: a long one would be
        split for each of its segments."""
        return lru_cache(_KEPT)(lambda row: self.texts.contents[row].split())

    def tokens(self, kind: int, row: int, start: int, end: int) -> np.ndarray:
        """The tokens of a text: int32."""
        if kind == _SEGMENT:
            text, side = " ".join(self._split(row)[start:end]), 0
        elif kind == _TITLE:
            text, side = self.texts.titles[row], 1
        else:
            text, side = self.labels[row], 1
        return np.array(self.tokenizers[side]([text], self.lengths[side])[0], np.int32)


@dataclass(frozen=True)
class DrawnTexts:
    """Texts of a step. drawn: int64 [n, 4], each a kind, the number of its document or label, first and last word."""

    corpus: SegmentCorpus
    drawn: np.ndarray

    @property
    def pad(self) -> int:
        """The number that fills a batch up."""
        return self.corpus.tokenizers[0].pad

    def __getitem__(self, row: int) -> np.ndarray:
        """Token numbers of one text."""
        return self.corpus.tokens(*(int(number) for number in self.drawn[row]))


class RandomSegments(ContrastiveTask):
    """The in-batch contrastive loss between the two texts of a pair. The pairs of an epoch: each title with itself and
    each label with itself, under two dropout masks; each title with every segment of its document; and two segments of
    a second split."""

    def __init__(
        self, corpus: SegmentCorpus, words: tuple[int, int], batch: int, temperature: float, seed: int
    ) -> None:
        """words: of a segment, fewest and most; batch: pairs of a step, over all processes. Raises MethodError where
        fewer than two documents and labels have a title."""
        # Epochs differ in their segments only: each has at least these pairs.
        fewest = int(corpus.titled.sum()) + len(corpus.named)
        if fewest < 2:
            raise MethodError("fewer than two documents and labels have a title", "RTS draws its pairs from them")
        self._corpus, self._words, self._temperature, self._seed = corpus, words, temperature, seed
        self._epochs = Epochs(fewest, batch, seed)  # the size of a batch alone
        self._epoch, self._first, self._pairs = 0, 0, self._draw_pairs(0)

    def _draw_pairs(self, epoch: int) -> np.ndarray:
        """The pairs of an epoch in random order: int64 [n, 2, 4], see ``DrawnTexts``."""
        corpus, rng = self._corpus, np.random.default_rng([self._seed, 11, epoch])
        titles = _whole(_TITLE, np.flatnonzero(corpus.titled))
        labels = _whole(_LABEL, corpus.named)
        split = Segments.drawn(corpus.words, *self._words, rng)
        segments = _slice(split)
        of_title = corpus.titled[split.documents]
        again = Segments.drawn(corpus.words, *self._words, rng)
        matched = _slice(again)[again.match(rng)]
        pairs = np.concatenate(
            [
                np.stack([titles, titles], 1),
                np.stack([labels, labels], 1),
                np.stack([_whole(_TITLE, split.documents)[of_title], segments[of_title]], 1),
                matched,
            ]
        )
        return rng.permutation(pairs)

    def draw(self, step: int) -> dict[str, View]:
        """Both texts of the step's pairs. The last pairs of an epoch that do not fill a batch are left out."""
        if step < self._first:
            self._epoch, self._first, self._pairs = 0, 0, self._draw_pairs(0)
        while step >= self._first + len(self._pairs) // self.batch:
            self._first += len(self._pairs) // self.batch
            self._epoch += 1
            self._pairs = self._draw_pairs(self._epoch)
        place = (step - self._first) * self.batch
        pairs = self._pairs[place : place + self.batch]
        rows = np.arange(len(pairs))
        return {
            "anchor": View(DrawnTexts(self._corpus, pairs[:, 0]), rows),
            "positive": View(DrawnTexts(self._corpus, pairs[:, 1]), rows),
        }


def _whole(kind: int, rows: np.ndarray) -> np.ndarray:
    return np.column_stack([np.full(len(rows), kind), rows, np.zeros((len(rows), 2), np.int64)])


def _slice(segments: Segments) -> np.ndarray:
    kind = np.full(len(segments), _SEGMENT)
    return np.column_stack([kind, segments.documents, segments.starts, segments.ends])
