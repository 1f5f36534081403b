"""Texts split into words, on Arrow's native kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import arrow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Tokens:
    """The words of a batch of texts in order: token i is ``words[codes[i]]`` and is in text ``rows[i]``.

    codes: int32. rows: int32, rising. words: Arrow ``large_string``, each word once. texts: number of texts.
    """

    codes: np.ndarray
    rows: np.ndarray
    words: pa.Array
    texts: int

    @classmethod
    def of(
        cls, batch: pa.Array, separators: str | None = None, *, lowercase: bool = False, min_length: int = 1
    ) -> Tokens:
        """Split an Arrow array of texts at ASCII whitespace, and each part at what matches ``separators`` (RE2 syntax).

        lowercase: lower what is left. min_length: shorter words are left out, in characters.
        """
        import pyarrow.compute as pc

        split = pc.ascii_split_whitespace(batch)
        codes, words = _encoded(split)
        rows = np.repeat(np.arange(len(batch), dtype=np.int32), _sizes(split))
        if separators is not None or lowercase:
            # Each distinct word once: that is a fraction of the text.
            if separators is not None:
                words = pc.replace_substring_regex(words, pattern=separators, replacement=" ")
            split = pc.ascii_split_whitespace(pc.utf8_lower(words) if lowercase else words)
            parts, words = _encoded(split)
            places, counts = _places(codes, _sizes(split))
            codes, rows = parts[places], np.repeat(rows, counts)
        # A separator at an end of a text, and an empty text, leave an empty token behind.
        long = arrow.to_numpy(pc.utf8_length(words)) >= min_length
        if not long.all():
            kept = long[codes]
            codes, rows = codes[kept], rows[kept]
        return cls(codes, rows, words, len(batch))


def _encoded(split: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The words of lists of words, one list after the other: the number of each, and each distinct word."""
    encoded = split.flatten().dictionary_encode()
    return arrow.to_numpy(encoded.indices), encoded.dictionary


def _sizes(split: pa.Array) -> np.ndarray:
    import pyarrow.compute as pc

    return arrow.to_numpy(pc.list_value_length(split))


def _places(codes: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the parts of each token are among those of all words, and how many it has.

    codes: the word of each token. sizes: parts of each word, which lie one after the other.
    """
    counts = sizes[codes]
    starts, before = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts[codes] - before, counts), counts
