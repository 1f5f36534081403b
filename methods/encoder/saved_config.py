"""The configuration files of a saved model, as typed values."""

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
#: Suffixes of what a model is read from, without its copies in other formats.
_READ = (".json", ".txt", ".model", ".safetensors")
#: Keys of a transformer's configuration that say where it comes from, not what it is.
_ORIGIN = ("_name_or_path", "architectures", "transformers_version")

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
    """config.json of the module Pooling; older versions have a flag for each mode."""

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


class DenseConfig(msgspec.Struct, frozen=True):
    """config.json of a module Dense."""

    in_features: int
    out_features: int
    bias: bool | None = None
    activation_function: str | None = None
    module_input_name: str | None = None
    module_output_name: str | None = None
    use_residual: bool | None = None


class NormalizeConfig(msgspec.Struct, frozen=True):
    """config.json of a module Normalize."""

    module_input_name: str | None = None
    module_output_name: str | None = None


class _Routes(msgspec.Struct, frozen=True):
    """The file of a Router. types: the dotted name of a class by folder."""

    types: Any = None


class Architecture(msgspec.Struct, frozen=True):
    """config.json of a transformer, as far as it is looked at here."""

    architectures: list[str] | None = None
    model_type: str | None = None
    auto_map: dict[str, Any] | None = None
    is_causal: bool | None = None
    is_encoder_decoder: bool | None = None


class TokenizerConfig(msgspec.Struct, frozen=True):
    """tokenizer_config.json, as far as it is looked at here. model_max_length: may be 1e30, for no limit."""

    model_max_length: float | None = None


def refuse_pointers(folder: Path, backend: str = "torch") -> None:
    """Raise Unavailable if a file that a model is read from is a pointer of Git LFS.

    Files of other backends, and copies of the weights in other formats, may be pointers: they are not read.
    """
    others = {*BACKENDS} - {backend}
    for file in sorted(folder.rglob("*")):
        folders = {*file.relative_to(folder).parts[:-1]}
        if not others & folders and (file.suffix in _READ or backend in folders):
            refuse_lfs_pointer(file)


def read_json(file: Path) -> Any:
    """The content of a JSON file, None where there is none. Raises UsageError where it is not JSON."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def read_config(file: Path, kind: type[T]) -> T | None:
    """A configuration file as a value of ``kind``, None where there is none. Raises UsageError where it is not one."""
    content = read_json(file)
    try:
        return None if content is None else msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def read_modules(folder: Path) -> list[Module] | None:
    """The modules of a model of sentence-transformers in order; None where it is a plain transformer."""
    return read_config(folder / "modules.json", list[Module])


def transformer_folders(folder: Path) -> list[Path]:
    """The folders of a model's transformers, those inside a Router too."""
    modules = read_modules(folder)
    if modules is None:
        return [folder]
    found = [folder / module.path for module in modules if module.kind == "Transformer"]
    for file in sorted(folder.rglob("router_config.json")):
        found += [file.parent / name for name, kind in _routes(file).items() if kind.endswith(".Transformer")]
    return found


def unknown_keys(file: Path, kind: type[msgspec.Struct]) -> list[str]:
    """The keys of a configuration file that ``kind`` does not have, in order, without those that are off.

    Raises UsageError where the file is not an object of JSON.
    """
    known = {"__version__", *kind.__struct_fields__}
    content = read_config(file, dict[str, Any]) or {}
    return sorted(key for key, value in content.items() if key not in known and value)


def architecture_sha256(transformer: Path) -> str:
    """SHA-256 (hex) of what a transformer's configuration says of its vectors.

    The same weights under other heads of attention or another activation are another model.
    """
    content = read_config(transformer / "config.json", dict[str, Any]) or {}
    said = {key: value for key, value in content.items() if key not in _ORIGIN}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def refuse_own_code(folder: Path) -> None:
    """Raise UsageError if a model needs code that it brings along: a module's class, or its transformer's."""
    foreign = [kind for kind in _module_types(folder) if not kind.startswith(_OWN_MODULES)]
    mapped = (file for file in sorted(folder.rglob("config.json")) if _maps_code(file))
    code = foreign[0] if foreign else next((f"auto_map in {file.relative_to(folder)}" for file in mapped), None)
    if code:
        raise UsageError(f"the model {folder} needs code of its own, {code}, and such code is never run")


def _maps_code(file: Path) -> bool:
    config = read_config(file, Architecture)
    return config is not None and bool(config.auto_map)


def _module_types(folder: Path) -> Iterator[str]:
    """The classes of a model's modules, those inside a Router too."""
    for module in read_modules(folder) or []:
        yield module.type
    for name in ("router_config.json", "config.json"):
        for file in sorted(folder.rglob(name)):
            yield from _routes(file).values()


def _routes(file: Path) -> dict[str, str]:
    """The class of each module of a Router, by its folder; empty if the file is of something else."""
    routes = read_config(file, _Routes)
    types = routes.types if routes else None
    return {name: str(kind) for name, kind in types.items()} if isinstance(types, dict) else {}
