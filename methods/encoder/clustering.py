"""Clusters of texts under an encoder that is being trained, the same on every process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from xmcbench import MethodError
from xmcbench.methods.encoder.encoding import encode
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

#: Iterations of 2-means at a node, at most.
_ITERATIONS = 10


def clustered(
    encoder: Encoder,
    store: TokenStore,
    rows: np.ndarray,
    context: DistributedContext,
    cluster: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The cluster of each of the ``rows`` of a store under the encoder as it is now, int64 [n], on every process.

    cluster: finds the cluster of each vector, int64 [n], of float32 [n, d]. Every process embeds its share of the
    texts; the first one clusters them for all.
    """
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


def balanced_clusters(vectors: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Clusters of at most ``size`` vectors, int64 [n]: halves by 2-means, equal to within one, until they fit.

    vectors: float32 [n, d]. Raises MethodError where a vector is not finite.
    """
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
    """Which vectors are in the first of two equal clusters: bool [n]."""
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
