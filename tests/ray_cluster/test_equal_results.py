"""Cells on a Ray cluster give what they give on this machine. Run by `tox -e ray`."""

import pytest
from remains import artifacts, files, result

from xmcbench.api import Options, run
from xmcbench.setting import Setting
from xmcbench.storage.locations import cache_root

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

RANDOM = """
    import numpy as np
    from xmcbench import Method, TopK

    class Random(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            rng = np.random.default_rng(self.seed)
            return TopK.joined((TopK.from_scores(rng.random((1, self.labels)), k) for _ in raw_X), k, len(raw_X))
"""
EZ, HALF, FULL = Setting.of("ez"), Setting.of("fs", 0.5), Setting.of("full")
#: 30 cells. A part of the hybrid is in a file.
WANTED = {
    "dataset": ["lf-debian-2k", "lf-debian-20k"],
    "setting": ["ez", "fs", "full"],
    "ratio": 0.01,
    "methods": ["tfidf", "bm25", "xr-linear", "random", "hybrid"],
    "set": {"hybrid": {"parts": "tfidf,random"}},
}


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    """A plug-in with a method that draws its scores."""
    path = tmp_path_factory.mktemp("plugin") / "random_scores.py"
    path.write_text(RANDOM.replace("\n    ", "\n"))
    return path


@pytest.fixture(scope="module")
def here(random, tmp_path_factory):
    """The runs folder of the cells on this machine, one after the other, and their records."""
    runs = tmp_path_factory.mktemp("here")
    return runs, run(**WANTED, options=Options(runs=runs, plugins=[random]))


@pytest.mark.parametrize("where", ["two at once", "in place", "by content"])
def test_results_are_those_of_one_cell_after_the_other(where, random, here, request, tmp_path):
    if where != "two at once":
        request.getfixturevalue("connected")
    if where == "by content":
        request.getfixturevalue("by_content")
    runs, expected = here
    how = {"jobs": 2} if where == "two at once" else {"on": "ray"}
    there = run(**WANTED, options=Options(runs=tmp_path, plugins=[random], **how))
    assert len(there) == 30
    assert there.ok
    assert [result(record) for record in there] == [result(record) for record in expected]
    for kind in ("predictions", "ranks", "subsets"):
        assert files(tmp_path, kind) == files(runs, kind)
    assert artifacts(tmp_path) == artifacts(runs)
    assert (cache_root() / "received").exists() == (where == "by content")
    assert not [*tmp_path.rglob("*.tmp")]


@pytest.mark.usefixtures("connected", "by_content")
def test_a_pretraining_travels_between_nodes(there, noted):
    first, *others = there(EZ, HALF, FULL, methods=["learner"], overrides={"learner": {"sleep": 2}})
    lines = noted.read_text().splitlines()
    assert sorted(lines) == ["predicted 0"] * 3 + ["pretrained 0"]
    assert [bool(record.measured.reused_s) for record in (first, *others)] == [False, True, True]
    assert max(record.measured.neighbors for record in (first, *others)) == 1
