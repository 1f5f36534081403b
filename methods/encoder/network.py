"""The network: a transformer, its pooling, and its weights as arrays."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from xmcbench import UsageError
from xmcbench.methods.encoder.dropout import cheap_dropout
from xmcbench.methods.encoder.hardware import DTYPES, Chosen
from xmcbench.methods.encoder.heads import Head, layers_after_pooling
from xmcbench.methods.encoder.pooling import POOLINGS
from xmcbench.methods.encoder.settings import Settings

#: Names under which the changed rows of the word embeddings are kept: their numbers, their values.
_ROWS, _CHANGED = "changed_words", "changed_word_embeddings"
#: Under which the checkpoint is kept that weights belong to: SHA-256, uint8 [32].
CHECKPOINT = "checkpoint"


class Encoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One tower for instances and labels, from token numbers to one float32 vector per text.

    Where the similarity is cosine, vectors have length 1, so that inner product is the score everywhere downstream.
    ``projection`` puts a dense layer with tanh on the vector while training and leaves it out afterwards (SimCSE,
    section 6.3 of its paper). ``precision`` bf16 and fp16 compute products in 16 bits: by autocast in training, where
    weights, losses and optimizer stay float32; in inference by a copy with 16-bit weights.

    Two attributes trade time for memory while training. The loss stays the same. ``cached_tokens`` (None: off) embeds
    that many tokens at a time, which draws other dropout masks, and computes their activations again in the backward
    pass, so that the activations of one such batch are held and not those of the whole step. For contrastive losses
    this is GradCache (Gao et al. 2021): the loss sees all vectors of the step. ``recomputed_layers`` does the same for
    each layer. ``checkpoint_sha256`` (hex) is of the weights that training starts from and of their architecture, where
    these are known.
    """

    checkpoint_sha256: str | None = None
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
        self.head, self.precision, self.architecture = head, precision, settings.architecture
        self.poolings = settings.poolings if head == "native" else ("cls",)
        self.cosine = head == "cls" or (head == "native" and settings.similarity == "cosine")
        hidden = int(transformer.config.hidden_size) * len(self.poolings)  # type: ignore[union-attr, arg-type]
        self.layers, width = layers_after_pooling(head, settings, hidden)
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
        """What vectors depend on besides weights: architecture, poolings, layers, dimensions and similarity."""
        layers = "-".join(map(str, self.layers))
        return [self.architecture, self.pooling, layers, str(self.width), "cosine" if self.cosine else "dot"]

    def forward(self, ids: list[torch.Tensor], masks: list[torch.Tensor]) -> torch.Tensor:
        """Vectors float32 [n, width] of all texts of all batches, in order.

        ids: int64, masks: bool, one pair [rows, longest] a batch. Several batches in one call, because data-parallel
        training allows one forward pass a step.
        """
        device = ids[0].device.type
        # In bfloat16 on the CPU, plain products under autocast take half the time of fused attention.
        _set_attention(self.transformer, fused=device != "cpu" or self.precision != "bf16")
        with torch.autocast(device, DTYPES[self.precision], enabled=self.precision != "fp32"), cheap_dropout(device):
            pooled = torch.cat([self._batch(*batch) for batch in zip(self._words(ids), masks, strict=True)])
        return self._finished(pooled.float())

    def frozen(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """A function from a batch, ids int64 and mask bool [n, longest], to its vectors, for inference.

        In bf16 and fp16 it holds a copy of the transformer with weights of that type as they are now, on the CPU too:
        autocast casts them again in every layer of every batch, and keeps what is between the products in float32.
        """
        transformer = self.transformer
        if self.precision != "fp32":
            transformer = copy.deepcopy(transformer).to(DTYPES[self.precision]).eval()
        _set_attention(transformer, fused_attention(next(self.parameters()).device.type, self.precision))

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

        The gradient of a look-up has the size of the whole table, so it is computed once per step, not per batch.
        """
        table: Any = self.transformer.get_input_embeddings()  # type: ignore[operator, union-attr]
        found = table(torch.cat([each.flatten() for each in ids])).split([each.numel() for each in ids])
        return tuple(words.view(*each.shape, -1) for words, each in zip(found, ids, strict=True))

    def save_memory(self, cached_tokens: int | None, recomputed_layers: bool) -> None:
        """Set how much of a step is computed twice to save memory.

        Raises UsageError where the architecture cannot compute its layers again.
        """
        self.cached_tokens, self.recomputed_layers = cached_tokens, recomputed_layers
        if recomputed_layers:
            transformer: Any = self.transformer
            if not transformer.supports_gradient_checkpointing:
                raise UsageError(
                    f"recomputed_layers = True, but {type(transformer).__name__} cannot compute its layers again",
                    "set cached_tokens, which saves memory with any architecture",
                )
            enable = getattr(transformer, "activation_checkpointing_enable", None)  # its name before: gradient_...
            (enable or transformer.gradient_checkpointing_enable)(_recomputed(transformer.device.type))

    def _batch(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The pooled vectors of one batch [rows, hidden], with its activations, or with what makes them again."""
        if self.cached_tokens is None or not (self.training and torch.is_grad_enabled()):
            return self._pooled(words, mask)
        # Random numbers are those of the first pass, so dropout is the same in both.
        return cast(torch.Tensor, checkpoint(self._pooled, words, mask, **_recomputed(words.device.type)))

    def _pooled(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.transformer(inputs_embeds=words, attention_mask=mask.long()).last_hidden_state
        return self._pool(states, mask)

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, longest, hidden] to vectors [n, poolings x hidden]; padding is at the end of a text."""
        found = [POOLINGS[pooling](states, mask) for pooling in self.poolings]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def weights(self) -> dict[str, np.ndarray]:
        """All parameters by name, float32 (a copy); of the word embeddings only the rows that training has changed.

        A short training changes only part of the vocabulary, and word embeddings are half of a small encoder. The other
        rows are those of the checkpoint, whose SHA-256 is among the arrays where it is known: uint8 [32].
        """
        weights = {name: each.detach().cpu().numpy().copy() for name, each in self.state_dict().items()}
        words = weights.pop(self._table)
        rows = np.flatnonzero((words != self._words_before).any(axis=1))
        weights |= {_ROWS: rows.astype(np.int32), _CHANGED: words[rows]}
        if self.checkpoint_sha256 is not None:
            weights[CHECKPOINT] = np.frombuffer(bytes.fromhex(self.checkpoint_sha256), np.uint8).copy()
        return weights

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Load what ``weights`` returned for a network from the same checkpoint, which is not checked."""
        words = self._words_before.copy()
        words[weights[_ROWS]] = weights[_CHANGED]
        others = {name: each for name, each in weights.items() if name not in (_ROWS, _CHANGED, CHECKPOINT)}
        whole = {**others, self._table: words}
        self.load_state_dict({name: torch.from_numpy(np.array(each)) for name, each in whole.items()})

    def digest(self) -> str:
        """SHA-256 (hex) of all parameters."""
        digest = hashlib.sha256()
        for name, each in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(each.detach().cpu().numpy()).data)
        return digest.hexdigest()


def fused_attention(device: str, precision: Chosen) -> bool:
    """Whether inference takes fused attention and not plain products: what is faster.

    In bfloat16 on the CPU it is faster with AMX. With AVX-512 alone torch computes it in float32, which takes 1.5 to 2
    times as long as plain products. An older torch does not tell what the processor has.
    """
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return device != "cpu" or precision != "bf16" or bool(known.get("amx_bf16"))


def _recomputed(device: str) -> dict[str, Any]:
    """How activations are computed again: outside ``forward``, and with the dropout that it has."""
    return {"use_reentrant": False, "context_fn": lambda: (nullcontext(), cheap_dropout(device))}


def _set_attention(transformer: nn.Module, fused: bool) -> None:
    """Fused attention where it is wanted and the architecture has it, else plain products."""
    wanted = "sdpa" if fused and getattr(transformer, "_supports_sdpa", False) else "eager"
    config: Any = transformer.config
    if config._attn_implementation != wanted:
        transformer.set_attn_implementation(wanted)  # type: ignore[operator, union-attr]
