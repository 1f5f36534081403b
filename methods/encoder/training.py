"""The training loop for all tasks, on one process or many.

Everything a step does is a function of (seed, step): its rows, its dropout, its learning rate. A killed training
continues from its last checkpoint and ends with the same weights, without stored states of random generators.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from xmcbench import MethodError, UsageError, progress
from xmcbench.methods.encoder import checkpoints
from xmcbench.methods.encoder.batches import Epochs
from xmcbench.methods.encoder.checkpoints import Checkpoint

if TYPE_CHECKING:
    from accelerate import Accelerator

#: Points of the loss curve.
_CURVE_POINTS = 50
#: How long a process waits for the others.
_PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of a training. The learning rate rises linearly over the first ``warmup`` share of the steps, then falls
    linearly to 0. ``clip``: maximum norm of the whole batch's gradient, if any. ``checkpoint_s``: seconds between
    checkpoints."""

    steps: int
    learning_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.0
    clip: float | None = 1.0
    seed: int = 0
    checkpoint_s: float = 120.0

    def identity(self) -> dict[str, object]:
        """The settings on which the resulting weights depend."""
        return {name: value for name, value in asdict(self).items() if name != "checkpoint_s"}

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        rising = self.warmup * self.steps
        if step < rising:
            return self.learning_rate * (step + 1) / (rising + 1)
        return self.learning_rate * (self.steps - step) / max(1.0, self.steps - rising)


@dataclass(frozen=True)
class DistributedContext:
    """Place of this process in a training on several processes. device: where it computes."""

    accelerator: Accelerator
    device: torch.device

    @classmethod
    def of(cls, device: str) -> DistributedContext:
        """The place of this process, which computes on a device, ``cpu``, ``cuda`` or ``mps``."""
        from accelerate import Accelerator
        from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

        # Encoders have no running statistics, and broadcasting their constants would cost a message each step. The
        # others wait while one process makes clusters: on GPUs torch lets them give up after ten minutes.
        options = [DistributedDataParallelKwargs(broadcast_buffers=False), InitProcessGroupKwargs(timeout=_PATIENCE)]
        # accelerate keeps its first device as long as the process lives. A process that nobody launched as one of
        # several may train on the CPU first and then on a GPU.
        launched = "LOCAL_RANK" in os.environ
        accelerator = Accelerator(cpu=launched and device == "cpu", kwargs_handlers=options)
        return cls(accelerator, accelerator.device if launched else torch.device(device))

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return int(self.accelerator.process_index)

    @property
    def processes(self) -> int:
        """Number of processes."""
        return int(self.accelerator.num_processes)

    @property
    def machines(self) -> int:
        """Number of machines."""
        return self.processes // int(os.environ.get("LOCAL_WORLD_SIZE", self.processes))

    def gather(self, vectors: torch.Tensor) -> torch.Tensor:
        """The rows of all processes, in order of rank; gradients flow back to their process. vectors: [n, d], the same
        shape on every process. Returns [processes x n, d]."""
        if self.processes == 1:
            return vectors
        from torch.distributed.nn.functional import all_gather

        return torch.cat(list(all_gather(vectors.contiguous())))  # type: ignore[no-untyped-call]

    def local_slice(self, rows: int) -> slice:
        """Return this process's part of ``rows`` rows, which the number of processes must divide."""
        part = rows // self.processes
        if part * self.processes != rows:
            raise UsageError(
                f"{self.processes} processes cannot share a step of {rows} rows",
                f"choose a batch that {self.processes} divides",
            )
        return slice(self.rank * part, (self.rank + 1) * part)


class LossScale:
    """The factor that keeps small gradients alive in float16; off in other precisions. A step whose gradient overflows
    is left out and the factor halved, as every mixed-precision training does."""

    _NAME = "loss scale"

    def __init__(self, on: bool, device: torch.device) -> None:
        self._scaler = torch.amp.GradScaler(device.type, enabled=on)  # type: ignore[attr-defined]

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Compute the gradients of the parameters, in their own scale."""
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Change the parameters, unless a gradient is infinite."""
        self._scaler.step(optimizer)
        self._scaler.update()

    def state(self) -> dict[str, np.ndarray]:
        """The factor, and for how many steps it has held; nothing where it is off."""
        held = self._scaler.state_dict()
        return {self._NAME: np.array([held["scale"], held["_growth_tracker"]])} if held else {}

    def resume(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Take over what ``state`` returned; the rest is the task's."""
        if self._NAME in state:
            scale, held = state[self._NAME]
            self._scaler.load_state_dict(
                {**self._scaler.state_dict(), "scale": float(scale), "_growth_tracker": int(held)}
            )
        return {name: value for name, value in state.items() if name != self._NAME}


class Task(ABC):
    """A task, which the loop asks for the losses of each step. Most tasks have no schedule and no state."""

    #: The rows of each step.
    _epochs: Epochs

    @property
    def batch(self) -> int:
        """Rows of a step, over all processes."""
        return self._epochs.batch

    def share(self, processes: int) -> None:
        """Fit the batch to the number of processes; see ``Epochs.share``."""
        self._epochs.share(processes)

    def prepare(self, step: int, network: nn.Module, context: DistributedContext) -> None:  # noqa: B027
        """Do scheduled work such as new clusters: called before each step, on every process."""

    @abstractmethod
    def losses(self, step: int, network: nn.Module, context: DistributedContext) -> Mapping[str, torch.Tensor]:
        """Return this process's share of the step's losses by name; their sum is minimized. A loss is the mean over the
        process's own anchors, so that the mean over all processes is that of the batch. ``network`` is called once."""

    def state(self) -> dict[str, np.ndarray]:
        """Return the state to keep between steps, equal on every process."""
        return {}

    def resume(self, state: Mapping[str, np.ndarray]) -> None:  # noqa: B027
        """Restore what ``state`` returned."""


@dataclass(frozen=True)
class History:
    """The history of a training. curve: [step, mean of each loss since the last point ...]; losses: their names."""

    steps: int
    losses: list[str] = field(default_factory=list)
    curve: list[list[float]] = field(default_factory=list)
    resumed_at: int = 0
    processes: int = 1

    def note(self) -> dict[str, object]:
        """For the record, as JSON values."""
        return asdict(self)


def train(
    network: nn.Module, task: Task, plan: TrainingPlan, folder: Path, identity: Mapping[str, object], device: str
) -> History:
    """Train the network in place by AdamW; resume from the checkpoint in ``folder`` if it is of the same training.
    identity: of this training (JSON values). The last checkpoint stays until the caller has stored the weights and
    removes it. Raises MethodError if a loss is not finite. All processes of torchrun or accelerate take part."""
    context = DistributedContext.of(device)
    accelerator = context.accelerator
    optimizer = torch.optim.AdamW(
        network.to(context.device).parameters(), plan.learning_rate, weight_decay=plan.weight_decay, fused=True
    )
    scaler = LossScale(getattr(network, "precision", "fp32") == "fp16", context.device)
    identity = {**identity, **plan.identity(), "processes": context.processes}
    if context.machines > 1:
        _sync_checkpoint(folder, identity, accelerator)
    found = checkpoints.restore(folder, network, optimizer, identity)
    start, curve, sums = (found.step, found.curve, np.array(found.sums)) if found else (0, [], np.zeros(0))
    if found:
        task.resume(scaler.resume(found.task))
    wrapped = accelerator.prepare_model(network) if context.processes > 1 else network
    network.train()
    names, saved_at = [], time.monotonic()
    every = max(1, plan.steps // _CURVE_POINTS)
    for step in range(start, plan.steps):
        if accelerator.is_main_process:
            progress.steps(step, plan.steps)
        task.prepare(step, network, context)
        network.train()
        losses = _step(wrapped, task, optimizer, plan, step, context, scaler)
        names, values = list(losses), np.array(list(losses.values()))
        sums = values + (sums if len(sums) else 0)
        if (step + 1) % every == 0 or step + 1 == plan.steps:
            since = step + 1 - int(curve[-1][0] if curve else 0)
            curve.append([step + 1, *(sums / max(1, since)).round(5).tolist()])
            sums = np.zeros(0)
        due = time.monotonic() - saved_at >= plan.checkpoint_s
        if due and accelerator.is_main_process and step + 1 < plan.steps:
            state = Checkpoint(step + 1, curve, sums.tolist(), {**task.state(), **scaler.state()})
            checkpoints.save(folder, state, network, optimizer, identity)
            saved_at = time.monotonic()
    if accelerator.is_main_process:
        progress.steps(plan.steps, plan.steps)
    network.eval()
    accelerator.wait_for_everyone()
    return History(plan.steps, names, curve, start, context.processes)


def _sync_checkpoint(folder: Path, identity: Mapping[str, object], accelerator: Accelerator) -> None:
    """Copy the checkpoint of the first machine, the only one that writes any, to all machines. Raises UsageError if the
    machines run different trainings, which would wait for each other forever."""
    from accelerate.utils import broadcast_object_list, gather_object

    if len(set(gather_object([json.dumps(identity, sort_keys=True)]))) > 1:
        raise UsageError(
            "the machines do not run the same training", "use the same data, weights and parameters on all machines"
        )
    held = [checkpoints.read(folder) if accelerator.is_main_process else None]
    broadcast_object_list(held)
    if accelerator.is_local_main_process and not accelerator.is_main_process:
        checkpoints.replace(folder, held[0])
    accelerator.wait_for_everyone()


def _step(
    network: nn.Module,
    task: Task,
    optimizer: torch.optim.Optimizer,
    plan: TrainingPlan,
    step: int,
    context: DistributedContext,
    scaler: LossScale,
) -> dict[str, float]:
    """Do one step; returns the losses of the whole batch. Raises MethodError if one is NaN or infinite."""
    # Different dropout in every process and step, the same in every run.
    torch.manual_seed(int(np.random.SeedSequence([plan.seed, step, context.rank]).generate_state(1)[0]))
    losses = task.losses(step, network, context)
    whole = {name: float(context.accelerator.reduce(loss.detach(), "mean")) for name, loss in losses.items()}
    if not all(np.isfinite(value) for value in whole.values()):
        named = ", ".join(f"{name} = {value}" for name, value in whole.items())
        raise MethodError(f"the loss of step {step + 1} is NaN or infinite ({named})", "try a lower learning rate")
    for group in optimizer.param_groups:
        group["lr"] = plan.rate(step)
    optimizer.zero_grad(set_to_none=True)
    scaler.backward(sum(losses.values(), torch.zeros((), device=context.device)), optimizer)
    if plan.clip is not None:
        torch.nn.utils.clip_grad_norm_(network.parameters(), plan.clip)
    scaler.step(optimizer)
    return whole
