"""Tiny models for canaries: checkpoints, cross-encoders, static embeddings and files of word vectors.

Their weights are drawn by numpy, whose uniform numbers are the same on every machine and in every version. Their words
are from the texts of the canaries.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn

#: Pieces of a vocabulary, besides letters; numbers of a vector, and tokens that a transformer can read.
_WORDS, _WIDTH, _POSITIONS = 700, 32, 64
#: The special pieces of BERT, in its order; MPNet and RoBERTa have the padding second.
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PADDING_SECOND = ("mpnet", "roberta")
#: Kinds whose texts are not one dense vector each -> the class of sentence-transformers.
_OTHER_VECTORS = {"sparse": "SparseEncoder", "multi-vector": "MultiVectorEncoder"}


def make(description: Mapping[str, Any], texts: Iterable[str], path: Path) -> None:
    """Write the model that a table ``models.NAME`` of the canaries' file describes to ``path``, a folder or a file."""
    kind, words = description["kind"], _words(texts)
    if kind == "vectors":
        _write_vectors(description["format"], words, path)
    elif kind in ("static", "model2vec", "router"):
        _save_static(kind, description, words, path)
    else:
        _save_transformer(kind, description, words, path)


def _words(texts: Iterable[str]) -> list[str]:
    """Return the most frequent words in lower case, then by spelling."""
    counts = Counter(word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower()))
    return sorted(counts, key=lambda word: (-counts[word], word))[:_WORDS]


def _write_vectors(written_as: str, words: list[str], path: Path) -> None:
    """Write word vectors in the format of GloVe, word2vec text (compressed), or word2vec binary."""
    vectors = np.random.default_rng(1).random((len(words), 8), np.float32) - np.float32(0.5)
    header = b"" if written_as == "glove" else f"{len(words)} {vectors.shape[1]}\n".encode()
    lines = []
    for word, vector in zip(words, vectors, strict=True):
        numbers = (
            vector.tobytes() if written_as == "binary" else " ".join(f"{number:.6f}" for number in vector).encode()
        )
        lines.append(word.encode() + b" " + numbers + b"\n")
    content = header + b"".join(lines)
    path.write_bytes(gzip.compress(content) if written_as == "word2vec" else content)


def _save_transformer(kind: str, description: Mapping[str, Any], words: list[str], folder: Path) -> None:
    """Save a transformer, with the described modules of sentence-transformers, if any."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # it would write to stderr
    special = list(_SPECIAL)
    if kind in _PADDING_SECOND:
        special[:2] = special[1::-1]
    fast = _tokenizer(words, special)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    side = description.get("truncation_side", "right")
    length = description.get("model_max_length", 10**30)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, truncation_side=side, model_max_length=length, **names
    ).save_pretrained(folder)
    sizes = {
        "vocab_size": fast.get_vocab_size(),
        "hidden_size": _WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 2 * _WIDTH,
        "pad_token_id": special.index("[PAD]"),
        "max_position_embeddings": _POSITIONS + 2 * (kind in _PADDING_SECOND),
    }
    is_bert = kind == "cross-encoder" or kind in _OTHER_VECTORS
    config = transformers.AutoConfig.for_model("bert" if is_bert else kind, **sizes)
    if kind == "cross-encoder":
        config.num_labels = 1
        network = transformers.AutoModelForSequenceClassification.from_config(config)
    elif kind == "sparse":
        network = transformers.AutoModelForMaskedLM.from_config(config)
    elif description.get("causal"):
        network = transformers.AutoModelForCausalLM.from_config(config)
    else:
        network = transformers.AutoModel.from_config(config)
    _draw(network, seed=2)
    network.save_pretrained(folder)
    if kind in _OTHER_VECTORS:
        _save_encoder(_OTHER_VECTORS[kind], folder)
    else:
        _write_modules(description, folder)


def _save_encoder(name: str, folder: Path) -> None:
    """Save the transformer in a folder with the modules that a class of sentence-transformers gives it."""
    import sentence_transformers

    model = getattr(sentence_transformers, name)(str(folder), device="cpu", local_files_only=True)
    _draw(model, seed=2)
    model.save_pretrained(str(folder))


def _tokenizer(words: list[str], special: list[str]) -> Tokenizer:
    """Return a WordPiece tokenizer of words, their beginnings, and letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = sorted({letter for word in words for letter in word})
    pieces = dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.normalizer, fast.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    fast.post_processor = processors.BertProcessing(*ends)
    return fast


def _draw(network: nn.Module, seed: int) -> None:
    """Replace all weights: uniform numbers of a fitting size in matrices, near 1 in scales, near 0 in biases."""
    import torch

    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, weight in sorted(network.named_parameters()):
            drawn = 2 * random.random(tuple(weight.shape), np.float32) - 1
            if weight.dim() > 1:
                # Positions, which all texts have in common, count less than words.
                share = 0.2 if "position" in name or "type" in name else 1.0
                drawn *= np.float32(share * (3 / weight.shape[-1]) ** 0.5)
            else:
                drawn = drawn / 10 + (weight.detach().numpy() > 0.5)
            weight.copy_(torch.from_numpy(drawn))


def _write_modules(description: Mapping[str, Any], folder: Path) -> None:
    if "pooling" not in description:
        return
    pooling, modules = description["pooling"], [("", "Transformer"), ("1_Pooling", "Pooling")]
    _write(folder / "1_Pooling" / "config.json", {"embedding_dimension": _WIDTH, **pooling})
    width = _WIDTH * max(1, len(pooling["pooling_mode"]) if isinstance(pooling.get("pooling_mode"), list) else 1)
    for number, layer in enumerate(description.get("layers", []), 2):
        path = f"{number}_{layer['kind']}"
        modules.append((path, layer["kind"]))
        if layer["kind"] == "Dense":
            _write_dense(layer, width, folder / path)
            width = layer["out_features"]
        else:
            _write(folder / path / "config.json", {})
    kinds = "sentence_transformers.models"
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"{kinds}.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", listed)
    _write(folder / "config_sentence_transformers.json", description.get("model", {}))
    _write(folder / "sentence_bert_config.json", description.get("transformer", {}))


def _write_dense(layer: Mapping[str, Any], width: int, folder: Path) -> None:
    from safetensors.numpy import save_file

    content = {"in_features": width, "bias": True, **{name: value for name, value in layer.items() if name != "kind"}}
    _write(folder / "config.json", content)
    random = np.random.default_rng(3)
    weights: dict[str, tuple[int, ...]] = {"linear.weight": (layer["out_features"], width)}
    weights |= {"linear.bias": (layer["out_features"],)} if content["bias"] else {}
    drawn = {name: random.random(shape, np.float32) - np.float32(0.5) for name, shape in weights.items()}
    save_file(drawn, folder / "model.safetensors")


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def _save_static(kind: str, description: Mapping[str, Any], words: list[str], folder: Path) -> None:
    """Save a table of words, as model2vec does, or as a route of a Router whose other route is a transformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    fast = Tokenizer(models.WordLevel({word: number for number, word in enumerate(["[UNK]", *words])}, "[UNK]"))
    fast.normalizer, fast.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    table = np.random.default_rng(4).random((len(words) + 1, _WIDTH), np.float32) - np.float32(0.5)
    if kind == "model2vec":
        from model2vec import StaticModel

        StaticModel(table, fast, {"model_type": "model2vec"}, normalize=True).save_pretrained(folder)
        (folder / "modules.json").unlink(missing_ok=True)
        return
    embedding: Any = StaticEmbedding(fast, embedding_weights=table)
    if kind == "router":
        inner = folder.with_name(f"{folder.name}-transformer")
        _save_transformer("bert", {}, words, inner)
        length = description["max_seq_length"]
        transformer = [Transformer(str(inner), max_seq_length=length), Pooling(_WIDTH, "mean")]
        embedding = Router.for_query_document([embedding], transformer)
    SentenceTransformer(modules=[embedding], device="cpu", **description.get("model", {})).save(str(folder))
