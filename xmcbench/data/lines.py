"""The lines of text files: UTF-8, without byte-order marks, and with the number that errors name."""

from __future__ import annotations

import math
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from xmcbench.data.compression import lines, open_source
from xmcbench.errors import DataError


def at(path: Path, line: int, what: str, hint: str = "") -> DataError:
    """The error of a broken line: file and 1-based line number first."""
    return DataError(f"{path}, line {line}: {what}", hint)


def lone_return(path: Path, line: int) -> DataError:
    """The error of a line with a carriage return that no line feed follows: programs differ in where the line ends."""
    return at(path, line, "has a line end of CR alone", "convert the line ends to LF, for example with tr '\\r' '\\n'")


def strip_marks(start: bytes, once: bool = False) -> bytes:
    """Return the beginning of a file without byte-order marks: a program may have put one before that of another."""
    stripped = start.removeprefix(BOM_UTF8)
    return stripped if once or stripped == start else strip_marks(stripped)


def number_lines(path: Path, keep_mark: bool = False) -> Iterator[tuple[int, str]]:
    """(number, line with its end) of a text file. Raises DataError with file and line for other bytes than UTF-8.

    keep_mark: the first line is a text, which may begin with a mark of its own; only one before it is removed.
    """
    with open_source(path) as stream:
        for number, line in enumerate(lines(stream), 1):
            try:
                text = (line if number > 1 else strip_marks(line, once=keep_mark)).decode()
            except UnicodeDecodeError:
                raise at(path, number, "is not UTF-8", "convert the file, for example with iconv") from None
            yield number, text


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line without its end, LF or CRLF) of a text file.

    Raises DataError with file and line for other bytes than UTF-8, and for a carriage return within a line.
    """
    for number, line in number_lines(path):
        text = line.rstrip("\r\n")
        if "\r" in text:
            raise lone_return(path, number)
        yield number, text


def read_texts(path: Path) -> Iterator[str]:
    """The lines of a file with one text per line, whose number another file confirms.

    Any character but the line end is part of a text. Raises DataError with file and line for other bytes than UTF-8.
    """
    return (line.removesuffix("\n").removesuffix("\r") for _, line in number_lines(path, keep_mark=True))


def parse_finite(text: str) -> float | None:
    """Return the finite number that a text is; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
