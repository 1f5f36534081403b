"""Rows of an array, computed by several machines and brought together on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from xmcbench import MethodError
from xmcbench.methods.distributed.machines import Machines
from xmcbench.methods.distributed.processes import run_in_processes

#: Seconds to wait for another machine. All have shares of the same size.
PATIENCE_S = 1800.0
#: Bytes of a message.
_MESSAGE = 64 << 20
_HINT = "start the same command on all machines, with runs folders of the same content"


def exchange(machines: Machines, rows: np.ndarray, owned: Sequence[np.ndarray], identity: str) -> None:
    """Fill the rows that other machines have computed. Returns when every machine has all rows.

    rows: a memory map [n, width], of which this machine has filled its own. owned: the rows of each machine, int64.
    identity: what they are rows of. Raises MethodError when the machines have rows of different things, or when one of
    them does not come within ``PATIENCE_S``.
    """
    # In a process of its own: whatever happens, the port is free again for the next training or exchange.
    path = cast(np.memmap[Any, Any], rows).filename
    arguments = (machines, path, rows.shape, rows.dtype, list(owned), identity, PATIENCE_S)
    run_in_processes(_exchange, arguments, 1, "exchanging rows with other machines", _HINT)


def _exchange(
    _local: int,
    machines: Machines,
    path: Path,
    shape: tuple[int, int],
    dtype: np.dtype,
    owned: list[np.ndarray],
    identity: str,
    patience_s: float,
) -> None:
    import torch.distributed as dist

    machines.join(0, 1)
    # As bytes: gloo does not know every type.
    rows = np.memmap(path, np.uint8, "r+", shape=(shape[0], shape[1] * dtype.itemsize))
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=patience_s))
        told = [""] * machines.count
        dist.all_gather_object(told, f"{shape} {dtype} {identity}")
        if len(set(told)) > 1:
            raise MethodError("the machines do not work on the same cell", _HINT)
        step = max(1, _MESSAGE // max(1, rows.shape[1]))
        for machine, numbers in enumerate(owned):
            for start in range(0, len(numbers), step):
                part = numbers[start : start + step]
                own = machine == machines.number
                block = torch.from_numpy(rows[part] if own else np.empty((len(part), rows.shape[1]), np.uint8))
                dist.broadcast(block, machine)
                if not own:
                    rows[part] = block.numpy()
        # The first machine holds the meeting point: nobody goes on to the next one before all are done.
        dist.barrier()
    except RuntimeError as error:  # of torch.distributed: a machine did not come, or is gone
        reason = str(error).strip().partition("\n")[0]
        raise MethodError(
            f"another machine did not do the same within {patience_s / 60:g} minutes, or it failed: {reason}", _HINT
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
