"""The English manual pages in .deb files: their names, and their text, rendered by mandoc.

Nothing is unpacked to disk: ``dpkg-deb`` gives the files of a package as a tar stream, and its names and links are only
compared with each other.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xmcbench.data.recipes.apt import open_package
from xmcbench.errors import DataError
from xmcbench.storage.reading import LINE, check_size, raise_limit

#: Folders of English pages; those of other languages are below ``man/de`` and the like.
_PAGE = re.compile(r"usr/share/man/man\w+/([^/]+\.[0-9n][^./]*?)(?:\.gz)?")
#: A page that only says which page to show: its request, perhaps among comments.
_COMMENT = re.compile(rb"^[.'][ \t]*\\[\"#].*\n?|^[ \t]*\n", re.MULTILINE)
_REDIRECTION = re.compile(rb"\.so[ \t]+(\S+)\s*")
#: Bytes of a page, unpacked.
_LONGEST = LINE


@dataclass(frozen=True)
class File:
    """A page's source in roff. name: of the file, without .gz, such as ``ls.1``. package: that it is from."""

    name: str
    package: str
    source: bytes


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a page into its topic and its section with a suffix, if any: ``ls.1`` into ls and 1."""
    topic, _, section = name.rpartition(".")
    return topic, section


def read_pages(archives: Iterable[Path]) -> tuple[dict[str, File], dict[str, str]]:
    """Read the pages by name, and the name of the page that each further name stands for.

    Of two packages with a page of one name, which cannot be installed together, the first has it. Raises DataError for
    a damaged archive, or without ``dpkg-deb``.
    """
    pages: dict[str, File] = {}
    links: dict[str, str] = {}
    for archive in archives:
        package = archive.name.partition("_")[0]
        for name, source, linked in _read(archive):
            if name in pages or name in links:
                continue
            if target := linked or _redirection(source):
                links[name] = target
            else:
                pages[name] = File(name, package, source)
    followed = {}
    for name in links:
        target, seen = name, set()
        while target in links and target not in seen:  # a circle ends where it began
            seen.add(target)
            target = links[target]
        if target in pages:
            followed[name] = target
    return pages, followed


def _redirection(source: bytes) -> str:
    """Return the name of the page that a ``.so`` line asks for; empty for a page with more than that."""
    found = _REDIRECTION.fullmatch(_COMMENT.sub(b"", source))
    return posixpath.basename(found[1].decode(errors="replace")).removesuffix(".gz") if found else ""


def _read(archive: Path) -> Iterator[tuple[str, bytes, str]]:
    """The pages of a package, each with its name, its source, and the name of its target if it is a link."""
    with open_package(archive) as opened:
        for member in opened:
            if not (found := _PAGE.fullmatch(member.name.removeprefix("./"))):
                continue
            stream = opened.extractfile(member) if member.isreg() else None
            if stream is not None:
                check_size(member.size, _LONGEST, member.name)
                source = stream.read()
                if source.startswith(b"\x1f\x8b"):
                    source = zlib.decompressobj(wbits=31).decompress(source, raise_limit(_LONGEST) + 1)
                    check_size(len(source), _LONGEST, "a page")
                yield found[1], source, ""
            elif member.issym() or member.islnk():
                yield found[1], b"", posixpath.basename(member.linkname).removesuffix(".gz")


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
    text = "\n".join(related).replace("\u2010", "-")
    named = [(name.strip("'\"`\u2018\u2019\u201c\u201d"), section) for name, section in _REFERENCE.findall(text)]
    named += [(name, "") for name in _BARE.findall(_REFERENCE.sub(" ", text))]
    return Text(synopsis, " ".join(content), tuple(dict.fromkeys(named)))


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
