"""Pooling: how the hidden states of a text become one vector."""

from __future__ import annotations

from collections.abc import Callable

import torch


def _cls(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(~mask[:, :, None], -torch.inf).amax(1)


def _weighted(states: torch.Tensor, weights: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    return (states.float() * weights[:, :, None]).sum(1) / total[:, None]


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1))


def _mean_by_root(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1).sqrt())


def _mean_by_place(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return _weighted(states, weights, weights.sum(1))


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1]


#: How hidden states [n, longest, hidden], with their mask bool [n, longest], become vectors, by name.
POOLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _mean_by_place,
    "lasttoken": _last,
}
