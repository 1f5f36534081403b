"""Classifiers of single labels over documents that are vectors already, trained on a shortlist of labels each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from xmcbench.methods.deepxml.bags import ROWS
from xmcbench.methods.deepxml.products import chosen_products
from xmcbench.methods.deepxml.training import shuffled, train

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def candidate_labels(
    pairs: csr_matrix, shortlist: np.ndarray, true: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What each document is trained on: labels int32 [N, w + s], -1 for none, and which are true, bool.

    pairs: binary CSR [N, L]. shortlist: int [N, s], -1 for none; known labels among them count as true ones. true:
    labels of a document that are kept, at most; of more, as many are drawn. w: the most known labels that are kept.
    """
    lengths = np.diff(pairs.indptr)
    kept = np.minimum(lengths, true)
    width = int(kept.max(initial=0))
    labels = np.full((len(lengths), width + shortlist.shape[1]), -1, np.int32)
    positive = np.zeros(labels.shape, bool)
    positive[:, :width] = np.arange(width) < kept[:, None]
    for row in range(len(lengths)):
        own = pairs.indices[pairs.indptr[row] : pairs.indptr[row + 1]]
        labels[row, : kept[row]] = own if len(own) <= true else rng.choice(own, true, replace=False)
    for start in range(0, len(lengths) if shortlist.shape[1] else 0, ROWS):
        listed = shortlist[start : start + ROWS]
        rows = np.broadcast_to(np.arange(start, start + len(listed))[:, None], listed.shape)
        known = pairs[rows, np.maximum(listed, 0)].toarray() > 0
        # Every true label stands among the known ones already, or was left out by the draw.
        labels[start : start + ROWS, width:] = np.where(known, -1, listed)
    return labels, positive


def shortlisted(
    documents: np.ndarray,
    labels: np.ndarray,
    pairs: csr_matrix,
    shortlist: int,
    seed: int,
    device: str,
    notes: dict[str, object] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What each document is trained on: its known labels, and those of the ``shortlist`` labels nearest to it that have
    a known pair. The others keep the vector that they have.

    documents: float32 [N, d]; labels: float32 [L, d]; pairs: binary CSR [N, L]. Of more than ``shortlist`` known labels
    of a document, as many are drawn. notes: see ``top_k_batches``. Returns what ``candidate_labels`` does.
    """
    from xmcbench.methods.dense.search import top_k

    size = min(shortlist, len(labels))
    near = top_k(documents, labels, size, device=device, seed=seed, notes=notes).indices
    seen = np.bincount(pairs.indices, minlength=len(labels)) > 0
    near = np.where((near >= 0) & seen[np.maximum(near, 0)], near, -1)
    return candidate_labels(pairs, near, size, np.random.default_rng(seed))


class Classifiers(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One vector a label, float32 [L, d], of length 1 where they are used."""

    def __init__(self, start: np.ndarray) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.from_numpy(start.copy()), freeze=False, sparse=True)

    def forward(self, documents: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cosine of a document and a label, pair by pair: float32 [p].

        documents: float32 [n, d]. rows: which of them each pair has, int64 [p]. labels: int64 [p].
        """
        # Each label is looked up once: a gradient with a row for every occurrence would be many times as large.
        each, places = torch.unique(labels, return_inverse=True)
        vectors = nn.functional.normalize(self.table(each), dim=1)
        with torch.no_grad():
            every = documents @ vectors.T
        return chosen_products(every, documents, vectors, rows, places)

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
        # Padding is not looked up: a label whose gradient is 0 would still move, by its momentum.
        places, columns = np.nonzero(candidates[rows] >= 0)
        labels = torch.from_numpy(candidates[rows[places], columns].astype(np.int64)).to(device)
        positive = torch.from_numpy(true[rows[places], columns]).to(device)
        vectors = torch.from_numpy(documents[rows]).to(device)
        if dropout:
            vectors = nn.functional.normalize(nn.functional.dropout(vectors, dropout), dim=1)
        return loss(network(vectors, torch.from_numpy(places).to(device), labels), positive) / len(rows)

    curve = train([(network, rate)], shuffled(len(documents), batch, seed), loss_of, epochs=epochs, seed=seed)
    return network.vectors(), curve
