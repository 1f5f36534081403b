"""Questions of a run for the work of others: each one is work for a folder that machines share."""

from itertools import pairwise

import pytest

from xmcbench.runner import schedule
from xmcbench.runner.schedule import Backoff


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    time = [1000.0]
    monkeypatch.setattr(schedule.time, "monotonic", lambda: time[0])
    return time


def questions(waits, names, clock, seconds, step=0.25):
    """Return when each name is asked for within so many seconds, by a run that looks four times a second."""
    asked = {name: [] for name in names}
    end = clock[0] + seconds
    while clock[0] < end:
        for name in names:
            if waits.is_due(name):
                asked[name].append(clock[0])
                waits.fail(name)
        clock[0] += step
    return asked


def test_the_longer_the_wait_the_rarer_the_questions(clock):
    (times,) = questions(Backoff(), ["a"], clock, 3600).values()
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[0] == 0.5
    assert pauses == sorted(pauses)
    assert max(pauses) == 15
    for begun, pause in zip(times, pauses, strict=False):
        assert pause <= max(0.5, 0.1 * (begun - times[0])) + 0.25  # who waits never loses more than a tenth
    assert len(times) < 300


def test_a_thousand_waits_ask_no_more_than_forty_times_a_second(clock):
    asked = questions(Backoff(), [f"cell {number}" for number in range(1000)], clock, 300)
    total = sum(map(len, asked.values()))
    assert total <= 1000 + 40 * 300 * 1.1
    assert all(len(times) > 5 for times in asked.values())  # none is forgotten


def test_what_is_free_again_is_asked_for_at_once(clock):
    waits = Backoff()
    questions(waits, ["a"], clock, 600)
    assert not waits.is_due("a")
    assert waits.is_due("b")
    waits.succeed("a")
    assert waits.is_due("a")
    (times,) = questions(waits, ["a"], clock, 1.0).values()
    assert times[1] - times[0] == 0.5
