"""How a checkpoint says it is to be used: the configuration files of sentence-transformers.

Every setting is followed or refused by name. A model whose prompts are left out, or whose vectors are cut elsewhere,
would be a worse model under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import msgspec

from xmcbench import UsageError
from xmcbench.methods.encoder.prompts import chosen_prompts
from xmcbench.methods.encoder.requirements import check_requirements
from xmcbench.methods.encoder.saved_config import (
    ADAPTER,
    Architecture,
    DenseConfig,
    ModelConfig,
    Module,
    NormalizeConfig,
    PoolingConfig,
    TokenizerConfig,
    TransformerConfig,
    architecture_sha256,
    read_config,
    read_modules,
    refuse_own_code,
    refuse_pointers,
    unknown_keys,
)

#: What becomes of the hidden states of a text, by the names of sentence-transformers.
POOLINGS = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
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
#: The tokenizer's word for "no limit" is a number of this size.
_NO_LIMIT = 10**9
#: Architectures that need their pooler, which is removed here, or that look at the numbers of the tokens in training.
_OTHERWISE = ("esm", "funnel", "squeezebert")

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
    """What a checkpoint states.

    transformer: the folder of its weights and its tokenizer. architecture: SHA-256 (hex) of what its configuration says
    of its vectors. poolings: names of POOLINGS; the vectors of several are put side by side. layers: what follows, in
    order: dense layers, and None for scaling to length 1. include_prompt: whether the prompt's tokens are pooled too.
    prompts, default_prompt_name: texts to put before an input, by name. max_seq_length: tokens of a text, None for no
    statement. truncate_dim: dimensions that are kept, None for all. similarity: cosine where nothing is stated.
    """

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

    def chosen_prompts(self, wanted: tuple[str | None, str | None]) -> tuple[str, str]:
        """The prompts of instances and of labels, see ``prompts.chosen_prompts``.

        Raises UsageError where they cannot be followed.
        """
        chosen = chosen_prompts(f"the checkpoint {self.transformer}", self.prompts, self.default_prompt_name, wanted)
        prompt = next(filter(None, chosen), None)
        if prompt and not self.include_prompt:
            _refuse(self.transformer, f"include_prompt=false leaves the prompt {prompt!r} out of the pooling")
        return chosen


def read_settings(folder: Path) -> Settings:
    """The settings of the checkpoint in ``folder``; of a plain transformer those of sentence-transformers' defaults.

    Raises UsageError for a file that is not what it is to be, and for a setting that is not followed here, by its name.
    Raises Unavailable for a pointer of Git LFS.
    """
    refuse_pointers(folder)
    refuse_own_code(folder)
    modules = read_modules(folder)
    if modules is None:
        return _plain(folder)
    transformer, pooling, layers = _following(folder, modules)
    _checked_architecture(folder, transformer)
    model = _stated(
        folder, "config_sentence_transformers.json", folder / "config_sentence_transformers.json", ModelConfig
    )
    file = next((path for name in _TRANSFORMER_FILES if (path := transformer / name).is_file()), None)
    own = _stated(folder, "Transformer", file, TransformerConfig) if file else TransformerConfig()
    similarity = _checked_similarity(folder, model)
    check_requirements(folder, model.requirements or {})
    _check_transformer(folder, own)
    return Settings(
        transformer,
        architecture_sha256(transformer),
        poolings=_poolings(folder, pooling),
        layers=layers,
        include_prompt=pooling.include_prompt is not False,
        prompts=model.prompts or {},
        default_prompt_name=model.default_prompt_name,
        max_seq_length=own.max_seq_length or _tokenizer_limit(transformer),
        truncate_dim=model.truncate_dim,
        do_lower_case=bool(own.do_lower_case),
        similarity=similarity,
    )


def _following(folder: Path, modules: list[Module]) -> tuple[Path, PoolingConfig, tuple[DenseLayer | None, ...]]:
    """The folder of the transformer, its pooling, and the layers behind it."""
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
            pooling = _module_config(folder, module, PoolingConfig)
        elif kind == "Dense":
            layers.append(_dense(folder, path, _module_config(folder, module, DenseConfig)))
        elif kind == "Normalize":
            _check_names(folder, kind, _normalize(folder, module))
            layers.append(None)
        else:
            _refuse(folder, f"it has a module {kind}")
    if pooling is None:
        _refuse(folder, "it has no module Pooling")
    return transformer, pooling, tuple(layers)


def _plain(folder: Path) -> Settings:
    """A transformer alone: pooled by its mean, or by its last token where it was made to continue a text."""
    config = _checked_architecture(folder, folder)
    first = (config.architectures or [""])[0]
    continues = first.endswith("ForCausalLM") and config.is_causal is not False
    return Settings(
        folder,
        architecture_sha256(folder),
        ("lasttoken",) if continues else ("mean",),
        max_seq_length=_tokenizer_limit(folder),
    )


def _checked_architecture(folder: Path, transformer: Path) -> Architecture:
    """The architecture of a checkpoint; refuses one with a decoder, and weights that are only part of the model."""
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
    limit = (read_config(folder / "tokenizer_config.json", TokenizerConfig) or TokenizerConfig()).model_max_length
    return int(limit) if limit and limit < _NO_LIMIT else None


def _poolings(folder: Path, config: PoolingConfig) -> tuple[str, ...]:
    stated = config.pooling_mode
    if stated is None:
        stated = [name for flag, name in _POOLING_FLAGS.items() if getattr(config, flag)] or ["mean"]
    poolings = (stated,) if isinstance(stated, str) else tuple(stated)
    unknown = [each for each in poolings if each not in POOLINGS]
    if unknown:
        _refuse(folder, f"it pools by {unknown[0]!r}")
    return poolings


def _module_config(folder: Path, module: Module, kind: type[S]) -> S:
    """What the file of a module states. Raises UsageError where it is missing: defaults would be another model."""
    file = Path(module.path, "config.json")
    if not (folder / file).is_file():
        _refuse(folder, f"its module {module.kind} has no {file}")
    return _stated(folder, module.kind, folder / file, kind)


def _dense(folder: Path, path: Path, config: DenseConfig) -> DenseLayer:
    _check_names(folder, "Dense", config)
    if config.use_residual:
        _refuse(folder, "its Dense has use_residual=true")
    activation = config.activation_function or "torch.nn.modules.activation.Tanh"
    if not activation.startswith("torch.nn.modules."):
        _refuse(folder, f"its Dense has the activation_function {activation}")
    return DenseLayer(
        path, config.in_features, config.out_features, config.bias is not False, activation.rpartition(".")[2]
    )


def _normalize(folder: Path, module: Module) -> NormalizeConfig:
    """What the file of a module Normalize states; older versions wrote none, and no folder of its own."""
    if not module.path:
        return NormalizeConfig()
    return _stated(folder, module.kind, folder / module.path / "config.json", NormalizeConfig)


def _check_names(folder: Path, kind: str, config: DenseConfig | NormalizeConfig) -> None:
    """Refuse a module that reads or writes anything but the vector of a text."""
    names = {each or "sentence_embedding" for each in (config.module_input_name, config.module_output_name)}
    if names != {"sentence_embedding"}:
        _refuse(folder, f"its {kind} reads or writes {', '.join(sorted(names))}")


def _checked_similarity(folder: Path, config: ModelConfig) -> Literal["cosine", "dot"]:
    """The similarity of a model, once what it states besides is known to be followed."""
    if config.model_type not in (None, "SentenceTransformer"):
        _refuse(folder, f"it is a {config.model_type}")
    default = config.default_prompt_name
    if default is not None and default not in (config.prompts or {}):
        _refuse(folder, f"its default_prompt_name is {default!r}, which is none of its prompts")
    if config.similarity_fn_name not in (None, "cosine", "dot"):
        _refuse(folder, f"its similarity_fn_name is {config.similarity_fn_name!r}")
    return "dot" if config.similarity_fn_name == "dot" else "cosine"


def _check_transformer(folder: Path, config: TransformerConfig) -> None:
    if config.transformer_task not in (None, "feature-extraction"):
        _refuse(folder, f"its transformer_task is {config.transformer_task!r}")
    if config.module_output_name not in (None, "token_embeddings"):
        _refuse(folder, f"its module_output_name is {config.module_output_name!r}")
    text = (config.modality_config or {"text": {}}).get("text")
    usual = {"method": "forward", "method_output_name": "last_hidden_state"}
    if text is None or {**usual, **text} != usual:
        _refuse(folder, f"its modality_config for text is {text}")


def _stated(folder: Path, where: str, file: Path, kind: type[S]) -> S:
    """What a file of a checkpoint states, defaults where there is none. where: its name in errors.

    Raises UsageError where it states more than ``kind`` has.
    """
    unknown = unknown_keys(file, kind)
    if unknown:
        _refuse(folder, f"{where} states {', '.join(unknown)}")
    return read_config(file, kind) or kind()


def _refuse(folder: Path, what: str) -> NoReturn:
    raise UsageError(
        f"the checkpoint {folder} cannot be followed: {what}",
        "the method embedder runs a sentence-transformers model as it is",
    )
