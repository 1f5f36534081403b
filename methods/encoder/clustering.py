"""Clusters of texts under an encoder in training, and batches of known pairs made of them (NGAME)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench import MethodError
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import (
    ContrastiveTask,
    Vectors,
    View,
    contrastive_loss,
    in_batch,
    triplet_loss,
)
from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

#: Iterations of 2-means at a node, at most.
_ITERATIONS = 10


def cluster_texts(
    encoder: Encoder,
    store: TokenStore,
    rows: np.ndarray,
    context: DistributedContext,
    cluster: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The cluster of each of the ``rows`` of a store under the encoder as it is now, int64 [n], on every process.
    cluster: finds the cluster of each vector, int64 [n], of float32 [n, d]. Every process embeds its share of the
    texts; the first one clusters them for all."""
    # Assigned longest first, so that all processes have about the same number of tokens.
    dealt = np.argsort(-store.lengths[rows], kind="stable")
    part = -(-len(rows) // context.processes)
    own = np.zeros((part, encoder.width), np.float32)
    mine = dealt[context.rank :: context.processes]
    encode(encoder, store, own[: len(mine)], rows[mine])
    if context.processes == 1:
        vectors = np.empty_like(own)
        vectors[dealt] = own
        return cluster(vectors)
    from accelerate.utils import broadcast

    gathered = context.accelerator.gather(torch.from_numpy(own).to(context.device))
    found = torch.zeros(len(rows), dtype=torch.int64, device=context.device)
    if context.rank == 0:
        parts = gathered.cpu().numpy().reshape(context.processes, part, encoder.width)
        vectors = np.empty((len(rows), encoder.width), np.float32)
        vectors[dealt] = parts.transpose(1, 0, 2).reshape(-1, encoder.width)[: len(rows)]
        found.copy_(torch.from_numpy(cluster(vectors)))
    return np.array(broadcast(found, from_process=0).cpu())


def cluster_evenly(vectors: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Clusters of at most ``size`` vectors, int64 [n]: halves by 2-means, equal to within one, until they fit. vectors:
    float32 [n, d]. Raises MethodError where a vector is not finite."""
    if not np.isfinite(vectors).all():
        raise MethodError("an embedding is NaN or infinite and cannot be clustered", "try a lower learning rate")
    rng = np.random.default_rng(seed)
    found = np.zeros(len(vectors), np.int64)
    waiting, leaves = [np.arange(len(vectors))], 0
    while waiting:
        rows = waiting.pop()
        if len(rows) <= size:
            found[rows] = leaves
            leaves += 1
        else:
            left = _half(vectors[rows], rng)
            waiting += [rows[~left], rows[left]]
    return found


def _half(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which vectors are in the first of two equal clusters: bool [n]."""
    centers = vectors[rng.choice(len(vectors), 2, replace=False)]
    left = np.zeros(len(vectors), bool)
    for _ in range(_ITERATIONS):
        order = np.argsort(-(vectors @ (centers[0] - centers[1])), kind="stable")
        now = np.zeros(len(vectors), bool)
        now[order[: -(-len(vectors) // 2)]] = True
        if np.array_equal(now, left):
            break
        left = now
        centers = np.stack([vectors[left].mean(axis=0), vectors[~left].mean(axis=0)])
    return left


@dataclass(frozen=True)
class Mining:
    """Clusters of at most ``size`` documents, made again in the first epoch ``refreshed`` steps later."""

    size: int
    refreshed: int


@dataclass(frozen=True)
class PairLoss:
    """triplet: ``triplet_loss``; contrastive: equation 2 of MACLR, over all labels, at ``temperature``."""

    kind: Literal["triplet", "contrastive"]
    margin: float
    hardest: int
    temperature: float = 1.0
    sharpness: float | None = None


class ClusteredPairs(ContrastiveTask):
    """Documents with one of their labels each; a batch takes whole clusters, except at its edges. An epoch has no
    document twice, and leaves out those that do not fill a batch. The negatives of a document are the other labels of
    the batch."""

    def __init__(
        self,
        instances: TokenStore,
        labels: TokenStore,
        pairs: csr_matrix,
        batch: int,
        mining: Mining | None,
        loss: PairLoss,
        seed: int,
    ) -> None:
        """pairs: binary CSR [N, L], every row with a pair; instances: N texts; labels: L texts; batch: documents of a
        step, over all processes. mining: None where each document is a cluster."""
        self._instances, self._labels, self._pairs = instances, labels, pairs.tocsr()
        self._epochs = Epochs(pairs.shape[0], batch, seed)  # the size of a batch alone: its order is that of clusters
        self._mining, self._loss, self._seed = mining, loss, seed
        self._clusters = np.zeros(pairs.shape[0], np.int64) if mining else np.arange(pairs.shape[0])
        self._ordered, self._order = -1, np.empty(0, np.int64)

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        """Cluster the documents again if it is time. The order of an epoch stays as it is."""
        if self._mining is None:
            return
        epoch, place = divmod(step, len(self._clusters) // self.batch)
        every = -(-self._mining.refreshed // (len(self._clusters) // self.batch))
        if place == 0 and epoch % every == 0:
            assert isinstance(network, Encoder)
            rows = np.arange(len(self._clusters))
            halved = partial(cluster_evenly, size=self._mining.size, seed=self._seed)
            self._clusters = cluster_texts(network, self._instances, rows, context, halved)
            self._ordered = -1

    def state(self) -> dict[str, np.ndarray]:
        """The cluster of each document, int64 [N]."""
        return {"clusters": self._clusters}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:
        self._clusters, self._ordered = state["clusters"], -1

    def draw(self, step: int) -> dict[str, View]:
        """The step's documents, and a label of each, drawn again at every visit."""
        steps = len(self._clusters) // self.batch
        epoch, place = divmod(step, steps)
        if epoch != self._ordered:
            rng = np.random.default_rng([self._seed, 21, epoch])
            shuffled = rng.permutation(len(self._clusters))
            turn = rng.permutation(int(self._clusters.max()) + 1)[self._clusters]
            self._ordered, self._order = epoch, shuffled[np.argsort(turn[shuffled], kind="stable")]
        rows = self._order[place * self.batch : (place + 1) * self.batch]
        starts, sizes = self._pairs.indptr[rows], np.diff(self._pairs.indptr)[rows]
        drawn = starts + np.random.default_rng([self._seed, 22, step]).integers(sizes)
        labels = self._pairs.indices[drawn].astype(np.int64)
        return {"anchor": View(self._instances, rows), "positive": View(self._labels, labels)}

    def compare(self, step: int, views: Mapping[str, View], vectors: Mapping[str, Vectors]) -> dict[str, torch.Tensor]:
        anchors, labels = vectors["anchor"], vectors["positive"]
        rows = views["anchor"].rows[anchors.first : anchors.first + len(anchors.local)]
        true = torch.from_numpy(self._pairs[rows][:, views["positive"].rows].toarray() > 0).to(anchors.local.device)
        if self._loss.kind == "contrastive":
            logits, own = in_batch(anchors.local, labels.gathered, anchors.first, self._loss.temperature)
            return {"contrastive": contrastive_loss(logits, own, true)}
        cosines, own = in_batch(anchors.local, labels.gathered, anchors.first, 1.0)
        loss = self._loss.margin, self._loss.hardest, self._loss.sharpness
        return {"triplet": triplet_loss(cosines, own, true, *loss)}
