"""The two trainings: of the encoder on surrogate labels, and of the classifiers on labels near to the documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.deepxml.bags import ROWS, Bags
from xmcbench.methods.deepxml.classifiers import candidate_labels, fit_classifiers
from xmcbench.methods.deepxml.network import BagEncoder, shuffle, train


def train_encoder(
    encoder: BagEncoder,
    documents: Bags,
    surrogates: csr_matrix,
    rates: tuple[float, float],
    batch: int,
    epochs: int,
    seed: int,
    device: str,
) -> list[list[float]]:
    """Train the encoder in place to predict the surrogates, by a linear layer with binary cross-entropy. surrogates:
    binary CSR float32 [N, K]. rates: of the encoder and of the layer. Returns what ``train`` does, and raises what it
    raises."""
    head = nn.Linear(encoder.residual.out_features, surrogates.shape[1]).to(device)
    # Each cluster starts at its own frequency. From 0 the first steps would push all outputs down at once, and the
    # vectors of all documents with them.
    share = torch.from_numpy(np.asarray(surrogates.mean(axis=0), np.float32).ravel())
    head.bias.data.copy_(torch.logit(share, eps=1e-6))

    def loss_of(rows: np.ndarray) -> torch.Tensor:
        logits = head(encoder(documents.take(rows)))
        true = torch.from_numpy(surrogates[rows].toarray()).to(device)
        return nn.functional.binary_cross_entropy_with_logits(logits, true, reduction="sum") / len(rows)

    batches = shuffle(len(documents), batch, seed)
    # One cluster of all labels teaches nothing.
    epochs = epochs if surrogates.shape[1] > 1 else 0
    return train([(encoder, rates[0]), (head, rates[1])], batches, loss_of, epochs=epochs, seed=seed)


def train_classifiers(
    documents: np.ndarray,
    start: np.ndarray,
    pairs: csr_matrix,
    near: np.ndarray,
    *,
    random_labels: int,
    scale: float,
    seed: int,
    **options: Any,
) -> tuple[np.ndarray, list[list[float]]]:
    """Train one classifier a label from ``start``, by binary cross-entropy: float32 [L, d] of length 1, and the losses.
    documents: float32 [N, d] of length 1. pairs: binary CSR [N, L]. near: int32 [N, n], labels that each document is
    trained on beside its own, -1 for none. random_labels: as many are drawn for each document, with replacement.
    options: of ``fit_classifiers``."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(start), (len(near), random_labels)).astype(np.int32)
    for first in range(0, len(near), ROWS):
        block = drawn[first : first + ROWS]
        block[(block[:, :, None] == near[first : first + ROWS, None, :]).any(axis=2)] = -1
    candidates, true = candidate_labels(pairs, np.concatenate([near, drawn], axis=1), near.shape[1], rng)

    def loss(cosines: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(
            scale * (cosines - 0.5), positive.float(), reduction="sum"
        )

    return fit_classifiers(documents, start, candidates, true, loss, seed=seed, **options)
