"""Lock files, which the system releases when their process ends.

Where a file system has no locks, everybody has every lock: work may be done twice there. What is written stays whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from xmcbench.errors import StorageError

#: Errors of a file system without locks. NFS says EBADF where a folder is to be locked.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)

#: Errors of a file that may only be read.
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)


class exclusive:  # noqa: N801 - reads as a statement: `with exclusive(path):`
    """Hold the lock file at ``path`` for a block.

    With ``wait=False`` the block runs without waiting and ``held`` says whether the lock was free.
    """

    def __init__(self, path: Path, wait: bool = True) -> None:
        self._path, self._wait, self.held = path, wait, False

    def __enter__(self) -> exclusive:
        try:
            self._stream = _locked(self._path, fcntl.LOCK_EX if self._wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
        except BlockingIOError:
            self.held = False
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            self._stream.close()

    def remove(self) -> None:
        """Remove the lock file, where the lock is held: whoever waits for it takes another one."""
        if self.held:
            self._path.unlink(missing_ok=True)


def in_use(path: Path) -> IO[str]:
    """Hold a shared lock on the file at ``path`` until the returned stream is closed.

    Waits for an exclusive holder. Raises StorageError.
    """
    return _locked(path, fcntl.LOCK_SH)


def _locked(path: Path, how: int) -> IO[str]:
    """The locked file. Raises BlockingIOError if it is not free and ``how`` says not to wait."""
    while True:
        stream = _opened(path, how)
        try:
            try:
                fcntl.flock(stream, how)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            # The previous holder may have removed the file: a lock on a removed file excludes nobody.
            with suppress(FileNotFoundError):
                if os.fstat(stream.fileno()).st_ino == path.stat().st_ino:
                    return stream
        except BaseException:  # Ctrl-C too
            stream.close()
            raise
        stream.close()


def _opened(path: Path, how: int) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")  # NFS gives a shared lock to who can read only, an exclusive one to who can write
    except OSError as error:
        if how & fcntl.LOCK_SH and error.errno in _NOT_OURS and path.is_file():
            return path.open()  # a store that others own, or that cannot be written
        raise StorageError.from_os_error(error, path) from error
