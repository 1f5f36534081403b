"""Fetch the package indices of a Debian release, or packages, with the machine's apt, and open packages.

apt checks the signature of the release and the sums of the files. It works in a temporary folder: the machine's
package lists are not touched, and no privileges are needed. Packages are read by dpkg-deb; nothing is unpacked to disk.

A release is given by its code name or suite: ``trixie``, ``testing``. With a day, ``testing@2026-11-21``, it is as
snapshot.debian.org has it from the end of that day.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.card import Recipe
from xmcbench.data.exchange import has_checksum
from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import Unreadable
from xmcbench.storage.temporary import scratch

#: apt's names of the two indices of a release.
_CREATED_BY = ("Packages", "Translations")

_HELPER = Path("/usr/lib/apt/apt-helper")
#: The keys of all releases, from the package debian-archive-keyring.
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SNAPSHOTS = "http://snapshot.debian.org/archive/debian"

_HINT = "give a folder with the files from the archive: --indices FOLDER"
_ARCHIVE_HINT = "get it from snapshot.debian.org, and give the folder of all files: --indices FOLDER"


class _Target(NamedTuple):
    """An index that apt has."""

    created_by: str
    label: str
    release: str
    codename: str
    component: str
    path: str
    archive: str


#: apt's names of these fields.
_FORMAT = "$(CREATED_BY)\t$(LABEL)\t$(RELEASE)\t$(CODENAME)\t$(COMPONENT)\t$(FILENAME)\t$(REPO_URI)"


def fetch_indices(recipe: Recipe, paths: Sequence[Path]) -> None:
    """Fetch ``Packages`` and the translation of the recipe's releases, unpacked, into the first files.

    Into one more, if there is one, the ``InRelease`` of the last release. A release that the machine's sources do not
    have is taken from their archive. Raises DataError if there is no apt, or if there is no such release.
    """
    with _updated(recipe) as apt:
        contents: list[bytes] = []
        for release in filter(None, (recipe.release, recipe.next_release)):
            targets = apt.select(release)
            contents += [apt.read(targets[kind]) for kind in _CREATED_BY]
        described = apt.read_release(targets[_CREATED_BY[0]]) if len(paths) > len(contents) else None
    for path, content in zip(paths, filter(None, (*contents, described)), strict=True):
        with atomic_file(path) as stream:
            stream.write(content)


def fetch_packages(recipe: Recipe, out: Path, progress: Callable[[str], None]) -> list[Path]:
    """Fetch the recipe's .deb files into a folder, unless they are there; returns them by name.

    A file that is broken off is continued by the next call. Raises DataError, also for a file with other bytes.
    """
    paths = {name: out / name for name in sorted(recipe.indices)}
    missing = [name for name, path in paths.items() if not has_checksum(path, recipe.indices[name])]
    if not missing:
        return [*paths.values()]
    with _updated(recipe) as apt:
        target = apt.select(recipe.release)[_CREATED_BY[0]]
        addresses = re.findall(r"^Filename: (\S+)$", apt.read(target).decode(), re.MULTILINE)
        known = {posixpath.basename(address): f"{target.archive}{address}" for address in addresses}
        for number, name in enumerate(missing):
            progress(f"{len(paths) - len(missing) + number:,} of {len(paths):,} packages fetched; now {name}")
            if name not in known:
                raise DataError(f"{target.archive} has no {name} in {recipe.release}", _ARCHIVE_HINT)
            part = out / f"{name}.part"
            apt.download_file(known[name], part, recipe.indices[name])
            os.replace(part, paths[name])
    return [*paths.values()]


@contextmanager
def _updated(recipe: Recipe) -> Iterator[_Apt]:
    if shutil.which("apt-get") is None or not _HELPER.exists():
        raise DataError("the source is fetched with apt-get, which this machine does not have", _HINT)
    with scratch() as folder:
        yield _Apt(folder, recipe)


class _Apt:
    """apt in a folder, with the lists of the machine's sources, and of the releases that are selected."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self._folder, self._recipe = folder, recipe
        machine = folder / "machine"
        for name in ("lists/partial", "cache/archives/partial"):
            (machine / name).mkdir(parents=True)
        for path in (machine, folder):
            path.chmod(0o755)  # apt downloads as another user, who must have access
        settings = {
            "Dir::State::lists": machine / "lists",
            "Dir::Cache": machine / "cache",
            "Acquire::Languages": recipe.language or "en",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
            "APT::Architecture": recipe.architecture,
            "APT::Architectures": recipe.architecture,
        }
        self._options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
        _, self._problem = self._run("apt-get", "-q", "update")
        self._archive = next((target.archive for target in self._targets() if target.label == "Debian"), "")

    def select(self, release: str) -> dict[str, _Target]:
        """Return the indices of a release by kind; from then on, apt knows it. Raises DataError."""
        if found := self._find(release):
            return found
        name, _, day = release.partition("@")
        archive = f"{_SNAPSHOTS}/{date.fromisoformat(day):%Y%m%d}T235959Z" if day else self._archive
        if archive:
            options = f"{f'signed-by={_KEYS} ' if _KEYS.exists() else ''}check-valid-until={'no' if day else 'yes'}"
            sources = self._folder / "sources.list"
            sources.write_text(f"deb [{options}] {archive} {name} {self._recipe.component}\n")
            # No more than this release of the archive.
            self._options += ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
            _, self._problem = self._run("apt-get", "-q", "update")
            if found := self._find(name):
                return found
        detail = f": {self._problem}" if self._problem else ""
        raise DataError(f"apt does not find Debian {release} {self._recipe.component}{detail}", _HINT)

    def read(self, target: _Target) -> bytes:
        """Read an index. Raises DataError."""
        # The helper unpacks any compression that apt uses.
        content, problem = self._run(str(_HELPER), "cat-file", target.path)
        if problem:
            raise DataError(f"apt cannot read its own indices of {target.release}", _HINT)
        return content

    def read_release(self, target: _Target) -> bytes:
        """Read the file that describes the release of an index. Raises DataError."""
        # Its name begins as that of the index does, up to the component.
        path = Path(f"{target.path.rpartition(f'_{target.component}_')[0]}_InRelease")
        if not path.is_file():
            raise DataError(f"apt has no InRelease of {target.release}", _HINT)
        return path.read_bytes()

    def download_file(self, address: str, path: Path, sha256: str) -> None:
        """Download a file of an archive, or the rest of it. Raises DataError."""
        _, problem = self._run(str(_HELPER), "download-file", address, str(path), f"SHA256:{sha256}")
        if problem:
            raise DataError(f"cannot fetch {address}: {problem}", f"run it again to go on, or {_ARCHIVE_HINT}")

    def _find(self, release: str) -> dict[str, _Target]:
        found = {
            target.created_by: target
            for target in self._targets()
            if target.label == "Debian"
            and release in (target.release, target.codename)
            and target.component == self._recipe.component
        }
        return found if all(kind in found for kind in _CREATED_BY) else {}

    def _targets(self) -> list[_Target]:
        listed, _ = self._run("apt-get", "indextargets", "--format", _FORMAT)
        return [_Target._make(line.split("\t")) for line in listed.decode().splitlines()]

    def _run(self, program: str, *words: str) -> tuple[bytes, str]:
        """Run a program of apt; return its output, and the reason if it fails. Raises DataError if it does not run."""
        try:
            ended = subprocess.run([program, *self._options, *words], capture_output=True, check=False, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DataError(f"{program} failed: {error}", _HINT) from None
        said = ended.stderr.decode(errors="replace").strip()
        return ended.stdout, (said or "it failed").splitlines()[-1] if ended.returncode else ""


@contextmanager
def open_package(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a package as a stream of files, which the block must read to its end. Raises DataError for a damaged one."""
    if shutil.which("dpkg-deb") is None:
        raise DataError("packages are read by dpkg-deb, which this machine does not have", "install the package dpkg")
    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as opened:
                yield opened
        except (tarfile.TarError, zlib.error, EOFError, Unreadable) as error:
            process.kill()
            raise DataError(f"{path} is damaged: {error}", "fetch it again") from None
        reason = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise DataError(f"{path} is damaged: {reason}", "fetch it again")
