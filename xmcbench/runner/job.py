"""The input and the output of a cell's process, and the names of the trainings in its input.

A training is a method with its parameters on the texts and pairs of a cell. Artifacts made with pairs are kept by it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from xmcbench.environment import Compute
from xmcbench.errors import StorageError
from xmcbench.storage.artifact_store import TRAINED
from xmcbench.storage.atomic import write_json
from xmcbench.storage.canonical import canonical_json, sha256_json
from xmcbench.storage.reading import read_bytes

if TYPE_CHECKING:
    from xmcbench.plugins.description import Description
    from xmcbench.records import Cell


class TextFile(Struct, frozen=True):
    """A file of texts and the digest of its content."""

    path: str
    sha256: str


class Job(Struct, frozen=True, kw_only=True):
    """One cell for one process. Paths are absolute.

    train, labels, test: texts, and nothing else of the dataset. pairs, pairs_sha256: the file of the pairs that the
    method may see and the digest of its content; None in the zero-shot setting. k: predictions per test instance.
    source_sha256: of the source that the method had when the run was planned. parameters: of the cell, with the content
    of files; names: the files, folders, and models themselves, by parameter. plugins: the files of the method and its
    parts, if not installed. only: ``pretrain`` if the process does nothing else. artifacts: the folder of the artifacts
    that cells share. trainings: name -> folder of the cell's own training and those of its parts, which no other cell
    can read. hidden: files and folders with pairs, figures or results of other cells, which the kernel hides from the
    method if it can. wanted: the folder in which the process requests artifacts; empty if no process supplies them.
    imports: modules to be imported before anything is measured; import errors are left to the method. single_use:
    whether no other cell has the test texts, so that no artifact of them is kept. model: the folder in which the
    trained method is kept; empty for none. environment: variables with secrets
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
    model: str = ""
    environment: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the job as JSON."""
        write_json(path, msgspec.to_builtins(self))

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read a job from its file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a job: the reason for a missing result, or measurements of the process."""

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


def training_name(method: str, parameters: Mapping[str, object]) -> str:
    """Return the name of a training within a cell."""
    return canonical_json([method, parameters])


def training_key(cell: Cell, method: str, parameters: Mapping[str, object], description: Description) -> str:
    """Return the key of the training of a method, the cell's own or a part of it.

    It does not depend on the seed if the method does not, nor on pairs if the method does not look at them.
    """
    identity = {
        "dataset": cell.dataset_sha256,
        "pairs": None if description.supervision == "unused" else cell.subset_sha256,
        "method": method,
        "parameters": parameters,
        "seed": 0 if description.deterministic else cell.seed,
    }
    return sha256_json(identity)[:32]


_REQUESTED, _DONE = ".requested", ".done"
#: Seconds between two polls for the answer.
_POLL_S = 0.01
#: The name of an artifact, here and in records.
_NAME = re.compile(rf"({TRAINED}/[0-9a-f]{{32}}/)?[a-z0-9_-]+/[0-9a-f]{{32}}")


def is_artifact(name: str) -> bool:
    """Return whether this is the name of an artifact, as ``locate`` reads it, and no other path."""
    return _NAME.fullmatch(name) is not None


def request_artifact(folder: Path, name: str) -> None:
    """Request an artifact in a folder; return when the request was processed, with or without success."""
    requested = folder / (name.replace("/", "~") + _REQUESTED)
    done = requested.with_suffix(_DONE)
    requested.touch()
    while not done.exists():
        time.sleep(_POLL_S)
    done.unlink()


def find_requests(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each requested artifact, and a function to be called when the request was processed."""
    for requested in folder.glob(f"*{_REQUESTED}"):

        def finish(requested: Path = requested) -> None:
            requested.unlink()
            requested.with_suffix(_DONE).touch()

        yield requested.stem.replace("~", "/"), finish
