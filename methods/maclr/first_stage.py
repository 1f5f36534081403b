"""Stage I of MACLR (section 4.2): contexts are pulled toward titles of their cluster, and away from sampled labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import nn

from xmcbench import MethodError
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.cloze import ContextPairs
from xmcbench.methods.encoder.clustering import cluster_texts
from xmcbench.methods.encoder.contrastive import ContrastiveTask, Negatives, Vectors, View, contrastive_loss
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.maclr.pseudo_pairs import OwnTitles


@dataclass(frozen=True)
class ClusterSchedule:
    """The number of clusters at each step, and when they are recomputed. Steps are
    counted from 0: the paper's line 4, "if t mod T = 0" at the end of step t, holds before step t here. Clusters are in
    force in the first half of ``steps``. first: the paper's K0, 0 for no clusters. doubled_every: T_K. updated_every:
    T_update. A new number of clusters takes effect where clusters are next made, as in the paper."""

    steps: int
    first: int
    doubled_every: int
    updated_every: int

    def last_update(self, step: int) -> int | None:
        """The step before which the clusters of ``step`` are made; None where every pair is its own cluster."""
        if not self.first or 2 * step >= self.steps:
            return None
        return step - step % self.updated_every

    def clusters(self, step: int) -> int | None:
        """Return the number of clusters at a step; None where every pair is its own."""
        made_at = self.last_update(step)
        return None if made_at is None else int(self.first * 2 ** (made_at // self.doubled_every))

    def due(self, step: int) -> bool:
        """Return whether clusters are made before this step."""
        return self.last_update(step) == step

    def scales(self, documents: int) -> list[list[int | None]]:
        """[step, clusters from it on] of every change: what a reader of the record wants to know. None, too, where
        there are no more documents than clusters: each is its own."""
        found: list[list[int | None]] = []
        for step in (*range(0, (self.steps + 1) // 2, self.updated_every), (self.steps + 1) // 2):
            clusters = self.clusters(step)
            clusters = clusters if clusters is not None and clusters < documents else None
            if not found or found[-1][1] != clusters:
                found.append([step, clusters])
        return found


#: Lloyd's iterations, and the seed of the first centroids, of MACLR's code.
ITERATIONS, SEED = 20, 0
#: Vectors a centroid that FAISS fits to unless it is told otherwise; MACLR's code says 1,000.
FAISS_POINTS = 256


def k_means(
    vectors: np.ndarray, clusters: int, restarts: int, points: int = FAISS_POINTS, device: str = "cpu"
) -> np.ndarray:
    """Return the cluster of each vector, int64 [n]. Raises MethodError where a vector is not finite. vectors: float32
    [n, d]. restarts: of k-means, of which the tightest clustering wins. points: vectors a cluster that centroids are
    fitted to at most. device: ``cuda`` is used where FAISS has a GPU. With as many clusters, each vector is its own."""
    if clusters >= len(vectors):
        return np.arange(len(vectors))
    if not np.isfinite(vectors).all():
        raise MethodError("an embedding is NaN or infinite and cannot be clustered", "try a lower learning rate")
    import faiss

    fitted = faiss.Kmeans(
        vectors.shape[1],
        clusters,
        niter=ITERATIONS,
        nredo=restarts,
        seed=SEED,
        min_points_per_centroid=1,  # it would only warn below 39
        max_points_per_centroid=points,
        gpu=device == "cuda" and faiss.get_num_gpus() > 0,
    )
    fitted.train(np.ascontiguousarray(vectors, np.float32))
    return fitted.index.search(vectors, 1)[1][:, 0].astype(np.int64)  # type: ignore[no-any-return]


def clusters_of(
    encoder: Encoder,
    store: TokenStore,
    rows: np.ndarray,
    clusters: int,
    restarts: int,
    context: DistributedContext,
    points: int = FAISS_POINTS,
) -> np.ndarray:
    """The k-means cluster of each of the ``rows`` of a store under the encoder as it is now, int64 [n]."""
    if clusters >= len(rows):
        return np.arange(len(rows))
    device = context.device.type
    return cluster_texts(
        encoder, store, rows, context, lambda vectors: k_means(vectors, clusters, restarts, points, device)
    )


def label_loss(
    anchors: torch.Tensor,
    twins: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    ignored: torch.Tensor | None = None,
) -> torch.Tensor:
    """Equation 4 divided by the number of anchors: each anchor is to find its dropout twin among sampled labels.
    anchors, twins: [n, d], row by row; labels: [m, d], the negatives. ignored: bool [n, m], labels that are not
    negatives of an anchor and are left out of its denominator."""
    own = (anchors * twins).sum(1, keepdim=True)
    logits = torch.cat([own, anchors @ labels.T], 1) / temperature
    return contrastive_loss(logits, *_with_labels(own.new_ones(own.shape, dtype=torch.bool), ignored, labels))


def label_loss_by_cluster(
    anchors: torch.Tensor,
    twins: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    positive: torch.Tensor,
    ignored: torch.Tensor | None = None,
) -> torch.Tensor:
    """Label regularization in the authors' code: all twins of the anchor's cluster are positives. The denominator holds
    the twins of the whole batch and the labels. anchors: [n, d]; twins: [b, d]; positive: bool [n, b]. The rest: see
    ``label_loss``."""
    logits = anchors @ torch.cat([twins, labels]).T / temperature
    return contrastive_loss(logits, *_with_labels(positive, ignored, labels))


def _with_labels(
    positive: torch.Tensor, ignored: torch.Tensor | None, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The masks of the twins continued over the labels, none of which is a positive."""
    none = positive.new_zeros((len(positive), len(labels)))
    without = None if ignored is None else torch.cat([torch.zeros_like(positive), ignored], 1)
    return torch.cat([positive, none], 1), without


#: Which twins label regularization calls positive: the anchor's own (equation 4), or all of its cluster's (the code).
Twins = Literal["own", "cluster"]


@dataclass(frozen=True)
class Sources:
    """Texts of Stage I. pairs: contexts and titles of n documents; documents: N whole texts, which are clustered;
    labels: L texts; own_titles: of documents and labels."""

    pairs: ContextPairs
    documents: TokenStore
    labels: TokenStore
    own_titles: OwnTitles


@dataclass(frozen=True)
class Regularization:
    """Label regularization. sampled: the paper's M, labels of a step over all processes; 0 turns it off."""

    sampled: int
    temperature: float
    twins: Twins = "own"
    negatives: Negatives = "untrue"


class FirstStage(ContrastiveTask):
    """Equation 3 over clusters of (context, title) pairs, and equation 4 over sampled labels; their sum is minimized.
    Without both, this is ICT."""

    uneven: ClassVar = ("label",)

    def __init__(
        self,
        sources: Sources,
        used: np.ndarray,
        schedule: ClusterSchedule,
        regularization: Regularization,
        batch: int,
        temperature: float,
        seed: int,
        restarts: int = 1,
        first_clusters: np.ndarray | None = None,
        points: int = FAISS_POINTS,
    ) -> None:
        """used: numbers of the pairs that are trained on, int [m]; batch: pairs of a step, over all processes;
        restarts, points: see ``k_means``; first_clusters: those of step 0, int64 [m], where they are known."""
        self._sources, self._used, self._schedule = sources, used, schedule
        self._regularization, self._temperature = regularization, temperature
        self._restarts, self._points, self._seed = restarts, points, seed
        self._epochs = Epochs(len(used), batch, seed)
        self._first_clusters = first_clusters
        self._clusters = np.arange(len(used))

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        clusters = self._schedule.clusters(step)
        if clusters is None:
            self._clusters = np.arange(len(self._used))
        elif step == 0 and self._first_clusters is not None:
            self._clusters = self._first_clusters
        elif self._schedule.due(step):
            rows = self._sources.pairs.rows[self._used]
            assert isinstance(network, Encoder)
            self._clusters = clusters_of(
                network, self._sources.documents, rows, clusters, self._restarts, context, self._points
            )

    def state(self) -> dict[str, np.ndarray]:
        """The cluster of each pair, int64 [m]."""
        return {"clusters": self._clusters}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:
        self._clusters = state["clusters"]

    def draw(self, step: int) -> dict[str, View]:
        """Context and title of the step's pairs; with label regularization, the contexts once more and M labels."""
        rows = self._used[self._epochs(step)]
        sources = self._sources
        contexts = sources.pairs.visit(self._epochs.epoch(step))
        views = {"context": View(contexts, rows), "title": View(sources.pairs.titles, rows)}
        sampled = min(self._regularization.sampled, len(sources.labels))
        if sampled:
            labels = np.random.default_rng([self._seed, step, 2]).choice(len(sources.labels), sampled, replace=False)
            views |= {"twin": View(contexts, rows), "label": View(sources.labels, np.sort(labels))}
        return views

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        contexts, titles = vectors["context"], vectors["title"]
        device = contexts.local.device
        own = slice(contexts.first, contexts.first + len(contexts.local))
        clusters = self._clusters[self._epochs(step)]
        positive = torch.from_numpy(clusters[own, None] == clusters).to(device)
        losses = {"cluster": contrastive_loss(contexts.local @ titles.gathered.T / self._temperature, positive)}
        if "label" in views:
            twins, labels = vectors["twin"], vectors["label"].gathered
            documents = self._sources.pairs.rows[views["context"].rows[own]]
            same = None
            if self._regularization.negatives == "untrue":
                # A label that repeats the title is what equation 3 draws the context to.
                repeated = self._sources.own_titles.same(documents[:, None], views["label"].rows)
                same = torch.from_numpy(repeated).to(device)
            temperature = self._regularization.temperature
            losses["label"] = (
                label_loss(contexts.local, twins.local, labels, temperature, same)
                if self._regularization.twins == "own"
                else label_loss_by_cluster(contexts.local, twins.gathered, labels, temperature, positive, same)
            )
        return losses
