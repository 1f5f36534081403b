"""Literals of RDF that rdflib would read for hours: its parsers take time by the square of a literal's length."""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

from xmcbench.data.rows import at
from xmcbench.errors import DataError

#: Bytes of a literal in RDF/XML and Turtle, and of a line of N-Triples. Labels take hundreds, notes thousands.
_LONGEST = 64 << 10
#: What an element inside a literal counts as, in bytes.
_ELEMENT = 64
_SHORTEN = "rdflib would take too long to read it: shorten it, or leave it out"

#: What can hold a quotation mark in Turtle. A literal that does not end goes to the end.
_TURTLE = re.compile(
    rb"""\#[^\n]*+ | <[^<>\n]*+> | \\.
    | \"{3} (?:[^"\\]++|\\.|"(?!""))*+ (?:\"{3}|\Z) | '{3} (?:[^'\\]++|\\.|'(?!''))*+ (?:'{3}|\Z)
    | " (?:[^"\\\n]++|\\.)*+ "? | ' (?:[^'\\\n]++|\\.)*+ '?""",
    re.VERBOSE | re.DOTALL,
)
_LINE = re.compile(rb"[^\r\n]++")


def check_literals(path: Path, content: bytes, syntax: str) -> None:
    """Raise DataError, with the line, for a literal that is too long, and for a DTD, whose entities have no bound.

    syntax: ``nt``, ``turtle`` or ``xml``. Also raises DataError for what is not XML.
    """
    if syntax == "xml":
        _check_xml(path, content)
        return
    pattern, marks = (_LINE, ()) if syntax == "nt" else (_TURTLE, (b'"', b"'"))
    for found in pattern.finditer(content):
        first = found.start()
        if found.end() - first > _LONGEST and (not marks or content[first : first + 1] in marks):
            raise _too_long(path, content.count(b"\n", 0, first) + 1)


def _too_long(path: Path, line: int) -> DataError:
    return at(path, line, f"has a literal of more than {_LONGEST >> 10} KiB", _SHORTEN)


def _check_xml(path: Path, content: bytes) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    depth, literal, size = 0, 0, 0  # literal: the depth of an element whose content is one, with the elements in it

    def refuse_dtd(*_: object) -> None:
        hint = "write out its entities, or convert the vocabulary to Turtle"
        raise at(path, parser.CurrentLineNumber, "has a DTD, which is not read", hint)

    def text(part: str) -> None:
        nonlocal size
        size += len(part)
        if size > _LONGEST:
            raise _too_long(path, parser.CurrentLineNumber)

    def start(_: str, attributes: dict[str, str]) -> None:
        nonlocal depth, literal, size
        depth += 1
        if literal:
            text(" " * _ELEMENT)
            return
        size = 0
        if any(name.endswith("parseType") and of not in ("Resource", "Collection") for name, of in attributes.items()):
            literal = depth

    def end(_: str) -> None:
        nonlocal depth, literal, size
        if literal in (0, depth):
            literal = size = 0
        depth -= 1

    parser.StartDoctypeDeclHandler, parser.CharacterDataHandler = refuse_dtd, text
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError) as error:  # a ValueError for some encodings
        raise DataError(f"{path} is not SKOS in the syntax of its suffix: {error}") from None
