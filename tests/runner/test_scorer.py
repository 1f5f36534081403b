"""The scoring process as the run sees it: its answers, its errors, its end."""

import fcntl
import os
import resource
import signal
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import DataError, MethodError, StorageError, UsageError, XmcbenchError
from xmcbench.records import Cell, Store
from xmcbench.runner.scorer import Scorer
from xmcbench.setting import Setting, draw
from xmcbench.topk import TopK

#: A descriptor that ``select`` does not know.
HIGH = 1500
SAMPLE = str(Path(__file__).parents[1] / "sample")


@pytest.fixture(scope="module")
def scorer():
    with Scorer() as scorer:
        yield scorer


@pytest.fixture
def cell():
    """A cell of the sample dataset."""
    dataset = load_dataset(SAMPLE)

    def make(setting="ez", ratio=None, seed=0, digest=dataset.digest):
        chosen = Setting.of(setting, ratio)
        subset = draw(dataset.train_pattern(), chosen, seed)
        return Cell(
            dataset="Sample",
            dataset_sha256=digest,
            setting=chosen,
            subset_sha256=subset.digest if subset else None,
            method="x",
            parameters={},
            seed=seed,
        )

    return make


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def predict(store, cell, depth=117, rows=113, labels=333, empty=0):
    scores = np.random.RandomState(0).rand(rows, labels)
    scores[:empty] = -np.inf
    TopK.from_scores(scores, depth).save(store.predictions_path(cell))


def test_rows_without_a_prediction_are_counted(scorer, cell, store):
    asked = cell()
    predict(store, asked, empty=7)
    assert scorer.score(asked, store.root, SAMPLE, 117).predictions.empty == 7


def test_ranks_are_written_where_they_are_to_be_kept(scorer, cell, store):
    asked = cell()
    predict(store, asked)
    audited = scorer.score(asked, store.root, SAMPLE, 117, keep=False)
    assert not store.ranks_path(asked).exists()
    scored = scorer.score(asked, store.root, SAMPLE, 117)
    assert scored == audited
    assert scored.predictions.empty == 0
    assert store.ranks_path(asked).exists()
    assert scored.protocol.filter == "file"
    assert {*scored.metrics} == {"none", "self", "file"}


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"depth": 116}, MethodError, "predictions have the shapes"),
        ({"rows": 112}, MethodError, "predictions have 112 rows, not 113"),
        ({"labels": 334}, MethodError, "outside 0..332"),
    ],
)
def test_predictions_that_are_invalid_are_refused(scorer, cell, store, values, error, reason):
    asked = cell(seed=3)
    predict(store, asked, **values)
    with pytest.raises(error, match=reason):
        scorer.score(asked, store.root, SAMPLE, 117)
    assert not store.ranks_path(asked).exists()


def test_a_cell_of_other_data_or_of_another_draw_is_refused(scorer, cell, store):
    other = cell(digest="0" * 64)
    predict(store, other)
    with pytest.raises(DataError, match="Sample is not the version of the cell"):
        scorer.score(other, store.root, SAMPLE, 117)
    drawn, wrong = cell("fs", 0.3, seed=0), cell("fs", 0.3, seed=1)
    wrong = Cell(**{**{name: getattr(wrong, name) for name in wrong.__struct_fields__}, "seed": drawn.seed})
    predict(store, wrong)
    with pytest.raises(DataError, match="the subset is not the one that the setting and seed select"):
        scorer.score(wrong, store.root, SAMPLE, 117)


def test_errors_of_a_dataset_come_through(scorer, cell, store):
    for name, reason in (("lf-debain-2k", "did you mean 'lf-debian-2k'"), ("no/such/folder", "no folder at")):
        with pytest.raises(UsageError, match=reason):
            scorer.score(cell(), store.root, name, 117)
    predict(store, cell())  # and the process goes on
    assert scorer.score(cell(), store.root, SAMPLE, 117)


def test_a_process_that_ends_is_said_and_replaced(cell, store):
    predict(store, cell())
    with Scorer() as scorer:
        assert scorer.score(cell(), store.root, SAMPLE, 117)
        scorer._process.send_signal(signal.SIGSTOP)
        scorer.begin(cell(), store.root, SAMPLE, 117)
        scorer._process.send_signal(signal.SIGKILL)
        with pytest.raises(StorageError, match="the scoring process ended with exit code -9"):
            scorer.answer()
        assert scorer.score(cell(), store.root, SAMPLE, 117)
        pid = scorer._process.pid
    assert not psutil.pid_exists(pid)


def test_a_process_that_ended_between_two_cells_costs_neither_its_result(cell, store):
    predict(store, cell())
    with Scorer() as scorer:
        first = scorer.score(cell(), store.root, SAMPLE, 117)
        scorer._process.send_signal(signal.SIGKILL)
        scorer._process.wait()
        assert scorer.score(cell(), store.root, SAMPLE, 117) == first


def test_whatever_goes_wrong_in_the_process_is_an_answer(cell, store):
    with Scorer() as scorer:
        with pytest.raises(XmcbenchError, match="scoring failed: ValidationError"):
            scorer._send({"cell": 1})
            scorer.answer()
        predict(store, cell())
        assert scorer.score(cell(), store.root, SAMPLE, 117)


def test_nobody_waits_for_a_score_that_is_not_wanted_any_more(monkeypatch):
    """A run that is interrupted while its scoring process is busy ends it, with the reason of the interruption."""
    busy = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    monkeypatch.setattr("xmcbench.runner.scorer._GRACE_S", 0.1)
    with pytest.raises(KeyboardInterrupt), Scorer() as scorer:
        scorer._process = busy
        raise KeyboardInterrupt
    assert busy.returncode == -signal.SIGKILL


def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next_request(cell, store, monkeypatch):
    """A notebook goes on after Ctrl-C, with the scorer that it has."""
    one, other = cell(seed=1), cell(seed=7)
    predict(store, one)
    predict(store, other)
    with Scorer() as scorer:
        good = scorer.score(other, store.root, SAMPLE, 117)
        stdout = scorer._process.stdout

        class Interrupted:
            def readline(self):
                raise KeyboardInterrupt

            def __getattr__(self, name):
                return getattr(stdout, name)

        with monkeypatch.context() as patch:
            patch.setattr(scorer._process, "stdout", Interrupted())
            with pytest.raises(KeyboardInterrupt):
                scorer.score(one, store.root, SAMPLE, 117)
        assert scorer.score(other, store.root, SAMPLE, 117).ranks.file == good.ranks.file


def test_there_is_something_to_wait_for_while_an_answer_is_due(scorer, cell, store):
    assert scorer.files == []
    predict(store, cell())
    scorer.begin(cell(), store.root, SAMPLE, 117)
    assert len(scorer.files) == 1
    scorer.answer()
    assert scorer.files == []


def test_an_answer_is_seen_where_many_files_are_open(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    read, write = os.pipe()
    high = fcntl.fcntl(read, fcntl.F_DUPFD, HIGH)
    scorer = Scorer()
    scorer.is_busy = True
    monkeypatch.setattr(Scorer, "files", [high])
    try:
        assert not scorer.has_answer
        os.write(write, b"{}")
        assert scorer.has_answer
    finally:
        for descriptor in (read, write, high):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
