"""Fetch package indices and packages of a Debian release with the machine's apt: its sources, mirrors and keys.

apt checks the signature of the release and the sums of the indices. It works in a temporary folder: the machine's
package lists are not touched, and no privileges are needed.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from xmcbench.data.card import Recipe
from xmcbench.data.exchange import has_checksum
from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.temporary import scratch

#: apt's names of the two indices of a release.
_CREATED_BY = ("Packages", "Translations")
_FORMAT = "$(CREATED_BY)\t$(ORIGIN)\t$(CODENAME)\t$(COMPONENT)\t$(FILENAME)\t$(REPO_URI)"

_HELPER = Path("/usr/lib/apt/apt-helper")
#: The keys of all releases, from the package debian-archive-keyring.
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_HINT = "give a folder with the files from the archive: --indices FOLDER"
_ARCHIVE_HINT = "get it from snapshot.debian.org, and give the folder of all files: --indices FOLDER"


def fetch_indices(recipe: Recipe, paths: Sequence[Path]) -> None:
    """Fetch ``Packages`` and the translation of each of the recipe's releases, unpacked, into these files.

    A next release that the machine's sources do not have is taken from the archive that has the first one. Raises
    DataError if there is no apt, or if there is no such release.
    """
    _check_apt("the indices")
    with scratch() as folder:
        options = _options(folder / "machine", recipe)
        contents, archive = _read(options, recipe, recipe.release)
        if recipe.next_release:
            # A list with one source only: a release of the archive.
            keys = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
            sources = folder / "sources.list"
            sources.write_text(f"deb {keys}{archive} {recipe.next_release} {recipe.component}\n")
            options += ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
            contents += _read(options, recipe, recipe.next_release)[0]
    for path, content in zip(paths, contents, strict=True):
        with atomic_file(path) as stream:
            stream.write(content)


def fetch_archives(recipe: Recipe, out: Path, progress: Callable[[str], None]) -> list[Path]:
    """Fetch the recipe's .deb files into a folder, unless they are there; returns them by name.

    A file that is broken off is continued by the next call. Raises DataError if there is no apt, or for a file that the
    release no longer has or whose bytes are others.
    """
    paths = {name: out / name for name in sorted(recipe.indices)}
    missing = [name for name, path in paths.items() if not has_checksum(path, recipe.indices[name])]
    if not missing:
        return [*paths.values()]
    _check_apt("the packages")
    with scratch() as folder:
        options = _options(folder / "machine", recipe)
        (packages, _), archive = _read(options, recipe, recipe.release)
        addresses = re.findall(r"^Filename: (\S+)$", packages.decode(), re.MULTILINE)
        known = {posixpath.basename(address): f"{archive}{address}" for address in addresses}
        for number, name in enumerate(missing):
            progress(f"{len(paths) - len(missing) + number:,} of {len(paths):,} packages fetched; now {name}")
            if name not in known:
                raise DataError(f"{archive} has no {name} in {recipe.release}", _ARCHIVE_HINT)
            part = out / f"{name}.part"
            digest = f"SHA256:{recipe.indices[name]}"
            done = _run([str(_HELPER), *options, "download-file", known[name], str(part), digest])
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip().splitlines() or [""]
                raise DataError(
                    f"cannot fetch {known[name]}: {reason[-1]}", f"run it again to go on, or {_ARCHIVE_HINT}"
                )
            os.replace(part, paths[name])
    return [*paths.values()]


def _check_apt(what: str) -> None:
    if shutil.which("apt-get") is None or not _HELPER.exists():
        raise DataError(f"{what} are fetched with apt-get, which this machine does not have", _HINT)


def _read(options: list[str], recipe: Recipe, release: str) -> tuple[list[bytes], str]:
    """Read the two indices of a release after an update; also returns the archive that they are from."""
    update = _run(["apt-get", *options, "-q", "update"])
    paths, archive = {}, ""
    for line in _run(["apt-get", *options, "indextargets", "--format", _FORMAT]).stdout.decode().splitlines():
        created_by, origin, codename, component, path, uri = line.split("\t")
        if (origin, codename, component) == ("Debian", release, recipe.component):
            paths[created_by], archive = path, uri
    if any(kind not in paths for kind in _CREATED_BY):
        reason = update.stderr.decode(errors="replace").strip().splitlines()
        detail = f": {reason[-1]}" if update.returncode and reason else ""
        raise DataError(f"apt's sources do not have Debian {release} {recipe.component}{detail}", _HINT)
    # The helper unpacks any compression that apt uses.
    found = [_run([str(_HELPER), *options, "cat-file", paths[kind]]) for kind in _CREATED_BY]
    if any(content.returncode for content in found):
        raise DataError(f"apt cannot read its own indices of {release}", _HINT)
    return [content.stdout for content in found], archive


def _options(folder: Path, recipe: Recipe) -> list[str]:
    """Options by which apt works in a folder."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    for path in (folder, folder.parent):
        path.chmod(0o755)  # apt downloads as another user, who must have access
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
