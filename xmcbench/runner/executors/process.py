"""The process of a task, for every executor; fork servers of such processes, and the modules that they preload.

Also removes what killed runs left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xmcbench import progress
from xmcbench.environment import accelerators, thread_variables
from xmcbench.errors import StorageError
from xmcbench.processes.forkserver import AVAILABLE, ForkServer
from xmcbench.processes.process_tree import kill_orphans
from xmcbench.processes.supervisor import Ending, Supervised, without_secrets
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Task
from xmcbench.runner.job import Outcome
from xmcbench.storage.artifact_store import sweep_store, sweep_stores
from xmcbench.storage.locations import cache_root, cluster_cache
from xmcbench.storage.temporary import scratch, sweep_scratch
from xmcbench.storage.temporary import sweep as sweep_folder

if TYPE_CHECKING:
    from xmcbench.records import Store

_OUTCOME, _PROGRESS = "outcome.json", "progress.json"
#: Settings of glibc's malloc: keep up to 1 GiB that is freed, and use it again for arrays of up to 256 MiB. By default,
#: an array above 32 MiB is returned to the system when it is freed, and the system clears the pages of the next one.
_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(2**28), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
#: On Hopper and later GPUs, torch prefers cuDNN for attention, which builds a plan for every new shape, and most of the
#: batches of a training have one. On an H200, a step of ICT (preset ``gpu``) with a new shape took 185 to 444 ms, one
#: with known shapes 47 to 94 ms.
_ATTENTION = {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}


class Process:
    """The process of a task, in a folder of its own, which the caller removes.

    gpus: the GPUs that it may use; if empty, no variable is set. servers: the fork servers; without them it starts from
    scratch. Raises StorageError if its files cannot be written.
    """

    def __init__(self, task: Task, folder: Path, gpus: Sequence[str], servers: Servers | None = None) -> None:
        self.folder = folder
        job_file, outcome = folder / "job.json", folder / _OUTCOME
        environment = _environment(folder, task.needs.threads, gpus, task.job.environment)
        msgspec.structs.replace(task.job, outcome=str(outcome)).write(job_file)
        self.supervised = Supervised(
            "xmcbench.runner.worker",
            [str(job_file)],
            task.log,
            environment,
            outcome,
            task.time_limit_s,
            task.memory_limit_bytes,
            servers.server(modules_to_preload(task.job.imports, bool(accelerators())), environment)
            if servers
            else None,
        )

    def look(self) -> Ending | None:
        """Return how it ended; None while it runs."""
        return self.supervised.look()

    def end(self) -> None:
        """End it and everything it started."""
        self.supervised.end()

    def outcome(self) -> Outcome | None:
        """Return the outcome that it wrote, if any."""
        try:
            return Outcome.read(self.folder / _OUTCOME)
        except StorageError as error:  # the method wrote there
            return Outcome(status="failed", reason=str(error))

    def report(self) -> Report | None:
        """Return its latest progress report."""
        return progress.read(self.folder / _PROGRESS)


def _environment(folder: Path, threads: int, gpus: Sequence[str], secrets: Sequence[str]) -> dict[str, str]:
    """Return the environment of a cell's process: the user's with only the named secrets, and our variables."""
    # Waiting threads sleep instead of spinning, which would slow a shared machine down.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE"}
    ours = {**thread_variables(threads), progress.VARIABLE: str(folder / _PROGRESS)}
    ours |= {GPUS: ",".join(gpus)} if gpus else {}
    # Hash order must not differ between two runs of one seed. Temporary files are removed when the cell ends.
    ours |= {"PYTHONHASHSEED": "0", "TMPDIR": str(folder)}
    return {**waiting, **_ALLOCATION, **_ATTENTION, **without_secrets(secrets), **ours}


#: The variable that names the GPUs of a process.
GPUS = "CUDA_VISIBLE_DEVICES"
#: Variables that no import reads.
_LATER = frozenset({"TMPDIR", GPUS, progress.VARIABLE})
#: Idle servers at a time: each holds the memory of its imports, 40 to 330 MiB. The methods have five sets of imports.
_MOST = 4

#: The module that all cells import.
_ALWAYS = ("xmcbench.runner.preload",)
#: Packages that are slow to import -> the modules that take the time. Their imports start no thread, so that a process
#: with them can be forked; a test checks this.
_SLOW = {
    "numba": ("numba",),
    "torch": ("torch",),
    "transformers": (
        "transformers.modeling_utils",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
    ),
}
#: Packages that look for GPUs when they are imported: after that, a process cannot be forked and use a GPU.
_LOOK_FOR_GPUS = ("torch", "transformers")

Key = tuple[tuple[str, ...], frozenset[tuple[str, str]]]


def modules_to_import(packages: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that a process imports before anything is measured. packages: of its methods."""
    slow = sorted({*packages} & _SLOW.keys())
    return (*_ALWAYS, *(module for package in slow for module in _SLOW[package]))


def modules_to_preload(imports: Iterable[str], has_gpu: bool) -> tuple[str, ...]:
    """Return the modules that can be imported before a fork."""
    return tuple(module for module in imports if not has_gpu or module.partition(".")[0] not in _LOOK_FOR_GPUS)


class Servers:
    """One server per requested set of imports and environment."""

    def __init__(self) -> None:
        self._servers: dict[Key, ForkServer] = {}
        self._files = ExitStack()
        self._folder: Path | None = None

    def server(self, imports: Sequence[str], environment: Mapping[str, str]) -> ForkServer | None:
        """Return the server for a process; None if there can be none."""
        if not AVAILABLE:
            return None
        variables = {name: value for name, value in environment.items() if name not in _LATER}
        key = tuple(imports), frozenset(variables.items())
        for other, found in list(self._servers.items()):
            if not found.is_running:
                self._servers.pop(other).end()
        server = self._servers.pop(key, None)
        if server is None:
            for other, found in list(self._servers.items()):
                if len(self._servers) >= _MOST and not found.is_busy:
                    self._servers.pop(other).end()
            try:
                server = ForkServer(imports, variables | self._own())
            except (OSError, StorageError):
                return None
        self._servers[key] = server  # the most recently used comes last
        return server

    def _own(self) -> dict[str, str]:
        """Return the variables of the servers; temporary files of imports, such as those of torch, go with them."""
        self._folder = self._folder or self._files.enter_context(scratch())
        return {**{name: os.environ[name] for name in _LATER & os.environ.keys()}, "TMPDIR": str(self._folder)}

    def end(self) -> None:
        """End all servers."""
        while self._servers:
            self._servers.popitem()[1].end()
        self._files.close()
        self._folder = None


def sweep(store: Store) -> None:
    """Remove remains on this machine and in a runs folder: unfinished files, and claims of dead processes."""
    sweep_machine()
    store.sweep()


def sweep_machine() -> None:
    """Remove remains on this machine: processes, temporary folders, and unfinished work in the cache."""
    kill_orphans()
    sweep_scratch()
    sweep_store(cache_root())
    sweep_stores(cluster_cache())
    sweep_folder(cluster_cache() / "files")
