"""The English manual pages in .deb files, and the names that each of them has.

Nothing is unpacked to disk: ``dpkg-deb`` gives the files of a package as a tar stream, and its names and links are only
compared with each other.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xmcbench.data.recipes.deb import open_package
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
    followed = {name: _follow(name, links) for name in links}
    return pages, {name: target for name, target in followed.items() if target in pages}


def _follow(name: str, links: dict[str, str]) -> str:
    """Follow links from a name to its end; a circle ends where it began."""
    seen: set[str] = set()
    while name in links and name not in seen:
        seen.add(name)
        name = links[name]
    return name


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
                yield found[1], _unpack(stream.read()), ""
            elif member.issym() or member.islnk():
                yield found[1], b"", posixpath.basename(member.linkname).removesuffix(".gz")


def _unpack(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    unpacked = zlib.decompressobj(wbits=31).decompress(content, raise_limit(_LONGEST) + 1)
    check_size(len(unpacked), _LONGEST, "a page")
    return unpacked
