import time

import pytest

from xmcbench import progress
from xmcbench.progress import Report, Reporter, read


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv(progress.VARIABLE, str(path))
    monkeypatch.setattr(progress, "_reporter", Reporter())
    return path


def test_a_phase_is_reported_at_once_and_its_steps_now_and_then(file, monkeypatch):
    assert read(file) is None
    progress.phase("fit")
    assert read(file) == Report("fit")
    progress.steps(3, 10, "text")
    first = read(file)
    assert (first.phase, first.done, first.total, first.unit, first.first) == ("fit", 3, 10, "text", 3)
    assert first.rate is None
    progress.steps(4, 10, "text")
    assert read(file).done == 3
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.0)
    progress.steps(5, 10, "text")
    assert (read(file).done, read(file).since) == (5, first.since)
    monkeypatch.setattr(progress, "_INTERVAL_S", 60.0)
    progress.steps(10, 10, "text")  # the last one is not left out
    assert read(file).done == 10
    progress.steps(0, 5, "step")  # other steps
    assert (read(file).unit, read(file).since > first.since) == ("step", True)
    assert list(file.parent.iterdir()) == [file]


def test_items_are_counted_while_they_are_taken(file):
    assert list(progress.track("abc", "letter")) == ["a", "b", "c"]
    assert (read(file).done, read(file).total, read(file).unit) == (3, 3, "letter")
    assert list(progress.track(iter("ab"))) == ["a", "b"]
    assert read(file).total == 0


def test_rate_and_time_left(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 110.0)
    report = Report("fit", done=30, total=100, since=100.0, first=10)
    assert (report.rate, report.left_s) == (2.0, 35.0)
    assert Report("fit", done=30, since=100.0).left_s is None


def test_without_a_reader_nothing_is_written_and_what_is_broken_is_nothing(file, monkeypatch):
    file.write_text('{"phase": 1}')
    assert read(file) is None
    monkeypatch.delenv(progress.VARIABLE)
    progress.phase("fit")
    assert file.read_text() == '{"phase": 1}'
    monkeypatch.setenv(progress.VARIABLE, str(file.parent / "no" / "folder"))
    progress.phase("predict")


def test_a_process_that_a_cell_starts_goes_on_with_its_phase(file):
    progress.phase("predict")
    other = Reporter()
    other.steps(1, 2, "text")
    assert (read(file).phase, read(file).done) == ("predict", 1)
