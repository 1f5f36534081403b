"""Classifiers of single labels over documents that are vectors already, trained on a shortlist of labels each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn

from xmcbench.methods.deepxml.bags import ROWS
from xmcbench.methods.deepxml.network import shuffle, train


def select_products(
    every: torch.Tensor, left: torch.Tensor, right: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    """Return products of these rows of ``left`` with these rows of ``right``, pair by pair: float32 [p]. every: left @
    right.T without gradient, [n, m], which is as cheap as a few products. rows, columns: int64 [p]."""
    products: torch.Tensor = _ChosenProducts.apply(every, left, right, rows, columns)  # type: ignore[no-untyped-call]
    return products


class _ChosenProducts(torch.autograd.Function):  # type: ignore[misc] # torch counts as untyped
    """Products with a gradient of their own: that of all products would be a dense matrix, zero except at the pairs."""

    @staticmethod
    def forward(ctx: Any, every: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return every[inputs[2], inputs[3]]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        left, right, rows, columns = ctx.saved_tensors
        _, wants_left, wants_right, *_ = ctx.needs_input_grad
        of_left = _sum(right, columns, rows, gradient, len(left)) if wants_left else None
        of_right = _sum(left, rows, columns, gradient, len(right)) if wants_right else None
        return None, of_left, of_right, None, None


def _sum(
    vectors: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, count: int
) -> torch.Tensor:
    """The weighted sums of the chosen vectors that have the same target: float32 [count, d]."""
    targets, order = targets.sort(stable=True)
    starts = torch.searchsorted(targets, torch.arange(count, device=targets.device))
    summed: torch.Tensor = nn.functional.embedding_bag(
        chosen[order], vectors, starts, mode="sum", per_sample_weights=weights[order]
    )
    return summed


def contrastive_loss(
    cosines: torch.Tensor, positive: torch.Tensor, c: float, d: float, threshold: float = 0.0
) -> torch.Tensor:
    """Sum over the pairs of -log of the probability of what is true, where a pair is true with c exp(d (cos - 1)).
    cosines: float, positive: bool, both [...]. threshold: a false pair that is less likely than this costs nothing. The
    constant part of a true pair, -log c - d (cos - 1) at cos = 1, is kept, so that the loss is 0 or more."""
    likely = math.log(c) + d * (cosines - 1)
    false = -torch.log1p(-torch.exp(likely.clamp(max=-1e-6)))
    if threshold:
        false = torch.where(likely.exp() < threshold, torch.zeros_like(false), false)
    return torch.where(positive, -likely, false).sum()


def candidate_labels(
    pairs: csr_matrix, shortlist: np.ndarray, true: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Labels that each document is trained on, int32 [N, w + s], -1 for none, and whether they are true, bool. pairs:
    binary CSR [N, L]. shortlist: int [N, s], -1 for none; its known labels count as true. true: labels of a document
    that are kept at most, drawn from more. w: the most known labels that are kept."""
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


def list_candidates(
    documents: np.ndarray,
    labels: np.ndarray,
    pairs: csr_matrix,
    shortlist: int,
    seed: int,
    device: str,
    notes: dict[str, object] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of each document: its known labels, and of the ``shortlist`` nearest labels those that have a known
    pair. documents: float32 [N, d]; labels: float32 [L, d]; pairs: binary CSR [N, L]. Returns what ``candidate_labels``
    does."""
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
        """Cosine of a document and a label, pair by pair: float32 [p]. documents: float32 [n, d]. rows: which of them
        each pair has, int64 [p]. labels: int64 [p]."""
        # Each label is looked up once: a gradient with a row for every occurrence would be many times as large.
        distinct, places = torch.unique(labels, return_inverse=True)
        vectors = nn.functional.normalize(self.table(distinct), dim=1)
        with torch.no_grad():
            every = documents @ vectors.T
        return select_products(every, documents, vectors, rows, places)

    def vectors(self) -> np.ndarray:
        """The vectors, of length 1."""
        vectors: np.ndarray = nn.functional.normalize(self.table.weight.detach(), dim=1).cpu().numpy()
        return vectors


def fit_classifiers(
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
    documents: float32 [N, d] of length 1, frozen. candidates, true: of ``candidate_labels``. loss: sum over the cosines
    and truths of a batch's candidates. dropout: of a document's values, before it is scaled to length 1."""
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

    curve = train([(network, rate)], shuffle(len(documents), batch, seed), loss_of, epochs=epochs, seed=seed)
    return network.vectors(), curve


def train_on_nearest(
    documents: np.ndarray,
    labels: np.ndarray,
    pairs: csr_matrix,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    shortlist: int,
    *,
    seed: int,
    device: str,
    **options: Any,
) -> tuple[np.ndarray, dict[str, object]]:
    """Train the classifiers of labels from their vectors, on the ``shortlist`` labels nearest to each document.
    options: of ``fit_classifiers``. Returns the vectors and a note."""
    note: dict[str, object] = {"losses": ["contrastive"]}
    candidates, true = list_candidates(documents, labels, pairs, shortlist, seed, device, note)
    trained, note["curve"] = fit_classifiers(
        documents, labels, candidates, true, loss, batch=256, seed=seed, device=device, **options
    )
    return trained, note
