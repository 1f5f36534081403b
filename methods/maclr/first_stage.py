"""Stage I: contexts are pulled toward the titles of their cluster and pushed away from sampled labels (MACLR section
4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import nn

from xmcbench.methods.encoder.cloze import ContextPairs
from xmcbench.methods.encoder.contrastive import Negatives, Vectors, View
from xmcbench.methods.encoder.epochs import Epochs
from xmcbench.methods.encoder.losses import contrastive_loss
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.maclr.clusters import FAISS_POINTS, clusters_of
from xmcbench.methods.maclr.own_titles import OwnTitles
from xmcbench.methods.maclr.regularization import clustered_label_loss, label_loss
from xmcbench.methods.maclr.schedule import ClusterSchedule
from xmcbench.methods.maclr.views import UnevenTask

#: Which twins label regularization calls positive: the anchor's own (equation 4), or all of its cluster's (the code).
Twins = Literal["own", "cluster"]


@dataclass(frozen=True)
class Sources:
    """What Stage I reads. pairs: contexts and titles of n documents; documents: N whole texts, which are clustered;
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


class FirstStage(UnevenTask):
    """Equation 3 over clusters of (context, title) pairs, and equation 4 over sampled labels; their sum is minimized.

    Without clusters and labels this is ICT.
    """

    even: ClassVar = ("context",)

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
        """used: the pairs that are trained on, int [m], numbers of contexts; batch: pairs of a step, over all
        processes; restarts: of k-means; first_clusters: those of step 0, int64 [m], where they are known; points: see
        ``k_means``."""
        self._sources, self._used, self._schedule = sources, used, schedule
        self._regularization, self._temperature = regularization, temperature
        self._restarts, self._points, self._seed = restarts, points, seed
        self._epochs = Epochs(len(used), batch, seed)
        self._first_clusters = first_clusters
        self._clusters = np.arange(len(used))

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        """Recompute the clusters of the documents if the schedule says so."""
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
        """Restore what ``state`` returned."""
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
        """The two losses of this process's contexts."""
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
                else clustered_label_loss(contexts.local, twins.gathered, labels, temperature, positive, same)
            )
        return losses
