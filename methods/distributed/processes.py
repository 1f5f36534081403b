"""A function called in several processes of this machine."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch

from xmcbench import MethodError, usable_cores


def run_in_processes(
    function: Callable[..., None], arguments: tuple[Any, ...], processes: int, doing: str, hint: str = ""
) -> None:
    """Call ``function(local, *arguments)`` in new processes of this machine; ``local`` is the number of one, from 0.

    Each process gets a copy of the arguments with all tensors on the CPU, and an equal share of the cores.
    doing: for messages, what they do, as in "training". hint: what to do when the system ends one of them. Raises
    MethodError when a process fails or ends early; the others are then ended.
    """
    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException, spawn

    # Handed over as bytes: tensors of torch.multiprocessing would be in shared memory, of which a container has little.
    packed = io.BytesIO()
    torch.save(arguments, packed, pickle_protocol=5)
    try:
        spawn(_called, (function, packed.getvalue(), processes), processes)
    except ProcessRaisedException as error:
        raise MethodError(f"a process failed while {doing}: {_reason(str(error))}") from error
    except ProcessExitedException as error:
        raise MethodError(f"a process ended while {doing}: {error}", hint) from error


def _called(local: int, function: Callable[..., None], packed: bytes, processes: int) -> None:
    torch.set_num_threads(max(1, usable_cores() // processes))
    # Pickled by the process that started this one and handed over in memory, as spawn does with all arguments: nothing
    # is read from a file.
    function(local, *torch.load(io.BytesIO(packed), map_location="cpu", weights_only=False))


def _reason(traceback: str) -> str:
    """The last line of a traceback; of our own errors without the name of the class."""
    last = traceback.strip().splitlines()[-1]
    return last.partition(": ")[2] if last.startswith("xmcbench.errors.") else last
