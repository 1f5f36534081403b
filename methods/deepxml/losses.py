"""The probabilistic contrastive loss of SiameseXML (Dahiya et al., ICML 2021, section 3), and cosines of some pairs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


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


def chosen_products(
    every: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, chosen: torch.Tensor
) -> torch.Tensor:
    """The products of each row with the columns that are chosen for it: float32 [n, c].

    every: all products of the two, float32 [n, m], without gradient. rows: float32 [n, d]. columns: float32 [m, d].
    chosen: int64 [n, c]. The gradient costs what the chosen products cost, not what all of them do.
    """
    products: torch.Tensor = _ChosenProducts.apply(every, rows, columns, chosen)  # type: ignore[no-untyped-call]
    return products


class _ChosenProducts(torch.autograd.Function):  # type: ignore[misc] # torch counts as untyped
    @staticmethod
    def forward(
        ctx: Any, every: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, columns, chosen)
        return every.gather(1, chosen)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor, None]:
        rows, columns, chosen = ctx.saved_tensors
        # Both gradients are products of a sparse matrix and a dense one, which is what a bag is.
        of_rows = nn.functional.embedding_bag(chosen, columns, mode="sum", per_sample_weights=gradient)
        # The same matrix, column by column.
        sorted_columns, order = chosen.flatten().sort(stable=True)
        starts = torch.searchsorted(sorted_columns, torch.arange(len(columns), device=chosen.device))
        of_columns = nn.functional.embedding_bag(
            order // chosen.shape[1], rows, starts, mode="sum", per_sample_weights=gradient.flatten()[order]
        )
        return None, of_rows, of_columns, None
