"""A tree of linear classifiers by PECOS."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import TopK, usable_cores

if TYPE_CHECKING:
    from pecos.xmc import ClusterChain
    from pecos.xmc.xlinear.model import XLinearModel
    from scipy.sparse import csc_matrix, csr_matrix


class PecosRanker:
    """Ranks the labels that have a training pair; the others have no classifier and are never predicted."""

    def __init__(self, seen: np.ndarray, model: XLinearModel | None) -> None:
        """seen: int [S], the labels that the columns of the model stand for, rising. model: None if there are none."""
        self._seen, self._model = seen, model

    @classmethod
    def train(
        cls,
        X: csr_matrix | None,
        pairs: csr_matrix,
        *,
        nr_splits: int,
        max_leaf_size: int,
        cost: float,
        threshold: float,
        seed: int,
    ) -> PecosRanker:
        """Build the tree and train a linear SVM at each node against the teacher-forcing negatives. X: CSR float32 [N,
        features]; None where N is 0. pairs: binary CSR [N, L], at least one in each row. cost: C of the SVM. threshold:
        weights below it are dropped."""
        seen = np.unique(pairs.indices)
        if not len(seen):
            return cls(seen, None)
        by_label = pairs[:, seen].tocsc().astype(np.float32)
        with TemporaryDirectory() as folder, _quiet():
            from pecos.xmc.xlinear.model import XLinearModel

            XLinearModel.train(
                X,
                by_label,
                C=_label_tree(X, by_label, nr_splits, max_leaf_size, seed),
                nr_splits=nr_splits,
                solver_type="L2R_L2LOSS_SVC_DUAL",
                negative_sampling_scheme="tfn",
                Cp=cost,
                Cn=cost,
                threshold=threshold,
                threads=usable_cores(),
            ).save(folder)
            # A model that only predicts multiplies a query with all children of a node at once. PECOS makes one from
            # files only.
            return cls(seen, XLinearModel.load(folder, is_predict_only=True))

    @property
    def labels(self) -> int:
        """Number of labels with a classifier."""
        return len(self._seen)

    def search(self, X: csr_matrix, k: int, beam_size: int) -> TopK:
        """Return the k best labels that the beam reaches; fewer if fewer labels have a classifier. Scores are PECOS's:
        the product over the path of exp(-max(0, 1 - margin)^3), 0..1. Among labels that are equal at the k-th place
        PECOS decides, the same way in every run."""
        if self._model is None:
            return TopK.from_rows(np.zeros(X.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), k)
        with _quiet():
            found = self._model.predict(X, beam_size=beam_size, only_topk=min(k, self.labels), threads=usable_cores())
        return TopK.from_rows(found.indptr, self._seen[found.indices], found.data, k)


def _label_tree(X: csr_matrix, pairs: csc_matrix, nr_splits: int, max_leaf_size: int, seed: int) -> ClusterChain:
    """Return a tree over the mean features of the instances of each label (PIFA), by hierarchical 2-means."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory

    threads = usable_cores()
    return Indexer.gen(
        LabelEmbeddingFactory.create(pairs, X, method="pifa", threads=threads),
        indexer_type="hierarchicalkmeans",
        nr_splits=nr_splits,
        max_leaf_size=max_leaf_size,
        seed=seed,
        threads=threads,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings that PECOS causes: of a deprecated namespace of scipy, and of files left open."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*scipy.sparse.sputils", category=DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        yield
