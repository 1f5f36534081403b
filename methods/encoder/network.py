"""The network: a transformer, its pooling, and its weights as arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from xmcbench import UsageError
from xmcbench.methods.encoder.hardware import Chosen
from xmcbench.methods.encoder.tokens import Tokenizer

#: ``paper``: [CLS] -> Dense 512 tanh, inner product. ``native``: the checkpoint's own pooling, cosine. ``cls``: the
#: last hidden state of [CLS], cosine.
Head = Literal["paper", "native", "cls"]
#: How the hidden states of a text become one vector.
POOLINGS = ("cls", "mean", "max")
#: Vocabulary files; a tokenizer has at least one of them.
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
#: Names under which the changed rows of the word embeddings are kept: their numbers, their values.
_ROWS, _CHANGED = "changed_words", "changed_word_embeddings"
#: Dimensions of the paper's head (MACLR section 5.1).
PAPER_WIDTH = 512


class Encoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One tower for instances and labels, from token numbers to one float32 vector per text.

    Vectors of the heads ``native`` and ``cls`` have length 1, so that their inner product is the cosine.
    ``projection`` puts a dense layer with tanh on the pooled vector while training and leaves it out afterwards
    (SimCSE, section 6.3 of its paper). ``precision`` bf16 and fp16 compute products in 16 bits (autocast); weights,
    losses and optimizer stay float32.

    Two attributes trade time for memory while training and change no result: ``cached_tokens`` (None: off) embeds that
    many tokens at a time and computes their activations again in the backward pass, so that the activations of one
    such batch are held and not those of the whole step. For contrastive losses this is GradCache (Gao et al. 2021):
    the loss sees all vectors of the step. ``recomputed_layers`` does the same for each layer.
    """

    cached_tokens: int | None = None
    recomputed_layers: bool = False

    def __init__(
        self,
        transformer: nn.Module,
        head: Head,
        pooling: str,
        projection: bool = False,
        precision: Chosen = "fp32",
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.head, self.precision = head, precision
        self.pooling = pooling if head == "native" else "cls"
        hidden = int(transformer.config.hidden_size)  # type: ignore[union-attr, arg-type]
        self.width = PAPER_WIDTH if head == "paper" else hidden
        self.dense = nn.Linear(hidden, PAPER_WIDTH) if head == "paper" else None
        self.projection = nn.Linear(hidden, hidden) if projection else None
        table: Any = transformer.get_input_embeddings()  # type: ignore[operator]
        self._table = next(name for name, each in self.named_parameters() if each is table.weight)
        self._words_before = table.weight.detach().cpu().numpy().copy()

    def forward(self, ids: list[torch.Tensor], masks: list[torch.Tensor]) -> torch.Tensor:
        """Vectors float32 [n, width] of all texts of all batches, in order.

        ids: int64, masks: bool, one pair [rows, longest] a batch. Several batches in one call, because data-parallel
        training allows one forward pass a step.
        """
        device = ids[0].device.type
        self._choose_attention(device)
        half = torch.float16 if self.precision == "fp16" else torch.bfloat16
        with torch.autocast(device, half, enabled=self.precision != "fp32"):
            pooled = torch.cat([self._batch(*batch) for batch in zip(self._words(ids), masks, strict=True)])
            if self.dense is not None:
                return torch.tanh(self.dense(pooled).float())
            if self.projection is not None and self.training:
                pooled = torch.tanh(self.projection(pooled))
        return nn.functional.normalize(pooled.float(), dim=1)

    def _choose_attention(self, device: str) -> None:
        """Fused attention, except where it is slower: in bfloat16 on a CPU plain products take half the time."""
        plain = device == "cpu" and self.precision == "bf16"
        wanted = "eager" if plain or not getattr(self.transformer, "_supports_sdpa", False) else "sdpa"
        config: Any = self.transformer.config
        if config._attn_implementation != wanted:
            self.transformer.set_attn_implementation(wanted)  # type: ignore[operator, union-attr]

    def _words(self, ids: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The word embeddings of all batches, [rows, longest, hidden] each, looked up at once.

        The gradient of a look-up has the size of the whole table, so there is to be one a step and not one a batch.
        """
        table: Any = self.transformer.get_input_embeddings()  # type: ignore[operator, union-attr]
        found = table(torch.cat([each.flatten() for each in ids])).split([each.numel() for each in ids])
        return tuple(words.view(*each.shape, -1) for words, each in zip(found, ids, strict=True))

    def save_memory(self, cached_tokens: int | None, recomputed_layers: bool) -> None:
        """Set how much of a step is computed twice to save memory."""
        self.cached_tokens, self.recomputed_layers = cached_tokens, recomputed_layers
        if recomputed_layers:
            transformer: Any = self.transformer
            enable = getattr(transformer, "activation_checkpointing_enable", None)  # its name before: gradient_...
            (enable or transformer.gradient_checkpointing_enable)({"use_reentrant": False})

    def _batch(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The pooled vectors of one batch [rows, hidden], with its activations, or with what makes them again."""
        if self.cached_tokens is None or not (self.training and torch.is_grad_enabled()):
            return self._pooled(words, mask)
        # Random numbers are those of the first pass, so dropout is the same in both.
        return cast(torch.Tensor, checkpoint(self._pooled, words, mask, use_reentrant=False))

    def _pooled(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.transformer(inputs_embeds=words, attention_mask=mask.long()).last_hidden_state
        if self.pooling == "cls":
            return cast(torch.Tensor, states[:, 0])
        inside = mask[:, :, None]
        if self.pooling == "max":
            return cast(torch.Tensor, states.masked_fill(~inside, -torch.inf).amax(1))
        return cast(torch.Tensor, (states.float() * inside).sum(1) / inside.sum(1))

    def weights(self) -> dict[str, np.ndarray]:
        """All parameters by name, float32 (a copy); of the word embeddings only the rows that training has changed.

        A short training changes only part of the vocabulary, and word embeddings are half of a small encoder.
        """
        weights = {name: each.detach().cpu().numpy().copy() for name, each in self.state_dict().items()}
        words = weights.pop(self._table)
        rows = np.flatnonzero((words != self._words_before).any(axis=1))
        return {**weights, _ROWS: rows.astype(np.int32), _CHANGED: words[rows]}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Load what ``weights`` returned for a network from the same checkpoint."""
        words = self._words_before.copy()
        words[weights[_ROWS]] = weights[_CHANGED]
        whole = {name: each for name, each in weights.items() if name not in (_ROWS, _CHANGED)} | {self._table: words}
        self.load_state_dict({name: torch.from_numpy(np.array(each)) for name, each in whole.items()})

    def digest(self) -> str:
        """SHA-256 (hex) of all parameters."""
        digest = hashlib.sha256()
        for name, each in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(each.detach().cpu().numpy()).data)
        return digest.hexdigest()


def open_encoder(folder: Path, head: Head, seed: int, projection: bool = False, precision: Chosen = "fp32") -> Encoder:
    """The checkpoint in ``folder`` under a head; layers that the checkpoint does not bring are drawn from ``seed``.

    Raises UsageError if the folder is not a checkpoint of an encoder, or lacks weights of its architecture.
    """
    transformer = _open_transformer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(transformer, head, pooling_of(folder), projection, precision)


def _open_transformer(folder: Path) -> nn.Module:
    from safetensors import SafetensorError
    from transformers import AutoModel
    from transformers.utils import logging

    # Both would write to stderr; a checkpoint that does not fit is an error below.
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        transformer, report = AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"{folder} is not a checkpoint of an encoder: {str(error).splitlines()[0]}") from error
    lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if lacking or report["mismatched_keys"]:
        named = lacking or sorted(str(each) for each in report["mismatched_keys"])
        raise UsageError(f"the checkpoint {folder} lacks {len(named)} weights of its architecture, {named[0]} first")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # never used here, and parameters without a gradient stop data-parallel training
    return cast(nn.Module, transformer)


def pooling_of(folder: Path) -> str:
    """The pooling that a sentence-transformers checkpoint states; mean, their default, for a plain transformer.

    Raises UsageError for a module or a pooling that is not known here.
    """
    modules = folder / "modules.json"
    if not modules.exists():
        return "mean"
    pooling = "mean"
    for module in json.loads(modules.read_text()):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            config = json.loads((folder / module["path"] / "config.json").read_text())
            pooling = _stated_pooling(config, folder)
        elif kind not in ("Transformer", "Normalize"):
            raise UsageError(
                f"the checkpoint {folder} has an unsupported module {kind}",
                "supported: transformer, pooling, normalize",
            )
    return pooling


def _stated_pooling(config: Mapping[str, object], folder: Path) -> str:
    stated = config.get("pooling_mode")
    if stated is None:
        short = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
        flags = [
            name.removeprefix("pooling_mode_") for name, on in config.items() if name.startswith("pooling_") and on
        ]
        stated = short.get(flags[0], flags[0]) if len(flags) == 1 else "+".join(flags)
    if stated not in POOLINGS:
        raise UsageError(
            f"the checkpoint {folder} has an unsupported pooling {stated!r}", f"known: {', '.join(POOLINGS)}"
        )
    return str(stated)


def open_tokenizer(folder: Path) -> Tokenizer:
    """The checkpoint's tokenizer. Raises UsageError if it has none that ``tokenizers`` supports."""
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in _VOCABULARIES):
        # transformers would create one with an empty vocabulary.
        raise UsageError(f"{folder} has no tokenizer", f"one of {', '.join(_VOCABULARIES)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return Tokenizer(tokenizer.backend_tokenizer, int(tokenizer.pad_token_id))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ImportError) as error:
        raise UsageError(f"{folder} has no usable tokenizer: {str(error).splitlines()[0]}") from error


def longest_input(folder: Path) -> int:
    """Tokens that the transformer can take at most: its position embeddings, less those that RoBERTa and MPNet skip."""
    config = json.loads((folder / "config.json").read_text())
    positions = int(config.get("max_position_embeddings") or 2**31 - 1)
    return positions - 2 if config.get("model_type") in ("roberta", "mpnet", "xlm-roberta", "camembert") else positions
