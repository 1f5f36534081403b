"""The training loop: Adam for dense parameters, its sparse variant for tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from xmcbench import MethodError, progress


def falling(epoch: int, epochs: int) -> float:
    """The share of a rate that an epoch has: 1 in the first one, less by 0.9 / epochs in each further one."""
    return 1 - 0.9 * epoch / epochs


def constant(epoch: int, epochs: int) -> float:
    """The whole rate in each epoch."""
    return 1.0


def train(
    parts: Sequence[tuple[nn.Module, float]],
    batches: Callable[[int], list[np.ndarray]],
    loss_of: Callable[[np.ndarray], torch.Tensor],
    *,
    epochs: int,
    seed: int,
    schedule: Callable[[int, int], float] = falling,
    after_epoch: Callable[[int], None] | None = None,
) -> list[list[float]]:
    """Train the parts of a network in place, each at its own rate. Returns [step, mean loss] per epoch.

    batches: the rows of each step of an epoch, by its number; one step at least, and as many in each epoch. loss_of:
    the loss of the rows of a step, their mean. schedule: the share of the rates that all steps of an epoch have, by its
    number and how many there are. after_epoch: called with the number of each epoch when it ends. Raises MethodError
    where a loss is NaN or infinite.
    """
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    for part, rate in parts:
        tables = [each for module in part.modules() if _is_table(module) for each in module.parameters(recurse=False)]
        held = {id(each) for each in tables}
        dense = [each for each in part.parameters() if id(each) not in held]
        optimizers += [(torch.optim.SparseAdam(tables, rate), rate)] if tables else []
        optimizers += [(torch.optim.Adam(dense, rate), rate)] if dense else []
        part.train()
    curve: list[list[float]] = []
    step, steps = 0, epochs * len(batches(0))
    for epoch in range(epochs):
        # A different dropout for each epoch, the same for each run.
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(epoch, epochs)
        losses = []
        for rows in batches(epoch):
            loss = loss_of(rows)
            if not torch.isfinite(loss):
                raise MethodError(f"the loss of step {step + 1} is NaN or infinite", "try a lower learning rate")
            for optimizer, _ in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer, _ in optimizers:
                optimizer.step()
            losses.append(float(loss.detach()))
            step += 1
            progress.steps(step, steps)
        curve.append([step, round(sum(losses) / len(losses), 5)])
        if after_epoch is not None:
            after_epoch(epoch)
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
