"""Label expansion: label texts enriched by the training documents that TF-IDF ranks nearest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from xmcbench import Doc, Texts, TopK
from xmcbench.methods.declarations import AboveZero, Positive
from xmcbench.methods.label_text import read_labels
from xmcbench.methods.sparse.features import FeatureMethod
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: Labels that are expanded at a time.
_LABELS = 16_384


class LabelExpansion(FeatureMethod):
    """TF-IDF over labels that have the words of their nearest training documents too.

    Pseudo-relevance feedback, with the label as the query (Rocchio 1971): the vector of a label is that of its text
    plus ``weight`` times the mean of the vectors of its nearest training documents, each weighted by its similarity to
    the label. The strongest ``terms`` features are kept. A label that no document shares a feature with stays as it is.
    Pairs are not used.
    """

    title = "Label expansion"
    supervision = "unused"
    deterministic = True
    packages: ClassVar = {"numba": "numba"}

    documents: Annotated[Positive, Doc("number of nearest training documents whose words a label gets")] = 5
    weight: Annotated[AboveZero, Doc("weight of the added words relative to the label's own")] = 0.5
    terms: Annotated[Positive, Doc("maximum number of features of an expanded label")] = 200

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Find the nearest documents of every label, or take the expanded labels from the store."""
        from scipy.sparse import load_npz, save_npz, vstack

        features = self._shared_features(raw_X, raw_Y)
        labels = read_labels(raw_Y, self.label_text)
        own = {name: value for name, value in self.parameters().items() if name != "label_text"}
        identity = {"instances": raw_X.digest, "labels": labels.digest, **own}

        def build(folder: Path) -> None:
            instances = features.transform(raw_X)
            nearest = SparseIndex(instances).search(features.labels, self.documents)
            # In blocks: before it is cut, a label has the features of all its documents.
            parts = [
                expand(
                    features.labels[start : start + _LABELS],
                    instances,
                    TopK(nearest.indices[start : start + _LABELS], nearest.scores[start : start + _LABELS]),
                    self.weight,
                    self.terms,
                )
                for start in range(0, len(nearest), _LABELS)
            ]
            save_npz(folder / "labels.npz", vstack(parts, format="csr"), compressed=False)

        folder = self.artifacts.get("label-expansion", identity, build)
        self._features = features
        self._features.labels = load_npz(folder / "labels.npz")

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        return self._features.nearest(raw_X, k)


def expand(labels: csr_matrix, instances: csr_matrix, nearest: TopK, weight: float, terms: int) -> csr_matrix:
    """Label vectors with the words of their nearest instances, of length 1: CSR float32 [L, features]. labels: CSR [L,
    features] of length 1; instances: CSR [N, features]; nearest: instances by label. The strongest ``terms`` features
    of a label are kept, ties by lower feature."""
    from scipy.sparse import csr_matrix, diags

    there = nearest.indices >= 0
    rows = np.repeat(np.arange(labels.shape[0]), there.sum(axis=1))
    similarity = nearest.scores[there]
    totals = np.bincount(rows, similarity, minlength=labels.shape[0])
    shares = similarity / np.where(totals > 0, totals, 1)[rows]
    lent = csr_matrix((shares, (rows, nearest.indices[there])), shape=(labels.shape[0], instances.shape[0])) @ instances
    whole = (labels + weight * lent).tocsr()
    whole.sort_indices()
    best = TopK.from_scores(whole.astype(np.float32), min(terms, max(1, int(np.diff(whole.indptr).max(initial=1)))))
    kept = best.indices >= 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    cut = csr_matrix((best.scores[kept], best.indices[kept], starts), shape=whole.shape)
    cut.sort_indices()
    lengths = np.sqrt(np.asarray(cut.multiply(cut).sum(axis=1)).ravel())
    return (diags(1 / np.where(lengths > 0, lengths, 1)) @ cut).tocsr().astype(np.float32)
