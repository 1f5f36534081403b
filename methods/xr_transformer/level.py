"""The training on one level of the tree: which clusters hold the labels of an instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from xmcbench.methods.encoder.contrastive import embedded
from xmcbench.methods.encoder.epochs import Epochs
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import DistributedContext


class ClusterWeights(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """A linear classifier for each of K clusters."""

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
    """Mean over the instances of the squared hinge over their clusters, each with its cost.

    scores: float [n, m]. shares: float [n, m], of the instance's labels that are in the cluster: its cost; where 0, the
    instance is not to be in the cluster, and the cost is ``negative_cost``. kept: bool [n, m], what counts at all.
    """
    true = shares > 0
    hinge = torch.relu(1 - torch.where(true, scores, -scores)) ** 2
    costs = torch.where(true, shares, torch.full_like(shares, negative_cost)) * kept
    return (costs * hinge).sum(dim=1).mean()


class LevelTask:
    """Instances against the clusters of their shortlists.

    An epoch has no instance twice; those that do not fill a batch are left to another one.
    """

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

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:
        """Nothing is due between steps."""

    def state(self) -> dict[str, np.ndarray]:
        """No state."""
        return {}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:
        """Nothing to restore."""

    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Embed this process's instances of the step and classify them."""
        drawn = self._epochs(step)
        rows = drawn[context.local_slice(len(drawn))]
        (vectors,) = embedded(network, [(self._instances, rows)], context.device)
        clusters = torch.from_numpy(self._clusters[rows]).to(context.device)
        shares = torch.from_numpy(self._shares[rows]).to(context.device)
        whole = getattr(network, "module", network)
        scores = whole.clusters(vectors, clusters.clamp(min=0))
        return {"squared hinge": level_loss(scores, shares, clusters >= 0, self._negative_cost)}
