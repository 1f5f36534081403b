"""Classifiers of single labels over documents that are vectors already, trained on a shortlist of labels each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from xmcbench.methods.deepxml.training import shuffled, train

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def candidate_labels(
    pairs: csr_matrix, shortlist: np.ndarray, true: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What each document is trained on: labels int64 [N, true + s], -1 for none, and which are true, bool.

    pairs: binary CSR [N, L]. shortlist: int [N, s], -1 for none; known labels among them count as true ones. true:
    labels of a document that are kept, at most; of more, as many are drawn.
    """
    known = np.full((pairs.shape[0], true), -1, np.int64)
    for row in range(pairs.shape[0]):
        own = pairs.indices[pairs.indptr[row] : pairs.indptr[row + 1]]
        drawn = own if len(own) <= true else rng.choice(own, true, replace=False)
        known[row, : len(drawn)] = drawn
    rows = np.arange(pairs.shape[0])[:, None]
    listed = shortlist.astype(np.int64)
    own = np.zeros(listed.shape, bool)
    if pairs.nnz and listed.size:
        own = pairs[np.broadcast_to(rows, listed.shape), np.maximum(listed, 0)].toarray() > 0
    # Every true label stands among the known ones already, or was left out by the draw.
    false = np.where(own, -1, listed)
    both = np.concatenate([known, false], axis=1)
    return both, np.concatenate([known >= 0, np.zeros(false.shape, bool)], axis=1)


def shortlisted(
    documents: np.ndarray, labels: np.ndarray, pairs: csr_matrix, shortlist: int, seed: int, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """What each document is trained on: its known labels, and those of the ``shortlist`` labels nearest to it that have
    a known pair. The others keep the vector that they have.

    documents: float32 [N, d]; labels: float32 [L, d]; pairs: binary CSR [N, L]. Returns what ``candidate_labels`` does.
    """
    from xmcbench.methods.dense.search import top_k

    size = min(shortlist, len(labels))
    near = top_k(documents, labels, size, device=device, seed=seed).indices
    seen = np.bincount(pairs.indices, minlength=len(labels)) > 0
    near = np.where((near >= 0) & seen[np.maximum(near, 0)], near, -1)
    candidates, true = candidate_labels(pairs, near, size, np.random.default_rng(seed))
    width = max(1, int(true.sum(axis=1).max(initial=0)))
    kept = np.r_[:width, size : candidates.shape[1]]
    return candidates[:, kept], true[:, kept]


class Classifiers(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One vector a label, float32 [L, d], of length 1 where they are used."""

    def __init__(self, start: np.ndarray) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.from_numpy(start.copy()), freeze=False, sparse=True)

    def forward(self, documents: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cosine of each document [n, d] with its labels, int64 [n, m]: float32 [n, m]."""
        # Each label is looked up once, and multiplied with all documents of the batch: products are cheap, and a
        # gradient with a row for every occurrence is not.
        each, places = torch.unique(labels, return_inverse=True)
        vectors = nn.functional.normalize(self.table(each), dim=1)
        return (documents @ vectors.T).gather(1, places)

    def vectors(self) -> np.ndarray:
        """The vectors, of length 1."""
        vectors: np.ndarray = nn.functional.normalize(self.table.weight.detach(), dim=1).cpu().numpy()
        return vectors


def trained_classifiers(
    documents: np.ndarray,
    start: np.ndarray,
    candidates: np.ndarray,
    true: np.ndarray,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    *,
    batch: int,
    epochs: int,
    rate: float,
    dropout: float,
    seed: int,
    device: str,
) -> tuple[np.ndarray, list[list[float]]]:
    """Train the vectors of the labels from ``start``; returns them, float32 [L, d] of length 1, and the losses.

    documents: float32 [N, d] of length 1, which stay as they are. candidates, true: as ``candidate_labels`` gives
    them. loss: of the cosines and the truth of all candidates of a batch, their sum. dropout: share of the values of a
    document that a step leaves out; the others are scaled to length 1 again.
    """
    network = Classifiers(start).to(device)

    def loss_of(rows: np.ndarray) -> torch.Tensor:
        labels = torch.from_numpy(candidates[rows]).to(device)
        kept, positive = labels >= 0, torch.from_numpy(true[rows]).to(device)
        vectors = torch.from_numpy(documents[rows]).to(device)
        if dropout:
            vectors = nn.functional.normalize(nn.functional.dropout(vectors, dropout), dim=1)
        cosines = network(vectors, labels.clamp(min=0))
        return loss(cosines[kept], positive[kept]) / len(rows)

    curve = train([(network, rate)], shuffled(len(documents), batch, seed), loss_of, epochs=epochs, seed=seed)
    return network.vectors(), curve
