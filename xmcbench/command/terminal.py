"""The streams of the command line, which are always open, take any character, and are inert; and color on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from xmcbench.output.escaping import terminal
from xmcbench.output.layout import fill

#: Parts of a table of results: the best figure of a column with its mark, and the half-width of an interval.
_BEST, _HALF_WIDTH = r"\b\d+\.\d+\*", r"±\d+\.\d+"


class Inert:
    """A text stream that spells out control characters. stream: the stream below, for intended escape sequences."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text with control characters spelled out; return the number of given characters."""
        with self._discard_after_errors():
            self.stream.write(terminal(text))
        return len(text)

    def flush(self) -> None:
        """Write what is held back."""
        with self._discard_after_errors():
            self.stream.flush()

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        self.write("".join(lines))

    @contextmanager
    def _discard_after_errors(self) -> Iterator[None]:
        """Discard the output once it cannot be written, or Python would write what it holds back when it ends.

        The exit code does not depend on a reader that has gone (`xmcbench ls | head`); other errors are raised.
        """
        try:
            yield
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def print_results(*texts: object) -> None:
    """Print texts with blank lines between them; on a terminal lines end between words.

    There, the best figures are green and half-widths dim, unless NO_COLOR is set (https://no-color.org).
    """
    shown = terminal(fill("\n\n".join(filter(None, map(str, texts)))))
    if not sys.stdout.isatty():
        print(shown)
        return
    from rich.console import Console
    from rich.text import Text

    text = Text(shown)
    if not os.environ.get("NO_COLOR"):
        text.highlight_regex(_BEST, "bold green")
        text.highlight_regex(_HALF_WIDTH, "dim")
    # The escape sequences of colors must not be spelled out, as those of names are.
    Console(file=getattr(sys.stdout, "stream", sys.stdout)).print(text, soft_wrap=True)


@contextmanager
def inert_streams() -> Iterator[None]:
    """Make stdout and stderr exist, take every character, and be inert, within the block."""
    _open_closed_descriptors()
    before = sys.stdout, sys.stderr
    try:
        sys.stdout, sys.stderr = (_inert(stream, number) for number, stream in enumerate(before, 1))  # type: ignore[assignment]
        yield
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _open_closed_descriptors() -> None:
    """Open the null device for closed standard streams: otherwise the next opened file would receive their output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


def _inert(stream: TextIO | None, number: int) -> Inert:
    if stream is None:  # it was closed when Python started
        return Inert(os.fdopen(os.dup(number), "w", errors="backslashreplace"))
    with suppress(AttributeError, ValueError):  # a stream of a test, or of a notebook
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return Inert(stream)
