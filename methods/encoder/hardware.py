"""The device and the precision of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from xmcbench import Unavailable

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "bf16", "fp16", "fp32"]
Chosen = Literal["bf16", "fp16", "fp32"]

#: The type of weights and products in a precision.
DTYPES: dict[Chosen, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

#: Tokens of a batch, padding included: what keeps the caches of a core, and the units of a GPU, busy. Training takes
#: twice as many, since every batch has a gradient of the whole table of word embeddings to fill.
TOKENS = {"cpu": 1024, "cuda": 65_536}
#: Tokens of a batch in inference in bfloat16 on the CPU: measured, see ``tests/benchmarks``.
_BF16_TOKENS = 2048


def inference_tokens(device: str, precision: str) -> int:
    """Tokens of a batch where nothing is trained and attention is fused, padding included."""
    return _BF16_TOKENS if (device, precision) == ("cpu", "bf16") else TOKENS[device]


#: The first compute capability that multiplies float16 faster than float32.
_TENSOR_CORES = (7, 0)


def chosen_device(device: Device, processes: int = 1) -> Literal["cpu", "cuda"]:
    """``auto`` is a GPU if there is one. Raises Unavailable if ``cuda`` is requested and there is none.

    Raises Unavailable too if there are GPUs, but fewer than processes, each of which needs one.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable("no CUDA device found", "use --device cpu")
    chosen: Literal["cpu", "cuda"] = "cpu" if device == "cpu" or not torch.cuda.is_available() else "cuda"
    if chosen == "cuda" and (count := torch.cuda.device_count()) < processes:
        raise Unavailable(f"{processes} processes need a GPU each, but only {count} found", f"use --processes {count}")
    return chosen


def chosen_precision(precision: Precision, device: str) -> Chosen:
    """``auto`` is 16 bits where the hardware multiplies them faster than float32: bfloat16, else float16 on a GPU.

    Volta and Turing (V100, T4) only emulate bfloat16, which is slower than float32; they are fast with float16.
    """
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
