"""The processes that the processes of this machine's tasks are forked from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from xmcbench import progress
from xmcbench.errors import StorageError
from xmcbench.processes.forkserver import AVAILABLE, ForkServer
from xmcbench.storage.temporary import scratch

#: The variable that names the GPUs of a process.
GPUS = "CUDA_VISIBLE_DEVICES"
#: Variables that nothing reads while it is imported.
_LATER = frozenset({"TMPDIR", GPUS, progress.VARIABLE})
#: Servers at once, not counting those whose processes run: each holds the memory of its imports.
_MOST = 2

Key = tuple[tuple[str, ...], frozenset[tuple[str, str]]]


class Servers:
    """One server for each set of imports and each environment that is asked for."""

    def __init__(self) -> None:
        self._servers: dict[Key, ForkServer] = {}
        self._files = ExitStack()
        self._folder: Path | None = None

    def server(self, imports: Sequence[str], environment: Mapping[str, str]) -> ForkServer | None:
        """The server for a process; None where there can be none."""
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
        self._servers[key] = server  # the last one is the one used last
        return server

    def _own(self) -> dict[str, str]:
        """The variables of the servers themselves. Raises StorageError.

        What their imports leave in the folder of temporary files, as torch does, goes with them.
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
        """End all of them."""
        while self._servers:
            self._servers.popitem()[1].end()
        self._files.close()
        self._folder = None
