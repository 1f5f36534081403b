"""Subject vocabularies as Annif reads them: TSV (``<uri><TAB>label``), CSV (uri, label_en, ...) and SKOS."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.compression import open_source, suffix_of
from xmcbench.data.rows import at
from xmcbench.data.sources.csv_rows import read_csv
from xmcbench.data.sources.literals import check_literals
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.errors import DataError, Unavailable, UsageError
from xmcbench.extras import installation
from xmcbench.storage.reading import check_size

_SKOS = {".ttl": "turtle", ".rdf": "xml", ".nt": "nt"}

#: Bytes of a SKOS file. rdflib keeps the whole graph in memory, which takes many times as much.
_GRAPH = 256 << 20

#: The names that a vocabulary may have in a folder.
NAMES = ("vocabulary", "vocab", "subjects")
SUFFIXES = (".tsv", ".csv", *_SKOS)

#: The language of labels where none is asked for.
LANGUAGE = "en"


class Subject(NamedTuple):
    """A subject: its line, 0 in SKOS; its URI; its label, empty where it is deprecated or has none.

    language: the tag of a label in another language than the one asked for.
    """

    line: int
    uri: str
    label: str
    language: str = ""


def bare(uri: str) -> str:
    """A URI without the angle brackets that files of Annif put around it."""
    uri = uri.strip()
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_vocabulary(path: Path, language: str | None) -> Iterator[Subject]:
    """Every subject, in the order of the file; of SKOS, by URI.

    language: of the labels, where a file has several; English unless it is given. Raises DataError for anything else,
    and where no subject has a label.
    """
    suffix = suffix_of(path)
    if suffix in _SKOS:
        subjects = _skos(path, language, _SKOS[suffix])
    else:
        subjects = _csv(path, language or LANGUAGE) if suffix == ".csv" else _tsv(path)
    first, is_labeled = None, False
    for subject in subjects:
        first = first or subject
        is_labeled = is_labeled or bool(subject.label)
        yield subject
    if first and not is_labeled:
        hint = "expected labels behind the URIs, in TSV after a tab"
        raise at(path, first.line, f"the subject {first.uri!r} has no label, and no other has one", hint)


def _tsv(path: Path) -> Iterator[Subject]:
    for number, line in enumerate(read_lines(path), 1):
        uri, tab, rest = line.partition("\t")
        if not tab and len(uri.split()) > 1:
            raise at(path, number, "has no tab", "expected <uri>, a tab, and the label")
        if line.strip():
            yield Subject(number, bare(uri), _label(rest.partition("\t")[0]))


def _label(text: str) -> str:
    """The text of a label; empty for white space alone."""
    return text if text.strip() else ""


def _csv(path: Path, language: str) -> Iterator[Subject]:
    column = f"label_{language}"
    for number, row in read_csv(path, ","):
        if "uri" not in row or column not in row:
            have = ", ".join(row)
            raise UsageError(
                f"{path} has no column {'uri' if 'uri' not in row else column!r}",
                f"it has {have}; choose another language with ?language=LANGUAGE" if have else "",
            )
        yield Subject(number, bare(row["uri"]), _label(row[column]))


def _skos(path: Path, language: str | None, syntax: str) -> Iterator[Subject]:
    """The concepts of a thesaurus.

    Of several preferred labels, the first of those in the language is taken, then of those without one, then of all, by
    their tags and texts: the order of the file does not matter.
    """
    try:
        from rdflib import Graph, Literal, URIRef
        from rdflib.namespace import OWL, RDF, SKOS
    except ImportError:
        raise Unavailable("a SKOS vocabulary is read by rdflib", installation("rdflib")) from None
    # A URI that is none is what the vocabulary says it is; there is nothing to be done about it here.
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)
    graph = Graph()
    pieces, size = [], 0
    with open_source(path) as stream:
        while piece := stream.read(1 << 20):
            size += len(piece)
            check_size(size, _GRAPH, "what it unpacks to")
            pieces.append(piece)
    content = b"".join(pieces)
    check_literals(path, content, syntax)
    try:
        graph.parse(data=content, format=syntax)
    except MemoryError:
        raise
    except Exception as error:  # the parsers raise exceptions of their own, each of several kinds
        raise DataError(f"{path} is not SKOS in the syntax of its suffix: {error}") from None
    wanted = (language or LANGUAGE).lower()
    subjects = []
    for concept in sorted({node for node in graph.subjects(RDF.type, SKOS.Concept) if isinstance(node, URIRef)}):
        is_deprecated = any(str(value).lower() in ("true", "1") for value in graph.objects(concept, OWL.deprecated))
        labels = [
            ((label.language or "").lower(), str(label))
            for label in (() if is_deprecated else graph.objects(concept, SKOS.prefLabel))
            if isinstance(label, Literal) and _label(label)
        ]
        tag, label = min(labels, key=lambda pair: (pair[0] != wanted, pair), default=("", ""))
        subjects.append(Subject(0, str(concept), label, tag if tag != wanted else ""))
    if not any(subject.label for subject in subjects):
        raise DataError(f"{path} has no skos:Concept with a skos:prefLabel", "both are needed for a subject")
    if language and all(subject.language for subject in subjects if subject.label):
        raise DataError(
            f"{path} has no preferred label in the language {language!r}", "choose another with ?language=LANGUAGE"
        )
    yield from subjects
