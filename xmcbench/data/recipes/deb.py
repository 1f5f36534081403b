"""The files of a Debian package, read by dpkg-deb; nothing is unpacked to disk."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xmcbench.errors import DataError
from xmcbench.storage.reading import Unreadable


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
