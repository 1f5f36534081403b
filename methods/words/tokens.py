"""Texts split into words, on Arrow's native kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
        """Split an Arrow array of texts at ASCII whitespace, and at what matches ``separators`` (RE2 syntax).

        lowercase: lower what is left. min_length: shorter words are left out, in characters.
        """
        import pyarrow.compute as pc

        if separators is not None:
            batch = pc.replace_substring_regex(batch, pattern=separators, replacement=" ")
        split = pc.ascii_split_whitespace(pc.utf8_lower(batch) if lowercase else batch)
        encoded = split.flatten().dictionary_encode()
        codes, words = encoded.indices.to_numpy(), encoded.dictionary
        rows = np.repeat(np.arange(len(batch), dtype=np.int32), pc.list_value_length(split).to_numpy())
        # A separator at an end of a text, and an empty text, leave an empty token behind.
        long = pc.utf8_length(words).to_numpy() >= min_length
        if not long.all():
            kept = long[codes]
            codes, rows = codes[kept], rows[kept]
        return cls(codes, rows, words, len(batch))
