import pytest

from xmcbench.contract import check
from xmcbench.registry import Registry, from_file

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
    assert [finding for finding in check(Registry()[name]) if not finding.ok] == []


@pytest.mark.parametrize(
    ("body", "failed", "reason"),
    [
        ("def fit(self, raw_X, raw_Y, pairs=None): pairs.sum(); self.labels = 10", "without pairs", "NoneType"),
        ("def fit(self, raw_X, raw_Y, pairs=None): self.labels = 10; pairs.data[:] = 2", "leaves the pairs", "changed"),
        ("def predict(self, raw_X, k=100): return super().predict(raw_X, min(k, 10))", "pads", "shapes"),
        (
            "def predict(self, raw_X, k=100): return TopK.from_scores(np.random.rand(len(raw_X), 10), k)",
            "equal predictions",
            "seed",
        ),
        ("def predict(self, raw_X, k=100): assert all(map(str.strip, raw_X)); return 1", "empty", "AssertionError"),
    ],
)
def test_a_broken_promise_is_found(plugin, body, failed, reason):
    entries = {entry.name: entry for entry in from_file(plugin(BROKEN.format(name="Broken", body=body)))}
    findings = [finding for finding in check(entries["broken"]) if not finding.ok and failed in finding.name]
    assert findings
    assert reason in findings[0].reason
    assert all(finding.ok for finding in check(entries["base"]))


def test_a_method_that_does_not_load_is_one_finding(plugin):
    (entry,) = from_file(plugin("import nothing_of_that_name"))
    (finding,) = check(entry)
    assert (finding.name, finding.ok) == ("loads", False)


def test_the_command_line_of_it(xmcbench, plugin):
    good = xmcbench("check", "tfidf")
    assert (good.returncode, "the contract holds" in good.stdout) == (0, True)
    bad = xmcbench("check", plugin("x = 1"))
    assert (bad.returncode, "defines no subclass" in bad.stdout) == (1, True)
    assert xmcbench("check", "tfdif").returncode == 2
