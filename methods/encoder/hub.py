"""Models of the Hugging Face hub: from its cache, or downloaded, and never with code of their own."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from xmcbench import Unavailable, UsageError
from xmcbench.methods.encoder.saved_config import read_modules

#: Files that a client fetches only with the whole repository, since nobody needs them to load a model.
_WHOLE = ("README.md", ".gitattributes")
#: What a model is made of, without pickles and without its copies in other formats.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors", *_WHOLE]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*"]
#: Seconds that the hub has to answer whether it has a model.
_PATIENCE_S = 4.0
_UNREACHABLE = "the hub cannot be reached"
#: Modules that cannot be built without their configuration; others, such as Normalize, may have none.
_CONFIGURED = ("Pooling", "Dense")
#: Ids that are valid for certain; the client judges the others.
_PLAIN = re.compile(r"[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*/[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*")


def from_hub(model: str, command: str) -> Path:
    """Return the folder of a model of the hub: from the cache if whole, else downloaded, or what is missing of it.
    Raises Unavailable, with the command that downloads it, where neither is possible."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    cached = _find_cached(model)
    if cached is not None:
        return cached
    try:
        folder = Path(snapshot_download(model, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except (LocalEntryNotFoundError, ConnectionError, httpx.HTTPError) as error:
        raise _unavailable(model, _refusal(error), command) from error
    # Where the hub does not answer, the client returns the folder as it is in the cache.
    if not _is_whole(folder) and (refusal := _ask(model).refusal):
        raise _unavailable(model, refusal, command)
    return folder


def _find_cached(model: str) -> Path | None:
    """The folder of a model in the hub's cache; None where it is not there, or only a part of it."""
    folder = _snapshot(model)
    return folder if folder and _is_whole(folder) and next(folder.rglob("*.safetensors"), None) else None


def _is_whole(folder: Path) -> bool:
    """Return whether a snapshot has every file of a model but its weights: it was downloaded whole, or each module has
    its configuration. Another program may have fetched the transformer alone, without pooling, prompts and length."""
    if any((folder / name).is_file() for name in _WHOLE):
        return True
    modules = read_modules(folder)
    return modules is not None and all(
        (folder / module.path / "config.json").is_file()
        for module in modules
        if module.path and module.kind in _CONFIGURED
    )


def _snapshot(model: str) -> Path | None:
    """The folder of a model in the hub's cache, whole or not; None where there is none."""
    from huggingface_hub import constants

    # The client takes a quarter of a second to import; most plans have a model that was never downloaded.
    if _PLAIN.fullmatch(model) and not Path(constants.HF_HUB_CACHE, f"models--{model.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED, ignore_patterns=_UNWANTED, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise UsageError(f"{model!r} is not a valid model id: {error}") from error


def require_on_hub(model: str, command: str) -> None:
    """Raise Unavailable, with the command that brings it, where a model is neither here nor on the hub."""
    if _find_cached(model) is None and (refusal := _ask(model).refusal):
        raise _unavailable(model, refusal, command)


def revision(model: str) -> str:
    """Return the commit of a model: of its copy in the cache, else of the hub; empty where neither is to be had."""
    if find_spec("huggingface_hub") is None:
        return ""
    cached = _find_cached(model)
    return cached.name if cached else _ask(model).revision


class _Asked(NamedTuple):
    """The answer of the hub: the commit of a model, or why it does not give the model."""

    revision: str
    refusal: str


@cache
def _ask(model: str) -> _Asked:
    """Ask the hub for a model, once, however many cells a plan has."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return _Asked("", _UNREACHABLE)
    import httpx
    from huggingface_hub import HfApi

    try:
        return _Asked(HfApi().model_info(model, timeout=_PATIENCE_S).sha or "", "")
    except (ConnectionError, httpx.HTTPError) as error:
        return _Asked("", _refusal(error))


def _refusal(error: Exception) -> str:
    """Refusal of the hub in words: a user can do nothing with the numbers of a socket."""
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no model of this name, or shows it to its members only"
    return _UNREACHABLE


def _unavailable(model: str, refusal: str, command: str) -> Unavailable:
    folder = _snapshot(model)
    if folder and not _is_whole(folder):
        return Unavailable(f"the hub's cache on this machine has only a part of {model}, and {refusal}", command)
    return Unavailable(f"the weights of {model} are not on this machine and {refusal}", command)
