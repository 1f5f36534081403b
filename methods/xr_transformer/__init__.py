"""XR-Transformer: an encoder fine-tuned level by level on a tree of labels, and linear classifiers on top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, MethodError, Texts, TopK, pairs_digest
from xmcbench.methods.declarations import AboveZero, Instances, NonNegative, Positive, Several, Share, Steps, Tokens
from xmcbench.methods.encoder import PACKAGES
from xmcbench.methods.encoder.dual_encoder import BackboneMethod
from xmcbench.methods.label_text import read_labels
from xmcbench.methods.presets import CHOICES, PRESETS
from xmcbench.methods.sparse.features import FeatureMethod

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.training import TrainingPlan
    from xmcbench.methods.label_tree.tree import Level

_CODE = "the settings of its authors' experiments (amzn/pecos, examples/xr-transformer-neurips21)"


class XRTransformer(BackboneMethod, FeatureMethod):
    """An encoder fine-tuned on ever finer clusters of labels (Zhang et al., NeurIPS 2021), under XR-Linear's ranker.

    Labels are clustered into a tree by the TF-IDF features of their instances. Level by level, the encoder learns which
    clusters hold the labels of an instance, by a squared hinge over a shortlist: the instance's clusters, their
    siblings, and what is below the clusters that it was wrongly given on the level above. The classifiers of a level
    start from linear SVMs on the vectors as they are. Afterwards, each instance is its TF-IDF features beside its
    vector, scaled to length 1, and XR-Linear's tree and classifiers are built again on these.

    Instances and labels without a pair are not used, and such labels are never predicted. Label texts only
    contribute to the vocabulary. The shortlist and the tree are as small as the labels that are known allow.
    """

    title = "XR-Transformer"
    supervision = "required"
    described: ClassVar[tuple[str, ...]] = ("backbone", "steps", "batch")
    packages: ClassVar = {**PACKAGES, "numba": "numba"}
    presets: ClassVar = PRESETS["xr-transformer"]
    choices: ClassVar = CHOICES["xr-transformer"]

    instance_length: Annotated[
        Tokens, Doc("maximum length of an instance; its TF-IDF features are those of the whole")
    ] = 128
    steps: Annotated[Steps, Doc("number of fine-tuning steps, divided equally among the levels")] = 300
    batch: Annotated[Instances, Doc("instances per step, over all processes", _CODE)] = 32
    learning_rate: Annotated[AboveZero, Doc("highest learning rate of a level", _CODE)] = 5e-5
    warmup: Annotated[Share, Doc("share of a level's steps over which the learning rate rises", _CODE)] = 0.1
    clip: Annotated[AboveZero | None, Doc("maximum Euclidean norm of the gradient; none: no limit", _CODE)] = 1.0
    branches: Annotated[
        Several, Doc("children of a node of the first tree; powers of 2 keep clusters equal in size", _CODE)
    ] = 16
    leaf: Annotated[int, Ge(2), Unit("labels"), Doc("maximum size of a leaf of the first tree", _CODE)] = 16
    min_clusters: Annotated[
        Positive, Doc("minimum number of clusters of a level to train on, if there is another", _CODE)
    ] = 128
    max_clusters: Annotated[Positive, Doc("maximum number of clusters of a level to train on")] = 32_768
    guesses: Annotated[
        int, Ge(0), Unit("clusters"), Doc("clusters of the level above whose children can be negatives", "PECOS")
    ] = 20
    shortlist: Annotated[
        int, Ge(1), Unit("clusters"), Doc("number of clusters of an instance on each level", _CODE)
    ] = 500
    negative_cost: Annotated[AboveZero, Doc("weight of a wrong cluster; the right ones have 1 together", "PECOS")] = 1.0
    nr_splits: Annotated[Several, Doc("children of a node of the ranker's tree", "PECOS")] = 16
    max_leaf_size: Annotated[int, Ge(2), Unit("labels"), Doc("maximum size of a leaf of the ranker's tree", _CODE)] = 16
    cost: Annotated[AboveZero, Doc("C of the SVMs", "PECOS")] = 1.0
    threshold: Annotated[NonNegative, Doc("weights of the ranker below this are dropped")] = 0.01
    beam_size: Annotated[Positive, Doc("nodes that a prediction follows on each level of the ranker's tree")] = 50

    def describe(self) -> str:
        return f"{super().describe()}, {self.steps} steps of {self.batch}"

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fine-tune the encoder level by level, then train the ranker. Raises Unavailable if the weights are not
        available, MethodError if a training diverges."""
        from xmcbench.methods.label_tree.linear import TreeRanker

        assert pairs is not None, "supervision is required"
        self._features = self._shared_features(raw_X, raw_Y)
        self._tower = self._open(raw_X, read_labels(raw_Y, self.label_text))
        rows = np.flatnonzero(np.diff(pairs.indptr))
        known = pairs[rows].astype(np.float32)
        X = None
        if len(rows):
            texts = raw_X.take(rows)
            X = self._features.transform(texts)
            tokens = self._tower.instance_tokens(texts, self.instance_length)
            vectors = self._finetune_levels(tokens, X, known, texts.digest)
            X = _beside(X, vectors)
        self._ranker = TreeRanker.train(
            X,
            known,
            nr_splits=self.nr_splits,
            max_leaf_size=self.max_leaf_size,
            cost=self.cost,
            threshold=self.threshold,
            seed=self.seed,
        )
        self.notes["training_instances"] = len(rows)
        self.notes["labels_with_a_classifier"] = self._ranker.labels

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        """The k best labels that the beam reaches, with the scores of PECOS; fewer if fewer labels have a pair."""
        tokens = self._tower.instance_tokens(raw_X, self.instance_length)
        self.notes["cut_instances"] = tokens.at_the_limit
        start = 0
        with self._tower.embeddings(tokens) as vectors:
            for X in self._features.batches(raw_X):
                yield self._ranker.search(_beside(X, vectors[start : start + X.shape[0]]), k, self.beam_size)
                start += X.shape[0]

    def _finetune_levels(self, tokens: TokenStore, X: csr_matrix, pairs: csr_matrix, texts: str) -> np.ndarray:
        """Fine-tune the encoder on all levels; returns the vectors of the instances, float32 [N, d]."""
        from xmcbench.methods.label_tree.tree import label_tree, levels

        vectors = self._embed(tokens, shared=self.head != "paper")
        if not self.steps:
            return vectors
        seen = pairs[:, np.unique(pairs.indices)]
        tree = label_tree(X, seen.tocsc(), nr_splits=self.branches, max_leaf_size=self.leaf, seed=self.seed)
        trained = levels(tree, seen, self.min_clusters, self.max_clusters)
        guessed, done = None, 0
        for number, level in enumerate(trained):
            until = self.steps * (number + 1) // len(trained)
            identity = {
                "kind": "clusters of labels",
                "texts": texts,
                "pairs": pairs_digest(pairs.indptr, pairs.indices),
                "level": number,
                "clusters": level.clusters,
                "negatives": [self.guesses, self.shortlist, self.negative_cost],
            }
            plan = self._plan_level(number, until - done)
            classifiers = self._train_on(level, tokens, vectors, guessed, plan, identity)
            vectors = self._embed(tokens)
            if level is not trained[-1] and self.guesses:
                guessed = self._guess(vectors, classifiers)
            done = until
        return vectors

    def _plan_level(self, number: int, steps: int) -> TrainingPlan:
        """The training of a level, counted from 0. Each has a seed of its own: all would draw the same instances."""
        seed = int(np.random.default_rng([self.seed, 33, number]).integers(2**31)) if number else self.seed
        return replace(self._plan(steps, self.learning_rate), seed=seed)

    def _train_on(
        self,
        level: Level,
        tokens: TokenStore,
        vectors: np.ndarray,
        guessed: TopK | None,
        plan: TrainingPlan,
        identity: dict[str, object],
    ) -> np.ndarray:
        """Fine-tune the encoder on a level; returns its classifiers, float32 [K, d + 1], the bias last."""
        from xmcbench.methods.label_tree.tree import shortlist
        from xmcbench.methods.xr_transformer.level import ClusterWeights, LevelTask, fit_svms, with_clusters

        tower = self._tower
        clusters = ClusterWeights(*fit_svms(vectors, level, guessed, self.cost, self.seed))
        clusters.to(tower.device)
        listed, shares = shortlist(level, guessed, self.shortlist, self.seed)
        task = LevelTask(tokens, listed, shares, self.negative_cost, self.batch, plan.seed)
        with with_clusters(tower.encoder, clusters):
            note = tower.train(task, plan, identity, self.batch, keep=False)
        self.notes[f"fine-tuning on {level.clusters} clusters"] = {**note, "shortlist": int(listed.shape[1])}
        trained: np.ndarray = clusters.with_bias()
        return trained

    def _guess(self, vectors: np.ndarray, classifiers: np.ndarray) -> TopK:
        """The clusters of a level that score highest per instance."""
        queries = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])
        count = min(self.guesses, len(classifiers))
        return TopK.joined(self._tower.nearest(queries, classifiers, count), count, len(queries))

    def _embed(self, tokens: TokenStore, shared: bool = False) -> np.ndarray:
        vectors = self._tower.embed(tokens, shared)
        if not np.isfinite(vectors).all():
            raise MethodError("an embedding is NaN or infinite (a diverged training?)", "try a lower learning rate")
        return vectors


def _beside(features: csr_matrix, vectors: np.ndarray) -> csr_matrix:
    """TF-IDF features and vectors, scaled to length 1, side by side: CSR float32 [n, features + d]."""
    from scipy.sparse import csr_matrix, hstack

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return hstack([features, csr_matrix(unit.astype(np.float32))], format="csr", dtype=np.float32)
