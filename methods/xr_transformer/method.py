"""XR-Transformer: the method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval, Unit

from xmcbench import Doc, Method, MethodError, TopK, pairs_digest
from xmcbench.methods.encoder import HUB_TOKENS, PACKAGES
from xmcbench.methods.presets.xr_transformer import CHOICES, PRESETS
from xmcbench.methods.sparse.analyzed import AnalyzedFeatures
from xmcbench.methods.sparse.features import MAX_DF, NGRAMS, VECTORIZER
from xmcbench.methods.words.analysis import ANALYZER, Analyzer, require_analyzer

if TYPE_CHECKING:
    from pathlib import Path

    from scipy.sparse import csr_matrix

    from xmcbench import Texts
    from xmcbench.methods.encoder.tokens import TokenStore
    from xmcbench.methods.encoder.tower import Tower
    from xmcbench.methods.label_tree.tree import Level

_CODE = "the settings of its authors' experiments (amzn/pecos, examples/xr-transformer-neurips21)"


class XRTransformer(Method):
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
    needs: ClassVar = {"gpu": 1}
    packages: ClassVar = {**PACKAGES, "numba": "numba"}
    environment: ClassVar = HUB_TOKENS
    presets: ClassVar = PRESETS
    choices: ClassVar = CHOICES

    backbone: Annotated[
        str, Doc("a folder; a model id of the hub; all-MiniLM-L6-v2; or scratch:LAYERSxWIDTH, learned from the corpus")
    ] = "all-MiniLM-L6-v2"
    mlm_steps: Annotated[int, Ge(0), Unit("steps"), Doc("steps of masked-language modeling of a scratch: backbone")] = (
        2000
    )
    head: Annotated[
        Literal["native", "cls", "paper"],
        Doc("how a text becomes one vector: the checkpoint's own way, [CLS], or MACLR's dense layer on [CLS]"),
    ] = "native"
    instance_length: Annotated[
        int, Ge(3), Unit("tokens"), Doc("maximum length of an instance; its TF-IDF features are those of the whole")
    ] = 128
    instance_prompt: Annotated[
        str | None, Doc("text put before every instance; none: the checkpoint's own, if any")
    ] = None
    steps: Annotated[
        int, Ge(0), Unit("steps"), Doc("number of fine-tuning steps, divided equally among the levels")
    ] = 300
    batch: Annotated[int, Ge(1), Unit("instances"), Doc("instances per step, over all processes", _CODE)] = 32
    learning_rate: Annotated[float, Gt(0), Doc("highest learning rate of a level", _CODE)] = 5e-5
    warmup: Annotated[
        float, Interval(ge=0, le=1), Doc("share of a level's steps over which the learning rate rises", _CODE)
    ] = 0.1
    clip: Annotated[float | None, Gt(0), Doc("maximum Euclidean norm of the gradient; none: no limit", _CODE)] = 1.0
    branches: Annotated[
        int, Ge(2), Doc("children of a node of the first tree; powers of 2 keep clusters equal in size", _CODE)
    ] = 16
    leaf: Annotated[int, Ge(2), Unit("labels"), Doc("maximum size of a leaf of the first tree", _CODE)] = 16
    min_clusters: Annotated[
        int, Ge(1), Doc("minimum number of clusters of a level to train on, if there is another", _CODE)
    ] = 128
    max_clusters: Annotated[int, Ge(1), Doc("maximum number of clusters of a level to train on")] = 32_768
    guesses: Annotated[
        int,
        Ge(0),
        Unit("clusters"),
        Doc("clusters of the level above whose children are candidates for negatives", "PECOS"),
    ] = 20
    shortlist: Annotated[
        int, Ge(1), Unit("clusters"), Doc("number of clusters of an instance on each level", _CODE)
    ] = 500
    negative_cost: Annotated[
        float, Gt(0), Doc("weight of a wrong cluster; the right ones have 1 together", "PECOS")
    ] = 1.0
    vectorizer: Annotated[Literal["sklearn", "pecos"], VECTORIZER] = "sklearn"
    ngrams: Annotated[Literal[1, 2], NGRAMS] = 2
    max_df: Annotated[float, Interval(gt=0, le=1), MAX_DF] = 1.0
    analyzer: Annotated[Analyzer | None, ANALYZER] = None
    nr_splits: Annotated[int, Ge(2), Doc("children of a node of the ranker's tree", "PECOS")] = 16
    max_leaf_size: Annotated[int, Ge(2), Unit("labels"), Doc("maximum size of a leaf of the ranker's tree", _CODE)] = 16
    cost: Annotated[float, Gt(0), Doc("C of the SVMs", "PECOS")] = 1.0
    threshold: Annotated[float, Ge(0), Doc("weights of the ranker below this are dropped")] = 0.01
    beam_size: Annotated[int, Ge(1), Doc("nodes that a prediction follows on each level of the ranker's tree")] = 50
    precision: Annotated[
        Literal["auto", "bf16", "fp16", "fp32"],
        Doc(
            "precision of matrix products; auto: bfloat16 where the hardware has it, float16 on a GPU that "
            "only has that"
        ),
    ] = "auto"
    recomputed_layers: Annotated[
        bool, Doc("compute the activations of a layer twice to save memory (activation checkpointing)")
    ] = False

    def describe(self) -> str:
        """The backbone and the budget of its training."""
        return f"{self.backbone.rstrip('/').rpartition('/')[2]}, {self.steps} steps of {self.batch}"

    def inputs(self) -> Mapping[str, Path | str]:
        """Return the backbone: a folder, or a model of the hub with its commit."""
        from xmcbench.methods.encoder.backbone import model_input

        return model_input("backbone", self.backbone)

    def require(self) -> None:
        """Raise Unavailable without the weights, on this machine or the hub, and without what the analyzer needs.

        Raises UsageError for an unknown backbone, and for invalid variables of torchrun.
        """
        from xmcbench.methods.distributed.machines import Machines
        from xmcbench.methods.encoder.backbone import require_backbone

        require_analyzer(self.analyzer)
        require_backbone(self.backbone, (self.instance_prompt, ""))
        Machines.here()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Fine-tune the encoder level by level, then train the ranker.

        Raises Unavailable if the weights are not available, MethodError if a training diverges.
        """
        from xmcbench.methods.label_tree.ranker import TreeRanker

        assert pairs is not None, "supervision is required"
        self._features = AnalyzedFeatures.shared(
            self.artifacts, raw_X, raw_Y, self.vectorizer, self.ngrams, self.max_df, self.analyzer
        )
        self._tower = self._opened(raw_X, raw_Y)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        known = pairs[rows].astype(np.float32)
        X = None
        if len(rows):
            texts = raw_X.take(rows)
            X = self._features.transform(texts)
            tokens = self._tower.instance_tokens(texts, self.instance_length)
            vectors = self._finetuned(tokens, X, known, texts.digest)
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

    def _opened(self, raw_X: Texts, raw_Y: Texts) -> Tower:
        from xmcbench.methods.encoder.tower import Tower

        tower = Tower.open(
            self.backbone,
            (raw_X, raw_Y),
            self.artifacts,
            self.compute,
            head=self.head,
            projection=False,
            precision=self.precision,
            mlm_steps=self.mlm_steps,
            temperature=1.0,
            lengths=(self.instance_length, self.instance_length),
            prompts=(self.instance_prompt, ""),  # labels are not read
            seed=self.seed,
            recomputed_layers=self.recomputed_layers,
        )
        self.notes["backbone"] = tower.note()
        self.notes["computed"] = {"device": tower.device, "precision": tower.encoder.precision}
        return tower

    def _finetuned(self, tokens: TokenStore, X: csr_matrix, pairs: csr_matrix, texts: str) -> np.ndarray:
        """Fine-tune the encoder on all levels; returns the vectors of the instances, float32 [N, d]."""
        from xmcbench.methods.label_tree.tree import label_tree, levels

        vectors = self._embedded(tokens, shared=self.head != "paper")
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
            classifiers = self._train_on(level, tokens, vectors, guessed, until - done, identity)
            vectors = self._embedded(tokens)
            if level is not trained[-1] and self.guesses:
                guessed = self._guessed(vectors, classifiers)
            done = until
        return vectors

    def _train_on(
        self,
        level: Level,
        tokens: TokenStore,
        vectors: np.ndarray,
        guessed: TopK | None,
        steps: int,
        identity: dict[str, object],
    ) -> np.ndarray:
        """Fine-tune the encoder on a level; returns its classifiers, float32 [K, d + 1], the bias last."""
        from xmcbench.methods.encoder.training import TrainingPlan
        from xmcbench.methods.label_tree.shortlist import shortlist
        from xmcbench.methods.xr_transformer.bootstrap import bootstrapped
        from xmcbench.methods.xr_transformer.level import ClusterWeights, LevelTask, with_clusters

        tower = self._tower
        clusters = ClusterWeights(*bootstrapped(vectors, level, guessed, self.cost, self.seed))
        clusters.to(tower.device)
        listed, shares = shortlist(level, guessed, self.shortlist, self.seed)
        task = LevelTask(tokens, listed, shares, self.negative_cost, self.batch, self.seed)
        plan = TrainingPlan(steps, self.learning_rate, self.warmup, clip=self.clip, seed=self.seed)
        with with_clusters(tower.encoder, clusters):
            note = tower.train(task, plan, identity, self.batch, keep=False)
        self.notes[f"fine-tuning on {level.clusters} clusters"] = {**note, "shortlist": int(listed.shape[1])}
        trained: np.ndarray = clusters.with_bias()
        return trained

    def _guessed(self, vectors: np.ndarray, classifiers: np.ndarray) -> TopK:
        """The clusters of a level that score highest for each instance."""
        queries = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])
        count = min(self.guesses, len(classifiers))
        return TopK.joined(self._tower.nearest(queries, classifiers, count), count, len(queries))

    def _embedded(self, tokens: TokenStore, shared: bool = False) -> np.ndarray:
        with self._tower.embeddings(tokens, shared=shared) as vectors:
            copied: np.ndarray = np.array(vectors)
        if not np.isfinite(copied).all():
            raise MethodError("an embedding is NaN or infinite (a diverged training?)", "try a lower learning rate")
        return copied


def _beside(features: csr_matrix, vectors: np.ndarray) -> csr_matrix:
    """TF-IDF features and vectors, scaled to length 1, side by side: CSR float32 [n, features + d]."""
    from scipy.sparse import csr_matrix, hstack

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return hstack([features, csr_matrix(unit.astype(np.float32))], format="csr", dtype=np.float32)
