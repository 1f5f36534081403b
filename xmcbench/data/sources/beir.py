"""The layout of BEIR: the corpus are the labels, the queries are the instances, the judgments are the pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.data.rows import Located, at
from xmcbench.data.sources.json_lines import read_objects, string_of, write_objects
from xmcbench.data.sources.source import Holding, Part, Place, Source
from xmcbench.data.sources.text_lines import read_lines
from xmcbench.data.sources.writing import label_ids, named, parted, texts_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import counted
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Texts

_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"


class Beir(Source):
    """``corpus.jsonl``, ``queries.jsonl`` and ``qrels/train.tsv``, ``qrels/test.tsv``.

    A query belongs to the split whose judgments name it. A judgment of 0 is no pair, but it puts a query without a
    label into its split. The text of a label is its title and its text, with a space between them.
    """

    name = "beir"
    title = "BEIR: corpus.jsonl (labels), queries.jsonl (instances), qrels/train.tsv and qrels/test.tsv"

    @classmethod
    def recognize(cls, place: Place) -> bool:
        return place.find(_CORPUS) is not None and place.find(_QUERIES) is not None

    def holding(self) -> Holding:
        corpus, queries = self.place.find(_CORPUS), self.place.find(_QUERIES)
        if corpus is None or queries is None:
            raise DataError(f"{self.place.path} has no {_QUERIES if corpus else _CORPUS}", "BEIR has both")
        judged = {split: self.place.find(f"qrels/{split}.tsv") for split in ("train", "test")}
        labels = Part.located("labels", corpus, (corpus,), lambda: _labels(corpus))
        parts = {split: _part(queries, corpus, path) for split, path in judged.items() if path}
        notes = []
        if not parts:
            parts = {"train": _part(queries, corpus, None)}
        if other := [path.name for name in ("dev", "validation") if (path := self.place.find(f"qrels/{name}.tsv"))]:
            notes.append(f"the judgments of the validation set are not used: {', '.join(other)}")
        return Holding(labels, parts.get("train"), parts.get("test"), **self.filters(), notes=tuple(notes))

    @classmethod
    def write(cls, dataset: Dataset, folder: Path, flatten: bool) -> None:
        label_uids = list(dataset.labels.uids)
        write_objects(
            folder / _CORPUS,
            (
                {"_id": uid, "title": title, "text": ""}
                for uid, title in zip(label_uids, dataset.labels.titles, strict=True)
            ),
        )
        texts = dict(zip(("train", "test"), texts_of(dataset), strict=True))
        uids = _distinct_uids(texts)
        write_objects(folder / _QUERIES, (row for split in texts for row in _queries(uids[split], texts[split])))
        for split, pairs in (("train", dataset.train_pairs()), ("test", dataset.test_pairs())):
            with atomic_file(folder / "qrels" / f"{split}.tsv") as stream:
                stream.write(b"query-id\tcorpus-id\tscore\n")
                for uid, ids in zip(uids[split], label_ids(pairs), strict=True):
                    # A query without a pair is judged once, as not relevant, or its split would be lost.
                    judged = [(label_uids[label], 1) for label in ids] or [(label_uids[0], 0)]
                    for label, score in judged:
                        stream.write(f"{_cell(uid)}\t{_cell(label)}\t{score}\n".encode())


def _labels(path: Path) -> Iterator[Located]:
    for number, entry in read_objects(path):
        title, text = string_of(path, number, entry, "title", ""), string_of(path, number, entry, "text", "")
        whole = f"{title} {text}" if title.strip() and text.strip() else title if title.strip() else text
        if not whole.strip():
            raise at(path, number, "the label has no text", "an entry of the corpus needs a title or a text")
        yield path, number, (string_of(path, number, entry, "_id"), whole, "", ())


def _part(queries: Path, corpus: Path, judged: Path | None) -> Part:
    notes: list[str] = []
    read = partial(_instances, queries, corpus, judged, notes)
    files = (queries, corpus, *([judged] if judged else []))
    return Part.located("instances", queries, files, read, notes)


def _instances(queries: Path, corpus: Path, judged: Path | None, notes: list[str]) -> Iterator[Located]:
    labels_of = _judgments(judged, _places(corpus), notes) if judged else None
    found = 0
    for number, entry in read_objects(queries):
        uid = string_of(queries, number, entry, "_id")
        if labels_of is not None and uid not in labels_of:
            continue
        found += 1
        title, content = _title_and_content(queries, number, entry)
        yield queries, number, (uid, title, content, labels_of[uid] if labels_of is not None else ())
    if labels_of is not None and found < len(labels_of):
        missing = len(labels_of) - found
        verb = "is" if missing == 1 else "are"
        notes.append(f"{counted(missing, 'query', 'queries')} of {judged and judged.name} {verb} not in {queries.name}")


def _places(corpus: Path) -> dict[str, int]:
    return {string_of(corpus, line, entry, "_id"): row for row, (line, entry) in enumerate(read_objects(corpus))}


def _judgments(path: Path, place: dict[str, int], notes: list[str]) -> dict[str, list[int]]:
    """Query -> label ids, of every query that is judged. notes: gets one on judgments of what is not in the corpus."""
    found: dict[str, list[int]] = {}
    known, missing = 0, []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if not line.strip() or (number == 1 and cells[-1:] == ["score"]):
            continue
        if len(cells) == 4:  # query, iteration, document, relevance: the layout of TREC
            cells = [cells[0], cells[2], cells[3]]
        try:
            query, label, score = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            raise at(path, number, f"{line[:60]!r} is not a judgment", "expected query-id, corpus-id, score")
        ids = found.setdefault(query, [])
        if label not in place:
            missing.append((number, label))
            continue
        known += 1
        if score > 0:
            ids.append(place[label])
    if missing and not known:  # then it is the corpus of other judgments
        number, label = missing[0]
        raise at(path, number, f"there is no {label[:60]!r} in the corpus", "its ids are the _id of corpus.jsonl")
    if missing:
        notes.append(f"{counted(len(missing), 'judgment')} of {path.name} left out: not in the corpus")
    return found


def _title_and_content(path: Path, number: int, entry: dict[str, object]) -> tuple[str, str]:
    """What ``_queries`` wrote, or the text at its first tab."""
    text, title = string_of(path, number, entry, "text"), entry.get("title")
    if isinstance(title, str) and text == title:
        return title, ""
    if isinstance(title, str) and text.startswith(f"{title}\t"):
        return title, text[len(title) + 1 :]
    return parted(text)


def _queries(uids: list[str], texts: Texts) -> Iterator[dict[str, str]]:
    for uid, title, text in zip(uids, texts.titles, texts, strict=True):
        # BEIR reads _id and text; the title says where the text is to be divided.
        yield {"_id": uid, "text": text, "title": title}


def _distinct_uids(sides: Mapping[str, Texts]) -> dict[str, list[str]]:
    """The uids of both splits, which share one file here."""
    uids = {split: list(texts.uids) for split, texts in sides.items()}
    for split, texts in sides.items():
        if {*uids["train"]} & {*uids["test"]} and not named(texts):
            uids[split] = [f"{split}-{uid}" for uid in uids[split]]
    both = {*uids["train"]} & {*uids["test"]}
    if both:
        raise DataError(
            f"uid {min(both)!r} is that of a training and of a test instance", "BEIR has all queries in one file"
        )
    return uids


def _cell(uid: str) -> str:
    if any(each in uid for each in "\t\r\n"):
        raise DataError(f"uid {uid!r} has a tab or a line break, which a file of judgments cannot hold")
    return uid
