"""Packages that are missing: the command that installs them on this machine, if there is one."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from xmcbench.errors import Unavailable

if TYPE_CHECKING:
    import pandas as pd

#: Extras that are made of others, or for work on xmcbench: no hint names them.
_UNNAMED = ("all", "dev")


def installation(*packages: str) -> str:
    """Return the command that installs packages (PyPI names), or that there is none for this machine.

    A package of an extra is installed by the extra, which knows the versions that fit together.
    """
    wanted: dict[str, None] = {}
    for package in packages:
        extra, exists = _extra(package)
        if not exists:
            python = ".".join(platform.python_version_tuple()[:2])
            return f"there is no {package} for Python {python} on {platform.system()} {platform.machine()}"
        wanted[f"xmcbench[{extra}]" if extra else package] = None
    return f"pip install {shlex.join(wanted)}"


def data_frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a pandas DataFrame of rows. columns: default is those of the rows. Raises Unavailable without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise Unavailable("a DataFrame needs pandas", installation("pandas")) from None
    return pd.DataFrame([*rows], columns=columns)


@cache
def _extra(package: str) -> tuple[str, bool]:
    """Return the extra that has a package, empty for none, and whether it has it on this machine."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        installed = metadata.metadata("xmcbench")
    except metadata.PackageNotFoundError:
        return "", True
    found = "", True
    requirements = [Requirement(line) for line in installed.get_all("Requires-Dist") or []]
    markers = [
        requirement.marker
        for requirement in requirements
        if canonicalize_name(requirement.name) == canonicalize_name(package)
    ]
    for extra in installed.get_all("Provides-Extra") or []:
        for marker in markers:
            if extra not in _UNNAMED and f'extra == "{extra}"' in str(marker):
                if marker.evaluate({"extra": extra}):
                    return extra, True
                found = extra, False
    return found
