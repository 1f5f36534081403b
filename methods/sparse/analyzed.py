"""TF-IDF features of analyzed texts: of stems, n-grams of characters, or words that ICU finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import Artifacts, Texts
from xmcbench.methods.sparse.features import TfidfFeatures
from xmcbench.methods.sparse.ngrams import NgramTfidf, Recipe
from xmcbench.methods.words.analysis import ROWS, Analyzer, analyzed

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    from xmcbench.methods.words.tokens import Tokens

#: A letter (U+A66E) that no text needs: it stands for what a vectorizer would take for the end of a word.
_MARK = "\N{CYRILLIC LETTER MULTIOCULAR O}"
#: Terms that every vectorizer keeps whole.
_PLAIN = r"^[\p{L}\p{N}_]{2,}$"


class AnalyzedFeatures(TfidfFeatures):
    """TF-IDF features of the terms of an analyzer instead of the words of the vectorizer's recipe."""

    def __init__(self, vectorizer: NgramTfidf, labels: csr_matrix, analyzer: Analyzer) -> None:
        """labels: CSR float32 [L, features]."""
        super().__init__(vectorizer, labels)
        self._analyzer = analyzer

    @classmethod
    def shared(
        cls,
        artifacts: Artifacts,
        raw_X: Texts,
        raw_Y: Texts,
        recipe: Recipe,
        ngrams: int,
        max_df: float,
        analyzer: Analyzer | None = None,
    ) -> TfidfFeatures:
        """The features of these texts, from the store, or made and stored; without an analyzer, those of the recipe.

        ngrams: 2 for pairs of terms too, which n-grams of characters never make.
        """
        from scipy.sparse import load_npz, save_npz

        if analyzer is None:
            return TfidfFeatures.shared(artifacts, raw_X, raw_Y, recipe, ngrams, max_df)
        terms = 1 if analyzer == "characters" else ngrams
        identity = {
            "instances": raw_X.digest,
            "labels": raw_Y.digest,
            "recipe": recipe,
            "ngrams": terms,
            "max_df": max_df,
            "analyzer": analyzer,
        }

        def build(folder: Path) -> None:
            corpora = (_in_memory(batch) for texts in (raw_X, raw_Y) for batch in _written(texts, analyzer))
            vectorizer = NgramTfidf.fit(corpora, recipe, terms, max_df)
            vectorizer.save(folder)
            save_npz(folder / "labels.npz", cls(vectorizer, None, analyzer).transform(raw_Y), compressed=False)

        folder = artifacts.get("analyzed-tfidf", identity, build)
        return cls(NgramTfidf.load(folder, recipe), load_npz(folder / "labels.npz"), analyzer)

    def _arrays(self, texts: Texts) -> Iterator[pa.Array]:
        return _written(texts, self._analyzer)


def _written(texts: Texts, analyzer: Analyzer) -> Iterator[pa.Array]:
    """The terms of each text, with spaces between them, batch by batch."""
    for batch in texts.batches(ROWS):
        yield written(analyzed(batch, analyzer))


def written(tokens: Tokens) -> pa.Array:
    """Tokens as texts that every recipe splits into the same terms: Arrow ``large_string`` [texts].

    Single characters, and terms with combining marks or punctuation, are spelled with a letter that texts do not have.
    Different terms stay different.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.match_substring_regex(tokens.words, pattern=_PLAIN).to_pylist()
    spelled = [
        word if kept and _MARK not in word else _spelled(word)
        for word, kept in zip(tokens.words.to_pylist(), plain, strict=True)
    ]
    ends = np.cumsum(np.bincount(tokens.rows, minlength=tokens.texts))
    terms = pa.array(spelled, pa.large_string()).take(pa.array(tokens.codes))
    lists = pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int64)), terms)
    return pc.binary_join(lists, pa.scalar(" ", pa.large_string()))


def _spelled(word: str) -> str:
    """Signs that are neither letters nor digits by their number between two marks; a single one is followed by one."""
    signs = [sign if sign.isalnum() and sign != _MARK else f"{_MARK}{ord(sign):x}{_MARK}" for sign in word]
    return "".join(signs) + (_MARK if len(word) == 1 and signs[0] == word else "")


def _in_memory(batch: pa.Array) -> Texts:
    import pyarrow as pa

    blank = pa.repeat(pa.scalar("", pa.large_string()), len(batch))
    return Texts(pa.table({"uid": blank, "title": batch, "content": blank}))
