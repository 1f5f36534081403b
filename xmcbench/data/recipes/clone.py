"""Clone some files of a Git repository, a part at a time, so that a clone that was interrupted goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from xmcbench.errors import DataError

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
