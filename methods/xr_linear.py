"""XR-Linear: a tree of linear classifiers over TF-IDF features, by PECOS or without it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from xmcbench import Doc, Texts, TopK, Unavailable, installation, usable_cores
from xmcbench.methods.declarations import AboveZero, NonNegative, Positive, Several
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.sparse.features import FeatureMethod
from xmcbench.methods.sparse.search import SparseIndex

if TYPE_CHECKING:
    from pecos.xmc import ClusterChain
    from pecos.xmc.xlinear.model import XLinearModel
    from scipy.sparse import csc_matrix, csr_matrix

    from xmcbench.methods.label_tree.linear import TreeRanker


class XRLinear(FeatureMethod):
    """A tree of linear classifiers over TF-IDF features (PECOS, Yu et al. 2020, Algorithm 2; MACLR section 5.1).

    Labels are clustered by the mean of their instances' features (PIFA) into a tree by hierarchical 2-means; at every
    node a linear SVM decides which children to follow, trained against the teacher-forcing negatives.

    With pairs it is trained on the pairs alone: instances without a pair and labels without a pair are not used,
    because such a label has neither an embedding nor a classifier, and is never predicted. Without pairs it is
    trained on pseudo pairs, each training instance with its TF-IDF top labels. The preset ``mixed`` trains on these
    beside the known pairs, so that a few known pairs do not cost it all other labels. All ``k`` requested predictions
    are made, while PECOS stops at 20. An instance without a known token is ranked by the biases of the classifiers.

    The tree and its classifiers are those of libpecos. The preset ``numba`` trains a model of the same kind without it:
    a tree by balanced 2-means, and the same SVMs by coordinate descent. Its rows say so.
    """

    title = "XR-Linear"
    supervision = "optional"
    described: ClassVar[tuple[str, ...]] = ("implementation",)
    packages: ClassVar = {"numba": "numba"}
    presets: ClassVar = PRESETS["xr-linear"]
    choices: ClassVar = CHOICES["xr-linear"]

    implementation: Annotated[
        Literal["pecos", "numba"], Doc("software of tree and classifiers: PECOS; numba: our own kernels", added=True)
    ] = "pecos"
    mixed: Annotated[bool, Doc("train on pseudo pairs too where there are known pairs")] = False
    pseudo_labels: Annotated[
        Positive,
        Doc("pseudo pairs of an instance, zero-shot and where mixed", "MACLR, section 5.1: 3, in self-training"),
    ] = 3
    nr_splits: Annotated[Several, Doc("children of a node of the tree", "PECOS")] = 16
    max_leaf_size: Annotated[Several, Doc("maximum size of a leaf", "PECOS")] = 100
    cost: Annotated[AboveZero, Doc("C of the SVM", "PECOS")] = 1.0
    threshold: Annotated[NonNegative, Doc("weights below this are dropped", "PECOS")] = 0.1
    beam_size: Annotated[
        Positive, Doc("nodes that a prediction follows on each level; with PECOS's 10, the beam would limit R@100")
    ] = 50

    def describe(self) -> str:
        return "" if self.implementation == "pecos" else "without PECOS"

    def require(self) -> None:
        """Raise Unavailable where PECOS is not installed, or a package that the analyzer needs."""
        super().require()
        if self.implementation == "pecos" and find_spec("pecos") is None:
            raise Unavailable(
                "xr-linear needs libpecos", f"{installation('libpecos')}; --methods xr-linear:numba works without it"
            )

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        self._features = self._shared_features(raw_X, raw_Y)
        X = None
        if pairs is None or self.mixed:
            X = self._features.transform(raw_X)
            pseudo = SparseIndex(self._features.labels).search(X, self.pseudo_labels).pairs(len(raw_Y))
            self.notes["pseudo_pairs"] = int(pseudo.nnz)
            pairs = pseudo if pairs is None else pairs.maximum(pseudo)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        if X is not None:
            X = X[rows]
        elif len(rows):
            X = self._features.transform(raw_X if len(rows) == len(raw_X) else raw_X.take(rows))
        self._ranker = self._ranker_class().train(
            X,
            pairs[rows],
            nr_splits=self.nr_splits,
            max_leaf_size=self.max_leaf_size,
            cost=self.cost,
            threshold=self.threshold,
            seed=self.seed,
        )
        self.notes["training_instances"] = len(rows)
        self.notes["labels_with_a_classifier"] = self._ranker.labels

    def _ranker_class(self) -> type[TreeRanker] | type[PecosRanker]:
        if self.implementation == "pecos":
            return PecosRanker
        from xmcbench.methods.label_tree.linear import TreeRanker

        return TreeRanker

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """Return the k best labels that the beam reaches; fewer if fewer labels were seen in training. Scores are those
        of PECOS: the product over the path of exp(-max(0, 1 - margin)^3), 0..1. Among labels that are equal at the k-th
        place the implementation decides, the same way in every run."""
        for batch in self._features.batches(raw_X):
            yield self._ranker.search(batch, k, self.beam_size)


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
        """Do what ``TreeRanker.train`` does, by PECOS."""
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
        """Do what ``TreeRanker.search`` does. Between equal labels PECOS decides, the same way in every run."""
        if self._model is None:
            return TopK.joined([], k, X.shape[0])
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
