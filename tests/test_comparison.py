"""Pairing of the runs of two rows."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from xmcbench import comparison
from xmcbench.records import Store, as_json
from xmcbench.records.selection import Selected
from xmcbench.setting import Setting

FS = Setting.of("fs", 0.01)


@pytest.mark.parametrize(
    ("setting", "mine", "theirs", "matched"),
    [
        (FS, (0, 1), (0, 1), True),
        (FS, (0, 1), (2, 3), False),
        (FS, (0, 1), (0, 2), False),
        (FS, (0, 1, 2), (0, 1), False),
        (Setting.of("ez"), (0, 1), (0, 1), False),  # a seed of one method says nothing of another's
    ],
)
def test_runs_belong_together_where_they_saw_the_same_subsets(monkeypatch, record, setting, mine, theirs, matched):
    asked = []
    monkeypatch.setattr(comparison, "evaluations", lambda *_: [SimpleNamespace(scored=30)])
    monkeypatch.setattr(comparison.paired, "compare", lambda *_, **options: asked.append(options) or {})
    rows = [
        Selected(tuple(record(seed=seed, setting=setting) for seed in seeds), Store(Path("runs")))
        for seeds in (mine, theirs)
    ]
    comparison._differences(*rows, None, False)
    assert asked[0]["matched"] is matched


def test_another_default_filter_is_no_obstacle_where_a_filter_is_named(record, altered):
    one = record()
    figures = as_json(one)["metrics"]["self"]
    other = altered(one, (("metrics", "none"), figures), (("protocol", "filter"), "none"))
    rows = [Selected((record,), Store(Path("runs"))) for record in (one, other)]
    assert comparison.obstacle(*rows) == "filters: self and none"
    assert not comparison.obstacle(*rows, "none")
