"""Pooling: how the hidden states of a text become one vector.

A text without a token has the zero vector, except by its first state, ``cls``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def _cls(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _unless_empty(states.masked_fill(~mask[:, :, None], -torch.inf).amax(1), mask)


def _weighted(states: torch.Tensor, weights: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    # Nothing is divided by less than 1, the total of a text of one token.
    return (states.float() * weights[:, :, None]).sum(1) / total.clamp(min=1)[:, None]


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1))


def _mean_by_root(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1).sqrt())


def _mean_by_place(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return _weighted(states, weights, weights.sum(1))


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    last = (mask.sum(1) - 1).clamp(min=0)
    return _unless_empty(states[torch.arange(len(mask), device=mask.device), last], mask)


def _unless_empty(pooled: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return pooled.masked_fill(~mask.any(1)[:, None], 0)


#: How hidden states [n, longest, hidden], with their mask bool [n, longest], become vectors, by name.
POOLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _mean_by_place,
    "lasttoken": _last,
}
