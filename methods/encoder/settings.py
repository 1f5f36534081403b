"""The stated use of a checkpoint: the configuration files of sentence-transformers.

Every setting is followed or refused by name. A model whose prompts are left out, or whose vectors are cut elsewhere,
would be a worse model under the same name.

These files are read here and not by sentence-transformers: a run refuses a checkpoint while it is planned, without a
framework, and importing sentence-transformers would lengthen the start of every cell with an encoder by a third.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from xmcbench import Unavailable, UsageError
from xmcbench.methods.encoder.saved_config import (
    ADAPTER,
    Architecture,
    DenseConfig,
    ModelConfig,
    Module,
    NormalizeConfig,
    PoolingConfig,
    Requirement,
    TransformerConfig,
    architecture_sha256,
    read_config,
    read_modules,
    refuse_own_code,
    refuse_pointers,
    unknown_keys,
)

Side = Literal["instance", "label"]

#: Names of the prompts of a side; if several are there, the first one counts.
_ROLES: Mapping[Side, tuple[str, ...]] = {"instance": ("query",), "label": ("document", "passage", "corpus")}
#: Separators of the words of a longer name: "search_query", "retrieval.query", "Retrieval-query".
_BETWEEN_WORDS = re.compile(r"[\W_]+")
#: Poolings by the names of sentence-transformers, and the flags of older versions that turn them on.
_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
#: Files that hold the settings of the transformer; older versions named them by architecture.
_TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
#: The tokenizer's word for "no limit" is a number of this size.
_NO_LIMIT = 10**9
#: Architectures that need their pooler, which is removed here, or that look at the numbers of the tokens in training.
_OTHERWISE = ("esm", "funnel", "squeezebert")
#: Names that sentence-transformers accepts for packages that are installed under another one.
_OTHER_NAMES = {"pytorch": "torch"}

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True)
class DenseLayer:
    """A dense layer on the pooled vector. activation: the name of a class of ``torch.nn``."""

    folder: Path
    inputs: int
    outputs: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class Settings:
    """Statements of a checkpoint about its use. transformer: the folder of its weights and its tokenizer. architecture:
    SHA-256 (hex) of its configuration. poolings: their vectors are put side by side. layers: dense layers in order, and
    None for scaling to length 1. include_prompt: whether the prompt's tokens are pooled. max_seq_length: tokens of a
    text, None without a statement. truncate_dim: dimensions kept, None for all. similarity: cosine by default."""

    transformer: Path
    architecture: str
    poolings: tuple[str, ...] = ("mean",)
    layers: tuple[DenseLayer | None, ...] = ()
    include_prompt: bool = True
    prompts: Mapping[str, str | None] = field(default_factory=dict)
    default_prompt_name: str | None = None
    max_seq_length: int | None = None
    truncate_dim: int | None = None
    do_lower_case: bool = False
    similarity: Literal["cosine", "dot"] = "cosine"

    @property
    def dense(self) -> tuple[DenseLayer, ...]:
        """The dense layers."""
        return tuple(layer for layer in self.layers if layer is not None)

    def choose_prompts(self, wanted: tuple[str | None, str | None]) -> tuple[str, str]:
        """Return the prompts of instances and labels. Raises UsageError if they cannot be followed."""
        chosen = choose_prompts(f"the checkpoint {self.transformer}", self.prompts, self.default_prompt_name, wanted)
        prompt = next(filter(None, chosen), None)
        if prompt and not self.include_prompt:
            _refuse(self.transformer, f"include_prompt=false leaves the prompt {prompt!r} out of the pooling")
        return chosen


def choose_prompts(
    model: str, prompts: Mapping[str, str | None], default_name: str | None, wanted: tuple[str | None, str | None]
) -> tuple[str, str]:
    """Return the prompts of instances and labels: those wanted, else the model's own; empty where it has none. model:
    its name in errors. prompts: saved with it, by name. wanted: of instances and labels, None for the model's own: the
    prompt named after the side ("query"), else with a name that ends so ("search_query"), else the default, unless it
    is named after a side. sentence-transformers 6 overlooks "passage", "corpus", longer names and the default. Raises
    UsageError where the choice is not clear: with other prompts the model would be a worse one."""
    stated = {name: text for name, text in prompts.items() if text}
    default = stated.get(default_name or "")
    if stated and not default and None in wanted and not any(_side(name) for name in stated):
        raise UsageError(
            f"{model} has prompts whose names fit neither instances nor labels: {', '.join(sorted(stated))}",
            "set instance_prompt and label_prompt; an empty text is no prompt",
        )
    if default and _side(str(default_name)):
        default = None
    instance, label = wanted
    return (
        _own(model, stated, "instance") or default or "" if instance is None else instance,
        _own(model, stated, "label") or default or "" if label is None else label,
    )


def check_room(side: Side, prompt_tokens: int, length: int, parameter: str) -> None:
    """Raise UsageError where a prompt fills a text of ``length`` tokens: all texts would have one vector.
    prompt_tokens: with special tokens, 0 without a prompt. parameter: that limits the length."""
    if prompt_tokens >= length:
        raise UsageError(
            f"the prompt of {side}s fills all {length} tokens of a text", f"raise {parameter}, or shorten {side}_prompt"
        )


def _own(model: str, stated: Mapping[str, str], side: Side) -> str | None:
    """Return the prompt that is named after a side, if any. Raises UsageError if there are several different ones."""
    exact = next((stated[name] for name in _ROLES[side] if name in stated), None)
    if exact is not None:
        return exact
    named = sorted(name for name in stated if _side(name) == side)
    if len({stated[name] for name in named}) > 1:
        raise UsageError(
            f"{model} has several prompts whose names fit {side}s: {', '.join(named)}", f"set {side}_prompt to one"
        )
    return stated[named[0]] if named else None


def _side(name: str) -> Side | None:
    """Return the side that a prompt is named after: by the last word of its name."""
    last = _BETWEEN_WORDS.split(name.lower())[-1]
    return next((side for side, roles in _ROLES.items() if last in roles), None)


def read_settings(folder: Path) -> Settings:
    """Read the settings of a checkpoint; a plain transformer has sentence-transformers' defaults. Raises UsageError for
    an invalid file and, by its name, for a setting that is not followed here; Unavailable for a pointer of Git LFS and
    for a package that the checkpoint needs."""
    refuse_pointers(folder)
    refuse_own_code(folder)
    modules = read_modules(folder)
    if modules is None:
        # Pooled by its mean, or by its last token where it was made to continue a text.
        config = _check_architecture(folder, folder)
        first = (config.architectures or [""])[0]
        continues = first.endswith("ForCausalLM") and config.is_causal is not False
        poolings = ("lasttoken",) if continues else ("mean",)
        return Settings(folder, architecture_sha256(folder), poolings, max_seq_length=_tokenizer_limit(folder))
    transformer, pooling, layers = _read_layers(folder, modules)
    _check_architecture(folder, transformer)
    name = "config_sentence_transformers.json"
    model = _read_stated(folder, name, folder / name, ModelConfig)
    file = next((path for name in _TRANSFORMER_FILES if (path := transformer / name).is_file()), None)
    own = _read_stated(folder, "Transformer", file, TransformerConfig) if file else TransformerConfig()
    similarity = _read_similarity(folder, model)
    _check_requirements(folder, model.requirements or {})
    if own.transformer_task not in (None, "feature-extraction"):
        _refuse(folder, f"its transformer_task is {own.transformer_task!r}")
    if own.module_output_name not in (None, "token_embeddings"):
        _refuse(folder, f"its module_output_name is {own.module_output_name!r}")
    text = (own.modality_config or {"text": {}}).get("text")
    usual = {"method": "forward", "method_output_name": "last_hidden_state"}
    if text is None or {**usual, **text} != usual:
        _refuse(folder, f"its modality_config for text is {text}")
    return Settings(
        transformer,
        architecture_sha256(transformer),
        poolings=_read_poolings(folder, pooling),
        layers=layers,
        include_prompt=pooling.include_prompt is not False,
        prompts=model.prompts or {},
        default_prompt_name=model.default_prompt_name,
        max_seq_length=own.max_seq_length or _tokenizer_limit(transformer),
        truncate_dim=model.truncate_dim,
        do_lower_case=bool(own.do_lower_case),
        similarity=similarity,
    )


def _read_layers(folder: Path, modules: list[Module]) -> tuple[Path, PoolingConfig, tuple[DenseLayer | None, ...]]:
    """Return the folder of the transformer, its pooling, and the layers behind it."""
    transformer, pooling = folder, None
    layers: list[DenseLayer | None] = []
    for place, module in enumerate(modules):
        kind, path = module.kind, folder / module.path
        if module.kwargs:
            _refuse(folder, f"its module {kind} takes arguments: {', '.join(module.kwargs)}")
        if (kind == "Transformer") is not (place == 0) or (kind == "Pooling") is not (place == 1):
            _refuse(folder, f"its module {place} is {kind}")
        if kind == "Transformer":
            transformer = path
        elif kind == "Pooling":
            pooling = _read_module(folder, module, PoolingConfig)
        elif kind == "Dense":
            layers.append(_read_dense(folder, path, _read_module(folder, module, DenseConfig)))
        elif kind == "Normalize":
            # Older versions wrote no file, and no folder of its own.
            if module.path:
                _check_names(folder, kind, _read_stated(folder, kind, path / "config.json", NormalizeConfig))
            layers.append(None)
        else:
            _refuse(folder, f"it has a module {kind}")
    if pooling is None:
        _refuse(folder, "it has no module Pooling")
    return transformer, pooling, tuple(layers)


def _check_architecture(folder: Path, transformer: Path) -> Architecture:
    """Return the architecture of a checkpoint; refuse one with a decoder, and weights that are part of the model."""
    config = read_config(transformer / "config.json", Architecture) or Architecture()
    if config.is_encoder_decoder:
        _refuse(folder, f"it has a decoder behind its encoder ({config.model_type})")
    if config.model_type in _OTHERWISE:
        _refuse(folder, f"an encoder of the architecture {config.model_type} cannot be trained from token vectors")
    if (transformer / ADAPTER).is_file():
        raise UsageError(
            f"the checkpoint {folder} has an adapter, {ADAPTER}, which is not followed",
            "merge it into the weights (peft: merge_and_unload), or use the method embedder where peft is installed",
        )
    return config


def _tokenizer_limit(folder: Path) -> int | None:
    limit = (read_config(folder / "tokenizer_config.json", Architecture) or Architecture()).model_max_length
    return int(limit) if limit and limit < _NO_LIMIT else None


def _read_poolings(folder: Path, config: PoolingConfig) -> tuple[str, ...]:
    stated = config.pooling_mode
    if stated is None:
        stated = [name for name, flag in _POOLINGS.items() if getattr(config, flag)] or ["mean"]
    poolings = (stated,) if isinstance(stated, str) else tuple(stated)
    for pooling in poolings:
        if pooling not in _POOLINGS:
            _refuse(folder, f"it pools by {pooling!r}")
    return poolings


def _read_dense(folder: Path, path: Path, config: DenseConfig) -> DenseLayer:
    _check_names(folder, "Dense", config)
    if config.use_residual:
        _refuse(folder, "its Dense has use_residual=true")
    activation = config.activation_function or "torch.nn.modules.activation.Tanh"
    if not activation.startswith("torch.nn.modules."):
        _refuse(folder, f"its Dense has the activation_function {activation}")
    bias, name = config.bias is not False, activation.rpartition(".")[2]
    return DenseLayer(path, config.in_features, config.out_features, bias, name)


def _check_names(folder: Path, kind: str, config: NormalizeConfig) -> None:
    """Refuse a module that reads or writes anything but the vector of a text."""
    names = {name or "sentence_embedding" for name in (config.module_input_name, config.module_output_name)}
    if names != {"sentence_embedding"}:
        _refuse(folder, f"its {kind} reads or writes {', '.join(sorted(names))}")


def _read_similarity(folder: Path, config: ModelConfig) -> Literal["cosine", "dot"]:
    """Return the similarity of a model, once its other statements are known to be followed."""
    if config.model_type not in (None, "SentenceTransformer"):
        _refuse(folder, f"it is a {config.model_type}")
    default = config.default_prompt_name
    if default is not None and default not in (config.prompts or {}):
        _refuse(folder, f"its default_prompt_name is {default!r}, which is none of its prompts")
    if config.similarity_fn_name not in (None, "cosine", "dot"):
        _refuse(folder, f"its similarity_fn_name is {config.similarity_fn_name!r}")
    return "dot" if config.similarity_fn_name == "dot" else "cosine"


def _check_requirements(folder: Path, stated: Mapping[str, str | Requirement]) -> None:
    """Check the stated versions of packages, or of ``python``, as in PEP 440. Raises Unavailable where another version
    is installed, or none; UsageError for other text."""
    for package, requirement in stated.items():
        wanted = requirement if isinstance(requirement, str) else requirement.specifier
        name = _OTHER_NAMES.get(package, package)
        try:
            installed = platform.python_version() if package == "python" else metadata.version(name)
        except metadata.PackageNotFoundError:
            installed = None
        try:
            accepted = SpecifierSet(wanted, prereleases=True)
        except InvalidSpecifier as error:
            raise UsageError(f"the checkpoint {folder} needs {package} {wanted!r}, which is not a version") from error
        if installed is None or not accepted.contains(installed):
            raise Unavailable(
                f"the checkpoint {folder} needs {package}{wanted}, but {installed or 'none'} is installed",
                "" if package == "python" else f'pip install "{name}{wanted}"',
            )


def _read_module(folder: Path, module: Module, kind: type[S]) -> S:
    """Read the file of a module. Raises UsageError where it is missing: defaults would be another model."""
    file = Path(module.path, "config.json")
    if not (folder / file).is_file():
        _refuse(folder, f"its module {module.kind} has no {file}")
    return _read_stated(folder, module.kind, folder / file, kind)


def _read_stated(folder: Path, where: str, file: Path, kind: type[S]) -> S:
    """Read a file of a checkpoint, defaults if there is none; refuse it if it states more than ``kind`` has. where:
    named in errors."""
    unknown = unknown_keys(file, kind)
    if unknown:
        _refuse(folder, f"{where} states {', '.join(unknown)}")
    return read_config(file, kind) or kind()


def _refuse(folder: Path, reason: str) -> NoReturn:
    raise UsageError(
        f"the checkpoint {folder} cannot be followed: {reason}",
        "the method embedder runs a sentence-transformers model as it is",
    )
