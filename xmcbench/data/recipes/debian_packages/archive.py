"""Fetching the package indices of a Debian release with the machine's apt: its sources, mirrors and keys.

apt checks the signature of the release and the sums of the indices. It works in a temporary folder: the
machine's package lists are not touched, and no privileges are needed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from xmcbench.data.card import Recipe
from xmcbench.data.recipes.debian_packages.index import indices
from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.temporary import scratch

#: apt's names of the indices, in the order of ``indices``.
_CREATED_BY = ("Packages", "Translations")

_FORMAT = "$(CREATED_BY)\t$(ORIGIN)\t$(CODENAME)\t$(COMPONENT)\t$(FILENAME)"

_HELPER = Path("/usr/lib/apt/apt-helper")

_HINT = "give a folder with the two indices from the release's archive: --indices FOLDER"


def fetch_indices(recipe: Recipe, out: Path) -> list[Path]:
    """Fetch ``Packages`` and the translation of the recipe's release into ``out``, unpacked; returns their paths.

    Raises DataError if there is no apt, or if its sources do not have the release.
    """
    if shutil.which("apt-get") is None or not _HELPER.exists():
        raise DataError("the indices are fetched with apt-get, which this machine does not have", _HINT)
    with scratch() as folder:
        options = _options(folder, recipe.architecture, recipe.language or "en")
        update = _run(["apt-get", *options, "-q", "update"])
        targets = _run(["apt-get", *options, "indextargets", "--format", _FORMAT]).stdout.decode()
        found = {}
        for line in targets.splitlines():
            created_by, origin, codename, component, path = line.split("\t")
            if (origin, codename, component) == ("Debian", recipe.release, recipe.component):
                found[created_by] = path
        if any(kind not in found for kind in _CREATED_BY):
            reason = update.stderr.decode(errors="replace").strip().splitlines()
            detail = f": {reason[-1]}" if update.returncode and reason else ""
            raise DataError(f"apt's sources do not have Debian {recipe.release} {recipe.component}{detail}", _HINT)
        paths = []
        for name, kind in zip(indices(recipe), _CREATED_BY, strict=True):
            # The helper unpacks any compression that apt uses.
            content = _run([str(_HELPER), *options, "cat-file", found[kind]])
            if content.returncode:
                raise DataError(f"apt cannot read its own {name}", _HINT)
            with atomic_file(out / name) as stream:
                stream.write(content.stdout)
            paths.append(out / name)
    return paths


def _options(folder: Path, architecture: str, language: str) -> list[str]:
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)  # apt downloads as another user, who must have access
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": language,
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{command[0]} failed: {error}", _HINT) from None
