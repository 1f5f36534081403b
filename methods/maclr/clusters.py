"""Clusters of embeddings: k-means by FAISS, on vectors that all processes compute together."""

from __future__ import annotations

import numpy as np

from xmcbench import MethodError
from xmcbench.methods.encoder.clustering import clustered
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext

#: Lloyd's iterations, and the seed of the first centroids, of MACLR's code.
ITERATIONS, SEED = 20, 0
#: Vectors a centroid that FAISS fits to unless it is told otherwise; MACLR's code says 1,000.
FAISS_POINTS = 256


def k_means(
    vectors: np.ndarray, clusters: int, restarts: int, points: int = FAISS_POINTS, device: str = "cpu"
) -> np.ndarray:
    """The cluster of each vector, int64 [n].

    vectors: float32 [n, d]. restarts: how often k-means starts again; the tightest clustering wins. points: vectors a
    cluster that centroids are fitted to at most, drawn at random where there are more. device: ``cuda``
    is used where FAISS has a GPU. With as many clusters as vectors or more, each vector is a cluster of its own.
    Raises MethodError where a vector is not finite.
    """
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
    return clustered(
        encoder, store, rows, context, lambda vectors: k_means(vectors, clusters, restarts, points, device)
    )
