"""The network: a transformer, its pooling and layers, and its weights as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from xmcbench import UsageError
from xmcbench.methods.encoder.hardware import DTYPES, Chosen, freeze, set_attention
from xmcbench.methods.encoder.settings import DenseLayer, Settings

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def pool(pooling: str, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Pool hidden states [n, longest, hidden], with their mask bool [n, longest], by one of ``POOLINGS``. A text
    without a token has the zero vector, except by its first state, ``cls``."""
    if pooling == "cls":
        return states[:, 0]
    if pooling in ("max", "lasttoken"):
        last = (mask.sum(1) - 1).clamp(min=0)
        found = states[torch.arange(len(mask), device=mask.device), last]
        if pooling == "max":
            found = states.masked_fill(~mask[:, :, None], -torch.inf).amax(1)
        return found.masked_fill(~mask.any(1)[:, None], 0)
    weights = mask
    if pooling == "weightedmean":
        weights = mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)
    total = weights.sum(1)
    if pooling == "mean_sqrt_len_tokens":
        total = total.sqrt()
    # Nothing is divided by less than 1, the total of a text of one token.
    return (states.float() * weights[:, :, None]).sum(1) / total.clamp(min=1)[:, None]


def cheap_dropout(device: str) -> AbstractContextManager[object]:
    """Return the context of dropout: ``CheapDropout`` on the CPU; on other devices it only costs time."""
    return CheapDropout() if device == "cpu" else nullcontext()


class CheapDropout(TorchFunctionMode):  # type: ignore[misc] # torch counts as untyped
    """While active, dropout on the CPU takes 16 random bits per element, four elements from one number. Rates are
    rounded to multiples of 2^-16. Masks still depend on torch's random state alone. Fused attention has its own
    dropout."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called by torch in place of every function of its API."""
        return (_dropout if func is nn.functional.dropout else func)(*args, **(kwargs or {}))


def _dropout(
    input: torch.Tensor,  # noqa: A002 - its name in torch
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> torch.Tensor:
    """``torch.nn.functional.dropout``, by its signature."""
    levels = round(p * 2**16)
    if not training or not 0 < levels < 2**16 or inplace:
        return nn.functional.dropout(input, p, training, inplace)
    numbers = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # type: ignore[call-overload]
    bits = numbers.view(torch.int16)[: input.numel()].view(input.shape)
    # 0 or 1 by arithmetic on integers, which is vectorized; comparing and converting booleans takes twice as long.
    dropped = levels - 2**15 - 1
    kept = bits.clamp_(dropped, dropped + 1).sub_(dropped)
    return input * kept.to(input.dtype).div_(1 - levels / 2**16)


#: ``paper``: [CLS] -> Dense 512 tanh, inner product. ``native``: the checkpoint's own pooling, layers and similarity.
#: ``cls``: the last hidden state of [CLS], cosine.
Head = Literal["paper", "native", "cls"]
#: Dimensions of the paper's head (MACLR section 5.1).
PAPER_WIDTH = 512


class _UnitLength(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """Vectors scaled to length 1, between other layers."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(vectors, dim=1)


def layers_after_pooling(head: Head, settings: Settings, hidden: int) -> tuple[nn.Sequential, int]:
    """Return the layers of a head after the pooling, and the dimensions of their result. The head of the paper takes
    the dense layer of a checkpoint that has it, and else one that is drawn at random."""
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
        layers.extend([_UnitLength()] if layer is None else _open_dense(layer, width))
        width = width if layer is None else layer.outputs
    return nn.Sequential(*layers), width


def _open_dense(layer: DenseLayer, width: int) -> list[nn.Module]:
    """A dense layer of a checkpoint and its activation. Raises UsageError where it does not fit or lacks weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    activation = getattr(nn, layer.activation, None)
    if not (isinstance(activation, type) and issubclass(activation, nn.Module)):
        raise UsageError(f"{layer.folder} has an activation that torch does not know: {layer.activation}")
    linear = nn.Linear(layer.inputs, layer.outputs, layer.bias)
    try:
        weights = load_file(layer.folder / "model.safetensors")
        linear.load_state_dict({name.removeprefix("linear."): tensor for name, tensor in weights.items()})
        made = activation()
    except (OSError, RuntimeError, TypeError, SafetensorError) as error:
        raise UsageError(f"{layer.folder} has no usable dense layer: {str(error).splitlines()[0]}") from error
    if layer.inputs != width:
        raise UsageError(f"the dense layer {layer.folder} expects {layer.inputs} dimensions and gets {width}")
    return [linear, made]


#: Names under which the changed rows of the word embeddings are kept: their numbers, their values.
_ROWS, _CHANGED = "changed_words", "changed_word_embeddings"
#: Under which the checkpoint is kept that weights belong to: SHA-256, uint8 [32].
CHECKPOINT = "checkpoint"


class Encoder(nn.Module):  # type: ignore[misc] # torch counts as untyped
    """One tower for instances and labels, from token numbers to one float32 vector per text. Where the similarity is
    cosine, vectors have length 1, so that inner product is the score everywhere downstream. ``projection`` puts a dense
    layer with tanh on the vector while training only (SimCSE, section 6.3). ``precision`` bf16 and fp16 compute
    products in 16 bits: by autocast in training; in inference by a copy with 16-bit weights. Two attributes save memory
    while training, for the same loss. ``cached_tokens`` (None: off) embeds that many tokens at a time and computes
    their activations again in the backward pass, with other dropout masks (GradCache, Gao et al. 2021).
    ``recomputed_layers`` does so layer by layer. ``checkpoint_sha256`` (hex): of the initial weights and
    architecture."""

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
        self._table = next(name for name, tensor in self.named_parameters() if tensor is table.weight)
        self._words_before = table.weight.detach().cpu().numpy().copy()

    @property
    def pooling(self) -> str:
        """The poolings in one word."""
        return "+".join(self.poolings)

    @property
    def form(self) -> list[str]:
        """Facts that vectors depend on besides weights: architecture, poolings, layers, dimensions and similarity."""
        layers = "-".join(map(str, self.layers))
        return [self.architecture, self.pooling, layers, str(self.width), "cosine" if self.cosine else "dot"]

    def forward(self, ids: list[torch.Tensor], masks: list[torch.Tensor]) -> torch.Tensor:
        """Vectors float32 [n, width] of all texts of all batches, in order. ids: int64, masks: bool, one pair [rows,
        longest] a batch. Several batches in one call, because data-parallel training allows one forward pass a step."""
        device = ids[0].device.type
        # In bfloat16 on the CPU, plain products under autocast take half the time of fused attention.
        set_attention(self.transformer, fused=device != "cpu" or self.precision != "bf16")
        with torch.autocast(device, DTYPES[self.precision], enabled=self.precision != "fp32"), cheap_dropout(device):
            pooled = torch.cat([self._batch(*batch) for batch in zip(self._words(ids), masks, strict=True)])
        return self._finish(pooled.float())

    def frozen(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Return a function for inference from a batch, ids int64 and mask bool [n, longest], to its vectors, by the
        present weights; see ``freeze``."""
        states = freeze(self.transformer, next(self.parameters()).device.type, self.precision)

        def vectors(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self._finish(self._pool(states(ids, mask), mask).float())

        return vectors

    def _finish(self, pooled: torch.Tensor) -> torch.Tensor:
        """The vectors of pooled states, both float32: layers, truncation, projection, length."""
        vectors = self.layers(pooled)[:, : self.width]
        if self.projection is not None and self.training:
            vectors = torch.tanh(self.projection(vectors))
        return nn.functional.normalize(vectors, dim=1) if self.cosine else cast(torch.Tensor, vectors)

    def _words(self, ids: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The word embeddings of all batches, [rows, longest, hidden] each, looked up at once. The gradient of a
        look-up has the size of the whole table, so it is computed once per step, not per batch."""
        table: Any = self.transformer.get_input_embeddings()  # type: ignore[operator, union-attr]
        found = table(torch.cat([batch.flatten() for batch in ids])).split([batch.numel() for batch in ids])
        return tuple(words.view(*batch.shape, -1) for words, batch in zip(found, ids, strict=True))

    def save_memory(self, cached_tokens: int | None, recomputed_layers: bool) -> None:
        """Set how much of a step is computed twice to save memory. Raises UsageError where the architecture cannot."""
        self.cached_tokens, self.recomputed_layers = cached_tokens, recomputed_layers
        if recomputed_layers:
            transformer: Any = self.transformer
            if not transformer.supports_gradient_checkpointing:
                raise UsageError(
                    f"recomputed_layers = True, but {type(transformer).__name__} cannot compute its layers again",
                    "set cached_tokens, which saves memory with any architecture",
                )
            enable = getattr(transformer, "activation_checkpointing_enable", None)  # its name before: gradient_...
            (enable or transformer.gradient_checkpointing_enable)(_options_of_recomputing(transformer.device.type))
            # A hook that only reentrant recomputing needs, and which no other process could be sent.
            transformer.disable_input_require_grads()

    def _batch(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The pooled vectors of one batch [rows, hidden], with its activations, or with what makes them again."""
        if self.cached_tokens is None or not (self.training and torch.is_grad_enabled()):
            return self._embed_words(words, mask)
        # Random numbers are those of the first pass, so dropout is the same in both.
        return cast(
            torch.Tensor, checkpoint(self._embed_words, words, mask, **_options_of_recomputing(words.device.type))
        )

    def _embed_words(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.transformer(inputs_embeds=words, attention_mask=mask.long()).last_hidden_state
        return self._pool(states, mask)

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, longest, hidden] to vectors [n, poolings x hidden]; padding is at the end of a text."""
        found = [pool(pooling, states, mask) for pooling in self.poolings]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def weights(self) -> dict[str, np.ndarray]:
        """All parameters by name, float32 (a copy); of the word embeddings only the rows that training has changed. A
        short training changes only part of the vocabulary, and word embeddings are half of a small encoder. The other
        rows are those of the checkpoint, whose SHA-256 is among the arrays where it is known: uint8 [32]."""
        weights = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}
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
        others = {name: array for name, array in weights.items() if name not in (_ROWS, _CHANGED, CHECKPOINT)}
        whole = {**others, self._table: words}
        self.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in whole.items()})

    def digest(self) -> str:
        """SHA-256 (hex) of all parameters."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
        return digest.hexdigest()


def _options_of_recomputing(device: str) -> dict[str, Any]:
    """Options by which activations are computed again: outside ``forward``, with the same dropout."""
    return {"use_reentrant": False, "context_fn": partial(_contexts_of_recomputing, device)}


def _contexts_of_recomputing(device: str) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), cheap_dropout(device)
