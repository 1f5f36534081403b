"""Fork servers of the processes of tasks on this machine, and the modules that they preload."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from xmcbench import progress
from xmcbench.errors import StorageError
from xmcbench.processes.forkserver import AVAILABLE, ForkServer
from xmcbench.storage.temporary import scratch

#: The variable that names the GPUs of a process.
GPUS = "CUDA_VISIBLE_DEVICES"
#: Variables that no import reads.
_LATER = frozenset({"TMPDIR", GPUS, progress.VARIABLE})
#: Idle servers at a time: each holds the memory of its imports.
_MOST = 2

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
    """One server for each requested set of imports and environment."""

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
        self._end_the_dead()
        server = self._servers.pop(key, None)
        if server is None:
            self._make_room()
            try:
                server = ForkServer(imports, variables | self._own())
            except (OSError, StorageError):
                return None
        self._servers[key] = server  # the most recently used comes last
        return server

    def _own(self) -> dict[str, str]:
        """Return the variables of the servers themselves. Raises StorageError.

        Temporary files of their imports, such as those of torch, are removed with them.
        """
        self._folder = self._folder or self._files.enter_context(scratch())
        return {**{name: os.environ[name] for name in _LATER & os.environ.keys()}, "TMPDIR": str(self._folder)}

    def _end_the_dead(self) -> None:
        for key, server in list(self._servers.items()):
            if not server.is_running:
                self._servers.pop(key).end()

    def _make_room(self) -> None:
        for key, server in list(self._servers.items()):
            if len(self._servers) >= _MOST and not server.is_busy:
                self._servers.pop(key).end()

    def end(self) -> None:
        """End all servers."""
        while self._servers:
            self._servers.popitem()[1].end()
        self._files.close()
        self._folder = None
