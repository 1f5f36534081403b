"""The process of a task, for every executor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from xmcbench import progress
from xmcbench.environment import accelerators, thread_variables
from xmcbench.errors import StorageError
from xmcbench.processes.secrets import without_secrets
from xmcbench.processes.supervisor import Ending, Supervised
from xmcbench.progress import Report
from xmcbench.runner.executors.base import Task
from xmcbench.runner.executors.servers import GPUS, Servers, modules_to_preload
from xmcbench.runner.job import Outcome

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
