"""Subject vocabularies as Annif reads them: TSV (``<uri><TAB>label``), CSV (uri, label_en, ...) and SKOS."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from xmcbench.data.sources.records import read_csv
from xmcbench.data.sources.source import Details, clean_details
from xmcbench.data.text_files import at, open_source, read_all, read_lines, suffix_of
from xmcbench.errors import DataError, Unavailable, UsageError
from xmcbench.extras import installation

#: The syntaxes of SKOS by suffix, as rdflib calls them.
SKOS = {".ttl": "turtle", ".rdf": "xml", ".nt": "nt"}
#: Bytes of a SKOS file. rdflib keeps the whole graph in memory, which takes many times as much.
_GRAPH = 256 << 20
#: The names that a vocabulary may have in a folder.
NAMES = ("vocabulary", "vocab", "subjects")
SUFFIXES = (".tsv", ".csv", *SKOS)
#: The language of labels where none is asked for.
LANGUAGE = "en"
#: The place of a tag of another language, behind any of the one that is wanted.
_OTHER = 1 << 20
#: Bytes of a literal in RDF/XML and Turtle, and of a line of N-Triples: rdflib takes time by the square of its length.
#: Labels take hundreds, notes thousands.
_LONGEST = 64 << 10
#: The size of an element inside a literal, in bytes.
_ELEMENT = 64
#: All forms that can hold a quotation mark in Turtle. A literal that does not end goes to the end.
_TURTLE = re.compile(
    rb"""\#[^\n]*+ | <[^<>\n]*+> | \\.
    | \"{3} (?:[^"\\]++|\\.|"(?!""))*+ (?:\"{3}|\Z) | '{3} (?:[^'\\]++|\\.|'(?!''))*+ (?:'{3}|\Z)
    | " (?:[^"\\\n]++|\\.)*+ "? | ' (?:[^'\\\n]++|\\.)*+ '?""",
    re.VERBOSE | re.DOTALL,
)
_LINE = re.compile(rb"[^\r\n]++")


class Subject(NamedTuple):
    """A subject: its line, 0 in SKOS; its URI; its label, empty where it is deprecated or has none.

    language: the tag of a label in another language than the one asked for. details: of SKOS only.
    """

    line: int
    uri: str
    label: str
    language: str = ""
    details: Details = Details()


def bare(uri: str) -> str:
    """Return a URI without the angle brackets that files of Annif put around it."""
    uri = uri.strip()
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_vocabulary(path: Path, language: str | None) -> Iterator[Subject]:
    """Every subject, in the order of the file; of SKOS, by URI. language: of the labels, where a file has several.

    Raises DataError for anything else, and where no subject has a label.
    """
    suffix = suffix_of(path)
    if suffix in SKOS:
        yield from _skos(path, language, SKOS[suffix])
        return
    first, is_labeled = None, False
    for subject in _csv(path, language or LANGUAGE) if suffix == ".csv" else _tsv(path):
        first = first or subject
        is_labeled = is_labeled or bool(subject.label)
        yield subject
    if first and not is_labeled:
        hint = "expected labels behind the URIs, in TSV after a tab"
        raise at(path, first.line, f"the subject {first.uri!r} has no label, and no other has one", hint)


def _tsv(path: Path) -> Iterator[Subject]:
    for number, line in read_lines(path):
        uri, tab, rest = line.partition("\t")
        if not tab and len(uri.split()) > 1:
            raise at(path, number, "has no tab", "expected <uri>, a tab, and the label")
        if line.strip():
            yield Subject(number, bare(uri), _label(rest.partition("\t")[0]))


def _label(text: str) -> str:
    """The text of a label; empty for white space alone."""
    return text if text.strip() else ""


def _csv(path: Path, language: str) -> Iterator[Subject]:
    for record in read_csv(path):
        for column in ("uri", f"label_{language}"):
            if column not in record.cells:
                hint = f"it has {', '.join(record.cells)}; choose another language with ?language=LANGUAGE"
                raise UsageError(f"{path} has no column {column!r}", hint)
        yield Subject(record.line, bare(record.text("uri")), _label(record.text(f"label_{language}")))


def _skos(path: Path, language: str | None, syntax: str) -> list[Subject]:
    """The concepts of a thesaurus, whatever the order of the file.

    Of several preferred labels, the first in the language is taken, then without a language, then of all. Those of a
    region are in the language (en-GB in en), and where a region is asked for, others are those of its language (en).
    Alternatives are the alternative and hidden labels, the content the definitions and scope notes, in the language, in
    that of the label, or without one. Parents are the URIs of the broader concepts; readers pass over those that are no
    labels.
    """
    try:
        from rdflib import Graph, Literal, URIRef
        from rdflib.namespace import OWL, RDF
        from rdflib.namespace import SKOS as TERMS
    except ImportError:
        raise Unavailable("a SKOS vocabulary is read by rdflib", installation("rdflib")) from None
    # Nothing can be done here about a URI of the vocabulary that is none.
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)
    graph = Graph()
    with open_source(path) as stream:
        content = read_all(stream, _GRAPH, "what it unpacks to")
    check_literals(path, content, syntax)
    try:
        graph.parse(data=content, format=syntax)
    except MemoryError:
        raise
    except Exception as error:  # the parsers raise exceptions of their own, each of several kinds
        raise _not_skos(path, error) from None
    place = partial(_place, (language or LANGUAGE).lower())
    subjects = []
    for concept in sorted({node for node in graph.subjects(RDF.type, TERMS.Concept) if isinstance(node, URIRef)}):
        is_deprecated = any(str(value).lower() in ("true", "1") for value in graph.objects(concept, OWL.deprecated))
        labels = [
            ((label.language or "").lower(), str(label))
            for label in (() if is_deprecated else graph.objects(concept, TERMS.prefLabel))
            if isinstance(label, Literal) and _label(label)
        ]
        tag, label = min(labels, key=lambda pair: (place(pair[0]), pair), default=("", ""))
        names, contents = (
            sorted(
                str(literal)
                for kind in kinds
                for literal in graph.objects(concept, kind)
                if isinstance(literal, Literal)
                and ((spoken := (literal.language or "").lower()) in (tag, "") or place(spoken) < _OTHER)
            )
            for kinds in ((TERMS.altLabel, TERMS.hiddenLabel), (TERMS.definition, TERMS.scopeNote))
        )
        broader = graph.objects(concept, TERMS.broader)
        parents = sorted(str(parent) for parent in broader if isinstance(parent, URIRef))
        details = clean_details(label, names, " ".join(contents), parents)
        subjects.append(Subject(0, str(concept), label, tag if place(tag) == _OTHER else "", details))
    if not any(subject.label for subject in subjects):
        raise DataError(f"{path} has no skos:Concept with a skos:prefLabel", "both are needed for a subject")
    if language and all(subject.language for subject in subjects if subject.label):
        hint = "choose another with ?language=LANGUAGE"
        raise DataError(f"{path} has no preferred label in the language {language!r}", hint)
    return subjects


def _place(wanted: str, tag: str) -> int:
    """Return the place of a tag among those of a language: itself, its regions (RFC 4647), what it extends."""
    if tag == wanted or tag.startswith(f"{wanted}-"):
        return int(tag != wanted)
    return 2 + len(wanted) - len(tag) if tag and wanted.startswith(f"{tag}-") else _OTHER


def check_literals(path: Path, content: bytes, syntax: str) -> None:
    """Raise DataError, with the line, for a literal that is too long, and for a DTD, whose entities have no bound."""
    if syntax == "xml":
        _check_xml(path, content)
        return
    pattern, marks = (_LINE, ()) if syntax == "nt" else (_TURTLE, (b'"', b"'"))
    for found in pattern.finditer(content):
        first = found.start()
        if found.end() - first > _LONGEST and (not marks or content[first : first + 1] in marks):
            raise _too_long(path, content.count(b"\n", 0, first) + 1)


def _too_long(path: Path, line: int) -> DataError:
    hint = "rdflib would take too long to read it: shorten it, or leave it out"
    return at(path, line, f"has a literal of more than {_LONGEST >> 10} KiB", hint)


def _not_skos(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is not SKOS in the syntax of its suffix: {error}")


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
        raise _not_skos(path, error) from None
