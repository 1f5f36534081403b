"""Whether a machine has the Python and the xmcbench of another: results of different code are not comparable."""

from __future__ import annotations

import hashlib
import platform
import socket
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from xmcbench import environment
from xmcbench.errors import UsageError


class Versions(Struct, frozen=True):
    """Of a machine. python: as 3.11. code: SHA-256 (hex) of all files of xmcbench and its methods."""

    host: str
    python: str
    xmcbench: str
    code: str

    @classmethod
    @cache
    def here(cls) -> Versions:
        """Those of this process."""
        program, code = environment.program(), _code()
        named = [program.version, *(["commit " + program.commit[:12]] if program.commit else []), f"code {code[:12]}"]
        return cls(socket.gethostname(), ".".join(platform.python_version_tuple()[:2]), ", ".join(named), code)

    def check(self, other: Versions) -> None:
        """Raise UsageError where another machine has other versions, with both."""
        hint = "install the same on all machines: results of different code are not comparable"
        where = f"{other.host} of the Ray cluster"
        if self.python != other.python:
            raise UsageError(f"{where} has Python {other.python}, and this machine {self.python}", hint)
        if self.code != other.code:
            raise UsageError(f"{where} has xmcbench {other.xmcbench}, and this machine {self.xmcbench}", hint)


def _code() -> str:
    digest = hashlib.sha256()
    for package, others in (("xmcbench", ["methods"]), ("xmcbench.methods", [])):
        spec = find_spec(package)
        root = Path(spec.origin).parent if spec and spec.origin else Path()
        for file in sorted(root.rglob("*.py")):
            name = file.relative_to(root)
            if name.parts[0] not in others:
                digest.update(f"{package} {name.as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
