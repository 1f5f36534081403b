"""Plant faults, one at a time, and see which canaries differ.

    python tests/canaries/planting.py [--jobs 2] [--only TEXT] [--enough 4] [--out table.md]

A fault of faults.toml is a text in a file below methods/ that is replaced by another one. It is planted in a copy of
the package, where the canaries of the methods run whose source it changes. Those with several processes take longest,
and run where no other one differs. The exit code is 1 if a fault is not seen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: More canaries than there are.
ALL = 10**6
#: A program that prints the source digest of every method.
SOURCES = "import json; from xmcbench.plugins.registry import Registry; print(json.dumps(dict(Registry().sources)))"


@dataclass(frozen=True)
class Fault:
    """A text in a file below methods/, and the one that replaces it."""

    file: str
    what: str
    old: str
    new: str


@dataclass(frozen=True)
class Seen:
    """Result of the canaries for a fault. run: how many ran; different: those that differ; largest: the largest
    difference in words."""

    fault: Fault
    run: int
    different: tuple[str, ...]
    largest: str

    def row(self) -> str:
        """A row of the table."""
        shown = ", ".join(self.different[:3]) + (", ..." if len(self.different) > 3 else "")
        counted = f"{len(self.different)} of {self.run}: {shown}" if self.different else f"**none** of {self.run}"
        return f"| {self.fault.file}: {self.fault.what} | {counted} | {self.largest} |"


def faults() -> list[Fault]:
    """The faults of faults.toml."""
    return [Fault(**fields) for fields in tomllib.loads(Path(__file__).with_name("faults.toml").read_text())["fault"]]


def copy(folder: Path) -> None:
    """Copy the package as it is installed, with its methods and the canaries, to a new folder."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "xmcbench", folder / "xmcbench", ignore=ignored)
    shutil.copytree(ROOT / "methods", folder / "xmcbench" / "methods", ignore=ignored)
    shutil.copytree(ROOT / "leaderboards" / "canaries", folder / "leaderboards" / "canaries")
    shutil.copy(ROOT / "pyproject.toml", folder)


def plant(fault: Fault, folder: Path) -> None:
    """Change the file in a copy. Raises ValueError unless the old text is there once."""
    file = folder / "xmcbench" / "methods" / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.file} has the text of {fault.what!r} {text.count(fault.old)} times")
    file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def see(fault: Fault, sources: dict[str, str], work: Path, only: Collection[str] = (), enough: int = ALL) -> Seen:
    """Plant a fault in a copy of its own and run the canaries of the methods whose source it changes.

    sources: of the methods without it. only: methods, if not all of these. enough: canaries that differ, after which no
    other one runs.
    """
    with tempfile.TemporaryDirectory(dir=work) as place:
        folder = Path(place) / "tree"
        copy(folder)
        plant(fault, folder)
        told = json.loads(python(folder, "-c", SOURCES))
        changed = [name for name in only or sources if told.get(name) != sources[name]]
        found = json.loads(python(folder, __file__, "--enough", str(enough), "--inside", *changed))
    different = sorted(found["different"], key=lambda outcome: -outcome["size"])
    names = tuple(outcome["canary"] for outcome in different)
    return Seen(fault, found["run"], names, different[0]["what"] if different else "")


def python(folder: Path, *words: str) -> str:
    """Return the last line that a Python prints which imports the package of a copy."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    # Bytecode of another fault, of a file with the same size and time, would be taken for that of this one.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-W", "ignore", *words]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)}: {ended.stderr[-2000:]}")
    return ended.stdout.splitlines()[-1]


def inside(methods: list[str], enough: int) -> None:
    """In a copy: run the canaries of these methods and print how they compare."""
    from xmcbench.runner.canaries.cells import canaries, canary_folder
    from xmcbench.runner.canaries.outcomes import OUTCOMES, compare, read_outcomes
    from xmcbench.runner.canaries.run import run

    different, number = [], 0
    all_stored = read_outcomes(canary_folder() / OUTCOMES, methods)
    for several in (False, True):
        for canary in canaries(methods):
            if (canary.processes > 1) is several and len(different) < (1 if several else enough):
                stored = all_stored[canary.method].outcomes
                number += 1
                found = compare({canary.name: stored[canary.name]}, {canary.name: run(canary)})
                name = f"{canary.method}.{canary.name}"
                different += [
                    {"canary": name, "what": difference.what, "size": min(difference.size, 1e9)} for difference in found
                ]
    print(json.dumps({"run": number, "different": different}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="faults with this text in their file or description")
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--enough", type=int, default=ALL, help="canaries that differ, after which no other one runs")
    parser.add_argument("--inside", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside is not None:
        inside(asked.inside, asked.enough)
        return 0
    chosen = [fault for fault in faults() if asked.only in f"{fault.file}: {fault.what}"]
    rows = ["| fault | canaries that differ | largest difference |", "|---|---|---|"]
    unseen = 0
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(asked.jobs) as pool:
        folder = Path(work) / "unchanged"
        copy(folder)
        sources = json.loads(python(folder, "-c", SOURCES))
        for seen in pool.map(lambda fault: see(fault, sources, Path(work), enough=asked.enough), chosen):
            rows.append(seen.row())
            unseen += not seen.different
            print(seen.row(), flush=True)
    if asked.out:
        asked.out.write_text("\n".join(rows) + "\n")
    print(f"{len(chosen) - unseen} of {len(chosen)} faults are seen")
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
