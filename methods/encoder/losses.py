"""Contrastive losses of MACLR section 4, over the batch of all processes."""

from __future__ import annotations

import torch


def contrastive_loss(logits: torch.Tensor, positive: torch.Tensor, ignored: torch.Tensor | None = None) -> torch.Tensor:
    """Mean over the anchors of -1/|P(i)| sum over p in P(i) of log softmax_i(p): equation 3 of MACLR, divided by N.

    logits: [n, m], anchor against candidate. positive: bool [n, m], P(i), at least one a row. ignored: bool [n, m],
    candidates that are neither positive nor negative for this anchor and are left out of its denominator; positives
    always stay. With one positive a row this is equation 2, the in-batch contrastive loss.
    """
    if ignored is not None:
        logits = logits.masked_fill(ignored & ~positive, -torch.inf)
    shares = torch.log_softmax(logits, dim=1).masked_fill(~positive, 0.0)
    return -(shares.sum(1) / positive.sum(1)).mean()


def in_batch(
    anchors: torch.Tensor, candidates: torch.Tensor, first: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of this process's anchors against all candidates, and the mask of each anchor's positive.

    anchors: [n, d]; candidates: [m, d]; anchor i belongs to candidate ``first`` + i. Returns logits [n, m] (inner
    products over the temperature) and bool [n, m].
    """
    logits = anchors @ candidates.T / temperature
    own = torch.zeros_like(logits, dtype=torch.bool)
    own.diagonal(first).fill_(True)
    return logits, own


def triplet_loss(
    cosines: torch.Tensor, own: torch.Tensor, true: torch.Tensor, margin: float, hardest: int
) -> torch.Tensor:
    """Mean over anchors of the mean hinge ``margin`` - positive + negative over their hardest negatives.

    cosines: float [n, m]; own: bool [n, m], the positive of each anchor; true: bool [n, m], not negatives. hardest: how
    many negatives of an anchor count, those with the largest cosines. An anchor without any costs nothing.
    """
    positive = cosines[own][:, None]
    negative, _ = cosines.masked_fill(true | own, -torch.inf).topk(min(hardest, cosines.shape[1]), dim=1)
    there = negative > -torch.inf
    hinge = torch.relu(margin - positive + torch.where(there, negative, torch.zeros_like(negative))) * there
    return (hinge.sum(dim=1) / there.sum(dim=1).clamp(min=1)).mean()
