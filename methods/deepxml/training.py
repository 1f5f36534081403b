"""The training loop: Adam for dense parameters, its sparse variant for tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from xmcbench import MethodError


def train(
    parts: Sequence[tuple[nn.Module, float]],
    batches: Callable[[int], list[np.ndarray]],
    loss_of: Callable[[np.ndarray], torch.Tensor],
    *,
    epochs: int,
    seed: int,
) -> list[list[float]]:
    """Train the parts of a network in place, each at its own rate. Returns [step, mean loss] per epoch.

    Rates fall in a straight line to a tenth. batches: the rows of each step of an epoch, by its number. loss_of: the
    loss of the rows of a step, their mean. Raises MethodError where a loss is NaN or infinite.
    """
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    for part, rate in parts:
        tables = [each for module in part.modules() if _is_table(module) for each in module.parameters(recurse=False)]
        held = {id(each) for each in tables}
        dense = [each for each in part.parameters() if id(each) not in held]
        optimizers += [(torch.optim.SparseAdam(tables, rate), rate)] if tables else []
        optimizers += [(torch.optim.Adam(dense, rate), rate)] if dense else []
        part.train()
    curve, step = [], 0
    for epoch in range(epochs):
        # A different dropout for each epoch, the same for each run.
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))
        total, steps = 0.0, 0
        for rows in batches(epoch):
            loss = loss_of(rows)
            if not torch.isfinite(loss):
                raise MethodError(f"the loss of step {step + 1} is NaN or infinite", "try a lower learning rate")
            for optimizer, rate in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * (1 - 0.9 * epoch / epochs)
                optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer, _ in optimizers:
                optimizer.step()
            total, steps, step = total + float(loss.detach()), steps + 1, step + 1
        curve.append([step, round(total / max(1, steps), 5)])
    for part, _ in parts:
        part.eval()
    return curve


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and module.sparse


def shuffled(rows: int, batch: int, seed: int) -> Callable[[int], list[np.ndarray]]:
    """All rows in a random order of each epoch, cut into batches of about equal size."""

    def batches(epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([seed, epoch]).permutation(rows)
        return np.array_split(order, max(1, -(-rows // batch)))

    return batches
