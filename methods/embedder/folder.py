"""The folder of an embedding model: its modules, its checksum, and whether it is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench import Unavailable, UsageError
from xmcbench.methods.encoder.saved_config import (
    ADAPTER,
    BACKENDS,
    Architecture,
    ModelConfig,
    read_config,
    refuse_own_code,
    refuse_pointers,
    transformer_folders,
)

if TYPE_CHECKING:
    from torch import nn

#: The card, which says nothing of vectors.
_CARD = "README.md"
#: Copies of the weights in other formats, which are never read where there are safetensors.
_COPIES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".ot")
#: Weights of OpenVINO, which are no pickle, whatever their suffix.
_OPENVINO = "openvino_"


def check_folder(name: str, backend: str = "torch") -> None:
    """Raise what ``check_model`` raises of a folder on this machine; a model of the hub is checked once it is there."""
    folder = Path(os.path.expanduser(name))
    if folder.is_dir():
        check_model(folder, backend)


def check_model(folder: Path, backend: str = "torch") -> None:
    """Raise UsageError if a folder is not a model, would run code of its own, or is pickled. Raises Unavailable if it
    needs model2vec or peft, which is missing, and if a file that the backend reads is a pointer of Git LFS."""
    refuse_pointers(folder, backend)
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise UsageError(f"{folder} is not an embedding model: it has neither modules.json nor config.json")
    refuse_own_code(folder)
    pickled = next(_pickles(folder), None)
    if pickled is not None:
        raise UsageError(
            f"{folder} has pickled weights, {pickled.relative_to(folder)}, which are not read",
            "save it again with sentence-transformers",
        )
    if is_model2vec(folder) and find_spec("model2vec") is None:
        raise Unavailable(f"{folder} is a model of model2vec, which is not installed", "pip install model2vec")
    if next(folder.rglob(ADAPTER), None) and find_spec("peft") is None:
        # transformers would leave it out without a word.
        raise Unavailable(f"{folder} has an adapter, {ADAPTER}, and peft is not installed", "pip install peft")


def is_model2vec(folder: Path) -> bool:
    """Return whether this is a model of model2vec that sentence-transformers does not load by itself."""
    config = read_config(folder / "config.json", Architecture)
    return not (folder / "modules.json").is_file() and config is not None and config.model_type == "model2vec"


def model_kind(folder: Path) -> str:
    """Return the class of sentence-transformers that a folder says its model is of; empty where it does not."""
    config = read_config(folder / "config_sentence_transformers.json", ModelConfig)
    return (config and config.model_type) or ""


def files_sha256(folder: Path, backend: str = "torch") -> str:
    """SHA-256 of all files of a model but its card, hidden files, and what the backend does not read. That is the
    folders of other backends, and copies of the weights in other formats beside safetensors."""
    others = {*BACKENDS} - {backend}
    whole = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if not file.is_file() or path.name == _CARD or any(part.startswith(".") for part in path.parts):
            continue
        if others & {*path.parts[:-1]} or _is_copy(file, backend):
            continue
        with file.open("rb") as stream:
            whole.update(f"{path.as_posix()} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _is_copy(file: Path, backend: str) -> bool:
    """Return whether a file has weights that lie beside it as safetensors, which are read instead."""
    own = backend == "openvino" and file.name.startswith(_OPENVINO)
    return file.suffix in _COPIES and not own and next(file.parent.glob("*.safetensors"), None) is not None


def _pickles(folder: Path) -> Iterator[Path]:
    """Yield pickled weights that would be loaded: ``pytorch_model*.bin`` without safetensors beside it, and any
    ``*.bin`` of a model that has no safetensors at all."""
    none_at_all = next(folder.rglob("*.safetensors"), None) is None
    for file in folder.rglob("*.bin" if none_at_all else "pytorch_model*.bin"):
        if not file.name.startswith(_OPENVINO) and next(file.parent.glob("*.safetensors"), None) is None:
            yield file


def refuse_missing_weights(folder: Path, model: nn.Module) -> None:
    """Raise UsageError if a transformer of the model in ``folder`` lacks weights of its architecture. transformers
    draws them at random and only warns, so that every run would rank differently."""
    from transformers import PreTrainedModel

    # In reverse, so that the outermost module of an architecture is what counts.
    loaded = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    classes = {part.config.model_type: type(part) for part in reversed(loaded)}
    for part in transformer_folders(folder):
        config = read_config(part / "config.json", Architecture)
        architecture = classes.get(config.model_type) if config else None
        if architecture is None:
            continue
        # On the device meta no weight is read, only names and shapes.
        _, report = architecture.from_pretrained(
            part, local_files_only=True, use_safetensors=True, device_map="meta", output_loading_info=True
        )
        # No vector depends on the pooler of an encoder.
        lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if lacking:
            raise UsageError(f"{part} lacks {len(lacking)} weights of {architecture.__name__}, {lacking[0]} first")
