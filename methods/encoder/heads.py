"""Heads: what comes after the pooling."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from xmcbench import UsageError
from xmcbench.methods.encoder.settings import DenseLayer, Settings

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
