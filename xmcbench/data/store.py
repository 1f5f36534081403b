"""The loaded form of source files, kept in a cache: texts as Arrow files that are mapped, pairs as .npz.

The key is the SHA-256 of the source files, so old data are never used for a changed source. Texts and pairs are
separate files, so that a process can be given texts only.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.data.rows import Rows, at, check_count
from xmcbench.data.sources.source import Part, Source
from xmcbench.errors import DataError, StorageError
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.atomic import write_json
from xmcbench.storage.cache import cache_root
from xmcbench.storage.fingerprint import fingerprint_of
from xmcbench.storage.memory import bounded_memory
from xmcbench.storage.pairs import pairs_digest, write_pairs
from xmcbench.storage.reading import read_text
from xmcbench.texts import BATCH, Texts, text_digest

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Corpus:
    """A part of a source in its loaded form: ``texts.arrow`` and ``pairs.npz`` in ``folder``.

    texts_sha256: digest of the texts. rows, pairs: counts. highest, highest_line: the highest label id and its line (-1
    and 0 without pairs). uids: whether the uids are more than row numbers, which two files share by accident.
    pairs_sha256: digest of the pairs; empty for labels. notes: what was left out or assumed when it was read.
    """

    folder: Path
    texts_sha256: str
    rows: int
    pairs: int
    highest: int
    highest_line: int
    uids: bool
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


def kept(
    kind: str, identity: Mapping[str, object], fill: Callable[[Path], None], uses: tuple[object, ...] = ()
) -> Path:
    """The cache folder of this kind and identity; ``fill``, which calls ``uses``, makes it if it does not exist.

    Raises StorageError, naming the cache, when there is no room or no permission.
    """
    try:
        return Artifacts(cache_root()).get(kind, identity, fill, uses)
    except StorageError as error:
        raise StorageError(error.message, "set XMCBENCH_CACHE to use another folder for the cache") from error


def corpus(part: Part, source: Source) -> Corpus:
    """The loaded form of a part, read once.

    Raises what ``load_corpus`` raises, and DataError where a file changes while it is read.
    """
    sha256 = fingerprint_of(part.files)

    def fill(folder: Path) -> None:
        load_corpus(part, folder)
        if fingerprint_of(part.files) != sha256:  # what was read must not be kept under the digest of other content
            raise DataError(f"{part.path} changed while it was read", "run again when nothing writes to it")

    options = {key: value for key, value in source.place.options.items() if key in source.options}
    identity = {"layout": source.name, "part": [path.name for path in part.files[:1]], "options": options}
    return open_corpus(kept(part.kind, {**identity, "sha256": sha256}, fill, (type(source),)))


def open_corpus(folder: Path) -> Corpus:
    """The corpus in a folder of the cache. Raises DataError when it is damaged."""
    try:
        facts = json.loads(read_text(folder / "facts.json"))
        return Corpus(folder=folder, **{**facts, "notes": tuple(facts["notes"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(
            f"cannot read the store {folder}: {error}", "delete the folder: it will be regenerated"
        ) from error


def load_corpus(part: Part, folder: Path) -> Corpus:
    """Read a part into ``folder``, a batch of rows at a time.

    Raises DataError if a file is damaged, malformed or empty, repeats a uid, or asks for too much memory.
    """
    with bounded_memory(part.path):
        return _load(part, folder)


def _load(part: Part, folder: Path) -> Corpus:
    targets, lengths = array("i"), array("i")

    def batches() -> Iterator[pa.RecordBatch]:
        done = 0
        for rows in part.read():
            check_count(done + len(rows.uids), len(targets) + len(rows.targets))
            yield _batch(part, rows, done)
            targets.extend(rows.targets)
            lengths.extend(rows.lengths)
            done += len(rows.uids)
        if not done:
            raise DataError(f"{part.path} is empty", f"a dataset needs {part.kind}")

    texts = write_texts(folder / "texts.arrow", batches())
    _check_uids(part, texts)
    named = any(uid != str(row) for row, uid in enumerate(texts.uids))
    notes = tuple(part.notes)
    if part.kind == "labels":
        return _write_facts(folder, Corpus(folder, texts.digest, len(texts), 0, -1, 0, named, notes=notes))
    indices, indptr = np.frombuffer(targets, np.int32), np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    if len(indices) and indices.min() < 0:
        row = int(np.searchsorted(indptr, indices.argmin(), "right")) - 1
        raise at(*part.place(row), f"target_ind {indices.min()} is out of range", "label ids start at 0")
    highest = int(indices.argmax()) if len(indices) else -1
    line = part.place(int(np.searchsorted(indptr, highest, "right")) - 1)[1] if len(indices) else 0
    top = int(indices[highest]) if len(indices) else -1
    indptr, indices = _distinct(indptr, indices)
    write_pairs(folder / "pairs.npz", indptr, indices)
    digest = pairs_digest(indptr, indices)
    made = Corpus(folder, texts.digest, len(texts), len(indices), top, line, named, digest, notes)
    return _write_facts(folder, made)


def write_corpus(folder: Path, rows: Iterable[pa.RecordBatch], pairs: csr_matrix | None, uids: bool) -> Corpus:
    """Write rows as ``rows_of`` gives them to ``folder``, in the same form; ``pairs`` is a canonical binary CSR or
    None."""
    texts = write_texts(folder / "texts.arrow", rows)
    if pairs is None:
        return _write_facts(folder, Corpus(folder, texts.digest, len(texts), 0, -1, 0, uids))
    write_pairs(folder / "pairs.npz", pairs.indptr, pairs.indices)
    top = int(pairs.indices.max()) if pairs.nnz else -1
    line = int(np.searchsorted(pairs.indptr, pairs.indices.argmax(), "right")) if pairs.nnz else 0
    digest = pairs_digest(pairs.indptr, pairs.indices)
    return _write_facts(folder, Corpus(folder, texts.digest, len(texts), pairs.nnz, top, line, uids, digest))


def rows_of(texts: Texts, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Some rows of a corpus (ascending ids), a batch at a time."""
    import pyarrow as pa

    columns = {"uid": texts.uids, "title": texts.titles, "content": texts.contents}
    for start in range(0, len(texts), BATCH):
        first, end = np.searchsorted(rows, (start, start + BATCH))
        if first < end:
            inside = pa.array(rows[first:end] - start)
            parts = [column[start : start + BATCH].to_arrow().take(inside) for column in columns.values()]
            yield from pa.table(parts, [*columns]).combine_chunks().to_batches()


def titles_of(texts: Texts) -> Iterator[pa.RecordBatch]:
    """The rows of a corpus without their contents, a batch at a time."""
    import pyarrow as pa

    for batch in rows_of(texts, np.arange(len(texts))):
        empty = pa.array([""] * batch.num_rows, pa.large_string())
        yield pa.record_batch([batch.column("uid"), batch.column("title"), empty], batch.schema.names)


def _write_facts(folder: Path, made: Corpus) -> Corpus:
    facts = asdict(made)
    del facts["folder"]
    write_json(folder / "facts.json", facts)
    return made


def write_texts(path: Path, batches: Iterable[pa.RecordBatch]) -> Texts:
    """Write an Arrow IPC file of record batches (uid, title, content) with its digest in the schema's metadata."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.large_string()) for name in ("uid", "title", "content")])
    # The digest is only known at the end but belongs at the front: write the file without it, then copy it.
    draft = path.with_suffix(".draft")
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    with pa.memory_map(str(draft)) as source:
        table = pa.ipc.open_file(source).read_all()
    schema = schema.with_metadata({b"digest": text_digest(table).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(table, max_chunksize=BATCH)
    draft.unlink()
    return Texts.open(path)


def _batch(part: Part, rows: Rows, done: int) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        columns = [pa.array(values, pa.large_string()) for values in (rows.uids, rows.titles, rows.contents)]
    except UnicodeEncodeError:
        for row, texts in enumerate(zip(rows.uids, rows.titles, rows.contents, strict=True)):
            if not "".join(texts).isascii() and any(0xD800 <= ord(letter) < 0xE000 for letter in "".join(texts)):
                hint = "this is not valid Unicode: fix the text"
                raise at(*part.place(done + row), "contains half a surrogate pair", hint) from None
        raise
    return pa.record_batch(columns, ["uid", "title", "content"])


def _check_uids(part: Part, texts: Texts) -> None:
    import pyarrow.compute as pc

    if pc.count_distinct(texts.uids.to_arrow()).as_py() == len(texts):
        return
    seen: dict[str, int] = {}
    for row, uid in enumerate(texts.uids):
        if uid in seen:
            (path, line), (other, first) = part.place(row), part.place(seen[uid])
            where = f"line {first}" if other == path else f"{other.name}, line {first}"
            raise at(path, line, f"duplicate uid {uid!r}, first in {where}", "uids must be unique")
        seen[uid] = row


def _distinct(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with label ids sorted and deduplicated."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    keys = np.unique(rows * (np.int64(1) << 32) + indices)
    counts = np.bincount(keys >> 32, minlength=len(indptr) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), (keys & 0xFFFFFFFF).astype(np.int32)
