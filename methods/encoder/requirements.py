"""The versions of packages that a checkpoint says it needs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from xmcbench import Unavailable, UsageError
from xmcbench.methods.encoder.saved_config import Requirement

#: Names that sentence-transformers accepts for packages that are installed under another one.
_OTHER_NAMES = {"pytorch": "torch"}


def check_requirements(folder: Path, stated: Mapping[str, str | Requirement]) -> None:
    """Check what the checkpoint in ``folder`` needs: a version of each package, or of ``python``, as in PEP 440.

    Raises Unavailable where another version is installed, or none; UsageError for what is not a version.
    """
    for package, requirement in stated.items():
        wanted = requirement if isinstance(requirement, str) else requirement.specifier
        installed = _installed(package)
        try:
            accepted = SpecifierSet(wanted, prereleases=True)
        except InvalidSpecifier as error:
            raise UsageError(f"the checkpoint {folder} needs {package} {wanted!r}, which is not a version") from error
        if installed is None or not accepted.contains(installed):
            raise Unavailable(
                f"the checkpoint {folder} needs {package}{wanted}, but {installed or 'none'} is installed",
                "" if package == "python" else f'pip install "{_OTHER_NAMES.get(package, package)}{wanted}"',
            )


def _installed(package: str) -> str | None:
    if package == "python":
        return platform.python_version()
    try:
        return metadata.version(_OTHER_NAMES.get(package, package))
    except metadata.PackageNotFoundError:
        return None
