"""A training as an artifact: done once for its inputs, by one process or several."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from xmcbench import load_arrays, save_arrays
from xmcbench.methods.distributed.machines import Machines, alone
from xmcbench.methods.distributed.processes import run_in_processes
from xmcbench.methods.encoder import checkpoints
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.encoder.training import History, Task, TrainingPlan, train

if TYPE_CHECKING:
    from xmcbench import Artifacts


def trained(
    artifacts: Artifacts,
    encoder: Encoder,
    task: Task,
    plan: TrainingPlan,
    identity: Mapping[str, object],
    device: str,
    processes: int = 1,
    keep: bool = True,
) -> dict[str, object]:
    """Train the encoder, or load the weights of the same training. Returns its history as a note.

    identity: what the task depends on (JSON values); the encoder's weights, the plan, device, precision and the number
    of processes are added to it. processes: on this machine; on several machines, see ``machines``, all of theirs train
    together, and each machine keeps the weights. keep: whether the weights become an artifact; those that no other cell
    can start from only take room. A training that was killed goes on from its last checkpoint. Raises UsageError where
    the environment names several machines and makes no sense, MethodError where a training process fails.
    """
    machines = Machines.here()
    key = {
        "task": dict(identity),
        "plan": plan.identity(),
        "weights": encoder.digest(),
        "head": encoder.head,
        "form": encoder.form,
        "precision": encoder.precision,
        "memory": [encoder.cached_tokens, encoder.recomputed_layers],
        "device": device,
        "processes": machines.count * processes,
    }

    def build(folder: Path) -> None:
        state = artifacts.unfinished("training", key, trained, task)
        arguments = (encoder, task, plan, state, key, device, folder)
        if machines.count * processes == 1:
            with alone():
                _train_and_save(*arguments)
        else:
            hint = "out of memory? use a smaller batch or fewer processes"
            run_in_processes(_one_process, (machines, processes, arguments), processes, "training", hint)

    if keep:
        return _taken_over(encoder, artifacts.get("training", key, build, uses=(task,)))
    with artifacts.temporary() as folder:
        build(folder)
        return _taken_over(encoder, folder)


def _taken_over(encoder: Encoder, folder: Path) -> dict[str, object]:
    encoder.load_weights(load_arrays(folder / "weights.safetensors"))
    note: dict[str, object] = json.loads((folder / "history.json").read_text())
    return note


def _train_and_save(
    encoder: Encoder, task: Task, plan: TrainingPlan, state: Path, key: Mapping[str, object], device: str, folder: Path
) -> History:
    history = train(encoder, task, plan, state, key, device)
    encoder.cpu()
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        save_arrays(folder / "weights.safetensors", encoder.weights())
        (folder / "history.json").write_text(json.dumps(history.note()))
        checkpoints.remove(state)
    return history


def _one_process(local: int, machines: Machines, processes: int, arguments: tuple[Any, ...]) -> None:
    """Train with the processes of this machine and the others: gloo between CPUs, NCCL between GPUs."""
    machines.join(local, processes)
    try:
        _train_and_save(*arguments)
        # Rank 0 holds the meeting point of this training; nobody goes on to the next one before it is done.
        torch.distributed.barrier()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
