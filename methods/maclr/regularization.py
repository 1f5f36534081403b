"""Label regularization: the loss of MACLR's equation 4, as the paper has it and as its authors' code does."""

from __future__ import annotations

import torch

from xmcbench.methods.encoder.losses import contrastive_loss


def label_loss(
    anchors: torch.Tensor,
    twins: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    ignored: torch.Tensor | None = None,
) -> torch.Tensor:
    """Equation 4 divided by the number of anchors: each anchor is to find its dropout twin among sampled labels.

    anchors, twins: [n, d], row by row; labels: [m, d], the negatives. ignored: bool [n, m], labels that are not
    negatives of an anchor and are left out of its denominator.
    """
    own = (anchors * twins).sum(1, keepdim=True)
    logits = torch.cat([own, anchors @ labels.T], 1) / temperature
    return contrastive_loss(logits, *_with_labels(own.new_ones(own.shape, dtype=torch.bool), ignored, labels))


def clustered_label_loss(
    anchors: torch.Tensor,
    twins: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    positive: torch.Tensor,
    ignored: torch.Tensor | None = None,
) -> torch.Tensor:
    """Label regularization in the authors' code: all twins of the anchor's cluster are positives.

    The denominator holds the twins of the whole batch and the labels. anchors: [n, d]; twins: [b, d]; positive: bool
    [n, b]; labels and ignored as for ``label_loss``.
    """
    logits = anchors @ torch.cat([twins, labels]).T / temperature
    return contrastive_loss(logits, *_with_labels(positive, ignored, labels))


def _with_labels(
    positive: torch.Tensor, ignored: torch.Tensor | None, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The masks of the twins continued over the labels, none of which is a positive."""
    none = positive.new_zeros((len(positive), len(labels)))
    without = None if ignored is None else torch.cat([torch.zeros_like(positive), ignored], 1)
    return torch.cat([positive, none], 1), without
