"""The TF-IDF features of a dataset, made once and shared by all methods and cells with the same parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench import Artifacts, Doc, Texts, TopK, usable_cores
from xmcbench.methods.distributed.threads import in_threads
from xmcbench.methods.sparse.ngrams import NgramTfidf, Recipe
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix


#: Declarations of the parameters of these features, for every method that has them.
VECTORIZER = Doc(
    "whose recipe: sklearn (lower case, words of two letters and more) or pecos (the one of MACLR's TF-IDF pseudo "
    "labels: split on white space, case and punctuation kept)",
    "the training pairs of LF-Debian-20K",
)
NGRAMS = Doc("1: words; 2: words and bigrams")
MAX_DF = Doc("a feature in more than this share of the texts is dropped")


class TfidfFeatures:
    """A vectorizer fitted on the training texts and the label texts, and the vectors of the labels."""

    def __init__(self, vectorizer: NgramTfidf, labels: csr_matrix) -> None:
        """labels: CSR float32 [L, features]."""
        self.vectorizer = vectorizer
        self.labels = labels

    @classmethod
    def shared(
        cls, artifacts: Artifacts, raw_X: Texts, raw_Y: Texts, recipe: Recipe, ngrams: int, max_df: float
    ) -> TfidfFeatures:
        """The features of these texts, from the store, or made and stored.

        ngrams: 1 for words, 2 for words and bigrams. max_df: a feature in more than this share of the texts (0..1) is
        dropped.
        """
        from scipy.sparse import load_npz, save_npz

        identity = {
            "instances": raw_X.digest,
            "labels": raw_Y.digest,
            "recipe": recipe,
            "ngrams": ngrams,
            "max_df": max_df,
        }

        def build(folder: Path) -> None:
            vectorizer = NgramTfidf.fit([raw_X, raw_Y], recipe, ngrams, max_df)
            vectorizer.save(folder)
            save_npz(folder / "labels.npz", cls(vectorizer, None).transform(raw_Y), compressed=False)

        folder = artifacts.get("tfidf", identity, build)
        return cls(NgramTfidf.load(folder, recipe), load_npz(folder / "labels.npz"))

    def batches(self, texts: Texts) -> Iterator[csr_matrix]:
        """The vectors of the texts, batch by batch: CSR float32 [rows of the batch, features]."""
        yield from in_threads(self.vectorizer.transform, self._arrays(texts), usable_cores())

    def _arrays(self, texts: Texts) -> Iterator[pa.Array]:
        """What the vectorizer is given of the texts, batch by batch."""
        return texts.batches()

    def transform(self, texts: Texts) -> csr_matrix:
        """The vectors of at least one text in one piece: CSR float32 [len(texts), features]."""
        from scipy.sparse import vstack

        return vstack(list(self.batches(texts)), format="csr")

    def nearest(self, texts: Texts, k: int) -> Iterator[TopK]:
        """The k labels with the largest inner product for each text, batch by batch."""
        index = SparseIndex(self.labels)
        for batch in self.batches(texts):
            yield index.search(batch, k)
