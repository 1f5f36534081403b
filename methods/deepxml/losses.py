"""The probabilistic contrastive loss of SiameseXML (Dahiya et al., ICML 2021, section 3)."""

from __future__ import annotations

import math

import torch


def contrastive_loss(
    cosines: torch.Tensor, positive: torch.Tensor, c: float, d: float, threshold: float = 0.0
) -> torch.Tensor:
    """Sum over the pairs of -log of the probability of what is true, where a pair is true with c exp(d (cos - 1)).

    cosines: float, positive: bool, both [...]. threshold: a false pair that is less likely than this costs nothing.
    The constant part of a true pair, -log c - d (cos - 1) at cos = 1, is kept, so that the loss is 0 or more.
    """
    likely = math.log(c) + d * (cosines - 1)
    false = -torch.log1p(-torch.exp(likely.clamp(max=-1e-6)))
    if threshold:
        false = torch.where(likely.exp() < threshold, torch.zeros_like(false), false)
    return torch.where(positive, -likely, false).sum()
