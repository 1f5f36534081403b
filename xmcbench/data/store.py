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

from xmcbench.data.lines import at
from xmcbench.data.rows import Rows, check_count
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

    texts_sha256, pairs_sha256: digests; that of pairs is empty for labels. rows, pairs: counts. highest, highest_line:
    the highest label id and its line (-1 and 0 without pairs, and where it was checked before). uids: whether the uids
    are more than row numbers, which two files share by accident. notes: on what was left out or assumed when it was
    read.
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


def get_cached(
    kind: str, identity: Mapping[str, object], fill: Callable[[Path], None], uses: tuple[object, ...] = ()
) -> Path:
    """Return the cache folder of this kind and identity; ``fill``, which calls ``uses``, makes it if it is missing.

    Raises StorageError, naming the cache, when there is no room or no permission.
    """
    try:
        return Artifacts(cache_root()).get(kind, identity, fill, uses)
    except StorageError as error:
        raise StorageError(error.message, "set XMCBENCH_CACHE to use another folder for the cache") from error


def get_corpus(part: Part, source: Source) -> Corpus:
    """Return the loaded form of a part, which is read once.

    Raises what ``load_corpus`` raises, and DataError where a file changes while it is read.
    """
    sha256 = fingerprint_of(part.files)

    def fill(folder: Path) -> None:
        load_corpus(part, folder)
        if fingerprint_of(part.files) != sha256:  # what was read must not be kept under the digest of other content
            raise DataError(f"{part.path} changed while it was read", "run again when nothing writes to it")

    options = {key: value for key, value in source.place.options.items() if key in source.options}
    identity = {"layout": source.name, "part": [path.name for path in part.files[:1]], "options": options}
    return open_corpus(get_cached(part.kind, {**identity, "sha256": sha256}, fill, (type(source),)))


def open_corpus(folder: Path) -> Corpus:
    """Open the corpus in a folder of the cache. Raises DataError when it is damaged."""
    try:
        facts = json.loads(read_text(folder / "facts.json"))
        return Corpus(folder=folder, **{**facts, "notes": tuple(facts["notes"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        hint = "delete the folder: it will be regenerated"
        raise DataError(f"cannot read the store {folder}: {error}", hint) from error


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
    has_uids = any(uid != str(row) for row, uid in enumerate(texts.uids))
    notes = tuple(part.notes)
    if part.kind == "labels":
        return _finish(folder, texts, has_uids, notes=notes)
    indices, indptr = np.frombuffer(targets, np.int32), np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])

    def place(pair: int) -> tuple[Path, int]:
        return part.place(int(np.searchsorted(indptr, pair, "right")) - 1)

    top, line = -1, 0
    if len(indices):
        if indices.min() < 0:
            what = f"target_ind {indices.min()} is out of range"
            raise at(*place(int(indices.argmin())), what, "label ids start at 0")
        top, line = int(indices.max()), place(int(indices.argmax()))[1]
    # Label ids sorted and deduplicated.
    keys = np.unique(np.repeat(np.arange(len(texts)), np.diff(indptr)) * (np.int64(1) << 32) + indices)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys >> 32, minlength=len(texts)))])
    return _finish(folder, texts, has_uids, (indptr, (keys & 0xFFFFFFFF).astype(np.int32)), top, line, notes)


def write_corpus(folder: Path, rows: Iterable[pa.RecordBatch], pairs: csr_matrix | None, uids: bool) -> None:
    """Write rows, as ``rows_of`` gives them, to a new folder in the same form; ``pairs`` is a canonical binary CSR."""
    folder.mkdir()
    texts = write_texts(folder / "texts.arrow", rows)
    _finish(folder, texts, uids, None if pairs is None else (pairs.indptr, pairs.indices))


def _finish(
    folder: Path,
    texts: Texts,
    uids: bool,
    pairs: tuple[np.ndarray, np.ndarray] | None = None,
    highest: int = -1,
    line: int = 0,
    notes: tuple[str, ...] = (),
) -> Corpus:
    """Write pairs (indptr, indices) and facts beside texts."""
    digest, count = "", 0
    if pairs is not None:
        write_pairs(folder / "pairs.npz", *pairs)
        digest, count = pairs_digest(*pairs), len(pairs[1])
    corpus = Corpus(folder, texts.digest, len(texts), count, highest, line, uids, digest, notes)
    facts = asdict(corpus)
    del facts["folder"]
    write_json(folder / "facts.json", facts)
    return corpus


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
            if any(0xD800 <= ord(letter) < 0xE000 for text in texts for letter in text):
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
