"""The layout of BEIR: the corpus are the labels, the queries are the instances, the judgments are the pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from xmcbench.data.sources.records import Record, read_objects, write_objects
from xmcbench.data.sources.source import Content, Holding, Part, Place, Row, Source, label_ids, note_left_out
from xmcbench.data.sources.text_lines import has_uids, split_text
from xmcbench.data.text_files import at, parse_finite, read_lines
from xmcbench.errors import DataError
from xmcbench.output.quantities import format_count
from xmcbench.storage.atomic import atomic_file

_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"


class Beir(Source):
    """``corpus.jsonl``, ``queries.jsonl`` and ``qrels/train.tsv``, ``qrels/test.tsv``.

    A query belongs to the split whose judgments name it. A judgment of 0 is no pair, but it puts a query without a
    label into its split. Without ``qrels/train.tsv``, queries that the test set does not judge are the training
    instances, without pairs. The text of a label is its title and its text, with a space between them.
    """

    name = "beir"
    title = "BEIR: corpus.jsonl (labels), queries.jsonl (instances), qrels/train.tsv and qrels/test.tsv"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(_CORPUS) is not None and place.find(_QUERIES) is not None

    def find_parts(self) -> Holding:
        corpus, queries = self.place.find(_CORPUS), self.place.find(_QUERIES)
        if corpus is None or queries is None:
            raise DataError(f"{self.place.path} has no {_QUERIES if corpus else _CORPUS}", "BEIR has both")
        labels = Part("labels", corpus, (corpus,), partial(_labels, corpus))
        train, test = (self.place.find(f"qrels/{split}.tsv") for split in ("train", "test"))
        unused = [path.name for name in ("dev", "validation") if (path := self.place.find(f"qrels/{name}.tsv"))]
        notes = [f"the judgments of the validation set are not used: {', '.join(unused)}"] if unused else []
        if train and test:
            # The test part counts the queries of neither: the files of the test set are not read for training.
            return Holding(labels, _part(queries, corpus, train), _part(queries, corpus, test, train), tuple(notes))
        judged = train or test
        if judged is None:
            beside = sorted(path.name for path in self.place.path.glob("qrels*") if path.is_file())
            unread = f"; not read: {', '.join(beside)}" if beside else ""
            notes.append(f"no judgments: qrels/train.tsv and qrels/test.tsv are not there{unread}")
            return Holding(labels, _part(queries, corpus, None), notes=tuple(notes))
        rest = partial(_unjudged, queries, judged)
        if (count := sum(1 for _ in rest())) and test:
            what = f"the training instances are without pairs: {_count(count)} not in {test.name}"
            train_part = Part("instances", queries, (queries, test), rest)
            return Holding(labels, train_part, _part(queries, corpus, test), (*notes, what))
        notes += _note_unjudged(count, queries, judged)
        return Holding(labels, _part(queries, corpus, judged), notes=tuple(notes))

    @classmethod
    def write(cls, content: Content, folder: Path, flatten: bool) -> None:
        labels = list(content.labels.uids)
        corpus = zip(labels, content.labels.titles, strict=True)
        write_objects(folder / _CORPUS, ({"_id": uid, "title": title, "text": ""} for uid, title in corpus))
        uids = _distinct_uids(content)
        # BEIR reads _id and text; the title says where the text is to be divided.
        queries = (
            {"_id": uid, "text": text, "title": title}
            for split, texts, _ in content.sides()
            for uid, title, text in zip(uids[split], texts.titles, texts, strict=True)
        )
        write_objects(folder / _QUERIES, queries)
        for split, _, pairs in content.sides():
            with atomic_file(folder / "qrels" / f"{split}.tsv") as stream:
                stream.write(b"query-id\tcorpus-id\tscore\n")
                for uid, ids in zip(uids[split], label_ids(pairs), strict=True):
                    # A query without a pair is judged once, as not relevant, or its split would be lost.
                    for label, score in [(labels[label], 1) for label in ids] or [(labels[0], 0)]:
                        if any(sign in uid + label for sign in "\t\r\n"):
                            what = f"uid {uid!r} or {label!r} has a tab or a line break"
                            raise DataError(f"{what}, which a file of judgments cannot hold")
                        stream.write(f"{uid}\t{label}\t{score}\n".encode())


def _labels(path: Path) -> Iterator[Row]:
    for record in read_objects(path):
        text = " ".join(part for name in ("title", "text") if (part := record.text(name)).strip())
        if not text:
            raise record.error("the label has no text", "an entry of the corpus needs a title or a text")
        yield Row(path, record.line, record.text("_id", required=True), text)


def _part(queries: Path, corpus: Path, qrels: Path | None, other: Path | None = None) -> Part:
    """The queries that are judged, or all of them. other: the judgments of the other part; queries of neither are
    counted then."""
    notes: list[str] = []
    files = (queries, corpus, *filter(None, (qrels, other)))
    return Part("instances", queries, files, partial(_instances, queries, corpus, qrels, other, notes), notes)


def _instances(queries: Path, corpus: Path, qrels: Path | None, other: Path | None, notes: list[str]) -> Iterator[Row]:
    labels_of = _judgments(qrels, corpus, notes) if qrels else None
    elsewhere = {query for _, query, *_ in _read_judgments(other)} if other else set()
    found = unjudged = 0
    for record in read_objects(queries):
        uid = record.text("_id", required=True)
        if labels_of is None or uid in labels_of:
            found += 1
            yield _row(record, uid, labels_of[uid] if labels_of else ())
        else:
            unjudged += uid not in elsewhere
    if qrels and labels_of and (missing := len(labels_of) - found):
        notes.append(f"{_count(missing)} of {qrels.name} {'is' if missing == 1 else 'are'} not in {queries.name}")
    if qrels and other:
        notes += _note_unjudged(unjudged, queries, other, qrels)


def _note_unjudged(count: int, queries: Path, *qrels: Path) -> list[str]:
    names = " or ".join(path.name for path in qrels)
    return [f"{_count(count)} of {queries.name} left out: not in {names}"] if count else []


def _count(queries: int) -> str:
    return format_count(queries, "query", "queries")


def _unjudged(queries: Path, qrels: Path) -> Iterator[Row]:
    judged = {query for _, query, *_ in _read_judgments(qrels)}
    for record in read_objects(queries):
        uid = record.text("_id", required=True)
        if uid not in judged:
            yield _row(record, uid, ())


def _row(record: Record, uid: str, labels: Sequence[int]) -> Row:
    # The text is divided behind the title, as ``Beir.write`` has joined them, or at its first tab.
    text, title = record.text("text", required=True), record.cells.get("title")
    has_title = isinstance(title, str) and f"{text}\t".startswith(f"{title}\t")
    texts = (str(title), text[len(str(title)) + 1 :]) if has_title else split_text(text)
    return Row(record.path, record.line, uid, *texts, labels)


def _judgments(path: Path, corpus: Path, notes: list[str]) -> dict[str, list[int]]:
    """Query -> label ids, of every query that is judged. notes: gets one on judgments of what is not in the corpus."""
    place = {record.text("_id", required=True): row for row, record in enumerate(read_objects(corpus))}
    found: dict[str, list[int]] = {}
    known, missing = 0, []
    for number, query, label, score in _read_judgments(path):
        ids = found.setdefault(query, [])
        if label not in place:
            missing.append((number, label))
            continue
        known += 1
        if score > 0:
            ids.append(place[label])
    if not found:
        raise DataError(f"{path} has no judgments", "remove it if nothing is judged")
    if missing and not known:  # then it is the corpus of other judgments
        number, label = missing[0]
        raise at(path, number, f"there is no {label[:60]!r} in the corpus", "its ids are the _id of corpus.jsonl")
    note_left_out(notes, len(missing), "judgment", path, "not in the corpus")
    return found


def _read_judgments(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """(line, query, label, relevance) of the judgments of a file."""
    for number, line in read_lines(path):
        cells = line.split("\t")
        if not line.strip() or (number == 1 and cells[-1:] == ["score"]):
            continue
        if len(cells) == 4:  # query, iteration, document, relevance: the layout of TREC
            cells = [cells[0], cells[2], cells[3]]
        score = parse_finite(cells[2]) if len(cells) > 2 else None
        if score is None:
            raise at(path, number, f"{line[:60]!r} is not a judgment", "expected query-id, corpus-id, score")
        yield number, cells[0], cells[1], score


def _distinct_uids(content: Content) -> dict[str, list[str]]:
    """The uids of both splits, which share one file here."""
    sides = {"train": content.train, "test": content.test}
    uids = {split: list(texts.uids) for split, texts in sides.items()}
    for split, texts in sides.items():
        if {*uids["train"]} & {*uids["test"]} and not has_uids(texts):
            uids[split] = [f"{split}-{uid}" for uid in uids[split]]
    if both := {*uids["train"]} & {*uids["test"]}:
        what = f"uid {min(both)!r} is that of a training and of a test instance"
        raise DataError(what, "BEIR has all queries in one file")
    return uids
