"""How a checkpoint says it is to be used: the configuration files of sentence-transformers.

Every setting is followed or refused by name. A model whose prompts are left out, or whose vectors are cut elsewhere,
would be a worse model under the same name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from xmcbench import UsageError

#: What becomes of the hidden states of a text, by the names of sentence-transformers.
POOLINGS = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
#: The names that prompts of one side have, the first stated one counts: those of ``encode_query``/``encode_document``.
ROLES = {"instance": ("query",), "label": ("document", "passage", "corpus")}
#: Files that hold the settings of the transformer; older versions named them by architecture.
_TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
#: Flags of older versions, and the poolings that they turn on.
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
#: Keys without an effect on vectors, or with one that is read elsewhere.
_MODEL_KEYS = {
    "__version__",
    "requirements",
    "model_type",
    "prompts",
    "default_prompt_name",
    "similarity_fn_name",
    "truncate_dim",
}
_TRANSFORMER_KEYS = {
    "max_seq_length",
    "do_lower_case",
    "transformer_task",
    "modality_config",
    "module_output_name",
    "unpad_inputs",
}
_POOLING_KEYS = {"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt", *_POOLING_FLAGS}
_DENSE_KEYS = {
    "in_features",
    "out_features",
    "bias",
    "activation_function",
    "module_input_name",
    "module_output_name",
    "use_residual",
}
#: The tokenizer's word for "no limit" is a number of this size.
_NO_LIMIT = 10**9


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
    """What a checkpoint states.

    transformer: the folder of its weights and its tokenizer. poolings: names of POOLINGS; the vectors of several are
    put side by side. layers: what follows, in order: dense layers, and None for scaling to length 1. include_prompt:
    whether the prompt's tokens are pooled too. prompts, default_prompt_name: texts to put before an input, by name.
    max_seq_length: tokens of a text, None for no statement. truncate_dim: dimensions that are kept, None for all.
    similarity: cosine where nothing is stated.
    """

    transformer: Path
    poolings: tuple[str, ...] = ("mean",)
    layers: tuple[DenseLayer | None, ...] = ()
    include_prompt: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    max_seq_length: int | None = None
    truncate_dim: int | None = None
    do_lower_case: bool = False
    similarity: Literal["cosine", "dot"] = "cosine"

    @property
    def dense(self) -> tuple[DenseLayer, ...]:
        """The dense layers."""
        return tuple(layer for layer in self.layers if layer is not None)

    def prompt(self, side: Literal["instance", "label"]) -> str:
        """The checkpoint's own prompt of instances or of labels; empty where it has none."""
        return own_prompt(self.prompts, self.default_prompt_name, side)

    def chosen_prompt(self, side: Literal["instance", "label"], wanted: str | None) -> str:
        """A prompt that was asked for, or else the checkpoint's own. Raises UsageError where it cannot be followed."""
        prompt = self.prompt(side) if wanted is None else wanted
        if prompt and not self.include_prompt:
            _refuse(self.transformer, f"include_prompt=false leaves the prompt {prompt!r} out of the pooling")
        return prompt


def own_prompt(
    prompts: Mapping[str, str | None], default_prompt_name: str | None, side: Literal["instance", "label"]
) -> str:
    """The prompt that a model has for one side: under one of its names, or else its default.

    A default that bears a name of the other side is not meant for this one. sentence-transformers 6 itself overlooks
    "passage" and "corpus", and the default, because it adds an empty "document" and "query" to what a model states.
    """
    stated = next((prompts[name] for name in ROLES[side] if prompts.get(name)), None)
    if stated:
        return stated
    other = ROLES["label" if side == "instance" else "instance"]
    if default_prompt_name is None or default_prompt_name in (*other, *ROLES[side]):
        return ""
    return prompts.get(default_prompt_name) or ""


def read_settings(folder: Path) -> Settings:
    """The settings of the checkpoint in ``folder``; of a plain transformer those of sentence-transformers' defaults.

    Raises UsageError for a setting that is not followed here, with its name.
    """
    modules = read_json(folder / "modules.json")
    if modules is None:
        return _plain(folder)
    transformer, pooling = folder, None
    layers: list[DenseLayer | None] = []
    for place, module in enumerate(modules):
        kind, path = module["type"].rsplit(".", 1)[-1], folder / module["path"]
        if module.get("kwargs"):
            _refuse(folder, f"its module {kind} takes arguments: {', '.join(module['kwargs'])}")
        if (kind == "Transformer") is not (place == 0) or (kind == "Pooling") is not (place == 1):
            _refuse(folder, f"its module {place} is {kind}")
        if kind == "Transformer":
            transformer = path
        elif kind == "Pooling":
            pooling = _module_config(folder, kind, module["path"])
        elif kind == "Dense":
            layers.append(_dense(path, _module_config(folder, kind, module["path"])))
        elif kind == "Normalize":
            layers.append(None)
        else:
            _refuse(folder, f"it has a module {kind}")
    if pooling is None:
        _refuse(folder, "it has no module Pooling")
    model = read_json(folder / "config_sentence_transformers.json") or {}
    own: Mapping[str, Any] = next(
        (found for name in _TRANSFORMER_FILES if (found := read_json(transformer / name))), {}
    )
    _check_model(folder, model)
    _check_transformer(folder, own)
    _check_keys(folder, "Pooling", pooling, _POOLING_KEYS)
    return Settings(
        transformer,
        poolings=_poolings(folder, pooling),
        layers=tuple(layers),
        include_prompt=pooling.get("include_prompt", True),
        prompts={name: text or "" for name, text in (model.get("prompts") or {}).items()},
        default_prompt_name=model.get("default_prompt_name"),
        max_seq_length=own.get("max_seq_length") or _tokenizer_limit(transformer),
        truncate_dim=model.get("truncate_dim"),
        do_lower_case=bool(own.get("do_lower_case")),
        similarity=model.get("similarity_fn_name") or "cosine",
    )


def _plain(folder: Path) -> Settings:
    """A transformer alone: pooled by its mean, or by its last token where it was made to continue a text."""
    config = read_json(folder / "config.json") or {}
    continues = str((config.get("architectures") or [""])[0]).endswith("ForCausalLM") and config.get("is_causal", True)
    return Settings(folder, ("lasttoken",) if continues else ("mean",), max_seq_length=_tokenizer_limit(folder))


def _tokenizer_limit(folder: Path) -> int | None:
    limit = (read_json(folder / "tokenizer_config.json") or {}).get("model_max_length")
    return int(limit) if limit and limit < _NO_LIMIT else None


def _poolings(folder: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    stated = config.get("pooling_mode")
    if stated is None:
        stated = [name for flag, name in _POOLING_FLAGS.items() if config.get(flag)] or ["mean"]
    poolings = (stated,) if isinstance(stated, str) else tuple(stated)
    unknown = [each for each in poolings if each not in POOLINGS]
    if unknown:
        _refuse(folder, f"it pools by {unknown[0]!r}")
    return poolings


def _module_config(folder: Path, kind: str, path: str) -> Mapping[str, Any]:
    """What the file of a module states. Raises UsageError where it is missing: defaults would be another model."""
    config: Mapping[str, Any] | None = read_json(folder / path / "config.json")
    if config is None:
        _refuse(folder, f"its module {kind} has no {Path(path, 'config.json')}")
    return config


def _dense(folder: Path, config: Mapping[str, Any]) -> DenseLayer:
    _check_keys(folder, "Dense", config, _DENSE_KEYS)
    names = {config.get(key) or "sentence_embedding" for key in ("module_input_name", "module_output_name")}
    if names != {"sentence_embedding"}:
        _refuse(folder, f"its Dense reads or writes {', '.join(sorted(names))}")
    if config.get("use_residual"):
        _refuse(folder, "its Dense has use_residual=true")
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if not activation.startswith("torch.nn.modules."):
        _refuse(folder, f"its Dense has the activation_function {activation}")
    return DenseLayer(
        folder,
        int(config["in_features"]),
        int(config["out_features"]),
        bool(config.get("bias", True)),
        activation.rpartition(".")[2],
    )


def _check_model(folder: Path, config: Mapping[str, Any]) -> None:
    _check_keys(folder, "config_sentence_transformers.json", config, _MODEL_KEYS)
    if config.get("model_type") not in (None, "SentenceTransformer"):
        _refuse(folder, f"it is a {config['model_type']}")
    if config.get("similarity_fn_name") not in (None, "cosine", "dot"):
        _refuse(folder, f"its similarity_fn_name is {config['similarity_fn_name']!r}")
    default = config.get("default_prompt_name")
    if default is not None and default not in (config.get("prompts") or {}):
        _refuse(folder, f"its default_prompt_name is {default!r}, which is none of its prompts")


def _check_transformer(folder: Path, config: Mapping[str, Any]) -> None:
    _check_keys(folder, "Transformer", config, _TRANSFORMER_KEYS)
    if config.get("transformer_task", "feature-extraction") != "feature-extraction":
        _refuse(folder, f"its transformer_task is {config['transformer_task']!r}")
    if config.get("module_output_name", "token_embeddings") != "token_embeddings":
        _refuse(folder, f"its module_output_name is {config['module_output_name']!r}")
    text = (config.get("modality_config") or {"text": {}}).get("text")
    usual = {"method": "forward", "method_output_name": "last_hidden_state"}
    if text is None or {**usual, **text} != usual:
        _refuse(folder, f"its modality_config for text is {text}")


def _check_keys(folder: Path, where: str, config: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(key for key, value in config.items() if key not in known and value)
    if unknown:
        _refuse(folder, f"{where} states {', '.join(unknown)}")


def _refuse(folder: Path, what: str) -> NoReturn:
    raise UsageError(
        f"the checkpoint {folder} cannot be followed: {what}",
        "the method embedder runs a sentence-transformers model as it is",
    )


def read_json(file: Path) -> Any:
    """The content of a JSON file, None where there is none. Raises UsageError where it is not JSON."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
