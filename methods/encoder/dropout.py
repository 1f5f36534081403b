"""Dropout on the CPU. torch draws its masks on one thread, one number per element: a third of a training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


def cheap_dropout(device: str) -> AbstractContextManager[object]:
    """What dropout runs in: ``CheapDropout`` on the CPU, and nothing on other devices, where it only costs time."""
    return CheapDropout() if device == "cpu" else nullcontext()


class CheapDropout(TorchFunctionMode):  # type: ignore[misc] # torch counts as untyped
    """While active, dropout on the CPU takes 16 random bits per element, four elements from one number.

    Rates are rounded to multiples of 2^-16. Masks still depend on torch's random state alone. Dropout inside fused
    attention is not affected.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called by torch in place of every function of its API."""
        return (_dropout if func is nn.functional.dropout else func)(*args, **(kwargs or {}))


def _dropout(
    input: torch.Tensor,  # noqa: A002 - its name in torch
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> torch.Tensor:
    """``torch.nn.functional.dropout``, by its signature."""
    levels = round(p * 2**16)
    if not training or not 0 < levels < 2**16 or inplace:
        return nn.functional.dropout(input, p, training, inplace)
    numbers = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # type: ignore[call-overload]
    bits = numbers.view(torch.int16)[: input.numel()].view(input.shape)
    # 0 or 1 by arithmetic on integers, which is vectorized; comparing and converting booleans takes twice as long.
    dropped = levels - 2**15 - 1
    kept = bits.clamp_(dropped, dropped + 1).sub_(dropped)
    return input * kept.to(input.dtype).div_(1 - levels / 2**16)
