"""Subject vocabularies as Annif reads them: TSV (``<uri><TAB>label``), CSV (uri, label_en, ...) and SKOS."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from xmcbench.data.compression import open_source, suffix_of
from xmcbench.data.rows import at
from xmcbench.data.sources.csv_rows import read_csv
from xmcbench.data.sources.literals import check_literals
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.errors import DataError, Unavailable, UsageError
from xmcbench.storage.reading import check_size

_SKOS = {".ttl": "turtle", ".rdf": "xml", ".nt": "nt"}

#: Bytes of a SKOS file. rdflib keeps the whole graph in memory, which takes many times as much.
_GRAPH = 256 << 20

#: The names that a vocabulary may have in a folder.
NAMES = ("vocabulary", "vocab", "subjects")
SUFFIXES = (".tsv", ".csv", *_SKOS)

_PREFERRED = "http://www.w3.org/2004/02/skos/core#prefLabel"


def bare(uri: str) -> str:
    """A URI without the angle brackets that files of Annif put around it."""
    uri = uri.strip()
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_vocabulary(path: Path, language: str) -> Iterator[tuple[int, str, str]]:
    """(line, uri, label) of every subject, in the order of the file; of SKOS, by URI, and 0 as the line.

    language: which labels are taken where there are several. Raises DataError for anything else.
    """
    suffix = suffix_of(path)
    if suffix in _SKOS:
        rows = _skos(path, language, _SKOS[suffix])
    else:
        rows = _csv(path, language) if suffix == ".csv" else _tsv(path)
    for number, uri, label in rows:
        if not label.strip():
            raise at(path, number, f"the subject {uri!r} has no label", "every label needs a text")
        yield number, uri, label


def _tsv(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < 2:
            raise at(path, number, "has no tab", "expected <uri>, a tab, and the label")
        yield number, bare(cells[0]), cells[1]


def _csv(path: Path, language: str) -> Iterator[tuple[int, str, str]]:
    column = f"label_{language}"
    for number, row in read_csv(path, ","):
        if "uri" not in row or column not in row:
            have = ", ".join(row)
            raise UsageError(
                f"{path} has no column {'uri' if 'uri' not in row else column!r}",
                f"it has {have}; choose another language with ?language=LANGUAGE" if have else "",
            )
        if row[column]:
            yield number, bare(row["uri"]), row[column]


def _skos(path: Path, language: str, syntax: str) -> Iterator[tuple[int, str, str]]:
    try:
        from rdflib import Graph, URIRef
    except ImportError:
        raise Unavailable("a SKOS vocabulary is read by rdflib", "pip install rdflib") from None
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
    found: dict[str, str] = {}
    for uri, label in graph.subject_objects(URIRef(_PREFERRED)):
        if isinstance(uri, URIRef) and (getattr(label, "language", None) or language) == language:
            found[str(uri)] = str(label)
    if not found:
        raise DataError(
            f"{path} has no preferred label in the language {language!r}", "choose another with ?language=LANGUAGE"
        )
    yield from ((0, uri, found[uri]) for uri in sorted(found))
