"""Messages between tasks and the driver, and files, which go through Ray's object store.

An actor passes messages on, because neither side can call the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from xmcbench.errors import StorageError
from xmcbench.progress import Report
from xmcbench.runner.job import is_artifact
from xmcbench.storage.artifact_store import COST, locate
from xmcbench.storage.atomic import atomic_folder
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locks import CLAIM, Claim

#: Seconds after which ``take`` returns an empty list.
_PATIENCE_S = 10.0


class Started(Struct, frozen=True):
    """A task has begun on a machine."""

    host: str


class Request(Struct, frozen=True):
    """A call of a method of ``FileServer``, which its task waits for."""

    method: str
    arguments: tuple[Any, ...]


class Failure(Struct, frozen=True):
    """The answer to a request that failed."""

    message: str
    hint: str = ""


class Message(Struct, frozen=True):
    """A message of an attempt to run a task. number: of a request."""

    attempt: str
    body: Started | Report | Request
    number: int = -1


class Rpc:
    """The actor. Its methods are coroutines, so that a waiting call does not block the others."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()

    async def tell(self, attempt: str, body: Started | Report) -> None:
        """Leave a message."""
        self._messages.put_nowait(Message(attempt, body))

    async def ask(self, attempt: str, request: Request) -> Any:
        """Leave a request and wait for the answer."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait(Message(attempt, request, number))
        return await self._answers[number]

    async def take(self) -> list[Message]:
        """Return the new messages; wait for one, but not forever."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                first = await self._messages.get()
        except TimeoutError:
            return []
        return [first, *(self._messages.get_nowait() for _ in range(self._messages.qsize()))]

    async def answer(self, number: int, answer: Any) -> None:
        """Answer a request, unless the actor was restarted and has forgotten it."""
        if request := self._answers.pop(number, None):
            request.set_result(answer)


class FileServer:
    """Answers the requests of tasks: files by checksum, artifacts of a runs folder by name."""

    def __init__(self, ray: Any, runs: Path) -> None:
        self._ray, self._runs = ray, runs
        self._offered: dict[str, Path] = {}
        self._put: dict[str, Any] = {}

    def offer(self, path: Path) -> str:
        """Let tasks request a file by the checksum that is returned. Raises DataError if it cannot be read."""
        sha256 = fingerprint(path)
        self._offered[sha256] = path
        return sha256

    def answer(self, request: Request) -> Any:
        """Answer a request. Raises StorageError."""
        methods: dict[str, Callable[..., Any]] = {
            "file": self._file,
            "artifact": self._artifact,
            "lacking": self._list_lacking,
            "keep": self._keep,
        }
        return methods[request.method](*request.arguments)

    def _file(self, sha256: str) -> list[Any]:
        if sha256 not in self._offered:
            raise StorageError(f"the driver offers no file with the checksum {sha256}")
        if sha256 not in self._put:
            self._put[sha256] = put_file(self._ray, self._offered[sha256])
        return [self._put[sha256]]  # Ray would replace a bare reference with its data

    def _artifact(self, name: str) -> dict[str, Any] | None:
        return put_folder(self._ray, self._folder(name)) if self._has(name) else None

    def _list_lacking(self, names: list[str]) -> list[str]:
        return [name for name in names if not self._has(name)]

    def _keep(self, name: str, files: Mapping[str, Any]) -> None:
        """Keep an artifact, unless another process has made it meanwhile."""
        target = self._folder(name)
        with Claim(target.with_suffix(CLAIM)) as claim:
            if claim.held and not target.exists():
                with atomic_folder(target) as folder:
                    write_folder(self._ray, folder, files)

    def _has(self, name: str) -> bool:
        return (self._folder(name) / COST).exists()

    def _folder(self, name: str) -> Path:
        if not is_artifact(name):
            raise StorageError(f"{name!r} is not the name of an artifact")
        return locate(self._runs, name)


def put_file(ray: Any, path: Path) -> Any:
    """Put a file into the object store. Raises StorageError if it cannot be read."""
    try:
        return ray.put(np.asarray(np.memmap(path, np.uint8, "r")) if path.stat().st_size else np.empty(0, np.uint8))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def put_folder(ray: Any, folder: Path) -> dict[str, Any]:
    """Put every file below a folder into the object store, by relative path. Raises StorageError."""
    files = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
    return {path.relative_to(folder).as_posix(): put_file(ray, path) for path in files}


def write_folder(ray: Any, folder: Path, files: Mapping[str, Any]) -> None:
    """Write files of the object store into a folder. Raises StorageError."""
    for name, reference in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise StorageError(f"{name!r} is not the name of a file in a folder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(ray.get(reference))
        except ray.exceptions.RayError as error:
            raise StorageError(f"{name} was lost by the Ray cluster: {error}") from error
        except OSError as error:
            raise StorageError.from_os_error(error, path) from error
