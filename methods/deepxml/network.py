"""The encoder: a weighted sum of token vectors, ReLU, dropout, and a residual layer."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from xmcbench.methods.deepxml.bags import Bags

#: Texts that are embedded at a time.
_BATCH = 8192


class BagEncoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Bags in, float32 vectors of length 1 out (Dahiya et al., WSDM 2021, section 3).

    The gradient of the table of token vectors is sparse: a step costs what its tokens cost.
    """

    def __init__(self, vectors: np.ndarray, dropout: float) -> None:
        """vectors: float32 [V, d]."""
        super().__init__()
        table = torch.from_numpy(vectors.copy()) if len(vectors) else torch.zeros(1, vectors.shape[1])
        self.table = nn.Embedding.from_pretrained(table, freeze=False, sparse=True)
        self.dropout = nn.Dropout(dropout)
        self.residual = nn.Linear(vectors.shape[1], vectors.shape[1])
        # It starts from next to nothing: the token vectors mean something already.
        nn.init.normal_(self.residual.weight, std=0.01 / vectors.shape[1] ** 0.5)
        nn.init.zeros_(self.residual.bias)

    def forward(self, bags: Bags) -> torch.Tensor:
        """The vectors of the texts, float32 [n, d]; zero for a text without a known token."""
        device = self.residual.weight.device
        # Each token is looked up once: a gradient with a row for every occurrence would be many times as large.
        tokens, places = np.unique(bags.tokens, return_inverse=True)
        summed = nn.functional.embedding_bag(
            torch.from_numpy(places).to(device),
            self.table(torch.from_numpy(tokens).to(device)),
            torch.from_numpy(bags.starts[:-1]).to(device),
            mode="sum",
            per_sample_weights=torch.from_numpy(bags.weights).to(device),
        )
        known = torch.from_numpy(np.diff(bags.starts) > 0).to(device)
        hidden = self.dropout(torch.relu(summed))
        vectors = hidden + torch.relu(self.residual(hidden))
        return nn.functional.normalize(vectors, dim=1) * known[:, None]

    def embed(self, bags: Bags) -> np.ndarray:
        """The vectors without dropout and gradients: float32 [n, d]."""
        training = self.training
        self.eval()
        with torch.inference_mode():
            parts = [
                self(bags.take(np.arange(start, min(start + _BATCH, len(bags))))).cpu().numpy()
                for start in range(0, len(bags), _BATCH)
            ]
        self.train(training)
        return np.concatenate(parts) if parts else np.empty((0, self.residual.out_features), np.float32)
