"""The network: a transformer, its pooling, and its weights as arrays."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from xmcbench import UsageError
from xmcbench.methods.encoder.dropout import CheapDropout
from xmcbench.methods.encoder.hardware import Chosen
from xmcbench.methods.encoder.settings import DenseLayer, Settings, read_settings
from xmcbench.methods.encoder.tokens import Tokenizer

#: ``paper``: [CLS] -> Dense 512 tanh, inner product. ``native``: the checkpoint's own pooling, layers and similarity.
#: ``cls``: the last hidden state of [CLS], cosine.
Head = Literal["paper", "native", "cls"]
#: Vocabulary files; a tokenizer has at least one of them.
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
#: Names under which the changed rows of the word embeddings are kept: their numbers, their values.
_ROWS, _CHANGED = "changed_words", "changed_word_embeddings"
#: Dimensions of the paper's head (MACLR section 5.1).
PAPER_WIDTH = 512
#: How activations are computed again: outside ``forward``, and with the dropout that it has.
_RECOMPUTED: dict[str, Any] = {"use_reentrant": False, "context_fn": lambda: (nullcontext(), CheapDropout())}


class Encoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One tower for instances and labels, from token numbers to one float32 vector per text.

    Where the similarity is cosine, vectors have length 1, so that inner product is the score everywhere downstream.
    ``projection`` puts a dense layer with tanh on the vector while training and leaves it out afterwards (SimCSE,
    section 6.3 of its paper). ``precision`` bf16 and fp16 compute products in 16 bits: by autocast in training, where
    weights, losses and optimizer stay float32; bf16 in inference by a copy with bfloat16 weights.

    Two attributes trade time for memory while training. The loss stays the same. ``cached_tokens`` (None: off) embeds
    that many tokens at a time, which draws other dropout masks, and computes their activations again in the backward
    pass, so that the activations of one such batch are held and not those of the whole step. For contrastive losses
    this is GradCache (Gao et al. 2021): the loss sees all vectors of the step. ``recomputed_layers`` does the same for
    each layer.
    """

    cached_tokens: int | None = None
    recomputed_layers: bool = False

    def __init__(
        self,
        transformer: nn.Module,
        head: Head,
        settings: Settings,
        projection: bool = False,
        precision: Chosen = "fp32",
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.head, self.precision = head, precision
        self.poolings = settings.poolings if head == "native" else ("cls",)
        self.cosine = head == "cls" or (head == "native" and settings.similarity == "cosine")
        hidden = int(transformer.config.hidden_size) * len(self.poolings)  # type: ignore[union-attr, arg-type]
        self.layers, width = _layers_after_pooling(head, settings, hidden)
        self.width = min(width, settings.truncate_dim or width)
        self.projection = nn.Linear(self.width, self.width) if projection else None
        table: Any = transformer.get_input_embeddings()  # type: ignore[operator]
        self._table = next(name for name, each in self.named_parameters() if each is table.weight)
        self._words_before = table.weight.detach().cpu().numpy().copy()

    @property
    def pooling(self) -> str:
        """The poolings in one word."""
        return "+".join(self.poolings)

    @property
    def form(self) -> list[str]:
        """What vectors depend on besides weights: poolings, layers, dimensions and similarity."""
        return [self.pooling, "-".join(map(str, self.layers)), str(self.width), "cosine" if self.cosine else "dot"]

    def forward(self, ids: list[torch.Tensor], masks: list[torch.Tensor]) -> torch.Tensor:
        """Vectors float32 [n, width] of all texts of all batches, in order.

        ids: int64, masks: bool, one pair [rows, longest] a batch. Several batches in one call, because data-parallel
        training allows one forward pass a step.
        """
        device = ids[0].device.type
        # In bfloat16 on a processor, plain products under autocast take half the time of fused attention.
        _set_attention(self.transformer, fused=device != "cpu" or self.precision != "bf16")
        half = torch.float16 if self.precision == "fp16" else torch.bfloat16
        with torch.autocast(device, half, enabled=self.precision != "fp32"), CheapDropout():
            pooled = torch.cat([self._batch(*batch) for batch in zip(self._words(ids), masks, strict=True)])
        return self._finished(pooled.float())

    def frozen(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """A function from a batch, ids int64 and mask bool [n, longest], to its vectors, for inference.

        In bf16 it holds a copy of the transformer with bfloat16 weights as they are now: autocast casts them anew in
        every layer of every batch, and keeps what is between the products in float32.
        """
        transformer = self.transformer
        if self.precision == "bf16":
            transformer = copy.deepcopy(transformer).bfloat16().eval()
        _set_attention(transformer, fused=True)

        def vectors(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states = transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state  # type: ignore[operator]
            return self._finished(self._pool(states, mask).float())

        return vectors

    def _finished(self, pooled: torch.Tensor) -> torch.Tensor:
        """The vectors of pooled states, both float32: layers, truncation, projection, length."""
        vectors = self.layers(pooled)[:, : self.width]
        if self.projection is not None and self.training:
            vectors = torch.tanh(self.projection(vectors))
        return nn.functional.normalize(vectors, dim=1) if self.cosine else cast(torch.Tensor, vectors)

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
            (enable or transformer.gradient_checkpointing_enable)(_RECOMPUTED)

    def _batch(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The pooled vectors of one batch [rows, hidden], with its activations, or with what makes them again."""
        if self.cached_tokens is None or not (self.training and torch.is_grad_enabled()):
            return self._pooled(words, mask)
        # Random numbers are those of the first pass, so dropout is the same in both.
        return cast(torch.Tensor, checkpoint(self._pooled, words, mask, **_RECOMPUTED))

    def _pooled(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.transformer(inputs_embeds=words, attention_mask=mask.long()).last_hidden_state
        return self._pool(states, mask)

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, longest, hidden] to vectors [n, poolings x hidden]; padding is at the end of a text."""
        found = [_POOL[pooling](states, mask) for pooling in self.poolings]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

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


def _cls(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(~mask[:, :, None], -torch.inf).amax(1)


def _weighted(states: torch.Tensor, weights: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    return (states.float() * weights[:, :, None]).sum(1) / total[:, None]


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1))


def _mean_by_root(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _weighted(states, mask, mask.sum(1).sqrt())


def _mean_by_place(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return _weighted(states, weights, weights.sum(1))


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1]


#: How the hidden states of a text, [n, longest, hidden] with their mask, become one vector, by name.
_POOL: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _mean_by_place,
    "lasttoken": _last,
}


class _UnitLength(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Vectors scaled to length 1, between other layers."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(vectors, dim=1)


def _layers_after_pooling(head: Head, settings: Settings, hidden: int) -> tuple[nn.Sequential, int]:
    """What a head puts after the pooling, and the dimensions of what comes out.

    The head of the paper takes the dense layer of a checkpoint that has it, and else one that is drawn at random.
    """
    if head == "cls":
        return nn.Sequential(), hidden
    if head == "paper" and not settings.dense:
        return nn.Sequential(nn.Linear(hidden, PAPER_WIDTH), nn.Tanh()), PAPER_WIDTH
    if head == "paper" and (
        settings.poolings != ("cls",) or len(settings.layers) > 1 or settings.dense[0].activation != "Tanh"
    ):
        raise UsageError(
            f"the checkpoint {settings.transformer} does not end as the head of the paper does: [CLS], one dense "
            "layer, tanh",
            "head=native takes it as it is",
        )
    layers: list[nn.Module] = []
    width = hidden
    for layer in settings.layers:
        layers.extend([_UnitLength()] if layer is None else _opened_dense(layer, width))
        width = width if layer is None else layer.outputs
    return nn.Sequential(*layers), width


def _opened_dense(layer: DenseLayer, width: int) -> list[nn.Module]:
    """A dense layer of a checkpoint and its activation. Raises UsageError where it does not fit or lacks weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    activation = getattr(nn, layer.activation, None)
    if not (isinstance(activation, type) and issubclass(activation, nn.Module)):
        raise UsageError(f"{layer.folder} has an activation that torch does not know: {layer.activation}")
    linear = nn.Linear(layer.inputs, layer.outputs, layer.bias)
    try:
        weights = load_file(layer.folder / "model.safetensors")
        linear.load_state_dict({name.removeprefix("linear."): each for name, each in weights.items()})
        made = activation()
    except (OSError, RuntimeError, TypeError, SafetensorError) as error:
        raise UsageError(f"{layer.folder} has no usable dense layer: {str(error).splitlines()[0]}") from error
    if layer.inputs != width:
        raise UsageError(f"the dense layer {layer.folder} expects {layer.inputs} dimensions and gets {width}")
    return [linear, made]


def _set_attention(transformer: nn.Module, fused: bool) -> None:
    """Fused attention where it is wanted and the architecture has it, else plain products."""
    wanted = "sdpa" if fused and getattr(transformer, "_supports_sdpa", False) else "eager"
    config: Any = transformer.config
    if config._attn_implementation != wanted:
        transformer.set_attn_implementation(wanted)  # type: ignore[operator, union-attr]


def open_encoder(folder: Path, head: Head, seed: int, projection: bool = False, precision: Chosen = "fp32") -> Encoder:
    """The checkpoint in ``folder`` under a head; layers that it does not bring are drawn from ``seed``.

    Raises UsageError where the folder is not a checkpoint of an encoder, states what is not followed here, or lacks
    weights: random numbers never stand in for them.
    """
    settings = read_settings(folder)
    transformer = _open_transformer(settings.transformer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(transformer, head, settings, projection, precision)


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


def open_tokenizer(folder: Path, prompt: str = "") -> Tokenizer:
    """The checkpoint's tokenizer, which puts a prompt before every text.

    Raises UsageError where it has none that runs in ``tokenizers``.
    """
    from transformers import AutoTokenizer

    settings = read_settings(folder)
    folder = settings.transformer
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        # transformers would create one with an empty vocabulary.
        raise UsageError(f"{folder} has no tokenizer", f"one of {', '.join(_VOCABULARIES)}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return Tokenizer(tokenizer.backend_tokenizer, int(tokenizer.pad_token_id), prompt, settings.do_lower_case)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ImportError) as error:
        raise UsageError(f"{folder} has no usable tokenizer: {str(error).splitlines()[0]}") from error


def longest_input(folder: Path) -> int:
    """Tokens of a text at most: what the checkpoint states, and what its position embeddings can take.

    RoBERTa and MPNet skip two of their position embeddings.
    """
    settings = read_settings(folder)
    config = json.loads((settings.transformer / "config.json").read_text())
    positions = int(config.get("max_position_embeddings") or 2**31 - 1)
    skipped = 2 if config.get("model_type") in ("roberta", "mpnet", "xlm-roberta", "camembert") else 0
    return min(positions - skipped, settings.max_seq_length or positions)
