"""A transformer for inference alone, with the products that are fastest on this machine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from xmcbench.methods.encoder.hardware import DTYPES, TOKENS, Chosen


def freeze(transformer: nn.Module, device: str, precision: Chosen) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    """Return a function from a batch, ids int64 and mask bool [n, longest], to its hidden states, for inference alone.

    In bf16 and fp16 it holds a copy with weights of that type: autocast would cast them again in every layer of every
    batch, and keep what is between the products in float32. On the CPU, the weights of linear layers are copied once
    more into the layout of the products.
    """
    packed = can_pack(device, precision)
    if precision != "fp32":
        transformer = copy.deepcopy(transformer).to(DTYPES[precision]).eval()
    elif packed:  # modules of its own, with the same parameters
        transformer = copy.deepcopy(transformer, {id(weights): weights for weights in transformer.parameters()}).eval()
    set_attention(transformer, is_fusing_faster(device, precision))
    if packed:
        _pack(transformer)

    def states(ids: torch.Tensor, mask: torch.Tensor) -> Any:
        return transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state  # type: ignore[operator]

    return states


def is_fusing_faster(device: str, precision: Chosen) -> bool:
    """Return whether inference is faster with fused attention than with plain products. In bfloat16 on the CPU it is
    with AMX. With AVX-512 alone torch computes it in float32, which takes 1.5 to 2 times as long."""
    return device != "cpu" or precision != "bf16" or bool(_capabilities().get("amx_bf16"))


def can_pack(device: str, precision: Chosen) -> bool:
    """Return whether oneDNN multiplies by packed weights here. In float32 torch otherwise calls MKL, which takes twice
    as long on processors of AMD with AVX-512; in bfloat16 it packs them again in every product."""
    kernels = torch.ops.mkldnn
    if device != "cpu" or _capabilities().get("architecture") != "x86_64" or not hasattr(kernels, "_linear_pointwise"):
        return False
    return precision == "fp32" or (precision == "bf16" and bool(kernels._is_mkldnn_bf16_supported()))


def set_attention(transformer: nn.Module, fused: bool) -> None:
    """Fused attention where it is wanted and the architecture has it, else plain products."""
    wanted = "sdpa" if fused and getattr(transformer, "_supports_sdpa", False) else "eager"
    config: Any = transformer.config
    if config._attn_implementation != wanted:
        transformer.set_attn_implementation(wanted)  # type: ignore[operator, union-attr]


def _capabilities() -> Mapping[str, Any]:
    """The abilities of the processor; an older torch does not tell them."""
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return known


def _pack(transformer: nn.Module) -> None:
    """Let all linear layers multiply by packed weights."""
    for layer in transformer.modules():
        if type(layer) is nn.Linear:
            weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().contiguous(), TOKENS["cpu"])
            layer.forward = partial(_multiply, weight, None if layer.bias is None else layer.bias.detach())


def _multiply(weight: torch.Tensor, bias: torch.Tensor | None, states: torch.Tensor) -> Any:
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
