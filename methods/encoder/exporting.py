"""A trained tower as a folder that sentence-transformers loads, and that a tower is opened from again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from xmcbench import save_arrays
from xmcbench.methods.encoder.settings import read_settings
from xmcbench.methods.encoder.tower import Tower

#: Files of a tokenizer, which are copied as they are.
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model")
_MODULES = "sentence_transformers.models"


def save_tower(tower: Tower, folder: Path) -> None:
    """Write a tower with the weights that it has now: transformer, tokenizer, pooling, layers, prompts, similarity.

    Vectors are not scaled to length 1 in the end where the checkpoint's layers do not do so: the similarity says it.
    The longest text is that of an instance.
    """
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
