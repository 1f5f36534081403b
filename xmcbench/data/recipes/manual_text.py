"""The text of a manual page, rendered by mandoc: its title, its content, and the pages that its SEE ALSO names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xmcbench.data.recipes.manual_files import File
from xmcbench.errors import DataError

#: The widest lines that mandoc 1.14 makes. The system is named in a footer, which is left out.
_MANDOC = ["mandoc", "-T", "utf8", "-O", "width=1000", "-I", "os=Debian"]

#: Seconds for a page; all but a few take some milliseconds.
_TIMEOUT_S = 60

#: A letter printed twice is bold. Headings are bold, and indented less than text; one at the margin is of a section.
_OVERSTRIKE = re.compile(r".\x08")
_HEADING = re.compile(r"( {0,3})(\S)\x08\2")

#: A line that is drawn with characters.
_RULE = re.compile(r"([^\w\s]|_)\1{9,}")

_SEE_ALSO = re.compile(r"see[\s-]*also\b", re.IGNORECASE)
#: The names in NAME, and the dash before the description, from which a space is missing at times.
_NAMES = re.compile(r".*?(?:\s+[-\u2010-\u2015]+\s*|[-\u2010-\u2015]+\s+)")

#: ``ls(1)``, also as ``ls (1)``.
_REFERENCE = re.compile(r"([^\s,;()]+)\s?\((\d\w*|n)\)")
#: A name that no word of a sentence looks like: ``List::Util``, ``r.in.gdal``, ``SSL_read``.
_BARE = re.compile(r"\w+(?:(?:::|[._])\w+)+")


@dataclass(frozen=True)
class Text:
    """The text of a page. synopsis: the description in its NAME. references: names, each with a section or none."""

    synopsis: str
    content: str
    references: tuple[tuple[str, str], ...]


def render(file: File, folder: Path) -> Text:
    """Render a page. folder: an empty one, so that the page can include no file. Raises DataError."""
    # A zone and a language, as dates and characters depend on them.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        done = subprocess.run(
            _MANDOC,
            input=file.source,
            capture_output=True,
            check=False,
            cwd=folder,
            env=environment,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"mandoc failed on {file.name} of {file.package}: {error}") from None
    # Other codes are about the quality of the source.
    if done.returncode < 0:
        raise DataError(f"mandoc was ended by signal {-done.returncode} on {file.name} of {file.package}")
    return parse(done.stdout.decode(errors="replace"))


def parse(rendered: str) -> Text:
    """Split the output of mandoc into name, content and references."""
    synopsis, content, related = "", [], []
    for heading, text in _sections(rendered.strip("\n").split("\n")[1:-1]):
        if _SEE_ALSO.match(heading):
            # Lines are broken behind a hyphen too.
            related.append(re.sub(r"-\n\s*", "-", text))
            continue
        if heading.casefold() == "name" and not synopsis:
            synopsis, rest = _describe(text)
        else:
            rest = f"{heading} {text}"
        content += _RULE.sub(" ", rest).split()
    return Text(synopsis, " ".join(content), tuple(dict.fromkeys(_references("\n".join(related)))))


def _describe(text: str) -> tuple[str, str]:
    """Split the text of NAME into the description, which is the rest of the line with a dash, and the lines below."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if (found := _NAMES.match(line)) and line[found.end() :].strip():
            return " ".join(line[found.end() :].split()), "\n".join(lines[number + 1 :])
    return "", ""


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The headings and texts of sections and subsections; a subsection of SEE ALSO is a part of it."""
    heading, text, level = "", [""], 0
    for line in lines:
        found = _HEADING.match(line)
        plain = _OVERSTRIKE.sub("", line)
        if found and not (len(found[1]) > level and _SEE_ALSO.match(heading)):
            yield heading, "\n".join(text)
            heading, text, level = " ".join(plain.split()), [], len(found[1])
        else:
            text.append(plain)
    yield heading, "\n".join(text)


def _references(text: str) -> Iterator[tuple[str, str]]:
    text = text.replace("\u2010", "-")
    for name, section in _REFERENCE.findall(text):
        yield name.strip("'\"`\u2018\u2019\u201c\u201d"), section
    for name in _BARE.findall(_REFERENCE.sub(" ", text)):
        yield name, ""
