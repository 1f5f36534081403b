"""The configuration files of a saved model, as typed values, and the facts of its card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xmcbench import UsageError, refuse_lfs_pointer

#: Modules of sentence-transformers itself; those of any other package are code that a model brings along.
_OWN_MODULES = "sentence_transformers."
#: Lies beside weights of which an adapter (LoRA and the like) is part; transformers loads it where peft is installed.
ADAPTER = "adapter_config.json"
#: Folders of backends, which a model may have beside its own weights.
BACKENDS = ("onnx", "openvino")
#: Suffixes of the files that a model is read from, without its copies in other formats.
_READ = (".json", ".txt", ".model", ".safetensors")
#: Keys of a transformer's configuration that say where it comes from, not what it is.
_ORIGIN = ("_name_or_path", "architectures", "transformers_version")
#: Facts of a card that a reader of a result wants to know: what it was trained on, when, and what it may be used for.
_FACTS = {
    "license": "license",
    "base_model": "base_model",
    "datasets": "training_sets",
    "language": "language",
    "date": "date",
}

T = TypeVar("T")


class Module(msgspec.Struct, frozen=True):
    """An entry of modules.json. type: the dotted name of its class. path: of its folder."""

    type: str
    path: str = ""
    kwargs: list[str] | dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.type.rpartition(".")[2]


class Requirement(msgspec.Struct, frozen=True):
    """A version of a package that a model needs. specifier: as in PEP 440."""

    specifier: str = ""
    reason: str = ""


class ModelConfig(msgspec.Struct, frozen=True):
    """config_sentence_transformers.json."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    similarity_fn_name: str | None = None
    truncate_dim: int | None = None
    model_type: str | None = None
    requirements: dict[str, str | Requirement] | None = None


class TransformerConfig(msgspec.Struct, frozen=True):
    """sentence_bert_config.json: how the transformer reads."""

    max_seq_length: int | None = None
    do_lower_case: bool | None = None
    transformer_task: str | None = None
    modality_config: dict[str, Any] | None = None
    module_output_name: str | None = None
    unpad_inputs: bool | None = None


class PoolingConfig(msgspec.Struct, frozen=True):
    """config.json of the module Pooling; older versions have a flag per mode."""

    pooling_mode: str | list[str] | None = None
    include_prompt: bool | None = None
    word_embedding_dimension: int | None = None
    embedding_dimension: int | None = None
    pooling_mode_cls_token: bool | None = None
    pooling_mode_max_tokens: bool | None = None
    pooling_mode_mean_tokens: bool | None = None
    pooling_mode_mean_sqrt_len_tokens: bool | None = None
    pooling_mode_weightedmean_tokens: bool | None = None
    pooling_mode_lasttoken: bool | None = None


class NormalizeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """config.json of a module Normalize."""

    module_input_name: str | None = None
    module_output_name: str | None = None


class DenseConfig(NormalizeConfig, frozen=True, kw_only=True):
    """config.json of a module Dense."""

    in_features: int
    out_features: int
    bias: bool | None = None
    activation_function: str | None = None
    use_residual: bool | None = None


class Architecture(msgspec.Struct, frozen=True):
    """config.json of a transformer, and the limit of tokenizer_config.json (1e30: none), as far as they are read."""

    architectures: list[str] | None = None
    model_type: str | None = None
    auto_map: dict[str, Any] | None = None
    is_causal: bool | None = None
    is_encoder_decoder: bool | None = None
    model_max_length: float | None = None


def refuse_pointers(folder: Path, backend: str = "torch") -> None:
    """Raise Unavailable if a file that a model is read from is a pointer of Git LFS. Files of other backends, and
    copies of the weights in other formats, may be pointers: they are not read."""
    others = {*BACKENDS} - {backend}
    for file in sorted(folder.rglob("*")):
        folders = {*file.relative_to(folder).parts[:-1]}
        if not others & folders and (file.suffix in _READ or backend in folders):
            refuse_lfs_pointer(file)


def read_config(file: Path, kind: type[T]) -> T | None:
    """Return a configuration file as a value of ``kind``, None if there is none. Raises UsageError if it is not one."""
    try:
        return msgspec.convert(json.loads(file.read_text(encoding="utf-8")), kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # msgspec's too
        raise UsageError(f"{file} cannot be read: {error}") from error


def read_modules(folder: Path) -> list[Module] | None:
    """Return the modules of a model of sentence-transformers in order; None for a plain transformer."""
    return read_config(folder / "modules.json", list[Module])


def transformer_folders(folder: Path) -> list[Path]:
    """Return the folders of a model's transformers, those inside a Router too."""
    modules = read_modules(folder)
    if modules is None:
        return [folder]
    found = [folder / module.path for module in modules if module.kind == "Transformer"]
    for file in sorted(folder.rglob("router_config.json")):
        found += [file.parent / name for name, kind in _routes(file).items() if kind.endswith(".Transformer")]
    return found


def unknown_keys(file: Path, kind: type[msgspec.Struct]) -> list[str]:
    """Return the keys of a configuration file that ``kind`` does not have, in order, except those that are off."""
    known = {"__version__", *kind.__struct_fields__}
    content = read_config(file, dict[str, Any]) or {}
    return sorted(key for key, value in content.items() if key not in known and value)


def architecture_sha256(transformer: Path) -> str:
    """SHA-256 (hex) of a transformer's configuration. The same weights under another one are another model."""
    content = read_config(transformer / "config.json", dict[str, Any]) or {}
    said = {key: value for key, value in content.items() if key not in _ORIGIN}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def refuse_own_code(folder: Path) -> None:
    """Raise UsageError if a model needs code that it brings along: a module's class, or its transformer's."""
    code = next((kind for kind in _module_types(folder) if not kind.startswith(_OWN_MODULES)), None)
    for file in sorted(folder.rglob("config.json")) if code is None else ():
        config = read_config(file, Architecture)
        if config and config.auto_map:
            code = f"auto_map in {file.relative_to(folder)}"
            break
    if code:
        raise UsageError(f"the model {folder} needs code of its own, {code}, and such code is never run")


def _module_types(folder: Path) -> Iterator[str]:
    """Yield the classes of a model's modules, those inside a Router too."""
    yield from (module.type for module in read_modules(folder) or [])
    for name in ("router_config.json", "config.json"):
        for file in sorted(folder.rglob(name)):
            yield from _routes(file).values()


def _routes(file: Path) -> dict[str, str]:
    """Return the class of each module of a Router, by its folder; empty if the file is of something else."""
    config = read_config(file, dict[str, Any])
    types = (config or {}).get("types")
    return {name: str(kind) for name, kind in types.items()} if isinstance(types, dict) else {}


def read_card(folder: Path) -> dict[str, Any]:
    """The facts that the card of a model declares, as JSON values; empty without a card."""
    from huggingface_hub import ModelCard

    try:
        data = ModelCard((folder / "README.md").read_text(encoding="utf-8"), ignore_metadata_errors=True).data.to_dict()
    except (OSError, ValueError):
        return {}
    return {name: _plain(data[key]) for key, name in _FACTS.items() if data.get(key)}


def _plain(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, list) else str(value)
