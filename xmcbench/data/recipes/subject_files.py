"""A folder with a file of texts per subject, as NatLibFi/Annif-corpora has them, as a dataset of titles.

A file is named after its subject and the language: ``p3-en.txt``. Line 1 has the URI and the label of the subject, line
2 its synonyms, and every further line a text about it, mostly a title.

    label      a subject whose file has a text; in the order of the numbers in the names of the files
    instance   a text. Left out are a text that is the label of its own file, and one that is a label in lower case
    pair       text -> the subjects in whose files it is

Texts are stripped, and equal ones are one instance. Instances are sorted. The uid of an instance is the first 12 hex
digits of the SHA-1 of its text; where the number in the first 4 is divisible by 5, it is a test instance.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.card import Recipe
from xmcbench.data.sources.source import Instance
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.data.text_files import at, number_lines
from xmcbench.errors import DataError

#: Subjects between two lines of progress.
_STEP = 1000

_FILE_NAME = re.compile(r"(p(\d+))-[a-z]+\.txt")


class _Subject(NamedTuple):
    uid: str
    label: str
    texts: list[str]


def fetch(recipe: Recipe, out: Path, progress: Callable[[str], None]) -> list[Path]:
    """Clone the folder from the repository, unless it is there. Raises DataError."""
    patterns = [f"/{name}/p{digit}*" for name in recipe.indices for digit in range(1, 10)]
    clone_parts(recipe.release, out, patterns, progress)
    return [out / name for name in recipe.indices]


def write(recipe: Recipe, files: Sequence[Path], out: Path, progress: Callable[[str], None]) -> None:
    """Write the dataset in the XC raw layout. files: the folder of subjects. Raises DataError."""
    subjects = _read_subjects(files[0], progress)
    labels = {subject.label.lower() for subject in subjects}
    found: dict[str, list[int]] = {}
    for row, subject in enumerate(subjects):
        for text in {*subject.texts}:
            if text.lower() not in labels:
                found.setdefault(text, []).append(row)
    sides: dict[str, list[Instance]] = {"trn": [], "tst": []}
    for text in sorted(found):
        uid = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]
        sides["trn" if int(uid[:4], 16) % 5 else "tst"].append((uid, text, "", found[text]))
    for name, instances in sides.items():
        write_instances(out / f"{name}.json.gz", instances)
    write_labels(out / "lbl.json.gz", ((subject.uid, subject.label) for subject in subjects))


def _read_subjects(folder: Path, progress: Callable[[str], None]) -> list[_Subject]:
    """Read the subjects that have a text. Raises DataError with file and line."""
    files = sorted(
        (int(name[2]), name[1], path) for path in folder.iterdir() if (name := _FILE_NAME.fullmatch(path.name))
    )
    if not files:
        raise DataError(f"{folder} has no file of a subject", "their names look like p3-en.txt")
    subjects = []
    for number, (_, uid, path) in enumerate(files):
        if number % _STEP == 0:
            progress(f"{number:,} of {len(files):,} subjects read")
        lines = [line.strip() for _, line in number_lines(path)]
        label = lines[0].partition(" ")[2].strip() if lines else ""
        if not label:
            raise at(path, 1, "is not the URI and the label of a subject", "is this a file of a corpus of Annif?")
        subjects.append(_Subject(uid, label, [text for text in lines[2:] if text not in ("", label)]))
    return [subject for subject in subjects if subject.texts]


_HINT = "clone the repository, and give the clone: --indices CLONE"


def clone_parts(url: str, out: Path, patterns: Sequence[str], progress: Callable[[str], None]) -> None:
    """Clone the newest files that match any pattern, as in a .gitignore, into a folder; each pattern is a part.

    Raises DataError without Git, for a repository that cannot be cloned, and for a folder that holds another one.
    """
    if shutil.which("git") is None:
        raise DataError("the source is fetched with git, which this machine does not have", _HINT)
    if not (out / ".git").is_dir():
        progress(f"cloning the folders of {url}")
        # The names of all files of one commit, without the files.
        _run("git", "clone", "--quiet", "--no-checkout", "--depth=1", "--filter=blob:none", url, str(out))
    elif _git(out, "config", "--default=", "--get", "remote.origin.url").strip() != url:
        raise DataError(f"{out} is a clone of another repository", "choose another folder")
    for number, pattern in enumerate(patterns):
        progress(f"{number} of {len(patterns)} parts of {url} fetched")
        # One request for all files of the part that are missing.
        _git(out, "sparse-checkout", "add" if number else "set", *([] if number else ["--no-cone"]), pattern)
        if not number:
            _git(out, "checkout", "--quiet")


def _git(out: Path, *words: str) -> str:
    # Not a repository that the folder may be in.
    return _run("git", "--git-dir=.git", "--work-tree=.", *words, folder=out)


def _run(*command: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)
    if ended.returncode:
        reason = (ended.stderr.decode(errors="replace").strip().splitlines() or ["it failed"])[-1]
        raise DataError(f"git cannot fetch the source: {reason}", f"run it again to go on, or {_HINT}")
    return ended.stdout.decode(errors="replace")
