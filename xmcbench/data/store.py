"""The loaded form of source files, kept in a cache: texts as Arrow files that are mapped, pairs as .npz.

The key is the SHA-256 of the source files, so old data are never used for a changed source. Texts and pairs are
separate files, so that a process can be given texts only.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.data.sources.source import Details, Part, Source, check_count
from xmcbench.data.text_files import at
from xmcbench.errors import DataError, StorageError
from xmcbench.label_texts import LabelTexts, column_types, details_table, label_digest, without_empty
from xmcbench.output.quantities import format_count
from xmcbench.storage.arrays import pairs_digest, write_pairs
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.atomic import write_json
from xmcbench.storage.canonical import sha256_json
from xmcbench.storage.fingerprint import fingerprint
from xmcbench.storage.locations import cache_root
from xmcbench.storage.reading import bounded_memory, read_text
from xmcbench.texts import BATCH, Texts

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix


#: Rows, and characters of text, that a batch holds at most; one row may be longer.
ROWS, CHARACTERS = 65_536, 1 << 25

_COLUMNS = ["uid", "title", "content"]
#: Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese.
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
#: Labels that are looked at, and letters of each.
_SAMPLE = 200


@dataclass(frozen=True)
class Corpus:
    """A part of a source in its loaded form: ``texts.arrow`` and ``pairs.npz`` in ``folder``, with digests and counts.

    highest, highest_line: the highest label id and its line (-1 and 0 without pairs, and where it was checked before).
    uids: whether the uids are more than row numbers, which two files share by accident.
    """

    folder: Path
    texts_sha256: str
    rows: int
    uids: bool
    pairs: int = 0
    highest: int = -1
    highest_line: int = 0
    pairs_sha256: str = ""
    notes: tuple[str, ...] = ()

    @property
    def texts(self) -> Path:
        """The Arrow file."""
        return self.folder / "texts.arrow"

    @property
    def pair_file(self) -> Path:
        """The pairs."""
        return self.folder / "pairs.npz"


def get_cached(
    kind: str, identity: Mapping[str, object], fill: Callable[[Path], None], uses: tuple[object, ...] = ()
) -> Path:
    """Return the cache folder of this kind and identity; ``fill``, which calls ``uses``, makes it if it is missing."""
    try:
        return Artifacts(cache_root()).get(kind, identity, fill, uses)
    except StorageError as error:
        raise StorageError(error.message, "set XMCBENCH_CACHE to use another folder for the cache") from error


def get_corpus(part: Part, source: Source) -> Corpus:
    """Return the loaded form of a part, which is read once. Raises DataError."""
    sha256 = fingerprint(*part.files)

    def fill(folder: Path) -> None:
        load_corpus(part, folder)
        if fingerprint(*part.files) != sha256:  # what was read must not be kept under the digest of other content
            raise changed_error(part.path)

    options = {key: value for key, value in source.place.options.items() if key in source.options}
    # The bytes of a name need not be a text.
    names = [os.fsencode(path.name).decode(errors="backslashreplace") for path in part.files[:1]]
    identity = {"layout": source.name, "part": names, "options": options}
    if below := [str(path.relative_to(part.path)) for path in part.files if part.path in path.parents]:
        identity["below"] = sha256_json(below)  # the rows of a folder may depend on all of their paths
    return open_corpus(get_cached(part.kind, {**identity, "sha256": sha256}, fill, (type(source),)))


def changed_error(path: Path) -> DataError:
    """The error of a file that changed while it was read."""
    return DataError(f"{path} changed while it was read", "run again when nothing writes to it")


def open_corpus(folder: Path) -> Corpus:
    """Open the corpus in a folder of the cache. Raises DataError when it is damaged."""
    try:
        facts = json.loads(read_text(folder / "facts.json"))
        return Corpus(folder=folder, **{**facts, "notes": tuple(facts["notes"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        hint = "delete the folder: it will be regenerated"
        raise DataError(f"cannot read the store {folder}: {error}", hint) from error


def load_corpus(part: Part, folder: Path) -> Corpus:
    """Read a part into ``folder``, a batch of rows at a time. Raises DataError, also if it takes too much memory."""
    with bounded_memory(part.path):
        reader = _Reader(part)
        texts = write_texts(folder / "texts.arrow", reader.batches())
        reader.check_uids(texts)
        uids = any(uid != str(row) for row, uid in enumerate(texts.uids))
        if part.kind == "labels":
            return _finish(folder, texts, uids, notes=(*part.notes, *_note_labels(part.path.name, texts)))
        return _finish(folder, texts, uids, notes=tuple(part.notes), **reader.pairs())


def _note_labels(name: str, texts: LabelTexts) -> Iterator[str]:
    """Note parents that are not labels, and labels whose first letters are mostly of scripts without spaces."""
    import pyarrow.compute as pc

    if "parents" in texts.details:
        named = pc.list_flatten(texts.details["parents"])
        known = pc.is_in(named, value_set=texts.uids.to_arrow().combine_chunks())
        if unknown := len(named) - pc.sum(known).as_py():
            yield f"{format_count(unknown, 'parent')} in {name} left out: no labels"
    sample = "".join(title[:_SAMPLE] for title in texts.titles[:_SAMPLE])
    if 2 * len(_NO_SPACES.findall(sample)) > sum(map(str.isalpha, sample)):
        hint = "--set METHOD.analyzer=icu finds them (tfidf, bm25 and others)"
        yield f"most labels in {name} have no spaces between words: {hint}"


class _Reader:
    """The rows of a part on their way into the loaded form, with their files and lines."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._targets, self._lengths, self._lines = array("i"), array("i"), array("q")
        self._files: list[tuple[int, Path]] = []  # each with its first row

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the texts in batches."""
        texts: list[tuple[str, str, str]] = []
        details: list[Details] = []
        is_label, characters = self._part.kind == "labels", 0
        for path, line, uid, title, content, labels, more in self._part.rows():
            if not self._files or self._files[-1][1] is not path:
                self._files.append((len(self._lines), path))
            self._lines.append(line)
            self._targets.extend(labels)
            self._lengths.append(len(labels))
            texts.append((uid, title, content))
            characters += len(title) + len(content)
            if is_label:
                details.append(more)
                characters += len(more.content) + sum(map(len, more.alternatives)) + sum(map(len, more.parents))
            if len(texts) == ROWS or characters >= CHARACTERS:
                yield self._batch(texts, details)
                texts, details, characters = [], [], 0
        if texts:
            yield self._batch(texts, details)
        if not self._lines:
            raise DataError(f"{self._part.path} is empty", f"a dataset needs {self._part.kind}")

    def _batch(self, texts: list[tuple[str, str, str]], details: list[Details]) -> pa.RecordBatch:
        import pyarrow as pa

        check_count(len(self._lines), len(self._targets))
        try:
            columns = [pa.array(column, pa.large_string()) for column in zip(*texts, strict=True)]
            more = details_table(details) if details else {}
            return pa.record_batch([*columns, *more.values()], [*_COLUMNS, *more])
        except UnicodeEncodeError:
            carried = ((*more.alternatives, more.content, *more.parents) for more in details)
            rows = zip_longest(texts, carried, fillvalue=())
            for row, (own, others) in enumerate(rows, len(self._lines) - len(texts)):
                if any(0xD800 <= ord(letter) < 0xE000 for text in (*own, *others) for letter in text):
                    hint = "this is not valid Unicode: fix the text"
                    raise at(*self._place(row), "contains half a surrogate pair", hint) from None
            raise

    def _place(self, row: int) -> tuple[Path, int]:
        """The file and the line of a row: not every line of a file is a row."""
        first = bisect_right(self._files, row, key=itemgetter(0)) - 1
        return self._files[first][1], self._lines[row]

    def check_uids(self, texts: Texts) -> None:
        """Raise DataError for a uid that is given twice."""
        import pyarrow.compute as pc

        is_unique = pc.count_distinct(texts.uids.to_arrow()).as_py() == len(texts)
        seen: dict[str, int] = {}
        for row, uid in enumerate(() if is_unique else texts.uids):
            if uid in seen:
                (path, line), (other, first) = self._place(row), self._place(seen[uid])
                where = f"line {first}" if other == path else f"{other.name}, line {first}"
                raise at(path, line, f"duplicate uid {uid!r}, first in {where}", "uids must be unique")
            seen[uid] = row

    def pairs(self) -> dict[str, Any]:
        """The pairs, label ids sorted and deduplicated, and the highest label id with its line."""
        rows, targets = np.arange(len(self._lines)), np.frombuffer(self._targets, np.int32)
        row_of = np.repeat(rows, self._lengths)
        facts: dict[str, Any] = {}
        if len(targets):
            if targets.min() < 0:
                place = self._place(int(row_of[targets.argmin()]))
                raise at(*place, f"target_ind {targets.min()} is out of range", "label ids start at 0")
            facts = {"highest": int(targets.max()), "highest_line": self._place(int(row_of[targets.argmax()]))[1]}
        keys = np.unique(row_of * (np.int64(1) << 32) + targets)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(keys >> 32, minlength=len(rows)))])
        return {"pairs": (indptr, (keys & 0xFFFFFFFF).astype(np.int32)), **facts}


def write_corpus(folder: Path, rows: Iterable[pa.RecordBatch], pairs: csr_matrix | None, uids: bool) -> None:
    """Write rows, as ``rows_of`` gives them, to a new folder in the same form; ``pairs`` is a canonical binary CSR."""
    folder.mkdir()
    texts = write_texts(folder / "texts.arrow", rows)
    _finish(folder, texts, uids, None if pairs is None else (pairs.indptr, pairs.indices))


def _finish(
    folder: Path, texts: Texts, uids: bool, pairs: tuple[np.ndarray, np.ndarray] | None = None, **facts: Any
) -> Corpus:
    """Write pairs (indptr, indices) and facts beside texts."""
    facts = {"texts_sha256": texts.digest, "rows": len(texts), "uids": uids, **facts}
    if pairs is not None:
        write_pairs(folder / "pairs.npz", *pairs)
        facts |= {"pairs": len(pairs[1]), "pairs_sha256": pairs_digest(*pairs)}
    corpus = Corpus(folder, **facts)
    facts = asdict(corpus)
    del facts["folder"]
    write_json(folder / "facts.json", facts)
    return corpus


def rows_of(texts: Texts, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Some rows of a corpus (ascending ids), a batch at a time."""
    import pyarrow as pa

    more = texts.details if isinstance(texts, LabelTexts) else {}
    own = texts.titles_only() if isinstance(texts, LabelTexts) else texts
    columns = [*(column.to_arrow() for column in (own.uids, own.titles, own.contents)), *more.values()]
    for start in range(0, len(texts), BATCH):
        first, end = np.searchsorted(rows, (start, start + BATCH))
        if first < end:
            inside = pa.array(rows[first:end] - start)
            parts = [column.slice(start, BATCH).take(inside) for column in columns]
            yield from pa.table(parts, [*_COLUMNS, *more]).combine_chunks().to_batches()


def write_texts(path: Path, batches: Iterable[pa.RecordBatch]) -> LabelTexts:
    """Write an Arrow IPC file of record batches (uid, title, content) with its digest in the schema's metadata.

    Batches of labels may have the columns of details too; all have the same ones.
    """
    import pyarrow as pa

    waiting = iter(batches)
    first = next(waiting, None)
    types = {**dict.fromkeys(_COLUMNS, pa.large_string()), **column_types()}
    schema = pa.schema([(name, types[name]) for name in (_COLUMNS if first is None else first.schema.names)])
    # The digest is only known at the end but belongs at the front: write the file without it, then copy it.
    draft = path.with_suffix(".draft")
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in chain(filter(None, [first]), waiting):
            writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    with pa.memory_map(str(draft)) as source:
        table = without_empty(pa.ipc.open_file(source).read_all())
    schema = table.schema.with_metadata({b"digest": label_digest(table).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(table, max_chunksize=BATCH)
    draft.unlink()
    return LabelTexts.open(path)
