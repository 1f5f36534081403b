"""Several machines that work on one cell: the same command, started once on each.

    torchrun --nnodes 2 --node-rank I --master-addr HOST --master-port 29500 --nproc-per-node 1 --no-python \\
        xmcbench run ... --processes 8

torchrun sets environment variables, which can also be set by hand: GROUP_WORLD_SIZE (the number of machines),
GROUP_RANK (which of them, from 0), MASTER_ADDR and MASTER_PORT (where that of rank 0 is reached). The machines train
together, share the texts that are embedded, and exchange the vectors.

Every machine needs its own runs folder, all with the same content: on a shared one they would block each other, and a
machine that already has an artifact does not come to share the work on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from xmcbench import UsageError

_HINT = "torchrun sets GROUP_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT"
#: Variables that torchrun sets for a process, and one that makes it join torchrun's own store.
_OF_PROCESS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE")


@dataclass(frozen=True)
class Machines:
    """Place of this machine, ``number`` of ``count``. address, port: where the processes of all machines meet."""

    count: int = 1
    number: int = 0
    address: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def here(cls) -> Machines:
        """From the environment; a single machine by default. Raises UsageError for invalid variables."""
        told = os.environ
        count = _number(told, "GROUP_WORLD_SIZE") if "GROUP_WORLD_SIZE" in told else 1
        if "GROUP_WORLD_SIZE" in told and told.get("LOCAL_WORLD_SIZE", "1") != "1":
            raise UsageError(
                f"torchrun started {told['LOCAL_WORLD_SIZE']} commands on this machine, which would block each other",
                "--nproc-per-node 1; --processes of xmcbench says how many work on a machine",
            )
        if count <= 1:
            return cls(port=_free_port())
        number = _number(told, "GROUP_RANK")
        if not 0 <= number < count:
            raise UsageError(f"GROUP_RANK = {number} must be below the number of machines, {count}", _HINT)
        if not told.get("MASTER_ADDR"):
            raise UsageError("GROUP_WORLD_SIZE is set, but MASTER_ADDR is not", _HINT)
        # torchrun's own store listens on MASTER_PORT.
        return cls(count, number, told["MASTER_ADDR"], _number(told, "MASTER_PORT") + 1)

    def environment(self, local: int, processes: int) -> dict[str, str]:
        """The variables of one of the processes here. local: its number on this machine, processes: how many."""
        return {
            "RANK": str(self.number * processes + local),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self.count * processes),
            "LOCAL_WORLD_SIZE": str(processes),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }

    def join(self, local: int, processes: int) -> None:
        """Set these variables in this process, so that torch finds the others."""
        os.environ |= self.environment(local, processes)
        # With it every process, that of rank 0 too, would look for torchrun's store at our port, where none is.
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)


@contextmanager
def alone() -> Iterator[None]:
    """Remove torchrun's variables, so that training inside does not look for other processes."""
    told = {name: os.environ.pop(name) for name in _OF_PROCESS if name in os.environ}
    try:
        yield
    finally:
        os.environ |= told


def _number(told: Mapping[str, str], name: str) -> int:
    value = told.get(name, "")
    if not value.isdecimal():
        raise UsageError(f"{name} = {value!r} is not a number" if value else f"{name} is not set", _HINT)
    return int(value)


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
