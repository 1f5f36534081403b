"""Inner products of chosen rows of two matrices, with gradients that cost what these pairs cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def chosen_products(
    every: torch.Tensor, left: torch.Tensor, right: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    """The products of these rows of ``left`` with these rows of ``right``: float32 [p], a pair each.

    every: left @ right.T without gradient, float32 [n, m]: all products at once are as cheap as a few, and the caller
    may need them. left: float32 [n, d]. right: float32 [m, d]. rows, columns: int64 [p].
    """
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
        of_left = _summed(right, columns, rows, gradient, len(left)) if wants_left else None
        of_right = _summed(left, rows, columns, gradient, len(right)) if wants_right else None
        return None, of_left, of_right, None, None


def _summed(
    vectors: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, count: int
) -> torch.Tensor:
    """The weighted sums of the chosen vectors that have the same target: float32 [count, d]."""
    targets, order = targets.sort(stable=True)
    starts = torch.searchsorted(targets, torch.arange(count, device=targets.device))
    summed: torch.Tensor = nn.functional.embedding_bag(
        chosen[order], vectors, starts, mode="sum", per_sample_weights=weights[order]
    )
    return summed
