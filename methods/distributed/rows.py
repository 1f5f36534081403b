"""Rows of an array in a file, computed by all processes of this machine and of others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from xmcbench import progress
from xmcbench.methods.distributed.exchange import exchange
from xmcbench.methods.distributed.machines import Machines
from xmcbench.methods.distributed.processes import run_in_processes

#: Texts from which several processes are started: about what one embeds in the seconds that it takes to start. An
#: estimate, not a measurement.
WORTHWHILE = {"cpu": 10_000, "cuda": 100_000, "mps": 100_000}


class Rows(Protocol):
    """Rows that any process can compute a share of. Pickled, it can be computed with in another process."""

    def shares(self, count: int) -> list[np.ndarray]:
        """The rows of each of ``count`` processes, int64, every row once; some may have none."""

    def write(self, out: np.ndarray, share: int, count: int, device: str) -> None:
        """Write the rows of one of ``count`` shares to ``out``, computed on a device such as ``cuda:1``."""

    def identity(self) -> str:
        """What tells these rows from others, the same on every machine."""


def write_rows(rows: Rows, out: np.ndarray, processes: int, device: str) -> None:
    """Fill ``out`` by ``processes`` processes on this machine, and on several machines by theirs too.

    out: [n, width], a memory map where n is not 0. Every process maps it again and writes its own rows; machines
    exchange theirs. device: ``cpu``, ``cuda`` or ``mps``; the I-th process computes on the I-th GPU. If there are few
    rows, this process computes all of them, on every machine. Raises MethodError when a process or another machine
    fails.
    """
    machines = Machines.here()
    count = machines.count * processes
    if count == 1 or len(out) < max(1, WORTHWHILE[device]):
        rows.write(out, 0, 1, device)
        return
    first = machines.number * processes
    if processes == 1:
        rows.write(out, first, count, device)
    else:
        path = cast(np.memmap[Any, Any], out).filename
        arguments = (rows, path, out.shape, out.dtype, first, count, device)
        run_in_processes(_write, arguments, processes, "embedding", "out of memory? use fewer processes")
    if machines.count > 1:
        shares = rows.shares(count)
        owned = [np.concatenate(shares[each : each + processes]) for each in range(0, count, processes)]
        exchange(machines, out, owned, rows.identity())


def _write(
    local: int, rows: Rows, path: Path, shape: tuple[int, ...], dtype: np.dtype, first: int, count: int, device: str
) -> None:
    if device == "cuda":
        device = f"cuda:{local}"
        torch.cuda.set_device(device)
    if local:
        # The shares are alike: the first process reports for all.
        os.environ.pop(progress.VARIABLE, None)
    rows.write(np.memmap(path, dtype, "r+", shape=shape), first + local, count, device)
