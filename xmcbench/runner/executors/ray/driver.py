"""Tasks on the machines of a Ray cluster. Only this process, the driver, writes records to the runs folder.

A machine that has the driver's files under the same paths reads them there; any other machine fetches them through
Ray's object store. A task whose worker or machine is lost is sent again.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from xmcbench.errors import StorageError, XmcbenchError, summarize
from xmcbench.output.escaping import visible
from xmcbench.processes.supervisor import Ending, wait
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Ended, Needs, Room, Task
from xmcbench.runner.executors.ray.connection import Cluster
from xmcbench.runner.executors.ray.remote_task import RemoteTask, Versions, run_remotely
from xmcbench.runner.executors.ray.rpc import Failure, FileServer, Message, Request, Rpc, Started
from xmcbench.runner.job import Outcome
from xmcbench.storage.atomic import atomic_file, make_folder
from xmcbench.storage.source import plugin_files
from xmcbench.storage.temporary import folder_in

#: Losses of a task after which it has failed.
ATTEMPTS = 3
#: Seconds that canceled tasks have to end before their workers are killed.
_GRACE_S = 10.0
#: Seconds between two polls for a machine that could run a waiting task, and without one until the task has failed.
_POLL_S, _PATIENCE_S = 5.0, 60.0
#: Seconds until the messages of a lost actor are requested again.
_RETRY_S = 0.5


@dataclass
class _Sent:
    """A task that was sent. unplaceable_since: the time since when no machine could run it."""

    task: Task
    tries: int = 0
    attempt: str = ""
    reference: Any = None
    result: Future[Any] = field(default_factory=Future)
    host: str | None = None
    report: Report | None = None
    unplaceable_since: float | None = None


class Ray:
    """An ``Executor`` of a cluster. jobs: tasks at a time. in_place: whether machines may read the driver's files."""

    def __init__(self, cluster: Cluster, jobs: int, cells_per_gpu: int, runs: Path, *, in_place: bool = True) -> None:
        self._cluster, self._jobs, self._cells_per_gpu, self._in_place = cluster, jobs, cells_per_gpu, in_place
        self._runs, self._room = runs, cluster.room
        self._gpus = sum(node.gpus for node in cluster.nodes()) * cells_per_gpu
        self._server = FileServer(cluster.ray, runs)
        self._sent: dict[str, _Sent] = {}
        self._polled_at = 0.0
        self._files = ExitStack()

    def __enter__(self) -> Self:
        ray = self._cluster.ray
        with ExitStack() as files:
            token = files.enter_context(folder_in(self._runs)) / "token"
            content = secrets.token_hex(16)
            token.write_text(content)
            self._token = (str(token.resolve()), content) if self._in_place else ("", "")
            # Sockets, not descriptors of a pipe: a late callback must not write to a descriptor that was reused.
            self._awake, self._wake = (files.enter_context(end) for end in socket.socketpair())
            self._awake.setblocking(False)
            self._wake.setblocking(False)
            near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self._cluster.node, soft=True)
            actor = ray.remote(Rpc).options(num_cpus=0, max_restarts=-1, scheduling_strategy=near)
            self._rpc = actor.remote()
            files.callback(lambda: ray.kill(self._rpc))
            self._run = ray.remote(run_remotely)
            self._take()
            self._files = files.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._files:
            self._cancel([*self._sent.values()])
            self._sent.clear()

    @property
    def room(self) -> Room:
        """The room of the cluster when the run began."""
        return self._room

    def fits(self, needs: Needs) -> bool:
        """Return whether a slot, cores and GPUs are free. Ray itself looks for a machine with the memory."""
        sent = [sent.task.needs for sent in self._sent.values()]
        if not sent:
            return True
        cores = self._room.cores - sum(other.threads for other in sent)
        gpus = self._gpus - sum(other.gpus for other in sent)
        return len(sent) < self._jobs and needs.threads <= cores and needs.gpus <= gpus

    def submit(self, task: Task) -> None:
        """Send a task."""
        sent = _Sent(task)
        self._send(sent)
        self._sent[task.key] = sent

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """Return the tasks that have ended, with their results."""
        if not (ended := self._collect()):
            wait((), timeout_s, [self._awake.fileno(), *files])
            with suppress(BlockingIOError):
                self._awake.recv(1 << 16)
            ended = self._collect()
        return ended

    def report(self, key: str) -> Report | None:
        """Return the latest progress report of a task."""
        return self._sent[key].report if key in self._sent else None

    def host(self, key: str) -> str | None:
        """Return the machine that a task runs on."""
        return self._sent[key].host if key in self._sent else None

    def _send(self, sent: _Sent) -> None:
        job, needs, nodes = sent.task.job, sent.task.needs, self._cluster.nodes()
        sent.tries += 1
        sent.attempt = f"{sent.task.key[:32]}-{sent.tries}-{secrets.token_hex(4)}"
        sent.host = sent.report = sent.unplaceable_since = None
        paths = [job.train.path, job.labels.path, job.test.path, *filter(None, [job.pairs])]
        remote = RemoteTask(
            sent.attempt,
            sent.task,
            Versions.current(),
            {path: self._server.offer(Path(path)) for path in paths},
            {plugin: _read_plugin(Path(plugin)) for plugin in job.plugins},
            self._token,
            tuple(sorted({node.session for node in nodes})),
        )
        run = self._run.options(
            num_cpus=needs.threads,
            num_gpus=needs.gpus if needs.gpus != 1 else 1 / self._cells_per_gpu,
            memory=min(needs.memory_bytes, max((node.memory_bytes for node in nodes), default=0)),
            max_retries=0,  # we count the attempts, and report each
        )
        sent.reference = run.remote(remote, self._rpc)
        sent.result = self._future(sent.reference)

    def _future(self, reference: Any) -> Future[Any]:
        """Return the future of a remote call; when it is done, ``watch`` returns."""
        future: Future[Any] = reference.future()

        def wake(_: object, end: socket.socket = self._wake) -> None:
            with suppress(OSError):  # full, or closed
                end.send(b".")

        future.add_done_callback(wake)
        return future

    def _take(self) -> None:
        self._taking = self._future(self._rpc.take.remote())

    def _collect(self) -> list[Ended]:
        if self._taking.done():
            try:
                messages = self._taking.result()
            except self._cluster.ray.exceptions.RayError:
                messages = []
                time.sleep(_RETRY_S)
            self._take()
            for message in messages:
                self._receive(message)
        done = [sent for sent in [*self._sent.values()] if sent.result.done()]
        return [*filter(None, map(self._finish, done)), *self._fail_unplaceable()]

    def _receive(self, message: Message) -> None:
        sent = next((sent for sent in self._sent.values() if sent.attempt == message.attempt), None)
        match message.body:
            case Started(host) if sent:
                sent.host = host
            case Report() as report if sent:
                sent.report = report
            case Request() as request:
                try:
                    if sent is None:
                        raise StorageError("the driver has given up on this attempt")
                    answer = self._server.answer(request)
                except XmcbenchError as error:
                    answer = Failure(error.message, error.hint)
                self._rpc.answer.remote(message.number, answer)

    def _finish(self, sent: _Sent) -> Ended | None:
        """Return the end of a task; None if it was lost and is sent again."""
        errors = self._cluster.ray.exceptions
        try:
            result = sent.result.result()
        except (errors.RayError, CancelledError) as error:
            cause = error.cause if isinstance(error, errors.RayTaskError) else error
            if not isinstance(cause, (errors.RayError, CancelledError)):
                _write(sent.task.log, str(error).encode(errors="replace"))
                return self._fail(sent, str(cause) if isinstance(cause, XmcbenchError) else summarize(cause))
            line = next(filter(None, map(str.strip, str(cause).splitlines())), "")[:300]
            reason = f"{type(cause).__name__}: {line}"
            if sent.tries >= ATTEMPTS:
                return self._fail(sent, f"lost {sent.tries} times by the Ray cluster, most recently with {reason}")
            message = f"xmcbench: cell {sent.task.key[:12]} was lost and is run again: {reason}"
            print(visible(message), file=sys.stderr)
            self._send(sent)
            return None
        paths = {"log": sent.task.log, "predictions": Path(sent.task.job.predictions)}
        for name, data in result.files.items():
            _write(paths[name], data)
        del self._sent[sent.task.key]
        return Ended(sent.task, result.outcome, result.ending, result.machine)

    def _fail(self, sent: _Sent, reason: str) -> Ended:
        del self._sent[sent.task.key]
        return Ended(sent.task, Outcome(status="failed", reason=visible(reason)), Ending(1, False, False, 0))

    def _fail_unplaceable(self) -> list[Ended]:
        """Fail tasks that no machine can run anymore: Ray would wait for one forever."""
        now, failed = time.monotonic(), []
        waiting = [sent for sent in self._sent.values() if sent.host is None]
        if not waiting or now - self._polled_at < _POLL_S:
            return []
        self._polled_at, nodes = now, self._cluster.nodes()
        for sent in waiting:
            needs = sent.task.needs
            if any(node.cores >= needs.threads and node.gpus >= needs.gpus for node in nodes):
                sent.unplaceable_since = None
            elif sent.unplaceable_since is None:
                sent.unplaceable_since = now
            elif now - sent.unplaceable_since > _PATIENCE_S and not sent.result.done():
                self._cluster.ray.cancel(sent.reference, force=True)
                wanted = f"{needs.threads} cores and {needs.gpus} GPUs"
                failed.append(self._fail(sent, f"no machine of the cluster has {wanted} anymore"))
        return failed

    def _cancel(self, sent: Sequence[_Sent]) -> None:
        """End tasks: first ask them to, so that they clean up, then kill their workers."""
        ray = self._cluster.ray
        for force in (False, True):
            running = [task for task in sent if not task.result.done()]
            for task in running:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(task.reference, force=force)
            wait_for([task.result for task in running], _GRACE_S)


def _read_plugin(plugin: Path) -> dict[str, bytes]:
    return {path.relative_to(plugin.parent).as_posix(): path.read_bytes() for path in plugin_files(plugin)}


def _write(path: Path, data: Any) -> None:
    make_folder(path.parent)
    with atomic_file(path) as stream:
        stream.write(data)
