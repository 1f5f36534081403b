"""A connection to a Ray cluster, and what the cluster has. What is wrong with it is said before a cell starts."""

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
from xmcbench.runner.executors.ray.versions import Versions

if TYPE_CHECKING:
    from xmcbench.environment import Compute
    from xmcbench.runner.plan import PlannedCell

#: Seconds that a port, and the processes of a cluster, have to answer.
_PORT_S, _PROBE_S = 10.0, 120.0
#: Connections that are tried. For each client, the head starts a server, which rarely ends before it serves (Ray 2.60).
_ATTEMPTS = 3
#: Bytes of the object store of a cluster that is started here. Files travel in chunks, and not many at once.
_STORE_BYTES = 1 << 29


@dataclass(frozen=True)
class Node:
    """A machine of a cluster that is alive. session: the folder where Ray keeps its files there."""

    id: str
    host: str
    cores: int
    gpus: int
    memory_bytes: int
    session: str


@dataclass(frozen=True)
class Cluster:
    """A cluster that is connected. node: the id of the one that the driver is on, or is connected through."""

    ray: Any
    node: str

    def nodes(self) -> list[Node]:
        """The machines that are alive now."""
        found = []
        for each in self.ray.nodes():
            if each["Alive"]:
                has = each["Resources"]
                cores, gpus, memory = (int(has.get(name, 0)) for name in ("CPU", "GPU", "memory"))
                session = str(Path(each["RayletSocketName"]).parents[1])
                found.append(Node(each["NodeID"], each["NodeManagerHostname"], cores, gpus, memory, session))
        return found

    @property
    def room(self) -> Room:
        """What the machines have that are alive now."""
        nodes = self.nodes()
        most = (max((each.cores for each in nodes), default=0), max((each.gpus for each in nodes), default=0))
        return Room(sum(each.cores for each in nodes), *most)

    def check_room(self, compute: Compute, cells: Sequence[PlannedCell]) -> None:
        """Raise UsageError where no machine has a core, or the GPUs that are asked for."""
        room = self.room
        if not room.cores_of_one:
            raise UsageError("no machine of the Ray cluster has a core", "`ray status` shows what the cluster has")
        needy = [each for each in cells if each.needs.get("gpu")]
        if compute.device == "cuda" and room.gpus_of_one < compute.processes and needy:
            asked = f"{compute.processes} GPUs" if compute.processes > 1 else "a GPU"
            raise UsageError(
                f"--device cuda: {needy[0].name} asks for {asked}, and no machine of the Ray cluster has that",
                "`ray status` shows what the cluster has; --device auto takes what there is",
            )

    def check_versions(self) -> None:
        """Raise UsageError where a machine has another Python or xmcbench, or none, or is alive and does not answer."""
        probe = self.ray.remote(_probe())
        asked = {
            probe.options(num_cpus=0, max_retries=0, scheduling_strategy=self.on(each)).remote(): each
            for each in self.nodes()
            if each.cores
        }
        answered, silent = self.ray.wait([*asked], num_returns=len(asked), timeout=_PROBE_S)
        # A machine that was lost in the meantime gets no cell, so it may as well not have answered.
        alive = {each.id for each in self.nodes()}
        for each in silent:
            if asked[each].id in alive:
                raise UsageError(
                    f"{asked[each].host} of the Ray cluster did not answer within {_PROBE_S:.0f} s",
                    "`ray status` shows which machines are alive",
                )
        for each in answered:
            try:
                python, found = self.ray.get(each)
            except self.ray.exceptions.RayError as error:
                if asked[each].id not in alive:
                    continue
                raise UsageError(f"{asked[each].host} of the Ray cluster cannot be used: {_line(error)}") from None
            if isinstance(found, str):
                hint = f"install the xmcbench of this machine there ({Versions.here().xmcbench})"
                raise UsageError(
                    f"{asked[each].host} of the Ray cluster (Python {python}) has no xmcbench: {found}", hint
                )
            Versions.here().check(Versions(*found))

    def on(self, node: Node) -> Any:
        """The strategy that runs something on a machine, and nowhere else."""
        return self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)


@contextmanager
def connected(on: str) -> Iterator[Cluster]:
    """The cluster at an address (``ray://HOST:PORT``); for ``ray`` that of RAY_ADDRESS, else one that is started here.

    A connection that this process has already is used, and left as it is. Raises UsageError where it does not answer or
    cannot be used, Unavailable where Ray is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise Unavailable("--on ray: Ray is not installed", installation("ray")) from None
    if ray.is_initialized():
        yield _checked(ray)
        return
    address = on if on != "ray" else os.environ.get("RAY_ADDRESS") or "local"
    _check_answers(address)
    try:
        with _own_signals():
            _connect(ray, address)
        yield _checked(ray)
    finally:
        with _own_signals():
            ray.shutdown()


def _checked(ray: Any) -> Cluster:
    cluster = Cluster(ray, ray.get_runtime_context().get_node_id())
    cluster.check_versions()
    return cluster


def _connect(ray: Any, address: str) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        options |= {"num_cpus": machine_cores(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address=address, **options)
        except ImportError as error:
            raise Unavailable(f"--on {address}: {_line(error)}", installation("ray")) from None
        except Exception as error:  # Ray raises whatever it is: RuntimeError, ValueError, errors of gRPC
            if isinstance(error, ConnectionAbortedError) and attempt < _ATTEMPTS:
                continue
            raise UsageError(f"the Ray cluster at {address} cannot be used: {_line(error)}") from None
        return


def _check_answers(address: str) -> None:
    """Raise UsageError where nothing listens: Ray itself would try for half a minute."""
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
def _own_signals() -> Iterator[None]:
    """Keep our handlers: Ray has its own, which end the process without telling the one that waits for its cells."""
    ours = threading.current_thread() is threading.main_thread()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)} if ours else {}
    try:
        yield
    finally:
        for each, handler in before.items():
            if handler is not None:
                signal.signal(each, handler)


def _probe() -> Any:
    """What a machine is asked. It travels as code, since the machine may not have this module."""

    def probe() -> tuple[str, Any]:
        import platform

        python = ".".join(platform.python_version_tuple()[:2])
        try:
            from xmcbench.runner.executors.ray.versions import Versions

            here = Versions.here()
            return python, (here.host, here.python, here.xmcbench, here.code)
        except Exception as error:
            return python, f"{type(error).__name__}: {error}"

    return probe


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
