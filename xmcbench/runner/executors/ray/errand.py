"""A task on a machine of a cluster: what it is sent with, what is done there, and what comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from xmcbench import environment
from xmcbench.errors import StorageError
from xmcbench.processes.supervisor import Ending, wait
from xmcbench.progress import Report
from xmcbench.runner import hidden, wanted
from xmcbench.runner.executors.base import Machine, Task
from xmcbench.runner.executors.process import Process
from xmcbench.runner.executors.ray.contents import (
    CHUNK,
    Content,
    Folder,
    chunk_of,
    content_of,
    folder_of,
    has,
    receive,
    receive_folder,
)
from xmcbench.runner.executors.ray.mailbox import (
    Artifact,
    Chunk,
    Failed,
    News,
    Question,
    Started,
    WantArtifact,
    WantChunk,
    WhichLack,
)
from xmcbench.runner.executors.ray.versions import Versions
from xmcbench.runner.job import Job, Outcome, TextFile
from xmcbench.runner.leftovers import sweep_machine
from xmcbench.runner.schedule import pretrained
from xmcbench.storage.artifact_files import COST
from xmcbench.storage.artifact_stores import SHARED, TRAINED, locate
from xmcbench.storage.cache import cluster_cache
from xmcbench.storage.temporary import scratch

#: Seconds between two looks at the process.
_LOOK_S = 0.05
#: How often, and after how many seconds each, a question is asked again whose mailbox was lost.
_AGAIN, _AGAIN_S = 5, 1.0


@dataclass(frozen=True)
class Errand:
    """A task on its way to a machine.

    attempt: its name among all that were sent. files: the content of each file of the job. plugins: the files of each
    plug-in of the job, by path relative to its folder. token: a file in the runs folder and what it says, by which a
    machine knows that it has the same folder; empty where it is not to look. hidden: more that a cell must not read
    there.
    """

    attempt: str
    task: Task
    versions: Versions
    files: dict[str, Content]
    plugins: dict[str, dict[str, Content]]
    token: tuple[str, str]
    hidden: tuple[str, ...]

    @property
    def shared(self) -> bool:
        """Whether the runs folder is here, too."""
        path, said = self.token
        try:
            return bool(path) and Path(path).read_text() == said and os.access(self.task.job.artifacts, os.W_OK)
        except OSError:
            return False


@dataclass(frozen=True)
class Answer:
    """What comes back: what the process wrote, how it ended, where, and the contents of its files.

    The files are ``log`` and ``predictions``. small: those that come with the answer; the others were sent before.
    """

    outcome: Outcome | None
    ending: Ending
    machine: Machine
    files: dict[str, Content]
    small: dict[str, bytes]


class Link:
    """What an attempt says to the driver, and asks it."""

    def __init__(self, ray: Any, mailbox: Any, attempt: str) -> None:
        self._ray, self._mailbox, self._attempt = ray, mailbox, attempt

    def tell(self, news: News) -> None:
        """Say something, and go on."""
        self._mailbox.tell.remote(self._attempt, news)

    def ask(self, question: Question) -> Any:
        """The answer of the driver. Raises StorageError where it has none."""
        lost = (self._ray.exceptions.ActorDiedError, self._ray.exceptions.ActorUnavailableError)
        for trial in range(1, _AGAIN + 1):
            try:
                answer = self._ray.get(self._mailbox.ask.remote(self._attempt, question))
            except lost:
                if trial == _AGAIN:
                    raise
                time.sleep(_AGAIN_S)  # it is being started again, without what was asked
            else:
                break
        if isinstance(answer, Failed):
            raise StorageError(answer.message, answer.hint)
        return answer

    def fetched(self, content: Content, number: int) -> bytes:
        """A chunk of a file of the driver."""
        data: bytes = self.ask(WantChunk(content.sha256, number))
        return data

    def send(self, name: str, path: Path) -> None:
        """Send a file to the driver."""
        for number in range(content_of(path).chunks):
            self.ask(Chunk(name, number, chunk_of(path, number)))


def carry_out(errand: Errand, mailbox: Any) -> Answer:
    """Run a task here. Raises UsageError where this is not the code of the driver, StorageError for files."""
    import ray

    errand.versions.check(Versions.here())
    _clean_up()
    link = Link(ray, mailbox, errand.attempt)
    node = ray.get_runtime_context().get_node_id()
    link.tell(Started(node, environment.machine() or node, errand.shared))
    with scratch() as folder:
        task = replace(errand.task, job=_placed(errand, link, folder), log=folder / "cell.log")
        process = Process(task, folder, [str(each) for each in ray.get_gpu_ids()])
        try:
            ending = _watched(process, task.job, link)
        finally:
            process.end()
        outcome = process.outcome()
        if task.job.wanted and outcome is not None:
            _keep(outcome.artifacts, task.job, link)
        files = {"log": task.log, "predictions": Path(task.job.predictions)}
        found = {name: path for name, path in files.items() if path.is_file()}
        contents = {name: content_of(path) for name, path in found.items()}
        small = sum(each.size for each in contents.values()) <= CHUNK
        if not small:
            for name, path in found.items():
                link.send(name, path)
        brought = {name: path.read_bytes() for name, path in found.items()} if small else {}
        return Answer(outcome, ending, Machine.this(), contents, brought)


@cache
def _clean_up() -> None:
    """Remove what killed tasks left on this machine; once is enough for a process."""
    sweep_machine()


def _placed(errand: Errand, link: Link, folder: Path) -> Job:
    """The job with paths of this machine: files are where the driver has them if they are the same, else fetched."""
    job = errand.task.job

    def here(path: str) -> str:
        content = errand.files[path]
        copy = cluster_cache() / "files" / f"{content.sha256}{Path(path).suffix}"
        if errand.token[0] and has(Path(path), content):
            return path
        if not has(copy, content):
            receive(copy, content, lambda number: link.fetched(content, number))
        return str(copy)

    def text(file: TextFile) -> TextFile:
        return msgspec.structs.replace(file, path=here(file.path))

    asked = folder / "wanted"
    asked.mkdir()
    return msgspec.structs.replace(
        job,
        train=text(job.train),
        labels=text(job.labels),
        test=text(job.test),
        pairs=here(job.pairs) if job.pairs else None,
        plugins=tuple(
            _plugin(errand, link, Path(path), folder / "plugins" / str(number))
            for number, path in enumerate(job.plugins)
        ),
        predictions=str(folder / "predictions.npz") if job.predictions else "",
        artifacts=job.artifacts if errand.shared else str(_made(cluster_cache() / SHARED)),
        trainings={
            name: path if errand.shared else str(_made(cluster_cache() / TRAINED / Path(path).name))
            for name, path in job.trainings.items()
        },
        hidden=hidden.with_histories([*map(Path, (*job.hidden, *errand.hidden)), *hidden.of_machine()]),
        wanted="" if errand.shared else str(asked),
    )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _plugin(errand: Errand, link: Link, path: Path, folder: Path) -> str:
    """The file of a plug-in, with the modules beside it that it imports; in a folder that the cell may read."""
    files = errand.plugins[str(path)]
    if errand.token[0] and all(has(path.parent / name, each) for name, each in files.items()):
        return str(path)
    receive_folder(folder, files, lambda name, number: link.fetched(files[name], number))
    return str(folder / path.name)


def _watched(process: Process, job: Job, link: Link) -> Ending:
    """How the process ended. Meanwhile its reports are passed on, and it is brought the artifacts that it asks for."""
    said: Report | None = None
    begin, sent = time.time(), not job.wanted
    while (ending := process.look()) is None:
        wait([process.supervised], _LOOK_S)
        for name, answered in wanted.questions(Path(job.wanted)) if job.wanted else ():
            _bring(name, job, link)
            answered()
        report = process.report()
        if report is None or report == said:
            continue
        if not sent and pretrained(report):  # others wait for it, maybe on other machines
            _keep(_pretrainings(job, begin), job, link)
            sent = True
        link.tell(report)
        said = report
    return ending


def _pretrainings(job: Job, since: float) -> list[str]:
    """The pre-trainings on this machine that were made or used since a time."""
    found = Path(job.artifacts).glob(f"pretraining/*/{COST}")
    return [f"pretraining/{each.parent.name}" for each in found if each.stat().st_mtime >= since]


def _bring(name: str, job: Job, link: Link) -> None:
    """Put an artifact here that the driver has. Where that is not possible, the process makes it."""
    target = locate(Path(job.artifacts).parent, name)
    # A method may ask for anything: of trainings, only for those that the cell was given.
    readable = {job.artifacts, *job.trainings.values()}
    if not wanted.is_artifact(name) or readable.isdisjoint(map(str, target.parents)):
        return
    try:
        folder: Folder | None = link.ask(WantArtifact(name))
        if folder is not None:
            receive_folder(target, folder, lambda file, number: link.fetched(folder[file], number))
    except StorageError as error:
        print(f"xmcbench: the artifact {name} was not brought here: {error}")


def _keep(names: Iterable[str], job: Job, link: Link) -> None:
    """Send those artifacts to the driver that it does not have. Where that is not possible, others make them again."""
    known = [each for each in sorted(names) if wanted.is_artifact(each)]
    try:
        for name in link.ask(WhichLack(known)) if known else ():
            path = locate(Path(job.artifacts).parent, name)
            folder = folder_of(path)
            for file in folder:
                link.send(f"artifacts/{name}/{file}", path / file)
            link.ask(Artifact(name, folder))
    except StorageError as error:
        print(f"xmcbench: artifacts were not sent to the driver: {error}")
