"""The TF-IDF features of a data set, made once and shared by every method and cell that asks for the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from xmcbench import Artefacts, Texts
from xmcbench.methods.sparse.ngrams import NgramTfidf
from xmcbench.methods.sparse.scikit import ScikitTfidf
from xmcbench.methods.sparse.search import SparseIndex, joined

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    from xmcbench import TopK

#: Whose recipe: PECOS's or scikit-learn's.
Recipe = Literal["pecos", "sklearn"]

#: Raised whenever the same texts and parameters would give other features, or the files of the artefact change.
VERSION = 1


class Vectorizer(Protocol):
    """What turns texts into sparse vectors."""

    def transform(self, batch: pa.Array) -> csr_matrix:
        """An Arrow array of texts as CSR float32 [len(batch), features]."""

    def save(self, folder: Path) -> None:
        """Write what was learnt."""


_VECTORIZERS: dict[str, type[NgramTfidf] | type[ScikitTfidf]] = {"pecos": NgramTfidf, "sklearn": ScikitTfidf}


class TfidfFeatures:
    """A vectoriser fitted on the training texts and the label texts, and the labels as it sees them."""

    def __init__(self, vectorizer: Vectorizer, labels: csr_matrix) -> None:
        """labels: CSR float32 [L, features]."""
        self._vectorizer = vectorizer
        self.labels = labels

    @classmethod
    def shared(
        cls, artefacts: Artefacts, raw_X: Texts, raw_Y: Texts, recipe: Recipe, ngrams: int, max_df: float
    ) -> TfidfFeatures:
        """The features of these texts, taken from the store, or made and put there.

        ngrams: 1 for words, 2 for words and bigrams. max_df: a feature in more than this share of the texts (0..1) is
        dropped.
        """
        from scipy.sparse import load_npz, save_npz

        identity = {
            "version": VERSION,
            "instances": raw_X.digest,
            "labels": raw_Y.digest,
            "recipe": recipe,
            "ngrams": ngrams,
            "max_df": max_df,
        }

        def build(folder: Path) -> None:
            vectorizer = _VECTORIZERS[recipe].fit([raw_X, raw_Y], ngrams, max_df)
            vectorizer.save(folder)
            save_npz(folder / "labels.npz", cls(vectorizer, None).transform(raw_Y), compressed=False)

        folder = artefacts.get("tfidf", identity, build)
        return cls(_VECTORIZERS[recipe].load(folder), load_npz(folder / "labels.npz"))

    def batches(self, texts: Texts) -> Iterator[csr_matrix]:
        """The vectors of the texts, batch by batch: CSR float32 [rows of the batch, features]."""
        for batch in texts.batches():
            yield self._vectorizer.transform(batch)

    def transform(self, texts: Texts) -> csr_matrix:
        """The vectors of at least one text in one piece: CSR float32 [len(texts), features]."""
        from scipy.sparse import vstack

        return vstack(list(self.batches(texts)), format="csr")

    def nearest(self, texts: Texts, k: int) -> TopK:
        """The k labels with the largest inner product for each text."""
        index = SparseIndex(self.labels)
        return joined([index.search(batch, k) for batch in self.batches(texts)], k)
