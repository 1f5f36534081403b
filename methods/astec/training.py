"""The trainings: of the encoder on clusters of labels that occur together, and of the classifiers on near labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.deepxml.bags import ROWS
from xmcbench.methods.deepxml.classifiers import candidate_labels, fit_classifiers
from xmcbench.methods.deepxml.network import BagEncoder, shuffle, train
from xmcbench.methods.kernels import kernel
from xmcbench.methods.label_tree.tree import cluster_evenly, of_length_1


def surrogate_pairs(
    documents: csr_matrix, pairs: csr_matrix, *, clusters: int, walk: int, restart: float, kept: int, seed: int
) -> csr_matrix:
    """The clusters that each document's labels lie in: binary CSR float32 [N, K]. pairs: binary CSR [N, L], every label
    with a pair. K is the largest power of two that is neither above ``clusters`` nor
    above half of the labels, and at least 1."""
    means = of_length_1((pairs.T @ documents).tocsr())
    smoothed = (count_visits(pairs, walk, restart, kept, seed) @ means).tocsr()
    most = max(1, min(clusters, pairs.shape[1] // 2))
    cluster = cluster_evenly(smoothed, 1 << (most.bit_length() - 1), seed)
    ones = np.ones(len(cluster), np.float32)
    shape = pairs.shape[1], int(cluster.max()) + 1
    found = (pairs @ csr_matrix((ones, (np.arange(len(cluster)), cluster)), shape=shape)).tocsr()
    found.data[:] = 1
    return found


def count_visits(pairs: csr_matrix, steps: int, restart: float, kept: int, seed: int) -> csr_matrix:
    """Frequencies by which a random walk over the pairs visits each label: CSR float32 [L, L], rows that sum to 1.
    pairs: binary CSR [N, L]. From a label the walk goes to one of its documents and on to one of that document's
    labels, or with probability ``restart`` back to its start. The ``kept`` most visited labels stay."""
    by_label = pairs.T.tocsr()
    labels = pairs.shape[1]
    columns, values = np.zeros((labels, kept), np.int32), np.zeros((labels, kept), np.float32)
    _walk(
        (pairs.indptr, pairs.indices),
        (by_label.indptr, by_label.indices),
        steps,
        restart,
        np.random.default_rng(seed).integers(0, 2**31, labels),
        columns,
        values,
    )
    values /= values.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(labels), kept)
    found = csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(labels, labels))
    found.eliminate_zeros()
    return found


@kernel()
def _walk(pairs, by_label, steps, restart, seeds, columns, values):  # type: ignore[no-untyped-def]
    starts, labels = pairs
    label_starts, documents = by_label
    kept = columns.shape[1]
    visits = np.zeros(len(seeds), np.int64)
    met = np.empty(steps, np.int64)
    for label in range(len(seeds)):
        np.random.seed(seeds[label])
        size, here = 0, label
        for _ in range(steps):
            first, last = label_starts[here], label_starts[here + 1]
            if np.random.random() < restart or first == last:
                here = label
            else:
                document = documents[np.random.randint(first, last)]
                here = labels[np.random.randint(starts[document], starts[document + 1])]
            if visits[here] == 0:
                met[size] = here
                size += 1
            visits[here] += 1
        known = np.sort(met[:size])
        order = np.argsort(-visits[known], kind="mergesort")[:kept]
        for place in range(len(order)):
            columns[label, place] = known[order[place]]
            values[label, place] = visits[known[order[place]]]
        visits[known] = 0


def train_encoder(
    encoder: BagEncoder,
    documents: csr_matrix,
    surrogates: csr_matrix,
    rates: tuple[float, float],
    batch: int,
    epochs: int,
    seed: int,
    device: str,
) -> list[list[float]]:
    """Train the encoder in place to predict the surrogates, by a linear layer with binary cross-entropy. surrogates:
    binary CSR float32 [N, K]. rates: of encoder and layer. Returns, and raises, what ``train`` does."""
    head = nn.Linear(encoder.residual.out_features, surrogates.shape[1]).to(device)
    # Each cluster starts at its own frequency. From 0 the first steps would push all outputs down at once, and the
    # vectors of all documents with them.
    share = torch.from_numpy(np.asarray(surrogates.mean(axis=0), np.float32).ravel())
    head.bias.data.copy_(torch.logit(share, eps=1e-6))

    def loss_of(rows: np.ndarray) -> torch.Tensor:
        logits = head(encoder(documents[rows]))
        true = torch.from_numpy(surrogates[rows].toarray()).to(device)
        return nn.functional.binary_cross_entropy_with_logits(logits, true, reduction="sum") / len(rows)

    batches = shuffle(documents.shape[0], batch, seed)
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
    trained on beside its own, -1 for none. random_labels: drawn per document. options: of ``fit_classifiers``."""
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
