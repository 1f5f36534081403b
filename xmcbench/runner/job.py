"""The input and the output of a cell's process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from xmcbench.environment import Compute
from xmcbench.errors import StorageError
from xmcbench.storage.atomic import write_json
from xmcbench.storage.reading import read_bytes


class TextFile(Struct, frozen=True):
    """A file of texts and the digest of its content."""

    path: str
    sha256: str


class Job(Struct, frozen=True, kw_only=True):
    """One cell for one process. Paths are absolute.

    train, labels, test: texts, and nothing else of the dataset. pairs, pairs_sha256: the file of the pairs that the
    method may see and the digest of its content; None in the zero-shot setting. k: predictions per test instance.
    source_sha256: of the source that the method had when the run was planned. parameters: those of the cell, with the
    content of files; names: the files, folders, and models themselves, by parameter. plugins: the files of the method,
    and of those that it uses, where these are not installed. compute: where the method computes. only: ``pretrain``
    where that is all to be done. artifacts: the folder of the artifacts that cells share. trainings: name -> folder of
    the cell's own training and those of its parts, which no other cell can read. hidden: files and folders that hold
    pairs, figures or results of others, which the kernel hides from the method if it can. wanted: the folder in which
    the process asks for artifacts, where the process that started it may put them; empty if none does. imports: modules
    to be imported before anything is measured; one that cannot be is left to the method. single_use: whether nobody
    else asks about the test texts, so that nothing that is made of them is kept. environment: variables with secrets
    that the process gets.
    """

    train: TextFile
    labels: TextFile
    test: TextFile
    pairs: str | None
    pairs_sha256: str | None
    k: int
    method: str
    source_sha256: str
    plugins: tuple[str, ...]
    parameters: dict[str, bool | int | float | str | None]
    names: dict[str, str] = {}
    seed: int
    compute: Compute
    predictions: str
    outcome: str
    artifacts: str
    trainings: dict[str, str]
    hidden: tuple[str, ...]
    only: Literal["", "pretrain"] = ""
    wanted: str = ""
    imports: tuple[str, ...] = ()
    single_use: bool = False
    environment: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the job as JSON."""
        write_json(path, msgspec.to_builtins(self))

    @classmethod
    def read(cls, path: Path) -> Job:
        """A job from its file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a job: why there is no result; or seconds by phase and what else only the process knows."""

    status: Literal["ok", "failed", "skipped"]
    reason: str = ""
    notes: dict[str, Any] = {}
    packages: dict[str, str] = {}
    wall_s: dict[str, float] = {}
    reused_s: float = 0.0
    artifacts: tuple[str, ...] = ()
    peak_memory_bytes: int = 0
    peak_gpu_memory_bytes: int | None = None
    isolation: Literal["landlock", "process"] = "process"

    def write(self, path: Path) -> None:
        """Write the outcome as JSON, atomically."""
        write_json(path, msgspec.to_builtins(self))

    @classmethod
    def read(cls, path: Path) -> Outcome | None:
        """Read the outcome of a process. Raises StorageError if it is invalid."""
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(read_bytes(path), type=cls)
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise StorageError(f"the outcome of the cell cannot be read: {error}") from error
