"""Part of `tox -e lint`: the subject of the last commit has at most 72 characters. Outside a checkout it passes."""

import subprocess
import sys
from pathlib import Path

LONGEST = 72


def subject(folder: Path) -> str:
    """The subject of the last commit; empty outside a checkout or without git."""
    command = ["git", "-C", str(folder), "log", "-1", "--format=%s"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip("\n")
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    found = subject(Path(__file__).parent)
    if len(found) > LONGEST:
        sys.exit(f"the subject of the last commit has {len(found)} characters; at most {LONGEST} are allowed: {found}")
