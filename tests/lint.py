"""Checks of `tox -e lint` that ruff does not have: docstrings, and the subject of the last commit."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Words with which a docstring says what a thing answers, and not what it does or is.
QUESTIONS = ("What", "Whether", "How", "Where", "Which", "When", "Why", "The one")
LONGEST_SUBJECT = 72


def find_questions(path: Path) -> Iterator[str]:
    """Yield a line for each docstring of a module that begins with a question word."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if text.startswith(tuple(f"{word} " for word in QUESTIONS)):
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"


def last_subject() -> str:
    """Return the subject of the last commit; empty outside a checkout or without git."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%s"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip("\n")
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> int:
    """Print the problems; 1 if there are any."""
    folders = ("xmcbench", "methods", "datasets", "docs", "tests")
    found = [
        line for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) for line in find_questions(path)
    ]
    if len(subject := last_subject()) > LONGEST_SUBJECT:
        found.append(f"the subject of the last commit is longer than {LONGEST_SUBJECT} characters: {subject}")
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
