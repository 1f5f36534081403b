"""Runs and qrels in the formats of trec_eval: the true pairs and the predictions as other programs read them.

A run has a line ``query Q0 document rank score tag`` for each prediction, qrels ``query 0 document relevance`` for each
true pair. Queries are test instances and documents are labels, by uid; where uids are not unique, are empty or contain
white space, which these files cannot hold, all are named by row number. Programs that follow trec_eval ignore the rank
and sort by score, read as float32, and break ties in a way of their own: in what is written here no two scores of a
query are equal.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import DataError
from xmcbench.storage.atomic import atomic_file
from xmcbench.storage.reading import STREAM, check_size, open_regular
from xmcbench.topk import TopK

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts

#: The columns of a line.
_RUN, _QRELS = "query Q0 document rank score tag", "query 0 document relevance"
#: Scores are kept as float32.
_LARGEST = float(np.finfo(np.float32).max)
#: Lines that are held as texts at a time: some 250 bytes each.
_LINES = 500_000


def identifiers(texts: Texts) -> list[str]:
    """The names of instances or labels in these files: their uids, or the row numbers where uids cannot be used."""
    uids = list(texts.uids)
    usable = len({*uids}) == len(uids) and all(uid and len(uid.split()) == 1 and uid.isprintable() for uid in uids)
    return uids if usable else [str(row) for row in range(len(uids))]


def write_run(path: Path, predictions: TopK, queries: Sequence[str], documents: Sequence[str], tag: str) -> None:
    """Write predictions [N, k] as a run. tag: names the run, in one word. Raises StorageError."""
    name = "-".join(tag.split()) or "xmcbench"
    scores = distinct(predictions.scores)
    with atomic_file(path) as stream:
        for row, (labels, values) in enumerate(zip(predictions.indices.tolist(), scores, strict=True)):
            lines = [
                f"{queries[row]} Q0 {documents[label]} {place} {value:.9g} {name}\n"
                for place, (label, value) in enumerate(zip(labels, values, strict=True), 1)
                if label >= 0
            ]
            stream.write("".join(lines).encode())


def write_qrels(path: Path, pairs: csr_matrix, queries: Sequence[str], documents: Sequence[str]) -> None:
    """Write true pairs [N, L] as qrels, each with relevance 1. Raises StorageError."""
    with atomic_file(path) as stream:
        for row, (start, end) in enumerate(zip(pairs.indptr[:-1], pairs.indptr[1:], strict=True)):
            lines = [f"{queries[row]} 0 {documents[label]} 1\n" for label in pairs.indices[start:end].tolist()]
            stream.write("".join(lines).encode())


def read_run(path: Path, queries: Sequence[str], documents: Sequence[str], others: bool = False) -> TopK:
    """The predictions of a run, in the order of the protocol: by score, ties by lower label id.

    Rank and tag are ignored. Queries without a line have no predictions. others: leave out queries that are not among
    these. Raises DataError, naming the line, for another format, a query or document that is not there, a score that is
    not a finite number, and a document that is given twice.
    """
    rows, labels, scores = _read(path, _RUN, "score", queries, documents, others)
    order = np.lexsort((labels, -scores, rows))
    starts = np.searchsorted(rows[order], np.arange(len(queries) + 1))
    deepest = int(np.diff(starts).max(initial=1))
    return TopK.from_rows(starts, labels[order], scores[order].astype(np.float32), deepest)


def read_qrels(path: Path, queries: Sequence[str], documents: Sequence[str]) -> csr_matrix:
    """The true pairs of qrels, binary CSR float32 [N, L]: those with a relevance above 0. Raises what ``read_run``
    raises."""
    from scipy.sparse import csr_matrix

    rows, labels, relevance = _read(path, _QRELS, "relevance", queries, documents)
    true = relevance > 0
    shape = (len(queries), len(documents))
    return csr_matrix((np.ones(int(true.sum()), np.float32), (rows[true], labels[true])), shape=shape)


def names_in(run: Path, qrels: Path) -> tuple[list[str], list[str]]:
    """All queries and documents of a run and its qrels, in the order of the alphabet. Raises what ``read_run`` raises.

    Queries of the run alone are left out: nothing is known of them.
    """
    judged: set[str] = set()
    found: set[str] = set()
    for table in _tables(qrels, _QRELS):
        judged.update(table["query"])
        found.update(table["document"])
    for table in _tables(run, _RUN):
        found.update(table["document"])
    return sorted(judged), sorted(found)


def distinct(scores: np.ndarray) -> np.ndarray:
    """Scores [N, k], best first, lowered by the least that float32 can so that no two of a row are equal.

    The scores of predictions are finite: those at the ends of float32 are moved inward. -inf, where there is no
    prediction, stays.
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
    path: Path, layout: str, value: str, queries: Sequence[str], documents: Sequence[str], others: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, label and value of every line: int64, int64 and float64. value: its column."""
    import pandas as pd

    known_queries, known_documents = pd.Index(queries), pd.Index(documents)
    rows, labels, values, lines = ([np.empty(0, kind)] for kind in (np.int64, np.int64, np.float64, np.int64))
    for table in _tables(path, layout):
        chosen = table[table["query"].isin(known_queries)] if others else table
        rows.append(_places(path, chosen["query"], known_queries, "test instance"))
        labels.append(_places(path, chosen["document"], known_documents, "label"))
        values.append(_numbers(path, chosen[value]))
        lines.append(np.asarray(chosen.index, np.int64))
    found = [np.concatenate(each) for each in (rows, labels, values)]
    _once(path, np.concatenate(lines), found[0], found[1], len(documents))
    return found[0], found[1], found[2]


def _tables(path: Path, layout: str) -> Iterator[pd.DataFrame]:
    """The lines that are not blank, some at a time, indexed by their number among all of them."""
    import pandas as pd

    try:
        with open_regular(path) as stream:
            check_size(path.stat().st_size, STREAM)
            tables = pd.read_csv(
                stream,
                sep=r"\s+",
                header=None,
                # One more: of the first line that is read at a time, what is beyond the last column is left out.
                names=[*layout.split(), "more"],
                dtype=str,
                quoting=3,
                na_filter=False,
                encoding="utf-8-sig",
                chunksize=_LINES,
            )
            for table in tables:
                yield _checked(path, table, layout)
    except pd.errors.EmptyDataError:
        return
    except (OSError, ValueError) as error:  # pandas's errors of parsing and Unicode's are ValueErrors
        raise DataError(f"cannot read {path}: {' '.join(str(error).split())}", f"a line is `{layout}`") from error


def _checked(path: Path, table: pd.DataFrame, layout: str) -> pd.DataFrame:
    """The table. Raises DataError where a line has fewer columns, or more."""
    *_, last, more = table.columns
    for amount, wrong in (("few", table[last] == ""), ("many", table[more] != "")):
        if wrong.any():
            place = _line(path, table.index, wrong.to_numpy())
            raise DataError(f"{place} has too {amount} columns", f"a line is `{layout}`")
    return table


def _line(path: Path, lines: pd.Index | np.ndarray, wrong: np.ndarray) -> str:
    """The file and the first of some lines where ``wrong``, bool [lines], is true. lines: their numbers from 0."""
    row = int(lines[int(wrong.argmax())])
    # As pandas counts: a line ends at \n, \r or both, and only spaces and tabs are blank.
    with open_regular(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline=None) as text:
        lines = (number for number, line in enumerate(text, 1) if line.strip(" \t\n"))
        return f"{path}: line {next(islice(lines, row, None), row + 1)}"


def _places(path: Path, column: pd.Series, known: pd.Index, what: str) -> np.ndarray:
    """The place of every name among the known ones, int64."""
    places = np.asarray(known.get_indexer(column.array), np.int64)
    unknown = places < 0
    if unknown.any():
        name = column.iloc[int(unknown.argmax())]
        raise DataError(
            f"{_line(path, column.index, unknown)} names the {column.name} {name!r}, which is not a {what}",
            f"for example {known[0]!r}" if len(known) else "",
        )
    return places


def _numbers(path: Path, column: pd.Series) -> np.ndarray:
    import pandas as pd

    values = np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)
    wrong = ~(np.abs(values) <= _LARGEST)  # NaN too
    if wrong.any():
        value = column.iloc[int(wrong.argmax())]
        raise DataError(
            f"{_line(path, column.index, wrong)} has the {column.name} {value!r}, not a finite 32-bit number"
        )
    return values


def _once(path: Path, lines: np.ndarray, rows: np.ndarray, labels: np.ndarray, documents: int) -> None:
    pairs = rows * max(1, documents) + labels
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(np.diff(pairs[order]) == 0)
    if len(again):
        wrong = np.zeros(len(rows), bool)
        wrong[order[again + 1]] = True
        raise DataError(f"{_line(path, lines, wrong)} repeats a document of the same query", "each pair has one line")
