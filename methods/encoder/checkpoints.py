"""The state of a training on disk: one safetensors file, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim import Optimizer

from xmcbench import XmcbenchError

_NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training: completed steps, loss curve, losses summed since its last point, state of the task."""

    step: int
    curve: list[list[float]]
    sums: list[float]
    task: dict[str, np.ndarray]


def save(
    folder: Path, checkpoint: Checkpoint, network: nn.Module, optimizer: Optimizer, identity: Mapping[str, object]
) -> None:
    """Write the checkpoint to a temporary file, then replace the last one. Raises XmcbenchError if that fails."""
    tensors = {f"network/{name}": tensor for name, tensor in _each_once(network.state_dict()).items()}
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for parameter, state in optimizer.state.items():
        tensors |= {f"optimizer/{key}/{names[id(parameter)]}": torch.as_tensor(tensor) for key, tensor in state.items()}
    tensors |= {f"task/{name}": torch.from_numpy(np.array(array)) for name, array in checkpoint.task.items()}
    facts = {"step": checkpoint.step, "curve": checkpoint.curve, "sums": checkpoint.sums, "identity": dict(identity)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    try:
        with _in_its_place(folder) as file:
            save_file(tensors, file, {"facts": text, "sha256": _sha256(text, tensors)})
    except (OSError, RuntimeError, SafetensorError) as error:
        raise XmcbenchError(
            f"cannot write the checkpoint of step {checkpoint.step} to {folder}: {error}",
            "free some space, then run again: training continues from the last checkpoint",
        ) from error


@contextmanager
def _in_its_place(folder: Path) -> Iterator[Path]:
    """A file to write, which becomes the checkpoint if the block succeeds."""
    temporary = folder / f".{_NAME}.{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, folder / _NAME)
    finally:
        temporary.unlink(missing_ok=True)


def restore(
    folder: Path, network: nn.Module, optimizer: Optimizer, identity: Mapping[str, object]
) -> Checkpoint | None:
    """Restore network and optimizer from the last checkpoint of the same training, if any. Raises
    XmcbenchError if it is damaged."""
    path = folder / _NAME
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as stream:
            text, noted = stream.metadata()["facts"], stream.metadata()["sha256"]
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a mapping
        if _sha256(text, tensors) != noted:
            raise ValueError("its content has changed")
        facts = json.loads(text)
    # safetensors and torch meet damaged bytes with many exceptions, and these are not documented.
    except Exception as error:
        raise XmcbenchError(
            f"cannot read the checkpoint {path}: {error}", "delete it: the training begins again"
        ) from error
    if facts["identity"] != json.loads(json.dumps(dict(identity))):
        return None
    network.load_state_dict(_below(tensors, "network/"), strict=False)  # of names that share a tensor there is one
    for name, parameter in network.named_parameters():
        state = {
            key.split("/", 2)[1]: tensor
            for key, tensor in tensors.items()
            if key.startswith("optimizer/") and key.split("/", 2)[2] == name
        }
        if state:
            optimizer.state[parameter] = {key: tensor.to(parameter.device) for key, tensor in state.items()}
    task = {name: tensor.numpy() for name, tensor in _below(tensors, "task/").items()}
    return Checkpoint(int(facts["step"]), facts["curve"], facts["sums"], task)


def read(folder: Path) -> bytes | None:
    """The bytes of the last checkpoint, or None."""
    path = folder / _NAME
    return path.read_bytes() if path.exists() else None


def replace(folder: Path, content: bytes | None) -> None:
    """Replace the checkpoint with what another machine's ``read`` returned."""
    if content is None:
        remove(folder)
        return
    with _in_its_place(folder) as file:
        file.write_bytes(content)


def remove(folder: Path) -> None:
    """Remove the checkpoint of a finished training."""
    (folder / _NAME).unlink(missing_ok=True)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _each_once(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without the names of a tensor that an earlier one has: a word predictor shares the table of word embeddings."""
    found = {tensor.data_ptr(): name for name, tensor in reversed(tensors.items())}
    return {name: tensor for name, tensor in tensors.items() if found[tensor.data_ptr()] == name}


def _sha256(facts: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 (hex) of the content of a checkpoint."""
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _below(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
