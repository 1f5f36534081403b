"""The source of a method as a hash: what tells a result of today's code from one of yesterday's."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path


def source_digest(method: type) -> str:
    """SHA-256 (hex) over the files that make a method: its module, and what that imports from its own package.

    A method in ``xmcbench.methods`` depends on the modules of that package which it imports, at any depth and inside
    functions too; a plug-in file on itself. Packages of other authors count by their version, which the record holds.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_files(method.__module__, Path(inspect.getfile(method))).items()):
        digest.update(f"{name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(module: str, path: Path) -> dict[str, Path]:
    package = module.rpartition(".")[0]
    found: dict[str, Path] = {}
    waiting = [(module if package else path.stem, path)]
    while waiting:
        name, file = waiting.pop()
        if name in found:
            continue
        found[name] = file
        for imported in _imports(name, file) if package else ():
            if imported.startswith(f"{package}.") and (origin := _origin(imported)):
                waiting.append((imported, origin))
    return found


def _imports(module: str, file: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = node.module or ""
            if node.level:
                levels = node.level - (file.name == "__init__.py")  # in a package `.` is the package itself
                above = module.rsplit(".", levels)[0] if levels else module
                named = f"{above}.{named}".rstrip(".")
            # `from package import module` names a module in the second half, `from module import name` does not.
            names += [named, *(f"{named}.{alias.name}" for alias in node.names)]
    return names


def _origin(module: str) -> Path | None:
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return Path(file) if file else None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a name inside a module, not a module
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
