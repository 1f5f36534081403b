"""The training loop: Adam for dense parameters, its sparse variant for tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from xmcbench import MethodError


def train(
    network: nn.Module,
    batches: Callable[[int], list[np.ndarray]],
    loss_of: Callable[[np.ndarray], torch.Tensor],
    *,
    epochs: int,
    rate: float,
    seed: int,
) -> list[list[float]]:
    """Train a network in place; the rate falls in a straight line to a tenth. Returns [step, mean loss] per epoch.

    batches: the rows of each step of an epoch, by its number. loss_of: the loss of the rows of a step, their mean.
    Raises MethodError where a loss is NaN or infinite.
    """
    tables = [each for module in network.modules() if _is_table(module) for each in module.parameters(recurse=False)]
    held = {id(each) for each in tables}
    dense = [each for each in network.parameters() if id(each) not in held]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.SparseAdam(tables, rate)] if tables else []
    optimizers += [torch.optim.Adam(dense, rate)] if dense else []
    curve, step = [], 0
    network.train()
    for epoch in range(epochs):
        # A different dropout for each epoch, the same for each run.
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))
        now, total, steps = rate * (1 - 0.9 * epoch / epochs), 0.0, 0
        for rows in batches(epoch):
            loss = loss_of(rows)
            if not torch.isfinite(loss):
                raise MethodError(f"the loss of step {step + 1} is NaN or infinite", "try a lower learning rate")
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = now
                optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
            total, steps, step = total + float(loss.detach()), steps + 1, step + 1
        curve.append([step, round(total / max(1, steps), 5)])
    network.eval()
    return curve


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and module.sparse


def shuffled(rows: int, batch: int, seed: int) -> Callable[[int], list[np.ndarray]]:
    """All rows in a random order of each epoch, cut into batches of about equal size."""

    def batches(epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([seed, epoch]).permutation(rows)
        return np.array_split(order, max(1, -(-rows // batch)))

    return batches
