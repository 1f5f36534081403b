"""Every error that xmcbench raises on purpose.

The text of an exception is the message of the command line: one line, then the hint. A traceback is shown with
``--debug`` only.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

from xmcbench.output.escaping import visible

#: Errors that mean there is no room for a file: device full, quota reached, file-size limit reached.
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class XmcbenchError(Exception):
    """A failure with a reason, ``message``, in one line, and a ``hint`` what to do about it.

    choices: what can be given instead, each shown on a line of its own.
    """

    exit_code = 1
    message: str = ""
    hint: str = ""

    def __init__(self, message: str, hint: str = "", choices: Iterable[str] = ()) -> None:
        super().__init__(message, hint)
        self.message = visible(" ".join(message.split()))
        self.hint = visible(" ".join(hint.split()))
        self.choices = tuple(map(visible, choices))

    def __str__(self) -> str:
        said = f"{self.message} ({self.hint})" if self.hint else self.message
        return "\n".join([said, *(f"  {choice}" for choice in self.choices)])

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle, which would call the constructor of a subclass with a message."""
        return _make, (type(self), self.message, self.hint), self.__dict__


def _make(kind: type[XmcbenchError], message: str, hint: str) -> XmcbenchError:
    error = kind.__new__(kind)
    XmcbenchError.__init__(error, message, hint)
    return error


class UsageError(XmcbenchError):
    """The request itself is wrong: exit code 2."""

    exit_code = 2


class UnknownName(UsageError):
    """There is no method, dataset, parameter, ... of this name. where: "of tfidf", "in runs"."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "", where: str = "") -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name.lower(), [candidate.lower() for candidate in known], n=1, cutoff=0.6)
        if near:
            name_near = next(candidate for candidate in known if candidate.lower() == near[0])
            hint = f"did you mean {name_near!r}?"
        elif not hint:
            hint = f"known: {', '.join(known)}" if known else "there are none"
        super().__init__(f"unknown {kind} {name!r} {where}".rstrip(), hint)


class NoResult(UsageError):
    """A method has no stored result with the requested dataset, setting and seed."""


class DataError(XmcbenchError):
    """A dataset's files are missing, damaged, or break their format."""


class MethodError(XmcbenchError):
    """A method broke the contract: wrong shape, NaN scores, duplicate or out-of-range labels."""


class PluginError(XmcbenchError):
    """A plug-in cannot be loaded."""


class Unavailable(XmcbenchError):
    """A package, weights or data are not on this machine; the hint is the command that installs or fetches them."""


class StorageError(XmcbenchError):
    """A result cannot be written (full disk, no permission) or read."""

    @classmethod
    def from_os_error(cls, error: OSError, path: object) -> StorageError:
        """Return the same failure, in one line."""
        if is_full_disk(error):
            return cls(f"no space left to write {path}", "free some space or choose another folder, then run again")
        if isinstance(error, FileExistsError | NotADirectoryError):
            return cls(f"cannot write {path}: a file is in the place of its folder", "choose another folder")
        return cls(f"cannot write {path}: {error.strerror or error}", "check the path and its permissions")


def kind_of(error: XmcbenchError) -> str:
    """Return the name of the nearest class of this module, by which another process makes the error: ``of_kind``."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == __name__)


def of_kind(kind: str, message: str, hint: str) -> XmcbenchError:
    """Return the error that another process raised. kind: from ``kind_of``; any other name is an XmcbenchError."""
    found = globals().get(kind)
    if not isinstance(found, type) or not issubclass(found, XmcbenchError):
        found = XmcbenchError
    return _make(found, message, hint)


def summarize(error: BaseException) -> str:
    """Return an error of any class in one line: its class and its message."""
    try:
        message = str(error)
    except Exception:  # the class of an error can be anyone's
        message = ""
    return ": ".join(filter(None, [type(error).__name__, visible(" ".join(message.split()))]))


def is_full_disk(error: OSError) -> bool:
    """Return whether there was no space left. numpy only reports how much of an array it wrote."""
    return error.errno in _FULL_DISK or (error.errno is None and str(error).endswith(" written"))
