"""A task on a machine of a Ray cluster: its files, its process, and its result."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench import environment
from xmcbench.errors import DataError, StorageError, UsageError
from xmcbench.processes.supervisor import Ending, wait
from xmcbench.progress import Report
from xmcbench.runner import isolation
from xmcbench.runner.executors.base import Machine, Task, is_pretrained
from xmcbench.runner.executors.process import Process, sweep_machine
from xmcbench.runner.executors.ray.rpc import Failure, Request, Started, put_folder, write_folder
from xmcbench.runner.job import Job, Outcome, TextFile, find_requests, is_artifact
from xmcbench.storage.artifact_store import COST, SHARED, TRAINED, locate
from xmcbench.storage.atomic import atomic_file, atomic_folder, make_folder
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locations import cluster_cache
from xmcbench.storage.temporary import scratch

#: Seconds between two polls of the process.
_POLL_S = 0.05


class Versions(Struct, frozen=True):
    """Versions on a machine. python: as 3.11. code: SHA-256 (hex) of all files of xmcbench and its methods."""

    host: str
    python: str
    xmcbench: str
    code: str

    @classmethod
    @cache
    def current(cls) -> Versions:
        """Return the versions of this process."""
        program, code = environment.program(), _code_digest()
        named = [program.version, *(["commit " + program.commit[:12]] if program.commit else []), f"code {code[:12]}"]
        return cls(socket.gethostname(), ".".join(platform.python_version_tuple()[:2]), ", ".join(named), code)

    def check(self, other: Versions) -> None:
        """Raise UsageError if the versions of another machine differ, naming both."""
        hint = "install the same on all machines: results of different code are not comparable"
        where = f"{other.host} of the Ray cluster"
        if self.python != other.python:
            raise UsageError(f"{where} has Python {other.python}, and this machine {self.python}", hint)
        if self.code != other.code:
            raise UsageError(f"{where} has xmcbench {other.xmcbench}, and this machine {self.xmcbench}", hint)


def report_versions() -> Versions:
    """Return the versions of this process, as a function that Ray can call."""
    return Versions.current()


def _code_digest() -> str:
    """Return the SHA-256 of all modules, and of the data files with the presets of the methods."""
    digest = hashlib.sha256()
    for package, nested in (("xmcbench", ["methods"]), ("xmcbench.methods", [])):
        spec = find_spec(package)
        root = Path(spec.origin).parent if spec and spec.origin else Path()
        for file in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
            name = file.relative_to(root)
            if name.parts[0] not in nested:
                digest.update(f"{package} {name.as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class RemoteTask:
    """A task as it is sent to a machine.

    attempt: its name among all attempts. files: path -> checksum of the files of the job. plugins: the files of each
    plug-in of the job by path relative to its folder. token: a file in the runs folder and its content, by which a
    machine recognizes a shared runs folder; empty if nothing is read in place. hidden: additional paths that a cell
    must not read there.
    """

    attempt: str
    task: Task
    versions: Versions
    files: dict[str, str]
    plugins: dict[str, dict[str, bytes]]
    token: tuple[str, str]
    hidden: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        """True if the runs folder is on this machine, too."""
        path, content = self.token
        try:
            return bool(path) and Path(path).read_text() == content and os.access(self.task.job.artifacts, os.W_OK)
        except OSError:
            return False


@dataclass(frozen=True)
class Result:
    """The result of a task: the outcome and ending of its process, its machine, its ``log`` and ``predictions``."""

    outcome: Outcome | None
    ending: Ending
    machine: Machine
    files: dict[str, np.ndarray]


class Driver:
    """The driver, as an attempt to run a task sees it."""

    def __init__(self, ray: Any, rpc: Any, attempt: str) -> None:
        self.ray, self._rpc, self._attempt = ray, rpc, attempt

    def tell(self, news: Started | Report) -> None:
        """Send a message without waiting."""
        self._rpc.tell.remote(self._attempt, news)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the driver's ``FileServer``. Raises StorageError if that fails."""
        answer = self.ray.get(
            self._rpc.ask.options(max_task_retries=-1).remote(self._attempt, Request(method, arguments))
        )
        if isinstance(answer, Failure):
            raise StorageError(answer.message, answer.hint)
        return answer


def run_remotely(remote: RemoteTask, rpc: Any) -> Result:
    """Run a task here. Raises UsageError if this is not the code of the driver, StorageError for files."""
    import ray

    remote.versions.check(Versions.current())
    _clean_up()
    driver = Driver(ray, rpc, remote.attempt)
    driver.tell(Started(environment.machine() or ray.get_runtime_context().get_node_id()))
    with scratch() as folder:
        task = replace(remote.task, job=_localize(remote, driver, folder), log=folder / "cell.log")
        process = Process(task, folder, [str(gpu) for gpu in ray.get_gpu_ids()])
        try:
            ending = _watch(process, task.job, driver)
        finally:
            process.end()
        outcome = process.outcome()
        if task.job.wanted and outcome is not None:
            _send_artifacts(outcome.artifacts, task.job, driver)
        paths = {"log": task.log, "predictions": Path(task.job.predictions)}
        files = {name: np.fromfile(path, np.uint8) for name, path in paths.items() if path.is_file()}
        return Result(outcome, ending, Machine.current(), files)


@cache
def _clean_up() -> None:
    sweep_machine()


def _localize(remote: RemoteTask, driver: Driver, folder: Path) -> Job:
    """Return the job with paths of this machine, fetching missing files."""
    job = remote.task.job

    def file(path: str) -> str:
        sha256 = remote.files[path]
        copy = cluster_cache() / "files" / f"{sha256}{Path(path).suffix}"
        if remote.token[0] and _has(Path(path), sha256):
            return path
        if not _has(copy, sha256):
            with atomic_file(copy) as stream:
                (data,) = driver.ray.get(driver.ask("file", sha256))
                if hashlib.sha256(data).hexdigest() != sha256:
                    raise StorageError(f"{copy}: checksum mismatch on the way between machines", "run the cell again")
                stream.write(data)
        return str(copy)

    def text(source: TextFile) -> TextFile:
        return msgspec.structs.replace(source, path=file(source.path))

    def plugin(number: int, path: str) -> str:
        files = remote.plugins[path]
        if remote.token[0] and all(_reads(Path(path).parent / name, content) for name, content in files.items()):
            return path
        for name, content in files.items():
            target = folder / "plugins" / str(number) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return str(folder / "plugins" / str(number) / Path(path).name)

    shared = remote.is_shared
    trainings = job.trainings
    if not shared:
        trainings = {name: str(cluster_cache() / TRAINED / Path(path).name) for name, path in trainings.items()}
        for path in (cluster_cache() / SHARED, *map(Path, trainings.values()), folder / "wanted"):
            make_folder(path)
    return msgspec.structs.replace(
        job,
        train=text(job.train),
        labels=text(job.labels),
        test=text(job.test),
        pairs=file(job.pairs) if job.pairs else None,
        plugins=tuple(plugin(number, path) for number, path in enumerate(job.plugins)),
        predictions=str(folder / "predictions.npz") if job.predictions else "",
        artifacts=job.artifacts if shared else str(cluster_cache() / SHARED),
        trainings=trainings,
        hidden=isolation.add_histories([*map(Path, (*job.hidden, *remote.hidden)), *isolation.paths_of_machine()]),
        wanted="" if shared else str(folder / "wanted"),
    )


def _reads(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _has(path: Path, sha256: str) -> bool:
    try:
        return path.exists() and fingerprint(path) == sha256
    except DataError:
        return False


def _watch(process: Process, job: Job, driver: Driver) -> Ending:
    """Wait for the process to end; pass on its reports, and answer its requests for artifacts."""
    last: Report | None = None
    begin, sent = time.time(), not job.wanted
    while (ending := process.look()) is None:
        wait([process.supervised], _POLL_S)
        for name, done in find_requests(Path(job.wanted)) if job.wanted else ():
            _fetch_artifact(name, job, driver)
            done()
        report = process.report()
        if report is None or report == last:
            continue
        if not sent and is_pretrained(report):  # cells on other machines may wait for the pre-training
            made = Path(job.artifacts).glob(f"pretraining/*/{COST}")
            names = [f"pretraining/{path.parent.name}" for path in made if path.stat().st_mtime >= begin]
            _send_artifacts(names, job, driver)
            sent = True
        driver.tell(report)
        last = report
    return ending


def _fetch_artifact(name: str, job: Job, driver: Driver) -> None:
    """Fetch an artifact if the driver has it; otherwise the process makes it."""
    target = locate(Path(job.artifacts).parent, name)
    # A method may request anything, but of trainings only those that the cell was given.
    readable = {job.artifacts, *job.trainings.values()}
    if not is_artifact(name) or readable.isdisjoint(map(str, target.parents)):
        return
    try:
        files = driver.ask("artifact", name)
        if files is not None:
            with atomic_folder(target) as folder:
                write_folder(driver.ray, folder, files)
    except StorageError as error:
        print(f"xmcbench: the artifact {name} was not fetched: {error}")


def _send_artifacts(names: Iterable[str], job: Job, driver: Driver) -> None:
    """Send the driver the artifacts that it lacks; if that fails, other cells make them again."""
    known = [name for name in sorted(names) if is_artifact(name)]
    try:
        for name in driver.ask("lacking", known) if known else ():
            driver.ask("keep", name, put_folder(driver.ray, locate(Path(job.artifacts).parent, name)))
    except StorageError as error:
        print(f"xmcbench: artifacts were not sent to the driver: {error}")
