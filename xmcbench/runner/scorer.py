"""The scoring process, which never imports a method and serves all cells of a run.

    with Scorer() as scorer:
        scored = scorer.score(cell, store.root, dataset="lf-debian-2k", depth=101)

A request is a line of JSON on its standard input, an answer is a line on its standard output.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from xmcbench import errors
from xmcbench.data.catalog import load_dataset
from xmcbench.data.dataset import Dataset
from xmcbench.errors import DataError, StorageError, XmcbenchError
from xmcbench.processes.process_tree import die_with_parent
from xmcbench.records import Cell, Store, Truth
from xmcbench.records.record import FilteredFigures, Predictions, Protocol, RanksFacts
from xmcbench.records.staleness import ranks_digest
from xmcbench.runner.figures import figures
from xmcbench.runner.ranking import rank
from xmcbench.runner.scoring import protocol_of
from xmcbench.setting import draw
from xmcbench.storage.canonical import sha256_file
from xmcbench.topk import TopK

#: Seconds allowed for the process to end after its last request.
_GRACE_S = 10.0


class Scored(Struct, frozen=True, kw_only=True):
    """The parts of a record that are computed from predictions; without figures if no test instance has a label."""

    metrics: dict[str, FilteredFigures]
    protocol: Protocol
    ranks: RanksFacts | None
    predictions: Predictions | None = None


class _Request(Struct, frozen=True, kw_only=True):
    """dataset: name or folder; depth: predictions per row, None to start from the stored ranks. keep: write ranks."""

    cell: Cell
    root: str
    dataset: str | None = None
    depth: int | None = None
    propensity: tuple[float, float] | None = None
    filter: str = "none"
    keep: bool = True


class _Answer(Struct, frozen=True, kw_only=True):
    scored: Scored | None = None
    error: str = ""
    message: str = ""
    hint: str = ""


class Scorer:
    """The scoring process of a run; started by the first request."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        #: Whether it has a request that is not answered yet.
        self.is_busy = False

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._process is not None:
            self._process.kill()  # no one waits for its answer
        self._end()

    def _end(self) -> int | None:
        """End the process, close its pipes, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(OSError), process:
            with suppress(OSError, subprocess.TimeoutExpired):
                process.communicate(timeout=_GRACE_S)
            process.kill()
        return process.returncode

    def score(self, cell: Cell, root: Path, dataset: str, depth: int, keep: bool = True) -> Scored:
        """Score the predictions of a cell below a runs folder. keep: whether its ranks are written.

        dataset: its name or folder. depth: predictions per row. Raises MethodError, DataError and StorageError.
        """
        self.begin(cell, root, dataset, depth, keep)
        return self.answer()

    def begin(self, cell: Cell, root: Path, dataset: str, depth: int, keep: bool = True) -> None:
        """Begin to score a cell, as ``score`` does; ``answer`` ends it, before anything else is begun."""
        self._send(_Request(cell=cell, root=str(root.resolve()), dataset=dataset, depth=depth, keep=keep))

    def answer(self) -> Scored:
        """Wait for the answer to the last request. Raises as ``score`` does."""
        self.is_busy = False
        answer = self._receive()
        if answer.scored is None:
            raise errors.of_kind(answer.error, answer.message, answer.hint)
        return answer.scored

    @property
    def files(self) -> list[int]:
        """The descriptor that can be read when there is an answer; none without a request."""
        return [self._process.stdout.fileno()] if self.is_busy and self._process and self._process.stdout else []

    @property
    def has_answer(self) -> bool:
        """True if ``answer`` would return at once."""
        if not self.is_busy or not self.files:
            return self.is_busy
        watched = select.poll()  # not select, which knows 1,024 descriptors
        for descriptor in self.files:
            watched.register(descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def rescore(self, cell: Cell, root: Path, filter_name: str, propensity: tuple[float, float]) -> Scored:
        """Return the figures of a record from its stored ranks, under these constants. Raises StorageError."""
        root = root.resolve()
        self._send(_Request(cell=cell, root=str(root), propensity=propensity, filter=filter_name))
        return self.answer()

    def _send(self, request: _Request) -> None:
        assert not self.is_busy, "its next answer is to another request"
        self.is_busy = True
        if self._process is not None and self._process.poll() is not None:  # it has ended since its last answer
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "xmcbench.runner.scorer", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONHASHSEED": "0"},
                start_new_session=True,  # Ctrl-C is for the run only, which then ends this process
            )
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which the missing answer shows
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()

    def _receive(self) -> _Answer:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        except BaseException:  # Ctrl-C: a late answer would be taken for that of the next request
            self._process.kill()
            self._end()
            raise
        if not line:
            raise StorageError(f"the scoring process ended with exit code {self._end()}", "out of memory?")
        return msgspec.json.decode(line, type=_Answer)


def _serve(parent: int) -> None:
    die_with_parent(parent)
    datasets: dict[str, tuple[Dataset, Truth]] = {}
    # Only replies may reach the pipe, whatever a library prints.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        answer = _answer(line, datasets)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _answer(line: bytes, datasets: dict[str, tuple[Dataset, Truth]]) -> _Answer:
    try:
        return _Answer(scored=_score(msgspec.json.decode(line, type=_Request), datasets))
    except XmcbenchError as error:
        return _Answer(error=errors.kind_of(error), message=error.message, hint=error.hint)
    except Exception as error:
        return _Answer(error="XmcbenchError", message=f"scoring failed: {errors.summarize(error)}")


def _score(request: _Request, datasets: dict[str, tuple[Dataset, Truth]]) -> Scored:
    store, cell = Store(Path(request.root)), request.cell
    if request.depth is None or request.dataset is None:
        record = store.find(cell)
        if record is None:
            raise StorageError(f"{store.record_path(cell)} is missing", "run the cell again")
        truth = store.truth(record)
        assert record.ranks is not None
        assert request.propensity is not None
        metrics = figures(store.ranks(record, truth), truth, request.propensity)
        scored_by = protocol_of(request.filter, request.propensity)
        return Scored(metrics=metrics, protocol=scored_by, ranks=record.ranks)
    if request.dataset not in datasets:
        loaded = load_dataset(request.dataset)
        datasets[request.dataset] = (loaded, Truth.of(loaded))
    dataset, truth = datasets[request.dataset]
    if dataset.digest != cell.dataset_sha256:
        raise DataError(f"{dataset.name} is not the version of the cell", "run again")
    subset = draw(dataset.train_pattern(), cell.setting, cell.seed) if cell.setting.kind != "ez" else None
    if (subset.digest if subset else None) != cell.subset_sha256:
        raise DataError("the subset is not the one that the setting and seed select", "run again")
    path = store.predictions_path(cell)
    sha256 = sha256_file(path)
    parts = TopK.check_parts(TopK.load_parts(path), len(dataset.test), request.depth, len(dataset.labels))
    ranks, empty = rank(parts, dataset, truth, subset.pairs if subset else None)
    kept = Predictions(file=store.relative(path), sha256=sha256, depth=request.depth, empty=empty)
    scored_by = protocol_of(dataset.card.filter, dataset.propensity)
    if not len(truth.pairs):
        return Scored(metrics={}, protocol=scored_by, ranks=None, predictions=kept)
    metrics = figures(ranks, truth, dataset.propensity)
    facts = RanksFacts(
        file=store.relative(store.ranks_path(cell)),
        sha256=ranks.digest,
        truth_sha256=truth.digest,
        source_sha256=ranks_digest(),
    )
    if request.keep:
        truth_path = store.truth_path(dataset.name, truth.digest)
        if not truth_path.exists():
            truth.save(truth_path)
        ranks.save(store.ranks_path(cell))
    return Scored(metrics=metrics, protocol=scored_by, ranks=facts, predictions=kept)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
