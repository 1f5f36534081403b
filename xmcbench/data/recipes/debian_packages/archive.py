"""Fetching the package indices of a Debian release with the machine's apt: its sources, mirrors and keys.

apt checks the signature of the release and the sums of the indices. It works in a temporary folder: the
machine's package lists are not touched, and no privileges are needed.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from xmcbench.data.card import Recipe
from xmcbench.data.recipes.debian_packages.index import indices
from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.temporary import scratch

#: apt's names of the indices of a release, in the order of ``indices``.
_CREATED_BY = ("Packages", "Translations")

_FORMAT = "$(CREATED_BY)\t$(ORIGIN)\t$(CODENAME)\t$(COMPONENT)\t$(FILENAME)\t$(REPO_URI)"

_HELPER = Path("/usr/lib/apt/apt-helper")

_HINT = "give a folder with the indices from the archive: --indices FOLDER"


#: The keys of all releases, from the package debian-archive-keyring.
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class _Index:
    """An index that apt holds: its file, and the archive that it is from."""

    path: str
    archive: str


def fetch_indices(recipe: Recipe, out: Path) -> list[Path]:
    """Fetch ``Packages`` and the translation of the recipe's releases into ``out``, unpacked; returns their paths.

    A next release that the machine's sources do not have is taken from the archive that has the first one. Raises
    DataError if there is no apt, or if there is no such release.
    """
    if shutil.which("apt-get") is None or not _HELPER.exists():
        raise DataError("the indices are fetched with apt-get, which this machine does not have", _HINT)
    with scratch() as folder:
        options = _options(folder / "machine", recipe)
        found = _found(options, recipe, recipe.release)
        contents = [_content(options, each.path) for each in found]
        if recipe.next_release:
            options += _source(folder, found[0].archive, recipe.next_release, recipe.component)
            contents += [_content(options, each.path) for each in _found(options, recipe, recipe.next_release)]
    paths = [out / name for name in indices(recipe)]
    for path, content in zip(paths, contents, strict=True):
        with atomic_file(path) as stream:
            stream.write(content)
    return paths


def _found(options: list[str], recipe: Recipe, release: str) -> list[_Index]:
    """The indices of a release, in the order of ``indices``, after an update."""
    update = _run(["apt-get", *options, "-q", "update"])
    found = {}
    for line in _run(["apt-get", *options, "indextargets", "--format", _FORMAT]).stdout.decode().splitlines():
        created_by, origin, codename, component, path, archive = line.split("\t")
        if (origin, codename, component) == ("Debian", release, recipe.component):
            found[created_by] = _Index(path, archive)
    if any(kind not in found for kind in _CREATED_BY):
        reason = update.stderr.decode(errors="replace").strip().splitlines()
        detail = f": {reason[-1]}" if update.returncode and reason else ""
        raise DataError(f"apt's sources do not have Debian {release} {recipe.component}{detail}", _HINT)
    return [found[kind] for kind in _CREATED_BY]


def _content(options: list[str], path: str) -> bytes:
    # The helper unpacks any compression that apt uses.
    content = _run([str(_HELPER), *options, "cat-file", path])
    if content.returncode:
        raise DataError(f"apt cannot read its own {Path(path).name}", _HINT)
    return content.stdout


def _source(folder: Path, archive: str, release: str, component: str) -> list[str]:
    """Options by which apt has one source only: a release of an archive."""
    keys = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
    file = folder / "sources.list"
    file.write_text(f"deb {keys}{archive} {release} {component}\n")
    return ["-o", f"Dir::Etc::sourcelist={file}", "-o", "Dir::Etc::sourceparts=/dev/null"]


def _options(folder: Path, recipe: Recipe) -> list[str]:
    """Options by which apt works in a folder of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o755)  # apt downloads as another user, who must have access
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": recipe.language or "en",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        "APT::Architecture": recipe.architecture,
        "APT::Architectures": recipe.architecture,
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{command[0]} failed: {error}", _HINT) from None
