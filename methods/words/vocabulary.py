"""Texts split into words, the vocabulary that numbers them, and texts as means of the vectors of their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Texts, arrow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Tokens:
    """The words of a batch of texts in order: token i is ``words[codes[i]]`` and is in text ``rows[i]``. codes: int32.
    rows: int32, rising. words: Arrow ``large_string``, each word once. texts: number of texts."""

    codes: np.ndarray
    rows: np.ndarray
    words: pa.Array
    texts: int

    @classmethod
    def of(
        cls, batch: pa.Array, separators: str | None = None, *, lowercase: bool = False, min_length: int = 1
    ) -> Tokens:
        """Split an Arrow array of texts at ASCII whitespace, and each part at what matches ``separators`` (RE2 syntax).
        lowercase: lower what is left. min_length: shorter words are left out, in characters."""
        import pyarrow.compute as pc

        split = pc.ascii_split_whitespace(batch)
        codes, words = _encode(split)
        rows = np.repeat(np.arange(len(batch), dtype=np.int32), _sizes(split))
        if separators is not None or lowercase:
            # Each distinct word once: that is a fraction of the text.
            if separators is not None:
                words = pc.replace_substring_regex(words, pattern=separators, replacement=" ")
            split = pc.ascii_split_whitespace(pc.utf8_lower(words) if lowercase else words)
            parts, words = _encode(split)
            places, counts = _part_places(codes, _sizes(split))
            codes, rows = parts[places], np.repeat(rows, counts)
        # A separator at an end of a text, and an empty text, leave an empty token behind.
        long = arrow.to_numpy(pc.utf8_length(words)) >= min_length
        if not long.all():
            kept = long[codes]
            codes, rows = codes[kept], rows[kept]
        return cls(codes, rows, words, len(batch))


def _encode(split: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The words of lists of words, one list after the other: the number of each, and each distinct word."""
    encoded = split.flatten().dictionary_encode()
    return arrow.to_numpy(encoded.indices), encoded.dictionary


def _sizes(split: pa.Array) -> np.ndarray:
    import pyarrow.compute as pc

    return arrow.to_numpy(pc.list_value_length(split))


def _part_places(codes: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of each token's parts among those of all words, and their number. codes: the word of each token. sizes:
    parts of each word, which lie one after the other."""
    counts = sizes[codes]
    starts, before = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts[codes] - before, counts), counts


#: What separates words: everything but letters, the marks that belong to them, and digits (RE2 syntax).
_SEPARATORS = r"[^\p{L}\p{M}\p{N}]+"


class Vocabulary:
    """Words by number: the position in ``words`` (Arrow ``large_string``, each word once) is a word's code."""

    def __init__(self, words: pa.Array, lowercase: bool) -> None:
        self.words = words
        self.lowercase = lowercase

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def count(cls, corpora: Iterable[Texts], min_count: int, max_words: int, lowercase: bool) -> Vocabulary:
        """Words that occur at least ``min_count`` times, ``max_words`` at most; frequent first, then by spelling."""
        import pyarrow as pa

        counts = pa.table({"word": pa.array([], pa.large_string()), "count": pa.array([], pa.int64())})
        for texts in corpora:
            for batch in texts.batches():
                tokens = Tokens.of(batch, _SEPARATORS, lowercase=lowercase)
                found = np.bincount(tokens.codes, minlength=len(tokens.words))
                # Merged batch by batch: what is held is one row per distinct word.
                counts = pa.concat_tables([counts, pa.table({"word": tokens.words, "count": found})])
                counts = counts.group_by("word").aggregate([("count", "sum")]).rename_columns(counts.column_names)
        counts = counts.filter(pa.compute.greater_equal(counts["count"], max(1, min_count)))
        counts = counts.sort_by([("count", "descending"), ("word", "ascending")])
        return cls(counts["word"].slice(0, max_words).combine_chunks(), lowercase)

    def codes(self, batch: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The known words of a batch of texts in order: their codes (int32) and the text each is in (int32)."""
        import pyarrow.compute as pc

        tokens = Tokens.of(batch, _SEPARATORS, lowercase=self.lowercase)
        known = arrow.to_numpy(pc.fill_null(pc.index_in(tokens.words, value_set=self.words), arrow.scalar(-1)))
        codes = known[tokens.codes]
        return codes[codes >= 0], tokens.rows[codes >= 0]

    def stream(self, corpora: Iterable[Texts]) -> np.ndarray:
        """All known words of all texts as one int32 array of codes, with a -1 after the last word of each text. Unknown
        words leave no gap: the distance of two words is counted in known ones, as in the authors' program."""
        pieces = []
        for texts in corpora:
            for batch in texts.batches():
                codes, rows = self.codes(batch)
                ends = np.searchsorted(rows, np.arange(len(batch)), side="right")
                pieces.append(np.insert(codes, ends, -1))
        return np.concatenate(pieces) if pieces else np.empty(0, np.int32)

    def arrays(self) -> dict[str, np.ndarray]:
        """The words as arrays: ``word_bytes`` (uint8, UTF-8, one word after the other), ``word_ends`` (int64)."""
        import pyarrow.compute as pc

        ends = np.cumsum(arrow.to_numpy(pc.binary_length(self.words)), dtype=np.int64)
        joined = "".join(self.words.to_pylist()).encode()
        return {"word_bytes": np.frombuffer(joined, np.uint8), "word_ends": ends}

    @classmethod
    def from_arrays(cls, word_bytes: np.ndarray, word_ends: np.ndarray, lowercase: bool) -> Vocabulary:
        """Inverse of ``arrays``."""
        import pyarrow as pa

        offsets = np.concatenate([[0], word_ends]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(word_bytes))]
        return cls(pa.Array.from_buffers(pa.large_string(), len(word_ends), buffers), lowercase)


#: Texts that are averaged at a time.
_BATCH = 65_536


class WordVectors:
    """A vocabulary of V words and their vectors, float32 [V, d]."""

    def __init__(self, vocabulary: Vocabulary, vectors: np.ndarray) -> None:
        self.vocabulary = vocabulary
        self.vectors = vectors

    def embed(self, texts: Texts, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
        """The mean vector of each text, float32 [N, d], and whether it has a known word, bool [N]. A word that occurs
        twice counts twice. A text without a known word is a zero vector. ``normalize`` scales the others to length 1.
        """
        means, known = np.zeros((len(texts), self.vectors.shape[1]), np.float32), np.zeros(len(texts), bool)
        start = 0
        for batch in texts.batches(_BATCH):
            rows = slice(start, start + len(batch))
            means[rows], known[rows] = self._means(batch)
            start += len(batch)
        if normalize:
            lengths = np.linalg.norm(means, axis=1, keepdims=True)
            np.divide(means, lengths, out=means, where=lengths > 0)
        return means, known

    def _means(self, batch: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        from scipy.sparse import csr_matrix

        codes, rows = self.vocabulary.codes(batch)
        lengths = np.bincount(rows, minlength=len(batch))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shares = np.repeat(1 / np.maximum(1, lengths), lengths).astype(np.float32)
        means = csr_matrix((shares, codes, starts), shape=(len(batch), len(self.vocabulary))) @ self.vectors
        return means, lengths > 0

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without Python objects: ``word_bytes``, ``word_ends``, ``vectors``."""
        return {**self.vocabulary.arrays(), "vectors": self.vectors}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], lowercase: bool) -> WordVectors:
        """Inverse of ``arrays``."""
        return cls(Vocabulary.from_arrays(arrays["word_bytes"], arrays["word_ends"], lowercase), arrays["vectors"])
