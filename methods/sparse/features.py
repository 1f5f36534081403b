"""The TF-IDF features of a dataset, made once and shared by all methods and cells with the same parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Interval

from xmcbench import Artifacts, Doc, Method, Texts, TopK
from xmcbench.methods.label_text import LABEL_TEXT, LabelPart, read_labels
from xmcbench.methods.sparse.ngrams import NgramTfidf, Recipe
from xmcbench.methods.sparse.search import SparseIndex
from xmcbench.methods.words.analysis import ANALYZER, Analyzer, require_analyzer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class TfidfFeatures:
    """A vectorizer fitted on the training texts and the label texts, and the vectors of the labels."""

    def __init__(self, vectorizer: NgramTfidf, labels: csr_matrix) -> None:
        """labels: CSR float32 [L, features]."""
        self.vectorizer, self.labels = vectorizer, labels

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
        """Return the features of these texts, from the store, or made and stored. ngrams: 1 for words, 2 for pairs of
        words too, which n-grams of characters never make. max_df: features in a larger share of the texts are
        dropped."""
        from scipy.sparse import load_npz, save_npz

        terms = 1 if analyzer == "characters" else ngrams
        identity = {
            "instances": raw_X.digest,
            "labels": raw_Y.digest,
            "recipe": recipe,
            "ngrams": terms,
            "max_df": max_df,
            **({"analyzer": analyzer} if analyzer else {}),
        }

        def build(folder: Path) -> None:
            vectorizer = NgramTfidf.fit((raw_X, raw_Y), recipe, terms, max_df, analyzer)
            vectorizer.save(folder)
            save_npz(folder / "labels.npz", cls(vectorizer, None).transform(raw_Y), compressed=False)

        folder = artifacts.get("analyzed-tfidf" if analyzer else "tfidf", identity, build)
        return cls(NgramTfidf.load(folder, recipe, analyzer), load_npz(folder / "labels.npz"))

    def batches(self, texts: Texts) -> Iterator[csr_matrix]:
        """Return the vectors of the texts, batch by batch: CSR float32 [rows of the batch, features]."""
        return self.vectorizer.transform_batches(texts)

    def transform(self, texts: Texts) -> csr_matrix:
        """Return the vectors of the texts in one piece: CSR float32 [len(texts), features]."""
        from scipy.sparse import csr_matrix, vstack

        nothing = csr_matrix((0, self.vectorizer.features), dtype=np.float32)  # without texts, there is no batch
        return vstack([nothing, *self.batches(texts)], format="csr")

    def nearest(self, texts: Texts, k: int) -> Iterator[TopK]:
        """Return the k labels with the largest inner product per text, batch by batch."""
        yield from map(partial(SparseIndex(self.labels).search, k=k), self.batches(texts))


class FeatureMethod(Method):
    """A method that reads texts as TF-IDF features, and the parameters of these."""

    vectorizer: Annotated[
        Recipe,
        Doc(
            "whose recipe: sklearn (lower case, words of two letters and more) or pecos (the one of MACLR's TF-IDF "
            "pseudo labels: split on white space, case and punctuation kept)",
            "the training pairs of LF-Debian-20K",
        ),
    ] = "sklearn"
    ngrams: Annotated[Literal[1, 2], Doc("1: words; 2: words and bigrams")] = 2
    max_df: Annotated[float, Interval(gt=0, le=1), Doc("a feature in more than this share of the texts is dropped")] = (
        1.0
    )
    analyzer: Annotated[Analyzer | None, ANALYZER] = None
    label_text: Annotated[LabelPart, LABEL_TEXT] = "title"

    def require(self) -> None:
        require_analyzer(self.analyzer)

    def _shared_features(self, raw_X: Texts, raw_Y: Texts) -> TfidfFeatures:
        labels = read_labels(raw_Y, self.label_text)
        return TfidfFeatures.shared(
            self.artifacts, raw_X, labels, self.vectorizer, self.ngrams, self.max_df, self.analyzer
        )
