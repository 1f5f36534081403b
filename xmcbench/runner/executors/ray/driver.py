"""Tasks on the machines of a Ray cluster. Only this process, the driver, writes to the runs folder's records.

A task is sent as an ``Errand``. A machine that has the driver's files under the same paths reads them there; another
one asks for them, chunk by chunk, through the ``Mailbox``. A task whose worker or machine is lost is sent again.
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

from xmcbench.errors import StorageError, XmcbenchError
from xmcbench.output.escaping import visible
from xmcbench.processes.supervisor import Ending, wait
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Ended, Needs, Room, Task
from xmcbench.runner.executors.ray.connection import Cluster
from xmcbench.runner.executors.ray.contents import Lost
from xmcbench.runner.executors.ray.depot import Depot
from xmcbench.runner.executors.ray.errand import Answer, Errand, carry_out
from xmcbench.runner.executors.ray.mailbox import Failed, Mailbox, Message, Started
from xmcbench.runner.executors.ray.versions import Versions
from xmcbench.runner.job import Outcome
from xmcbench.storage.source import plugin_files
from xmcbench.storage.temporary import folder_in

#: How often a task is sent until it counts as failed.
ATTEMPTS = 3
#: Seconds that canceled tasks have to end before their workers are killed.
_GRACE_S = 10.0
#: Seconds between two looks for a machine that could run what waits, and after how many without one it has failed.
_LOOK_S, _PATIENCE_S = 5.0, 60.0
#: Seconds until a lost mailbox is asked again.
_AGAIN_S = 0.5


@dataclass
class _Sent:
    """A task that was sent. tries: how often. started: where it is, None while it waits. homeless: no machine is left
    that could run it."""

    task: Task
    tries: int = 0
    attempt: str = ""
    reference: Any = None
    answer: Future[Any] = field(default_factory=Future)
    started: Started | None = None
    report: Report | None = None
    homeless_since: float | None = None
    homeless: bool = False


class Ray:
    """An ``Executor`` of a cluster, for so many tasks at once.

    in_place: whether machines may read files where the driver has them.
    """

    def __init__(self, cluster: Cluster, jobs: int, cells_per_gpu: int, runs: Path, *, in_place: bool = True) -> None:
        self._cluster, self._jobs, self._cells_per_gpu, self._in_place = cluster, jobs, cells_per_gpu, in_place
        self._runs, self._room = runs, cluster.room
        self._gpus = sum(each.gpus for each in cluster.nodes()) * cells_per_gpu
        self._sent: dict[str, _Sent] = {}
        self._holders: dict[str, set[str]] = {}
        self._looked_at = 0.0
        self._files = ExitStack()

    def __enter__(self) -> Self:
        ray = self._cluster.ray
        with ExitStack() as files:
            folder = files.enter_context(folder_in(self._runs))
            self._depot = Depot(self._runs, folder / "incoming")
            said = secrets.token_hex(16)
            (folder / "token").write_text(said)
            self._token = (str((folder / "token").resolve()), said) if self._in_place else ("", "")
            # Sockets, not the numbers of a pipe: a call that comes late must not write to what has a number since.
            self._awake, self._wake = (files.enter_context(each) for each in socket.socketpair())
            self._awake.setblocking(False)
            self._wake.setblocking(False)
            near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self._cluster.node, soft=True)
            kind = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, scheduling_strategy=near)
            self._mailbox = kind.remote()
            files.callback(lambda: ray.kill(self._mailbox))
            self._run = ray.remote(carry_out)
            self._take()
            self._files = files.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._files:
            self._cancel([*self._sent.values()])
            self._sent.clear()

    @property
    def room(self) -> Room:
        """What the cluster had when the run began."""
        return self._room

    def fits(self, needs: Needs) -> bool:
        """Whether there is a slot, and cores and GPUs for it. Ray itself looks for a machine with the memory."""
        sent = [each.task.needs for each in self._sent.values()]
        if not sent:
            return True
        cores = self._room.cores - sum(each.threads for each in sent)
        gpus = self._gpus - sum(each.gpus for each in sent)
        return len(sent) < self._jobs and needs.threads <= cores and needs.gpus <= gpus

    def submit(self, task: Task) -> None:
        """Send a task."""
        sent = _Sent(task)
        self._send(sent)
        self._sent[task.key] = sent

    def watch(self, timeout_s: float, files: Sequence[int] = ()) -> list[Ended]:
        """The tasks that have ended, each with what its process wrote."""
        if not (ended := self._ended()):
            wait((), timeout_s, [self._awake.fileno(), *files])
            with suppress(BlockingIOError):
                self._awake.recv(1 << 16)
            ended = self._ended()
        return ended

    def report(self, key: str) -> Report | None:
        """How far a task says it is."""
        return self._sent[key].report if key in self._sent else None

    def host(self, key: str) -> str | None:
        """The machine that a task runs on."""
        sent = self._sent.get(key)
        return sent.started.host if sent and sent.started else None

    def _send(self, sent: _Sent) -> None:
        task, ray = sent.task, self._cluster.ray
        sent.tries += 1
        sent.attempt = f"{task.key[:32]}-{sent.tries}-{secrets.token_hex(4)}"
        sent.started = sent.report = sent.homeless_since = None
        needs, nodes = task.needs, self._cluster.nodes()
        options: dict[str, Any] = {
            "num_cpus": needs.threads,
            "num_gpus": needs.gpus if needs.gpus != 1 else 1 / self._cells_per_gpu,
            "memory": min(needs.memory_bytes, max((each.memory_bytes for each in nodes), default=0)),
            "max_retries": 0,  # we count, and say so
        }
        if near := self._nearest(task, {each.id for each in nodes}):
            options["scheduling_strategy"] = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                near, soft=True, _spill_on_unavailable=True
            )
        sent.reference = self._run.options(**options).remote(self._errand(sent, nodes), self._mailbox)
        sent.answer = self._woken_by(sent.reference)

    def _errand(self, sent: _Sent, nodes: Sequence[Any]) -> Errand:
        job = sent.task.job
        texts = [job.train.path, job.labels.path, job.test.path]
        files = {path: self._depot.offer(Path(path)) for path in (*texts, *filter(None, [job.pairs]))}
        plugins = {
            plugin: {
                path.relative_to(Path(plugin).parent).as_posix(): self._depot.offer(path)
                for path in plugin_files(Path(plugin))
            }
            for plugin in job.plugins
        }
        sessions = tuple(sorted({each.session for each in nodes}))
        return Errand(sent.attempt, sent.task, Versions.here(), files, plugins, self._token, sessions)

    def _nearest(self, task: Task, alive: set[str]) -> str:
        """The machine that has what a task shares with others, or its texts, and has least to do; "" for any."""
        for shared in filter(None, (task.shares, task.job.train.sha256)):
            if holders := self._holders.get(shared, set()) & alive:
                busy = [each.started.node for each in self._sent.values() if each.started]
                return min(sorted(holders), key=busy.count)
        return ""

    def _woken_by(self, reference: Any) -> Future[Any]:
        """The future of something remote, which also ends ``watch``."""
        future: Future[Any] = reference.future()

        def wake(_: object, end: socket.socket = self._wake) -> None:
            with suppress(OSError):  # full, or closed
                end.send(b".")

        future.add_done_callback(wake)
        return future

    def _take(self) -> None:
        self._taking = self._woken_by(self._mailbox.take.remote())

    def _ended(self) -> list[Ended]:
        if self._taking.done():
            try:
                messages = self._taking.result()
            except self._cluster.ray.exceptions.RayError:
                messages = []
                time.sleep(_AGAIN_S)  # the mailbox was lost, and is started again
            self._take()
            for message in messages:
                self._receive(message)
        self._look_for_machines()
        return [ended for each in [*self._sent.values()] if each.answer.done() and (ended := self._finished(each))]

    def _receive(self, message: Message) -> None:
        sent = next((each for each in self._sent.values() if each.attempt == message.attempt), None)
        match message.said:
            case Started(node, _, shared) as started:
                if sent is not None:
                    sent.started = started
                    for what in filter(None, (sent.task.shares, sent.task.job.train.sha256) if not shared else ()):
                        self._holders.setdefault(what, set()).add(node)
            case Report() as report:
                if sent is not None:
                    sent.report = report
            case question:
                try:
                    if sent is None:
                        raise StorageError("the driver has given up on this attempt")
                    answer = self._depot.answer(message.attempt, question)
                except XmcbenchError as error:
                    answer = Failed(error.message, error.hint)
                self._mailbox.answer.remote(message.number, answer)

    def _finished(self, sent: _Sent) -> Ended | None:
        """What came back; None where the task was lost and is sent again."""
        errors = self._cluster.ray.exceptions
        try:
            answer = sent.answer.result()
            return self._taken(sent, answer)
        except errors.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, errors.RayError):
                reason = str(cause) if isinstance(cause, XmcbenchError) else f"{type(cause).__name__}: {cause}"
                sent.task.log.parent.mkdir(parents=True, exist_ok=True)
                sent.task.log.write_text(str(error), errors="replace")
                return self._failed(sent, reason)
            lost: BaseException = cause
        except (errors.RayError, CancelledError, Lost) as error:
            lost = error
        reason = f"{type(lost).__name__}: {_first_line(lost)}"
        if sent.homeless:
            return self._failed(sent, _first_line(lost))
        if sent.tries >= ATTEMPTS:
            return self._failed(sent, f"lost {sent.tries} times by the Ray cluster, most recently with {reason}")
        said = f"xmcbench: cell {sent.task.key[:12]} was lost and is run again: {reason}"
        print(visible(said), file=sys.stderr)
        self._depot.forget(sent.attempt)
        self._send(sent)
        return None

    def _taken(self, sent: _Sent, answer: Answer) -> Ended:
        task = sent.task
        targets = {"log": task.log, "predictions": Path(task.job.predictions)}
        for name, content in answer.files.items():
            self._depot.take(sent.attempt, name, content, answer.small.get(name), targets[name])
        del self._sent[task.key]
        self._depot.forget(sent.attempt)
        return Ended(task, answer.outcome, answer.ending, answer.machine)

    def _failed(self, sent: _Sent, reason: str) -> Ended:
        del self._sent[sent.task.key]
        self._depot.forget(sent.attempt)
        return Ended(sent.task, Outcome(status="failed", reason=visible(reason)), Ending(1, False, False, 0))

    def _look_for_machines(self) -> None:
        """End tasks that no machine can run anymore: Ray would wait for one forever."""
        now = time.monotonic()
        waiting = [each for each in self._sent.values() if each.started is None]
        if not waiting or now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        nodes = self._cluster.nodes()
        for sent in waiting:
            needs = sent.task.needs
            if any(each.cores >= needs.threads and each.gpus >= needs.gpus for each in nodes):
                sent.homeless_since = None
            elif sent.homeless_since is None:
                sent.homeless_since = now
            elif now - sent.homeless_since > _PATIENCE_S and not sent.answer.done():
                self._cluster.ray.cancel(sent.reference, force=True)
                asked = f"{needs.threads} cores and {needs.gpus} GPUs"
                sent.homeless, sent.answer = True, Future()
                sent.answer.set_exception(Lost(f"no machine of the cluster has {asked} anymore"))

    def _cancel(self, sent: Sequence[_Sent]) -> None:
        """End tasks: first by asking, so that they clean up, then by killing their workers."""
        ray = self._cluster.ray
        for force in (False, True):
            running = [each for each in sent if not each.answer.done()]
            for each in running:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(each.reference, force=force)
            wait_for([each.answer for each in running], _GRACE_S)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:300]
