"""The device and the precision of a network, and its inference with the products and the attention that are fastest."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from xmcbench import Unavailable

Device = Literal["auto", "cpu", "cuda", "mps"]
Place = Literal["cpu", "cuda", "mps"]
Precision = Literal["auto", "bf16", "fp16", "fp32"]
Chosen = Literal["bf16", "fp16", "fp32"]

#: The type of weights and products in a precision.
DTYPES: dict[Chosen, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

#: Tokens of a batch, padding included: what keeps the caches of a core, and the units of a GPU, busy. Training takes
#: twice as many, since every batch has a gradient of the whole table of word embeddings to fill.
TOKENS = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}
#: Tokens of a batch in inference in bfloat16 on the CPU: measured, see ``tests/benchmarks``.
_BF16_TOKENS = 2048


def inference_tokens(device: str, precision: str) -> int:
    """Tokens of a batch where nothing is trained and attention is fused, padding included."""
    return _BF16_TOKENS if (device, precision) == ("cpu", "bf16") else TOKENS[device]


#: The first compute capability that multiplies float16 faster than float32.
_TENSOR_CORES = (7, 0)


def choose_device(device: Device, processes: int = 1) -> Place:
    """``auto`` is a CUDA device if there is one, else the CPU. Raises Unavailable for a device that is not here. Raises
    Unavailable too if there are GPUs, but fewer than processes, each of which needs one."""
    if device == "mps":
        if not torch.backends.mps.is_available():
            raise Unavailable("torch finds no Apple GPU (mps)", "use --device cpu; mps needs macOS on arm64")
        if processes > 1:
            raise Unavailable(f"{processes} processes need a GPU each, and mps is one", "use --processes 1")
        return "mps"
    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable("no CUDA device found", "use --device cpu")
    chosen: Place = "cpu" if device == "cpu" or not torch.cuda.is_available() else "cuda"
    if chosen == "cuda" and (count := torch.cuda.device_count()) < processes:
        raise Unavailable(f"{processes} processes need a GPU each, but only {count} found", f"use --processes {count}")
    return chosen


def choose_precision(precision: Precision, device: str) -> Chosen:
    """``auto`` is 16 bits where the hardware multiplies them faster than float32: bfloat16, else float16 on a GPU.
    Volta and Turing (V100, T4) only emulate bfloat16, which is slower than float32; they are fast with float16. On mps
    it is float32, and 16 bits raise Unavailable: autocast and the scale of losses need float64 there, which mps lacks.
    """
    if device == "mps":
        if precision not in ("auto", "fp32"):
            raise Unavailable(f"{precision} is not computed on mps", "use precision auto or fp32")
        return "fp32"
    if precision != "auto":
        return precision
    if device != "cuda":
        return "bf16" if {"avx512_bf16", "amx_bf16"} & _cpu_flags() else "fp32"
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16"
    return "fp16" if torch.cuda.get_device_capability() >= _TENSOR_CORES else "fp32"


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()  # not Linux: unknown, and float32 is always correct
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


#: Architectures whose attention is nothing but softmax(q k' / sqrt(d) + mask) v, and the name of ours in transformers.
_PLAIN, _ATTENTION = ("bert", "camembert", "roberta", "xlm-roberta"), "xmcbench"


def freeze(transformer: nn.Module, device: str, precision: Chosen) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    """Return a function from a batch, ids int64 and mask bool [n, longest], to its hidden states, for inference alone.
    In bf16 and fp16 it holds a copy with weights of that type: autocast would cast them again in every layer of every
    batch, and keep what is between the products in float32. On the CPU, the weights of linear layers are copied into
    the layout of the products."""
    packed = can_pack(device, precision)
    if precision != "fp32":
        transformer = copy.deepcopy(transformer).to(DTYPES[precision]).eval()
    elif packed:  # modules of its own, with the same parameters
        transformer = copy.deepcopy(transformer, {id(weights): weights for weights in transformer.parameters()}).eval()
    config: Any = transformer.config
    fused = is_fusing_faster(device, precision)
    own = packed and not fused and config.model_type in _PLAIN
    if own:
        _register_attention()
        transformer.set_attn_implementation(_ATTENTION)  # type: ignore[operator, union-attr]
    else:
        set_attention(transformer, fused)
    if packed:
        pack(transformer)

    def states(ids: torch.Tensor, mask: torch.Tensor) -> Any:
        # Where no text is padded, nothing is added to the scores.
        attended = None if own and bool(mask.all()) else mask.long()
        return transformer(input_ids=ids, attention_mask=attended).last_hidden_state  # type: ignore[operator]

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


def pack(model: nn.Module) -> None:
    """Replace the weights of all linear layers by packed ones, for inference alone."""
    for layer in model.modules():
        if type(layer) is nn.Linear:
            weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().contiguous(), TOKENS["cpu"])
            # The others go: without this a model would take the memory of its linear layers twice.
            layer.weight = nn.Parameter(weight, requires_grad=False)
            layer.forward = partial(_multiply, weight, None if layer.bias is None else layer.bias.detach())


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


def _multiply(weight: torch.Tensor, bias: torch.Tensor | None, states: torch.Tensor) -> Any:
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")


def _register_attention() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(_ATTENTION, _attend)
    AttentionMaskInterface.register(_ATTENTION, eager_mask)


def _attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Attention for transformers, from [n, heads, longest, width] to [n, longest, heads, width]: the plain products of
    transformers, in place, with the softmax of oneDNN, which takes half the time of torch's."""
    scores = (query @ key.transpose(2, 3)).mul_(scaling)
    if attention_mask is not None:
        scores += attention_mask
    return (scores.to_mkldnn().softmax(-1).to_dense() @ value).transpose(1, 2), None
