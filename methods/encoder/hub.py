"""Models of the Hugging Face hub: from its cache, or downloaded, and never with code of their own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xmcbench import Unavailable, UsageError

#: What a model is made of, without pickles and without its copies in other formats.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors", "README.md"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*"]
#: Seconds that the hub has to answer whether it has a model.
_PATIENCE_S = 4.0
_UNREACHABLE = "the hub cannot be reached"
#: Ids that are valid for certain; the client judges the others.
_PLAIN = re.compile(r"[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*/[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*")


def from_hub(model: str, command: str) -> Path:
    """The folder of a model of the hub: from the cache where it is whole, else downloaded.

    Raises Unavailable, with the command that brings it, where neither is to be had.
    """
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    cached = _cached(model)
    if cached is not None:
        return cached
    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except (LocalEntryNotFoundError, ConnectionError, httpx.HTTPError) as error:
        raise _unavailable(model, _refusal(error), command) from error


def _cached(model: str) -> Path | None:
    """The folder of a model in the hub's cache; None where it is not there, or only a part of it."""
    from huggingface_hub import constants

    # The client takes a quarter of a second to import; most plans have a model that was never downloaded.
    if _PLAIN.fullmatch(model) and not Path(constants.HF_HUB_CACHE, f"models--{model.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=_WANTED, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise UsageError(f"{model!r} is not a valid model id: {error}") from error
    return folder if next(folder.rglob("*.safetensors"), None) else None


def require_on_hub(model: str, command: str) -> None:
    """Raise Unavailable, with the command that brings it, where a model is neither here nor on the hub."""
    if _cached(model) is None and (refusal := _asked(model)):
        raise _unavailable(model, refusal, command)


@cache
def _asked(model: str) -> str:
    """Why the hub does not give a model, or an empty string; asked once, however many cells a plan has."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return _UNREACHABLE
    import httpx
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(model, timeout=_PATIENCE_S)
    except (ConnectionError, httpx.HTTPError) as error:
        return _refusal(error)
    return ""


def _refusal(error: Exception) -> str:
    """What became of a question to the hub, in words: a user can do nothing with the numbers of a socket."""
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no model of this name, or shows it to its members only"
    return _UNREACHABLE


def _unavailable(model: str, refusal: str, command: str) -> Unavailable:
    return Unavailable(f"the weights of {model} are not on this machine and {refusal}", command)
