"""Keys of artifacts: the functions that make them, and the keys that are made in a run."""

import ast
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmcbench.storage import artifacts

ROOT = Path(__file__).parents[3]
#: Calls that take a key, and the names of dictionaries on their way into one.
CALLS, NAMES = ("get", "put", "unfinished"), ("identity", "key")
#: Entries that say which function made a key, and those of its code.
CONSTANT = ("kind", "by", "part", "titles", "source", "packages")


@dataclass(frozen=True)
class Case:
    """A function that makes a key for a kind of artifacts.

    site: the function, as ``sites`` spells it. run: makes the key; its parameters are what the key is made of, and
    their defaults one value of each. others: another value of each. of: the function itself, if ``run`` has its
    parameters. stops: whether ``run`` ends when the first key is made, so that nothing has to be built under it.
    within: the function that is running when the key is made, where that is another one.
    """

    site: str
    kind: str
    run: Callable[..., None]
    others: Mapping[str, object]
    of: Callable[..., Any] | None = None
    stops: bool = True
    within: str = ""


CASES: list[Case] = []


def case(
    site: str,
    kind: str,
    of: Callable[..., Any] | None = None,
    stops: bool = True,
    within: str = "",
    **others: object,
) -> Callable[..., Any]:
    """Make a case of a function. others: another value of each of its parameters."""

    def add(run: Callable[..., None]) -> Callable[..., None]:
        CASES.append(Case(f"xmcbench.{site}", kind, run, others, of, stops, f"xmcbench.{within or site}"))
        return run

    return add


def sites() -> set[str]:
    """Return the functions in methods/ and xmcbench/ that make a key, or an entry of one: ``module:name``."""
    found = set()
    for name, folder in (("xmcbench.methods", ROOT / "methods"), ("xmcbench", ROOT / "xmcbench")):
        for file in sorted(folder.rglob("*.py")):
            module = ".".join([name, *file.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
            found |= {f"{module}:{function}" for function in _functions(ast.parse(file.read_text()), [])}
    return found


def _functions(node: ast.AST, within: list[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _functions(child, [*within, child.name])
            continue
        if _takes_key(child) or _names_key(child):
            yield ".".join(within)
        yield from _functions(child, within)


def _takes_key(node: ast.AST) -> bool:
    """``artifacts.get(...)`` and the like, or ``get_cached(...)``, which is the same for the cache of datasets."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "get_cached"
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    owner = owner.func if isinstance(owner, ast.Call) else owner
    name = getattr(owner, "attr", getattr(owner, "id", ""))
    return name.lower() == "artifacts" and node.func.attr in CALLS


def _names_key(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    named = any(isinstance(target, ast.Name) and target.id in NAMES for target in targets)
    return named and any(isinstance(child, ast.Dict) for child in ast.walk(node.value))


class Stop(Exception):
    """The key is made: nothing has to be built under it."""


@dataclass(frozen=True)
class Made:
    """A key, with the kind of its artifact and the functions that were running when it was made.

    The kind of a key of unfinished work begins with ``unfinished``.
    """

    kind: str
    key: dict[str, Any]
    functions: frozenset[str]


def record(monkeypatch, stop_at: str = "") -> list[Made]:
    """Return a list that grows by every key that is made. stop_at: the kind before which the run ends by ``Stop``."""
    made: list[Made] = []
    original = artifacts._with_code

    def note(identity, *uses):
        key = original(identity, *uses)
        frame = sys._getframe(1)
        kind, functions = frame.f_locals["kind"], set()
        if frame.f_code.co_name == "unfinished":
            kind = f"unfinished {kind}"
        while frame is not None:
            name = frame.f_code.co_qualname.replace(".<locals>", "")
            functions.add(f"{frame.f_globals['__name__']}:{name}")
            frame = frame.f_back
        made.append(Made(kind, json.loads(json.dumps(key)), frozenset(functions)))
        if kind == stop_at:
            raise Stop
        return key

    monkeypatch.setattr(artifacts, "_with_code", note)
    return made


def entries(key: Mapping[str, object], path: str = "") -> Iterator[tuple[str, str]]:
    """The entries of a key by path, as JSON; what is in a list counts as one."""
    for name, value in key.items():
        if isinstance(value, dict) and name not in CONSTANT:
            yield from entries(value, f"{path}{name}.")
        elif name not in CONSTANT:
            yield f"{path}{name}", json.dumps(value)
