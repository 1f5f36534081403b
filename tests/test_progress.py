"""Progress of a run: reported by the process of a cell, shown on a terminal and elsewhere."""

import io
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xmcbench import progress
from xmcbench.display import Display, Outlook, _describe, find_screen
from xmcbench.plugins.registry import Registry
from xmcbench.progress import Report, Reporter, read
from xmcbench.records import Store
from xmcbench.runner.execution import Underway
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.plan import plan
from xmcbench.setting import Setting


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv(progress.VARIABLE, str(path))
    reporter = Reporter()
    monkeypatch.setattr(progress, "phase", reporter.phase)
    monkeypatch.setattr(progress, "steps", reporter.steps)
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


def test_numbers_of_numpy_are_numbers(file):
    progress.phase("fit")
    progress.steps(np.int64(1), np.int32(3), "text")
    assert (read(file).done, read(file).total) == (1, 3)


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False))
@example(1, 10**18, -1e308)
@example(-(10**400), 5, 1.0)
def test_no_report_of_a_method_ends_the_run(done, total, since):
    """A method may write anything there. A time left beyond all bounds had no words, which was an error of the run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "progress.json"
        path.write_bytes(json.dumps({"phase": "fit", "done": done, "total": total, "since": since}).encode())
        assert _describe(Underway(None, 0, 3.0, read(path))).endswith(("3 s", "3 s so far"))


def test_a_process_that_a_cell_starts_goes_on_with_its_phase(file):
    progress.phase("predict")
    other = Reporter()
    other.steps(1, 2, "text")
    assert (read(file).phase, read(file).done) == ("predict", 1)


@pytest.fixture
def planned(tiny, tmp_path):
    def make(seeds=(0, 1), settings=("ez",)):
        grid = Grid([str(tiny)], [Setting.of(kind) for kind in settings], ["glove"], seeds=seeds)
        return plan(requests_of([grid]), Registry([]), Store(tmp_path / "runs"))

    return make


def test_plain_lines_elsewhere_than_on_a_terminal(planned, tmp_path, record, altered, capsys, monkeypatch):
    made, clock = planned(settings=("ez", "full")), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "time", lambda: 100.0)
    log = tmp_path / "runs" / "logs" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_text("reading\nout of luck\n\n")
    first, second = made.cells[0], made.cells[2]
    with find_screen() as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        running = [Underway(second, 2, 61.0, Report("fit", 10, 40, "step", 95.0, 0))]
        display.progress(first, 0, None)
        display.watch(running)
        display.progress(first, 0, altered(record(status="failed"), (("log",), "logs/x.log")))
        clock[0] = 59.0
        display.watch(running)
        assert len(capsys.readouterr().err.splitlines()) == 2
        clock[0] = 60.0
        display.watch(running)
        display.watch(running)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "1 of 4 cells done, 1 running, about 25 s left; "
        "[3/4] fit, 25% of 40 steps, about 15 s left, 61 s so far: GloVe (quick), seed 0, tiny full"
    )


def test_how_a_cell_ended(planned, tmp_path, record, altered, capsys):
    log = tmp_path / "runs" / "logs" / "x.log"
    log.parent.mkdir(parents=True)
    log.write_text("reading\nout of luck\n\n")
    made = planned()
    with find_screen() as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        display.progress(made.cells[0], 0, record())
        display.progress(made.cells[1], 1, altered(record(status="failed"), (("log",), "logs/x.log")))
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] GloVe (quick), seed 0: ok, 5.0 s",
        f"[2/2] GloVe (quick), seed 1: failed, 5.0 s: ValueError: no (log: {log}: out of luck)",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("dumb", [False, True])
def test_a_terminal_has_a_line_a_cell_and_one_for_the_whole(planned, tmp_path, record, monkeypatch, dumb):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    made = planned()
    with find_screen() as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        display.progress(made.cells[0], 0, None)
        running = [Underway(cell, place, 3.0, Report("fit\x1b[2J" * 9)) for place, cell in enumerate(made.cells)]
        display.watch(running)
        shown = stream.getvalue()
        display.progress(made.cells[0], 0, record())
        display.watch(running[1:])
    if dumb:
        assert shown == "[1/2] GloVe (quick), seed 0: started\n"
        return
    lines = [line for line in shown.replace("\r", "").splitlines() if "] fit" in line or "cells done" in line]
    assert "0 of 2 cells done, 2 running" in lines[0]
    assert "[1/2] fit" in lines[1]
    assert "[2/2] fit" in lines[2]
    assert "\x1b[2J" not in stream.getvalue()  # nothing of a name acts on the terminal
    assert "\x1b[3" not in stream.getvalue()  # no color
    assert "[1/2] GloVe (quick), seed 0: ok, 5.0 s\n" in stream.getvalue()


def test_cached_cells_are_not_counted(planned, tmp_path, record, capsys, monkeypatch):
    made, clock = planned(seeds=range(3)), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    made = replace(made, cells=[replace(made.cells[0], state="cached"), *made.cells[1:]])
    with find_screen() as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        clock[0] = 60.0
        display.watch([Underway(made.cells[1], 1, 3.0, Report("predict", 12))])
        display.progress(made.cells[2], 2, record())
    assert capsys.readouterr().err.splitlines() == [
        "0 of 2 cells done, 1 running; [1/2] predict, 12 steps, 3 s so far: GloVe (quick), seed 1",
        "[2/2] GloVe (quick), seed 2: ok, 5.0 s",
    ]


def test_a_notebook_has_lines_that_change(planned, tmp_path, record, monkeypatch, capsys):
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    modules = {
        "IPython": SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)),
        "IPython.display": SimpleNamespace(display=lambda *_, **__: handle),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    made = planned()
    with find_screen(lines=False) as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        display.progress(made.cells[0], 0, None)
        display.watch([Underway(made.cells[0], 0, 3.0, Report("fit\x1b"))])
        display.progress(made.cells[0], 0, record())
    assert shown == ["0 of 2 cells done, 1 running\n[1/2] fit\\x1b, 3 s so far: GloVe (quick), seed 0", ""]
    assert capsys.readouterr().out == "[1/2] GloVe (quick), seed 0: ok, 5.0 s\n"


def test_a_script_without_a_terminal_shows_nothing(planned, tmp_path, record, capsys):
    made = planned()
    with find_screen(lines=False) as screen:
        display = Display(made, Store(tmp_path / "runs"), screen)
        display.progress(made.cells[0], 0, None)
        display.watch([])
        display.progress(made.cells[0], 0, record())
    assert capsys.readouterr() == ("", "")


def test_the_outlook_of_a_run(planned, record, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 100.0)
    first, second, third = planned(seeds=range(3)).cells
    outlook = Outlook({first.cell.key: 10.0, second.cell.key: -1.0, third.cell.key: 4.0})
    assert outlook.seconds_left([]) is None  # nothing is known of the second
    outlook.took_s[first.cell.key] = 8.0
    assert outlook.seconds_left([]) == 8.0 + 4.0
    late = Underway(second, 1, 20.0, None)
    assert outlook.seconds_left([Underway(third, 2, 3.0, None), late]) == (0.0 + 1.0) / 2
    # A cell knows more about its steps than earlier cells do.
    slow = Underway(third, 2, 3.0, Report("fit", 10, 40, "step", 95.0, 0))
    assert outlook.seconds_left([slow, late]) == (0.0 + 15.0) / 2
    # Nothing is known about cells that take longer than expected.
    assert outlook.seconds_left([Underway(third, 2, 9.0, None), late]) is None
