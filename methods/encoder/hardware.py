"""The device and the precision of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

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
