"""Functions called in several processes of this machine, and rows of an array that they and other machines compute."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from xmcbench import MethodError, progress, usable_cores
from xmcbench.methods.distributed.machines import Machines


def run_in_processes(
    function: Callable[..., None], arguments: tuple[Any, ...], processes: int, doing: str, hint: str = ""
) -> None:
    """Call ``function(local, *arguments)`` in new processes of this machine; ``local`` is the number of one, from 0.
    Each gets a copy of the arguments, tensors on the CPU, and an equal share of the cores. doing: their work, for
    messages. hint: for a process that the system ends. Raises MethodError when one fails, and ends the others."""
    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException, spawn

    # Handed over as bytes: tensors of torch.multiprocessing would be in shared memory, of which a container has little.
    packed = io.BytesIO()
    torch.save(arguments, packed, pickle_protocol=5)
    try:
        spawn(_call, (function, packed.getvalue(), processes), processes)
    except ProcessRaisedException as error:
        raise MethodError(f"a process failed while {doing}: {_reason(str(error))}") from error
    except ProcessExitedException as error:
        raise MethodError(f"a process ended while {doing}: {error}", hint) from error


def _call(local: int, function: Callable[..., None], packed: bytes, processes: int) -> None:
    torch.set_num_threads(max(1, usable_cores() // processes))
    # Pickled by the process that started this one and handed over in memory, as spawn does with all arguments: nothing
    # is read from a file.
    function(local, *torch.load(io.BytesIO(packed), map_location="cpu", weights_only=False))


def _reason(traceback: str) -> str:
    """The last line of a traceback; of our own errors without the name of the class."""
    last = traceback.strip().splitlines()[-1]
    return last.partition(": ")[2] if last.startswith("xmcbench.errors.") else last


#: Seconds to wait for another machine. All have shares of the same size.
PATIENCE_S = 1800.0
#: Bytes of a message.
_MESSAGE = 64 << 20
_HINT = "start the same command on all machines, with runs folders of the same content"


def exchange(machines: Machines, rows: np.ndarray, owned: Sequence[np.ndarray], identity: str) -> None:
    """Fill the rows that other machines have computed. Returns when every machine has all rows. rows: a memory map [n,
    width] with this machine's own rows filled. owned: the rows of each machine, int64. Raises MethodError when the
    ``identity`` of the rows differs, or a machine does not come within ``PATIENCE_S``."""
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
        dist.all_gather_object(told, _summary(shape, dtype, owned, identity))
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


def _summary(shape: tuple[int, int], dtype: np.dtype, owned: Sequence[np.ndarray], identity: str) -> str:
    """Summary that must be equal on all machines, also in the number of processes of each."""
    digest = hashlib.sha256()
    for numbers in owned:
        digest.update(f"{len(numbers)} ".encode())
        digest.update(numbers.astype("<i8").tobytes())
    return f"{shape} {dtype} {digest.hexdigest()} {identity}"


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
        """Identity of these rows, the same on every machine."""


def write_rows(rows: Rows, out: np.ndarray, processes: int, device: str) -> None:
    """Fill ``out``, [n, width], by ``processes`` processes on this machine and, on several machines, by theirs too.
    Every process maps ``out`` again and writes its own rows; machines exchange theirs. Process I computes on the I-th
    GPU of ``cuda``. A few rows are all computed here. Raises MethodError when a process or machine fails."""
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
        owned = [np.concatenate(shares[start : start + processes]) for start in range(0, count, processes)]
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
