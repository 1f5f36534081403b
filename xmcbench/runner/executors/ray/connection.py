"""Connection to a Ray cluster, checked before a cell starts."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.environment import machine_cores
from xmcbench.errors import Unavailable, UsageError
from xmcbench.extras import installation
from xmcbench.runner.executors.base import Room
from xmcbench.runner.executors.ray.remote_task import Versions, report_versions

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.runner.plan import PlannedCell

#: Seconds that a port, and the processes of a cluster, have to answer.
_PORT_S, _PROBE_S = 10.0, 120.0
#: Connection attempts. The head starts a server per client, which sometimes ends before it serves (Ray 2.60).
_ATTEMPTS = 3
#: Bytes of the object store of a cluster that is started here. Ray puts larger files on disk.
_STORE_BYTES = 1 << 29


@dataclass(frozen=True)
class Node:
    """A live machine of a cluster. session: the folder of Ray's files there."""

    id: str
    host: str
    cores: int
    gpus: int
    memory_bytes: int
    session: str


@dataclass(frozen=True)
class Cluster:
    """A connected cluster. node: the id of the machine that the driver is on, or is connected through."""

    ray: Any
    node: str

    def nodes(self) -> list[Node]:
        """Return the machines that are alive now."""
        return [
            Node(
                node["NodeID"],
                node["NodeManagerHostname"],
                int(node["Resources"].get("CPU", 0)),
                int(node["Resources"].get("GPU", 0)),
                int(node["Resources"].get("memory", 0)),
                str(Path(node["RayletSocketName"]).parents[1]),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]

    @property
    def room(self) -> Room:
        """The room of the machines that are alive now."""
        nodes = self.nodes()
        cores = [node.cores for node in nodes]
        return Room(sum(cores), max(cores, default=0), max((node.gpus for node in nodes), default=0))

    def check_room(self, compute: Compute, cells: Sequence[PlannedCell]) -> None:
        """Raise UsageError if no machine has a core, or the requested GPUs."""
        room = self.room
        if not room.cores_of_one:
            raise UsageError("no machine of the Ray cluster has a core", "`ray status` shows what the cluster has")
        gpu_cells = [cell for cell in cells if cell.needs.get("gpu")]
        if compute.device == "cuda" and room.gpus_of_one < compute.processes and gpu_cells:
            asked = f"{compute.processes} GPUs" if compute.processes > 1 else "a GPU"
            raise UsageError(
                f"--device cuda: {gpu_cells[0].name} asks for {asked}, and no machine of the Ray cluster has that",
                "`ray status` shows what the cluster has; --device auto takes what there is",
            )

    def check_versions(self) -> None:
        """Raise UsageError if a machine has a different Python or xmcbench or none, or is alive and does not answer."""
        probe = self.ray.remote(report_versions)
        only_on = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = {
            probe.options(num_cpus=0, max_retries=0, scheduling_strategy=only_on(node.id, soft=False)).remote(): node
            for node in self.nodes()
            if node.cores
        }
        answered, _ = self.ray.wait([*asked], num_returns=len(asked), timeout=_PROBE_S)
        # A machine that was lost in the meantime gets no cell, so its answer does not matter.
        alive = {node.id for node in self.nodes()}
        for reference, node in asked.items():
            if node.id not in alive:
                continue
            if reference not in answered:
                raise UsageError(
                    f"{node.host} of the Ray cluster did not answer within {_PROBE_S:.0f} s",
                    "`ray status` shows which machines are alive",
                )
            try:
                versions = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                raise UsageError(
                    f"{node.host} of the Ray cluster cannot be used: {_one_line(getattr(error, 'cause', error))}",
                    f"install the xmcbench of this machine there ({Versions.current().xmcbench})",
                ) from None
            Versions.current().check(versions)


@contextmanager
def connect(on: str) -> Iterator[Cluster]:
    """Connect to ``ray://HOST:PORT``; for ``ray``, to RAY_ADDRESS or to a cluster that is started on this machine.

    An existing connection is used and left open. Raises UsageError for a cluster that cannot be used, and Unavailable.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise Unavailable("--on ray: Ray is not installed", installation("ray")) from None
    if ray.is_initialized():
        yield _check(ray)
        return
    address = on if on != "ray" else os.environ.get("RAY_ADDRESS") or "local"
    _check_port(address)
    try:
        with _keep_signals():
            _init(ray, address)
        yield _check(ray)
    finally:
        with _keep_signals():
            ray.shutdown()


def _check(ray: Any) -> Cluster:
    cluster = Cluster(ray, ray.get_runtime_context().get_node_id())
    cluster.check_versions()
    return cluster


def _init(ray: Any, address: str) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        options |= {"num_cpus": machine_cores(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address=address, **options)
        except ImportError as error:
            raise Unavailable(f"--on {address}: {_one_line(error)}", installation("ray")) from None
        except Exception as error:  # Ray raises anything: RuntimeError, ValueError, errors of gRPC
            if isinstance(error, ConnectionAbortedError) and attempt < _ATTEMPTS:
                continue
            raise UsageError(f"the Ray cluster at {address} cannot be used: {_one_line(error)}") from None
        return


def _check_port(address: str) -> None:
    """Raise UsageError if nothing listens: Ray itself would retry for half a minute."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        if address.startswith("ray://"):
            raise UsageError(f"--on {address!r} is not ray://HOST:PORT", "the port of a head is 10001 by default")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PORT_S).close()
    except (OSError, OverflowError) as error:
        hint = "`ray start --head` starts a cluster, and `ray status` shows whether it runs"
        raise UsageError(f"no Ray cluster answers at {address}: {error}", hint) from None


@contextmanager
def _keep_signals() -> Iterator[None]:
    """Restore our handlers: those of Ray end the process without telling the process that waits for its cells."""
    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if ours else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
