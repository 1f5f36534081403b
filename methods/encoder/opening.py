"""Checkpoints as folders: opening network and tokenizer, the longest text, and saving a trained tower."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from xmcbench import UsageError, save_arrays
from xmcbench.methods.encoder.hardware import Chosen
from xmcbench.methods.encoder.network import Encoder, Head
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tokens import Tokenizer

if TYPE_CHECKING:
    from xmcbench.methods.encoder.tower import Tower

#: Vocabulary files; a tokenizer has at least one of them.
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
#: Architectures that number positions as RoBERTa does, behind that of the padding: the first embeddings go unused.
_SKIPPING = (
    *("camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
)
_SKIPPED = 2


def open_encoder(folder: Path, head: Head, seed: int, projection: bool = False, precision: Chosen = "fp32") -> Encoder:
    """The checkpoint in ``folder`` under a head; layers that it does not bring are drawn from ``seed``. Raises
    UsageError where the folder is not a checkpoint of an encoder, states what is not followed here, or lacks
    weights."""
    settings = read_settings(folder)
    transformer = _open_transformer(settings.transformer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(transformer, head, settings, projection, precision)


def _open_transformer(folder: Path) -> nn.Module:
    from transformers import AutoModel
    from transformers.utils import logging

    # Both would write to stderr; a checkpoint that does not fit is an error below.
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        transformer, report = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,  # without a word on it transformers asks on a terminal
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # whatever a checkpoint makes a library raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(f"{folder} is not a checkpoint of an encoder: {reason}") from error
    lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if lacking or report["mismatched_keys"]:
        named = lacking or sorted(str(key) for key in report["mismatched_keys"])
        raise UsageError(f"the checkpoint {folder} lacks {len(named)} weights of its architecture, {named[0]} first")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # never used here, and parameters without a gradient stop data-parallel training
    return cast(nn.Module, transformer)


def open_tokenizer(folder: Path, prompt: str = "") -> Tokenizer:
    """The checkpoint's tokenizer, with a prompt before every text. Raises UsageError without one that runs in
    ``tokenizers``."""
    from transformers import AutoTokenizer

    settings = read_settings(folder)
    folder = settings.transformer
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        # transformers would create one with an empty vocabulary.
        raise UsageError(f"{folder} has no tokenizer", f"one of {', '.join(_VOCABULARIES)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if tokenizer.pad_token_id is None:
            raise ValueError("it has no padding token")
        return Tokenizer(
            tokenizer.backend_tokenizer,
            tokenizer.pad_token_id,
            prompt,
            settings.do_lower_case,
            tokenizer.truncation_side,
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ImportError) as error:
        raise UsageError(f"{folder} has no usable tokenizer: {str(error).splitlines()[0]}") from error


def longest_input(folder: Path) -> int:
    """Tokens of a text at most: what the checkpoint states, and what its position embeddings can take."""
    from transformers import AutoConfig

    settings = read_settings(folder)
    config = AutoConfig.from_pretrained(settings.transformer, local_files_only=True, trust_remote_code=False)
    # An architecture may have the number under a name of its own, and none, or -1, is no limit.
    positions = getattr(config, "max_position_embeddings", None) or 0
    limit = positions - _SKIPPED * (config.model_type in _SKIPPING) if positions > 0 else 2**31 - 1
    return min(limit, settings.max_seq_length or limit)


#: Files of a tokenizer, which are copied as they are.
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model")
_MODULES = "sentence_transformers.models"


def save_tower(tower: Tower, folder: Path) -> None:
    """Write a tower with the weights that it has now: transformer, tokenizer, pooling, layers, prompts, similarity.
    Vectors are not scaled to length 1 in the end where the checkpoint's layers do not do so: the similarity says it.
    The longest text is that of an instance."""
    encoder, settings = tower.encoder, read_settings(tower.backbone.folder)
    transformer: Any = encoder.transformer
    transformer.save_pretrained(folder)
    for pattern in _TOKENIZER:
        for file in settings.transformer.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    poolings: Any = encoder.poolings
    pooling = {
        "word_embedding_dimension": int(transformer.config.hidden_size),
        "pooling_mode": poolings[0] if len(poolings) == 1 else list(poolings),
    }
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write(folder / "1_Pooling" / "config.json", pooling)
    for config, arrays in _layers(encoder.layers):
        kind = "Dense" if config else "Normalize"
        modules.append((kind, f"{len(modules)}_{kind}"))
        place = folder / modules[-1][1]
        _write(place / "config.json", config)
        if arrays:
            save_arrays(place / "model.safetensors", arrays)
    listed = [
        {"idx": place, "name": str(place), "path": path, "type": f"{_MODULES}.{kind}"}
        for place, (kind, path) in enumerate(modules)
    ]
    _write(folder / "modules.json", listed)
    length = tower.limit(tower.lengths[0])
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": settings.do_lower_case})
    prompts = {
        name: own.prompt for name, own in zip(("query", "document"), tower.tokenizers, strict=True) if own.prompt
    }
    stated = {"similarity_fn_name": "cosine" if encoder.cosine else "dot", "truncate_dim": settings.truncate_dim}
    _write(folder / "config_sentence_transformers.json", {"prompts": prompts, **stated})


def _layers(layers: nn.Sequential) -> Iterator[tuple[dict[str, object], dict[str, Any]]]:
    """Yield configuration and weights of each dense layer; both are empty for scaling to length 1."""
    rest = iter(layers)
    for layer in rest:
        if not isinstance(layer, nn.Linear):
            yield {}, {}
            continue
        activation = type(next(rest))
        config = {
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": layer.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__name__}",
        }
        yield config, {f"linear.{name}": value.detach().cpu().numpy() for name, value in layer.state_dict().items()}


def _write(path: Path, content: Mapping[str, object] | list[dict[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
