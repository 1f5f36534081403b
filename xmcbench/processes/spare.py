"""A process that has imported what the next one will need, and waits to be told what to run.

Imports take longer than the work of a cheap cell. They are done ahead, while nothing is measured. Nothing else is: a
process runs one module and ends, as any other does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from xmcbench.processes.keeper import WAIT
from xmcbench.processes.lifetime import MARK, end_kept, new_mark


class Spare:
    """A process in waiting. It ends with this process, or when ``end`` is called.

    imports: modules that it imports now; one that cannot be imported is left to whoever needs it. environment: its
    variables. later: those of them that are not read by the imports, so that the module may be given others. Raises
    OSError where no process can be started.
    """

    def __init__(self, imports: Sequence[str], environment: Mapping[str, str], later: Set[str]) -> None:
        self.mark, self._environment, self._later = new_mark(), dict(environment), later
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "xmcbench.processes.keeper", WAIT, ",".join(imports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**environment, MARK: self.mark},
            start_new_session=True,
        )

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a module that wants these variables can run in it."""
        others = environment.items() ^ self._environment.items()
        return self._process.poll() is None and {name for name, _ in others} <= self._later

    def hand(
        self, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """Run a module in it, with its output in ``log``, a file; None where it is gone."""
        order = {"argv": [module, *arguments], "log": str(log), "environment": dict(environment)}
        assert self._process.stdin is not None, "it is a pipe"
        try:
            with self._process.stdin as pipe:
                pipe.write(json.dumps(order).encode() + b"\n")
        except OSError:
            self.end()
            return None
        return self._process

    def end(self) -> None:
        """End it, if it still waits."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        end_kept(self._process, self.mark)
