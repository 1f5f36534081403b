"""The training on one level of the tree: which clusters hold the labels of an instance, starting from linear SVMs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench import TopK
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.contrastive import embed_parts
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext, Task
from xmcbench.methods.label_tree.tree import Level


def fit_svms(
    vectors: np.ndarray, level: Level, guessed: TopK | None, cost: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights float32 [K, d] and bias float32 [K] of a linear SVM per cluster of a level. vectors:
    float32 [N, d]. A cluster is trained on the instances of the clusters beside it, and on those that were ``guessed``
    to be in the one above; None on the first level."""

    from xmcbench.methods.label_tree.linear import linear_svms

    svms = linear_svms(
        csr_matrix(vectors),
        level.labels.tocsc(),
        level.children.T.tocsc(),
        _instances(level, guessed).tocsc(),
        cost=cost,
        threshold=0.0,
        seed=seed,
    ).toarray()
    return np.ascontiguousarray(svms[:, :-1]), np.ascontiguousarray(svms[:, -1])


def _instances(level: Level, guessed: TopK | None) -> csr_matrix:
    """Instances that train the clusters below each cluster of the level above: binary CSR [N, clusters above]."""
    found = level.labels @ level.children.T
    if guessed is not None:
        found = found + guessed.pairs(level.children.shape[0])
    found = found.tocsr().astype(np.float32)
    found.data[:] = 1
    return found


class ClusterWeights(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """The linear classifiers of K clusters."""

    def __init__(self, weights: np.ndarray, bias: np.ndarray) -> None:
        """weights: float32 [K, d]; bias: float32 [K]."""
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(weights.copy()))
        self.bias = nn.Parameter(torch.from_numpy(bias.copy()))

    def forward(self, vectors: torch.Tensor, clusters: torch.Tensor) -> torch.Tensor:
        """Scores of each vector [n, d] for its clusters, int64 [n, m]: float32 [n, m]."""
        scores: torch.Tensor = torch.einsum("nd,nmd->nm", vectors, self.weight[clusters]) + self.bias[clusters]
        return scores

    def with_bias(self) -> np.ndarray:
        """Weights and bias of each cluster, float32 [K, d + 1]."""
        both: np.ndarray = torch.cat([self.weight, self.bias[:, None]], dim=1).detach().cpu().numpy()
        return both


@contextmanager
def with_clusters(encoder: Encoder, clusters: ClusterWeights) -> Iterator[None]:
    """The encoder with these classifiers among its weights, so that both are trained, kept and restored together."""
    encoder.add_module("clusters", clusters)
    try:
        yield
    finally:
        del encoder.clusters


def level_loss(scores: torch.Tensor, shares: torch.Tensor, kept: torch.Tensor, negative_cost: float) -> torch.Tensor:
    """Mean over the instances of the squared hinge over their clusters, each with its cost. scores: float [n, m].
    shares: float [n, m], of the instance's labels that are in the cluster: its cost; where 0, the instance is not to be
    in the cluster, and the cost is ``negative_cost``. kept: bool [n, m], what counts at all."""
    true = shares > 0
    hinge = torch.relu(1 - torch.where(true, scores, -scores)) ** 2
    costs = torch.where(true, shares, torch.full_like(shares, negative_cost)) * kept
    return (costs * hinge).sum(dim=1).mean()


class LevelTask(Task):
    """Instances against the clusters of their shortlists. An epoch has no instance twice, and leaves out those that do
    not fill a batch."""

    def __init__(
        self,
        instances: TokenStore,
        clusters: np.ndarray,
        shares: np.ndarray,
        negative_cost: float,
        batch: int,
        seed: int,
    ) -> None:
        """instances: N texts; clusters, shares: as ``shortlist`` gives them; batch: instances of a step, over all
        processes."""
        self._instances, self._clusters, self._shares = instances, clusters, shares
        self._negative_cost = negative_cost
        self._epochs = Epochs(len(instances), batch, seed)

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        drawn = self._epochs(step)
        rows = drawn[context.local_slice(len(drawn))]
        (vectors,) = embed_parts(network, [(self._instances, rows)], context.device)
        clusters = torch.from_numpy(self._clusters[rows]).to(context.device)
        shares = torch.from_numpy(self._shares[rows]).to(context.device)
        whole = getattr(network, "module", network)
        scores = whole.clusters(vectors, clusters.clamp(min=0))
        return {"squared hinge": level_loss(scores, shares, clusters >= 0, self._negative_cost)}
