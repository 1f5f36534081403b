"""Words of texts, and the vocabulary, which numbers the known words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Texts, arrow
from xmcbench.methods.words.tokens import Tokens

if TYPE_CHECKING:
    import pyarrow as pa

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
                # Merged batch by batch: what is held is one row for each distinct word.
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
        """All known words of all texts as one int32 array of codes, with a -1 after the last word of each text.

        Unknown words leave no gap: the distance of two words is counted in known ones, as in the authors' program.
        """
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
        """The vocabulary that ``arrays`` describes."""
        import pyarrow as pa

        offsets = np.concatenate([[0], word_ends]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(word_bytes))]
        return cls(pa.Array.from_buffers(pa.large_string(), len(word_ends), buffers), lowercase)
