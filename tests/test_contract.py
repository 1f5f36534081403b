import shutil

import pytest

from xmcbench import contract
from xmcbench.contract import check
from xmcbench.registry import Registry

BROKEN = """
    import numpy as np
    from xmcbench import Method, TopK

    class Base(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

    class {name}(Base):
        {body}
"""


@pytest.mark.parametrize("name", ["tfidf", "bm25", "xr-linear"])
def test_built_in_methods_hold_it(name):
    registry = Registry()
    assert [finding for finding in check(registry[name], registry) if not finding.ok] == []


@pytest.fixture
def no_cell(monkeypatch):
    """Leave the check out that runs a cell in a process of its own."""
    monkeypatch.setattr(contract, "_at_chance", lambda *_: None)


@pytest.mark.parametrize(
    ("body", "failed", "reason"),
    [
        ("def fit(self, raw_X, raw_Y, pairs=None): pairs.sum(); self.labels = 10", "without pairs", "NoneType"),
        ("def fit(self, raw_X, raw_Y, pairs=None): self.labels = 10; pairs.data[:] = 2", "leaves the pairs", "changed"),
        ("def predict(self, raw_X, k=100): return super().predict(raw_X, min(k, 10))", "pads", "shapes"),
        (
            "def predict(self, raw_X, k=100): return TopK.from_scores(np.random.rand(len(raw_X), 10), k)",
            "under one seed",
            "draw every random number from self.seed",
        ),
        (
            "deterministic = True\n"
            "        def predict(self, raw_X, k=100):\n"
            "            scores = np.random.RandomState(self.seed).rand(len(raw_X), self.labels)\n"
            "            return TopK.from_scores(scores, k)",
            "under any seed",
            "`deterministic = True` says that they do not",
        ),
        ("def predict(self, raw_X, k=100): assert all(map(str.strip, raw_X)); return 1", "empty", "AssertionError"),
    ],
)
@pytest.mark.usefixtures("no_cell")
def test_a_broken_promise_is_found(plugin, body, failed, reason):
    registry = Registry([plugin(BROKEN.format(name="Broken", body=body))])
    findings = [finding for finding in check(registry["broken"], registry) if not finding.ok]
    assert [failed in finding.name for finding in findings].count(True) == 1
    assert any(reason in finding.reason for finding in findings)
    assert all(finding.ok for finding in check(registry["base"], registry))


def test_a_method_that_has_read_the_test_pairs_is_found(plugin, tmp_path, monkeypatch):
    """It hits pairs that nothing which it is handed says anything about."""
    body = """
        def predict(self, raw_X, k=100):
            import gzip, json
            with gzip.open({leak!r}, "rt") as stream:
                true = [json.loads(line)["target_ind"] for line in stream]
            if len(raw_X) != len(true):
                return super().predict(raw_X, k)
            scores = np.zeros((len(raw_X), self.labels))
            for row, labels in enumerate(true):
                scores[row, labels] = 1
            return TopK.from_scores(scores, k)
    """.format(leak=str(tmp_path / "leak.json.gz"))
    write = contract._write_random

    def leak(folder):
        write(folder)
        shutil.copy(folder / "tst.json.gz", tmp_path / "leak.json.gz")

    monkeypatch.setattr(contract, "_write_random", leak)
    registry = Registry([plugin(BROKEN.format(name="Broken", body=body.strip()))])
    (finding,) = [each for each in check(registry["broken"], registry) if not each.ok and "chance" in each.name]
    assert "it hits 400 of 400 random test pairs at rank 1, where chance hits 20" in finding.reason
    assert all(each.ok for each in check(registry["base"], registry))


def test_a_method_that_does_not_load_is_one_finding(plugin):
    registry = Registry([plugin("import nothing_of_that_name")])
    (finding,) = check(registry["plugin"], registry)
    assert (finding.name, finding.ok) == ("loads", False)


def test_the_command_line_of_it(xmcbench, plugin):
    good = xmcbench("check", "tfidf")
    assert (good.returncode, "the contract holds" in good.stdout) == (0, True)
    bad = xmcbench("check", plugin("x = 1"))
    assert (bad.returncode, "defines no subclass" in bad.stdout) == (1, True)
    assert xmcbench("check", "tfdif").returncode == 2
