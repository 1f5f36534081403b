"""Copies of the checkout and of the installed package, in which modules are changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Slot:
    """A copy of the checkout and one of the installed package, for one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.checkout = folder / "tree", folder / "checkout"
        self.log, self.failures = folder / "log.txt", folder / "failures.txt"
        self._clock = int(time.time())

    def make(self) -> None:
        """Copy what git tracks and what it does not ignore, and install the package."""
        for folder in (self.tree, self.checkout):
            shutil.rmtree(folder, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.checkout / name)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", self.tree, self.checkout]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def take(self, other: Slot) -> None:
        """Be as another one, which is as it was made."""
        for mine, theirs in ((self.tree, other.tree), (self.checkout, other.checkout)):
            shutil.rmtree(mine, ignore_errors=True)
            shutil.copytree(theirs, mine)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the tests: the copy of the package comes first."""
        path = os.pathsep.join([str(self.tree), str(self.checkout / "tests" / "mutation")])
        return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

    def output(self) -> str:
        """The tests that failed, a line each, and the end of what was printed."""
        failed = self.failures.read_text() if self.failures.exists() else ""
        return f"{failed}\n{self.log.read_text(errors='replace')[-1500:]}"

    def write(self, module: Path, code: str) -> None:
        """Replace a module. Its time is one that no earlier version had, so that compiled files are not reused."""
        self._clock += 2
        (self.tree / module).write_text(code, encoding="utf-8")
        os.utime(self.tree / module, (self._clock, self._clock))
