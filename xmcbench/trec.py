"""Runs and qrels in the formats of trec_eval: the true pairs and the predictions as other programs read them.

A run has a line ``query Q0 document rank score tag`` per prediction, qrels ``query 0 document relevance`` per
true pair. Queries are test instances and documents are labels, by uid; where uids are not unique, are empty or contain
white space, which these files cannot hold, all are named by row number. Programs that follow trec_eval ignore the rank
and sort by score, read as float32, with other rules for ties: so no two scores of a query are written as equal.
"""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data.text_files import atomic_gzip, lines, open_source
from xmcbench.errors import DataError
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts

#: The columns of a line.
_RUN, _QRELS = "query Q0 document rank score tag", "query 0 document relevance"
#: Scores are kept as float32: its largest number, and the least that is infinite in it.
_LARGEST, _INFINITE = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103


def identifiers(texts: Texts) -> list[str]:
    """Return the names of instances or labels in these files: uids, or the row numbers where uids cannot be used."""
    uids = list(texts.uids)
    usable = len({*uids}) == len(uids) and all(uid.split() == [uid] and uid.isprintable() for uid in uids)
    return uids if usable else [str(row) for row in range(len(uids))]


def write_run(path: Path, predictions: TopK, queries: Sequence[str], documents: Sequence[str], tag: str) -> None:
    """Write predictions [N, k] as a run, gzipped where the name ends in .gz. Raises StorageError.

    tag: names the run, in one word.
    """
    name = "-".join(tag.split()) or "xmcbench"
    scores = separate(predictions.scores)
    with atomic_gzip(path) as stream:
        for row, (labels, values) in enumerate(zip(predictions.indices.tolist(), scores, strict=True)):
            lines = [
                f"{queries[row]} Q0 {documents[label]} {place} {value:.9g} {name}\n"
                for place, (label, value) in enumerate(zip(labels, values, strict=True), 1)
                if label >= 0
            ]
            stream.write("".join(lines).encode())


def write_qrels(path: Path, pairs: csr_matrix, queries: Sequence[str], documents: Sequence[str]) -> None:
    """Write true pairs [N, L] as qrels of relevance 1, gzipped where the name ends in .gz. Raises StorageError."""
    with atomic_gzip(path) as stream:
        for row, (start, end) in enumerate(zip(pairs.indptr[:-1], pairs.indptr[1:], strict=True)):
            lines = [f"{queries[row]} 0 {documents[label]} 1\n" for label in pairs.indices[start:end].tolist()]
            stream.write("".join(lines).encode())


def read_run(path: Path, queries: Sequence[str], documents: Sequence[str], others: bool = False) -> TopK:
    """Return the predictions of a run, in the order of the protocol: by score, ties by lower label id.

    Rank and tag are ignored. others: ignore queries that are not among these. Raises DataError, naming the line, for
    another format, an unknown query or document, a score that is not finite, and a repeated document.
    """
    rows, labels, scores = _read(path, _RUN, "score", queries, documents, others)
    order = np.lexsort((labels, -scores, rows))
    starts = np.searchsorted(rows[order], np.arange(len(queries) + 1))
    deepest = int(np.diff(starts).max(initial=1))
    return TopK.from_rows(starts, labels[order], scores[order].astype(np.float32), deepest)


def read_qrels(path: Path, queries: Sequence[str], documents: Sequence[str]) -> csr_matrix:
    """Return the true pairs of qrels, binary CSR float32 [N, L]: those with a relevance above 0. Raises what
    ``read_run`` raises."""
    from scipy.sparse import csr_matrix

    rows, labels, relevance = _read(path, _QRELS, "relevance", queries, documents)
    true = relevance > 0
    shape = (len(queries), len(documents))
    return csr_matrix((np.ones(int(true.sum()), np.float32), (rows[true], labels[true])), shape=shape)


def names_in(run: Path, qrels: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the queries of qrels, the documents of qrels and run, and the queries of the run alone, all sorted.

    Raises what ``read_run`` raises.
    """
    judged: set[bytes] = set()
    asked: set[bytes] = set()
    found: set[bytes] = set()
    for _, (query, _, document, *_) in _rows(qrels, _QRELS):
        judged.add(query)
        found.add(document)
    for _, (query, _, document, *_) in _rows(run, _RUN):
        asked.add(query)
        found.add(document)
    return _decode(judged), _decode(found), _decode(asked - judged)


def separate(scores: np.ndarray) -> np.ndarray:
    """Lower scores [N, k], best first, by the least in float32, so that no two of a row are equal.

    Scores at the ends of float32 are moved inward; -inf, where there is no prediction, stays.
    """
    lowest = np.full(scores.shape[1], -_LARGEST, np.float32)
    for place in range(len(lowest) - 2, -1, -1):
        lowest[place] = np.nextafter(lowest[place + 1], np.float32(np.inf))
    made = np.where(scores == -np.inf, scores, np.clip(scores, lowest, np.float32(_LARGEST))).astype(np.float32)
    for place in range(1, made.shape[1]):
        below = np.nextafter(made[:, place - 1], np.float32(-np.inf))
        made[:, place] = np.minimum(made[:, place], below)
    return made


def _read(
    path: Path, layout: str, column: str, queries: Sequence[str], documents: Sequence[str], others: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, label and value of every line: int64, int64 and float64. column: that of the value."""
    known_queries, known_documents = (
        {name.encode(errors="surrogateescape"): place for place, name in enumerate(names)}
        for names in (queries, documents)
    )
    place = layout.split().index(column)
    rows, labels, numbers, values = array("q"), array("q"), array("q"), array("d")
    for number, fields in _rows(path, layout):
        row, label = known_queries.get(fields[0]), known_documents.get(fields[2])
        if row is None:
            if others:
                continue
            raise _unknown(f"{path}: line {number} names the query", fields[0], "test instance", queries)
        if label is None:
            raise _unknown(f"{path}: line {number} names the document", fields[2], "label", documents)
        value = _number(fields[place])
        if not abs(value) < _INFINITE:  # NaN too
            shown = fields[place].decode(errors="replace")
            raise DataError(f"{path}: line {number} has the {column} {shown!r}, not a finite 32-bit number")
        rows.append(row)
        labels.append(label)
        numbers.append(number)
        values.append(value)
    found = np.array(rows, np.int64), np.array(labels, np.int64), np.array(values, np.float64)
    pairs = found[0] * max(1, len(documents)) + found[1]
    order = np.argsort(pairs, kind="stable")
    again = order[1:][np.diff(pairs[order]) == 0]
    if len(again):
        number = numbers[int(again.min())]
        raise DataError(f"{path}: line {number} repeats a document of the same query", "each pair has one line")
    return found


def _rows(path: Path, layout: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the columns of each line that is not blank, with its number from 1. A line ends at \\n, \\r, or both.

    Raises DataError for a file that cannot be read, and a line with fewer columns, or more.
    """
    columns, number = len(layout.split()), 0
    with open_source(path) as stream:
        for block in lines(stream):
            for line in (block if number else block.removeprefix(codecs.BOM_UTF8)).splitlines():
                number += 1
                fields = line.split()
                if len(fields) == columns:
                    yield number, fields
                elif fields:
                    amount = "few" if len(fields) < columns else "many"
                    raise DataError(f"{path}: line {number} has too {amount} columns", f"a line is `{layout}`")


def _decode(names: set[bytes]) -> list[str]:
    return sorted(name.decode(errors="surrogateescape") for name in names)


def _unknown(said: str, name: bytes, noun: str, known: Sequence[str]) -> DataError:
    shown = name.decode(errors="replace")
    return DataError(f"{said} {shown!r}, which is not a {noun}", f"for example {known[0]!r}" if known else "")


def _number(text: bytes) -> float:
    """Return the number in a column; NaN where it holds something else."""
    try:
        return float(text) if b"_" not in text else float("nan")
    except ValueError:
        return float("nan")
