import json
import shutil
import time

import msgspec
import pytest

from xmcbench import contract
from xmcbench.contract import CheckRequest, Finding, check
from xmcbench.storage.atomic import write_json

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


#: What follows a failure that comes again.
SKIPPED = Finding("the other checks", "skipped", "the method fails the same way")


@pytest.mark.parametrize("name", ["tfidf", "bm25", "xr-linear"])
def test_built_in_methods_hold_it(name):
    found = check(CheckRequest(name=name, time_s=250))
    assert [finding.status for finding in found] == ["ok"] * len(found)
    assert found[0].name == "loads"
    assert found[-1].name == "is at chance where test pairs are random"


@pytest.fixture
def no_cell(monkeypatch):
    """Leave the check out that runs a cell in a process of its own."""
    monkeypatch.setattr(contract, "_at_chance", lambda *_: None)


@pytest.fixture
def findings(tmp_path):
    """Run a check of a method of a plug-in file in the process of the tests."""

    def run_check(name, path, preset=None, **values):
        request, answer = tmp_path / "request.json", tmp_path / "findings.json"
        asked = CheckRequest(name=name, plugin=str(path), preset=preset, parameters=values)
        request.write_bytes(msgspec.json.encode(asked))
        contract.main(str(request), str(answer), str(tmp_path / "finished.json"))
        return msgspec.json.decode(answer.read_bytes(), type=list[Finding])

    return run_check


def broken(found):
    return [finding for finding in found if finding.status != "ok"]


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
            "`deterministic = True` promises that they do not",
        ),
        (
            "def predict(self, raw_X, k=100): assert all(map(str.strip, raw_X)); return super().predict(raw_X, k)",
            "empty",
            "AssertionError",
        ),
        (
            "def predict(self, raw_X, k=100): return TopK.from_scores(np.full((len(raw_X), 10), 1e39), k)",
            "without pairs",
            "row 0 has the score 1e+39, which is beyond float32",
        ),
        (
            "def predict(self, raw_X, k=100): return TopK.from_scores(np.full((len(raw_X), 10), np.inf), k)",
            "without pairs",
            "row 0 has several scores that are infinite",
        ),
    ],
)
@pytest.mark.usefixtures("no_cell")
def test_a_broken_contract_is_found(plugin, findings, body, failed, reason):
    path = plugin(BROKEN.format(name="Broken", body=body))
    found = broken(findings("broken", path))
    assert {finding.status for finding in found if finding != SKIPPED} == {"failed"}
    assert [failed in finding.name for finding in found].count(True) == 1
    assert any(reason in finding.reason for finding in found)
    assert broken(findings("base", path)) == []


@pytest.mark.usefixtures("no_cell")
def test_an_error_of_the_methods_own_is_placed_once(plugin, findings):
    """The last line of the method's file that it went through; the same reason is not said again."""
    path = plugin(BROKEN.format(name="Broken", body="def fit(self, raw_X, raw_Y, pairs=None): {}['label']"))
    found = broken(findings("broken", path))
    assert found[0].reason == f"KeyError: 'label' ({path}:12)"
    assert found[1:] == [SKIPPED]


def test_a_reason_that_a_cell_gives_without_its_place_is_said_once(tmp_path, monkeypatch):
    reasons = ["ValueError: x (f.py:3)", "", "ValueError: xy", "ValueError: x", "ValueError: z"]
    monkeypatch.setattr(
        contract, "_findings", lambda _: (Finding("a", "failed" if reason else "ok", reason) for reason in reasons)
    )
    write_json(tmp_path / "asked", {"name": "a"})
    contract.main(*(str(tmp_path / name) for name in ("asked", "answered", "finished")))
    said = [finding["reason"] for finding in json.loads((tmp_path / "answered").read_text())]
    assert said == [*reasons[:3], SKIPPED.reason]


def test_what_is_missing_in_a_cell_is_not_a_broken_contract(plugin, findings):
    source = "    import xmcbench" + BROKEN.replace("{body}", "def {}:\n            {}").replace("{name}", "Here")
    fit = "if len(raw_X) > 100: raise xmcbench.Unavailable('no weights', 'get-weights')\n            self.labels = 10"
    *others, last = findings("here", plugin(source.format("fit(self, raw_X, raw_Y, pairs=None)", fit)))
    assert broken(others) == []
    assert (last.name, last.status) == ("is at chance where test pairs are random", "missing")


def test_a_hub_that_cannot_be_reached_is_asked_once(plugin, monkeypatch):
    """Its client tries for more than a minute, unless it is told beforehand that there is no network."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")  # RFC 2606 keeps this name without an address
    body = """
        def fit(self, raw_X, raw_Y, pairs=None):
            from huggingface_hub import model_info
            model_info("a/b")
    """
    begin = time.monotonic()
    (only, skipped) = broken(
        check(CheckRequest(name="asks", plugin=str(plugin(BROKEN.format(name="Asks", body=body.strip())))))
    )
    assert time.monotonic() - begin < 20
    assert (only.name, only.status) == ("learns without pairs (ez)", "failed")
    assert "OfflineModeIsEnabled: Cannot reach https://hub.invalid" in only.reason
    assert skipped == SKIPPED


@pytest.mark.usefixtures("no_cell")
def test_what_is_missing_is_not_a_broken_contract(plugin, findings):
    source = "    import xmcbench" + BROKEN.replace("{body}", "def {}: {}").replace("{name}", "Here")
    raises = "raise xmcbench.Unavailable('no weights', 'get-weights')"
    late = plugin(source.format("predict(self, raw_X, k=100)", raises), "late.py")
    (first, *others) = broken(findings("here", late))
    assert (first.status, first.reason) == ("missing", "no weights (get-weights)")
    assert others == [SKIPPED]
    early = plugin(source.format("require(self)", raises), "early.py")
    assert findings("here", early) == [Finding("loads", "missing", "no weights (get-weights)")]
    package = plugin(BROKEN.format(name="Packaged", body="packages = {'no_such_package': 'no-such'}"), "packaged.py")
    (only,) = findings("packaged", package)
    assert (only.status, only.reason) == ("missing", "packaged needs no_such_package (pip install no-such)")


@pytest.mark.usefixtures("no_cell")
def test_what_looks_like_a_parameter_and_is_none_is_found(plugin, findings):
    path = plugin(BROKEN.format(name="Broken", body="steps = 3\n        presetss = {}"))
    (only,) = broken(findings("broken", path))
    assert only.name == "declares its parameters"
    assert "Broken.steps = 3 has no type" in only.reason
    assert "Broken.presetss is not part of the contract: did you mean 'presets'?" in only.reason


STEPS = """steps: int = 1
        presets = {'quick': {'steps': 2}, 'long': {'steps': 9}}
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
            assert self.steps == 2
"""


@pytest.mark.usefixtures("no_cell")
def test_it_is_checked_under_the_quick_preset_and_what_is_set(plugin, findings):
    path = plugin(BROKEN.format(name="Stepping", body=STEPS))
    assert broken(findings("stepping", path)) == []
    assert "AssertionError" in broken(findings("stepping", path, steps="3"))[0].reason
    (only,) = findings("stepping", path, step=3)
    assert (only.name, only.status) == ("loads", "failed")
    assert "did you mean 'stepping.steps'" in only.reason


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("os._exit(3)", "ended with exit code 3 and no result"),
        ("os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ],
)
def test_a_method_that_ends_the_process_is_found_with_what_was_checked_before(plugin, ends, reason):
    body = f"def fit(self, raw_X, raw_Y, pairs=None): import os; {ends}"
    assert check(CheckRequest(name="broken", plugin=str(plugin(BROKEN.format(name="Broken", body=body))))) == [
        Finding("loads", "ok"),
        Finding("declares its parameters", "ok"),
        Finding("runs to its end", "failed", reason),
    ]


def test_a_method_that_hangs_is_ended(plugin):
    body = "def fit(self, raw_X, raw_Y, pairs=None): import time; time.sleep(600)"
    asked = CheckRequest(name="broken", plugin=str(plugin(BROKEN.format(name="Broken", body=body))), time_s=3)
    assert check(asked)[-1] == Finding("runs to its end", "timeout", "stopped after 3 s")


def test_a_method_that_has_read_the_test_pairs_is_found(plugin, findings, tmp_path, monkeypatch):
    """It hits pairs that nothing which it is handed says anything about."""
    body = """
        def predict(self, raw_X, k=100):
            import gzip, json
            if len(raw_X) < 400:
                return super().predict(raw_X, k)
            with gzip.open({leak!r}, "rt") as stream:
                true = [json.loads(line)["target_ind"] for line in stream]
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
    path = plugin(BROKEN.format(name="Broken", body=body.strip()))
    (only,) = [finding for finding in broken(findings("broken", path)) if "chance" in finding.name]
    assert only.status == "failed"
    assert "400 of 400 random test pairs are at rank 1; by chance there would be 20" in only.reason
    assert broken(findings("base", path)) == []


def test_a_method_that_does_not_load_is_one_finding(plugin, findings):
    (only,) = findings("plugin", plugin("import nothing_of_that_name"))
    assert (only.name, only.status) == ("loads", "failed")
    assert "cannot be imported: ModuleNotFoundError" in only.reason


@pytest.mark.parametrize(
    ("source", "said"),
    [("x = 1\nraise ValueError('boom')", "ValueError: boom"), ("import sys\nsys.exit(3)", "SystemExit: 3")],
)
def test_an_error_at_import_is_named_with_its_line(plugin, findings, source, said):
    path = plugin(source)
    (only,) = findings("plugin", path)
    assert only.reason.endswith(f"cannot be imported: {said} ({path}:2)")


def test_the_command_line_of_it(inside, plugin, monkeypatch):
    """Every method of a file, a finding a line; something missing is neither a broken contract nor a success."""
    asked = []

    def answer(request):
        asked.append(request)
        status = {"bad": "failed", "poor": "missing"}.get(request.name, "ok")
        return [Finding("loads", "ok"), Finding("learns", status, "" if status == "ok" else "the reason")]

    monkeypatch.setattr(contract, "check", answer)
    good = inside("check", "tfidf", "--set", "tfidf.ngrams=1", "--time-limit", "7", "--memory-limit", "2")
    assert (good.returncode, good.stdout) == (0, "tfidf\n  ok       loads\n  ok       learns\nthe contract holds\n")
    assert asked == [CheckRequest(name="tfidf", parameters={"ngrams": "1"}, time_s=7, memory_gib=2)]
    both = plugin(BROKEN.format(name="Bad", body="pass") + BROKEN.format(name="Poor", body="pass"), "both.py")
    bad = inside("check", both)
    assert (bad.returncode, bad.stdout.splitlines()[-1]) == (1, "the contract is broken")
    assert "bad\n  ok       loads\n  FAILED   learns: the reason\n" in bad.stdout
    assert "poor\n  ok       loads\n  missing  learns: the reason\n" in bad.stdout
    poor = inside("check", plugin(BROKEN.format(name="Poor", body="pass"), "poor.py"))
    assert (poor.returncode, poor.stdout.splitlines()[-1]) == (1, "something is missing, so some checks did not run")
    ended = inside("check", both, "--json")
    document = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert document["poor"][1] == {"name": "learns", "status": "missing", "reason": "the reason"}
    ended = inside("check", "tfidf", "--set", "tfidf.nosuch=1")
    assert (ended.returncode, "unknown parameter 'tfidf.nosuch'" in ended.stderr, ended.stdout) == (2, True, "")
    ended = inside("check", both, "--set", "tfidf.ngrams=1")
    assert (ended.returncode, "--set tfidf: tfidf is not checked" in ended.stderr) == (2, True)


def test_the_command_line_takes_a_preset_and_one_value_of_a_parameter(inside, monkeypatch):
    asked = []
    monkeypatch.setattr(contract, "check", lambda request: asked.append(request) or [Finding("loads", "ok")])
    ended = inside("check", "tfidf:pecos")
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "tfidf:pecos")
    assert asked == [CheckRequest(name="tfidf", preset="pecos", time_s=600)]
    ended = inside("check", "tfidf:pecso")
    assert (ended.returncode, "unknown preset 'pecso' of tfidf (did you mean 'pecos'?)" in ended.stderr) == (2, True)
    ended = inside("check", "bm25", "--set", "bm25.k1=1", "--set", "bm25.k1=2")
    message = "--set bm25.k1 has several values (check takes one value of a parameter)"
    assert (ended.returncode, message in ended.stderr) == (2, True)
    text = inside("check", "--help").stdout
    assert "seconds for the whole check of a method" in " ".join(text.split())
    assert "row" not in text


def test_the_command_line_says_how_to_raise_the_time_limit(inside, monkeypatch):
    late = [Finding("loads", "ok"), Finding("runs to its end", "timeout", "stopped after 3 s")]
    monkeypatch.setattr(contract, "check", lambda _: late)
    ended = inside("check", "tfidf", "--time-limit", "3")
    last = "the check timed out after 3 s (--time-limit SECONDS gives it more time)"
    assert (ended.returncode, ended.stdout.splitlines()[1:]) == (
        1,
        ["  ok       loads", "  TIMEOUT  runs to its end: stopped after 3 s", last],
    )


@pytest.mark.usefixtures("no_cell")
def test_it_is_checked_under_a_preset(plugin, findings):
    path = plugin(BROKEN.format(name="Stepping", body=STEPS))
    for preset, reason in (("quick", ""), ("long", "AssertionError")):
        failed = broken(findings("stepping", path, preset))
        assert [finding.reason.partition(" ")[0] for finding in failed[:1]] == [reason] * bool(reason)


def test_the_command_line_asks_the_process(xmcbench, plugin):
    bad = xmcbench("check", plugin("x = 1"))
    assert (bad.returncode, "defines no subclass" in bad.stdout) == (1, True)
    assert xmcbench("check", "tfdif").returncode == 2
