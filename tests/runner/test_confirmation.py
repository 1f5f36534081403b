"""Checks: the records that one covers, and what lets them stand."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from xmcbench.environment import Compute, hardware
from xmcbench.plugins.registry import Registry
from xmcbench.records import Staleness, Store
from xmcbench.records.equivalence import FILE, read_file, with_evidence, write_file
from xmcbench.records.ranks import Ranks
from xmcbench.runner.canaries import confirmation
from xmcbench.runner.canaries.cells import canary_folder
from xmcbench.runner.canaries.confirmation import Group, groups
from xmcbench.runner.canaries.outcomes import OUTCOMES, CanaryOutcome, Stored, write_outcomes
from xmcbench.runner.canaries.protocol import (
    PROTOCOL,
    ProtocolOutcome,
    StoredProtocol,
    compare_protocol,
    run_protocol,
    store_protocol,
)
from xmcbench.runner.execution import execute
from xmcbench.runner.target import Target
from xmcbench.setting import Setting

METHOD = """
    import numpy as np
    from xmcbench import Method, TopK

    class Chance(Method):
        title = "Chance"

        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.random.RandomState(self.seed).rand(len(raw_X), self.labels), k)
"""


def test_one_check_covers_the_cells_of_a_method_with_or_without_pairs(record, altered):
    def make(seed, setting, total_s, method="a", **more):
        return altered(record(method, seed, setting=setting, **more), (("measured", "total_s"), total_s))

    ez, fs, full = Setting.of("ez"), Setting.of("fs", 0.1), Setting.of("full")
    slow, quick = make(0, ez, 9.0), make(1, ez, 2.0)
    few, all_pairs = make(0, fs, 5.0), make(0, full, 4.0)
    other = make(0, ez, 1.0, rate=2)
    left_out = [make(2, ez, 1.0, status="failed"), make(3, ez, 1.0, method="today", code="now")]
    staleness = Staleness({"a": "0" * 64, "today": left_out[1].method.source_sha256})
    found = [group.records for group in groups([slow, quick, few, all_pairs, other, *left_out], staleness)]
    assert found == [(quick, slow), (all_pairs, few), (other,)]
    assert Group((quick, slow)).name.endswith("on Tiny, without pairs: 2 records")
    assert Group((all_pairs, few)).name.endswith("on Tiny, with pairs: 2 records")


def test_a_cell_of_this_class_of_machine_is_run_again_before_a_cheaper_one(record, altered):
    here, there = hardware(), msgspec.structs.replace(hardware(), processor="another one")
    older = msgspec.structs.replace(here, processor=here.model, cores=here.cores + 1)

    def make(seed, machine, total_s):
        hardware = (("environment", "hardware"), msgspec.to_builtins(machine))
        return altered(record("a", seed), hardware, (("measured", "total_s"), total_s))

    records = [make(0, there, 1.0), make(1, here, 9.0), make(2, here, 5.0), make(3, there, 0.5), make(4, older, 7.0)]
    (found,) = groups(records, Staleness({"a": "0" * 64}))
    assert [result.cell.seed for result in found.records] == [2, 1, 4, 3, 0]


@pytest.fixture
def group(run_here, plugin, tmp_path):
    """Two records of a method, its registry and the store."""
    file = plugin(METHOD)
    records = run_here(file, methods=["chance"], seeds=(0, 1))
    return Group(tuple(records)), Registry([file]), Store(tmp_path / "runs")


@pytest.fixture
def rerun(tmp_path_factory):
    """Each rerun in a runs folder of its own, as if by a command of its own."""

    def run(group, dataset, store, registry, **options):
        return confirmation.rerun(group, dataset, store, registry, Store(tmp_path_factory.mktemp("fresh")), **options)

    return run


def test_equal_reruns_add_the_source_and_change_no_record(rerun, group, tiny):
    checked, registry, store = group
    before = store.records()
    verdict = rerun(checked, str(tiny), store, registry)
    equal = "100.00% of the ranks are equal, figures differ by at most 0.000 points"
    assert str(verdict) == f"confirmed: {equal}"
    confirmation.record_evidence([replace(verdict, before="1" * 64)], "reruns", store.root)
    first, added = read_file(store.root / FILE)["chance"][0]
    assert (first.source, first.kind) == ("1" * 64, "first")
    assert (added.source, added.kind, added.outcome) == (before[0].method.source_sha256, "reruns", equal)
    assert store.records() == before


def test_one_rerun_that_differs_keeps_the_source_out(rerun, group, tiny):
    checked, registry, store = group
    verdict = rerun(checked, str(tiny), store, registry)
    confirmation.record_evidence([verdict, replace(verdict, is_equal=False)], "reruns", store.root)
    assert read_file(store.root / FILE) == {}


def test_the_cell_runs_as_it_did_then(rerun, group, tiny, monkeypatch):
    """On the device and on as many processes."""
    checked, registry, store = group
    places = []

    def execute_here(planned, place):
        places.append(place)
        return execute(planned, Target(place.store))

    monkeypatch.setattr(confirmation, "execute", execute_here)
    first = checked.records[0]
    environment = msgspec.structs.replace(first.environment, compute=Compute(device="cpu", processes=3))
    first = store.write(msgspec.structs.replace(first, environment=environment))
    assert rerun(Group((first,)), str(tiny), store, registry).is_equal
    environment = msgspec.structs.replace(first.environment, compute=None)
    first = store.write(msgspec.structs.replace(first, environment=environment))
    assert rerun(Group((first,)), str(tiny), store, registry).is_equal
    assert [place.compute for place in places] == [Compute(device="cpu", processes=3), Compute()]


@pytest.mark.parametrize(
    ("tolerated", "rank", "points", "is_equal"),
    [(1.1 / 60, 1, 0.049, True), (0.9 / 60, 1, 0.0, False), (0.0, 0, 0.049, True), (1.0, 1, 0.051, False)],
)
def test_a_result_is_equal_within_the_tolerance(rerun, group, tiny, monkeypatch, tolerated, rank, points, is_equal):
    monkeypatch.setattr(confirmation, "MOST_OTHER_RANKS", tolerated)
    checked, registry, store = group
    record = checked.records[0]
    ranks = store.ranks(record, store.truth(record))
    first = np.arange(len(ranks.by_filter["none"])) < rank
    changed = {name: np.where(first, 100 - numbers, numbers) for name, numbers in ranks.by_filter.items()}
    other = Ranks({name: numbers.astype(np.uint8) for name, numbers in changed.items()}, ranks.seen)
    other.save(store.ranks_path(record.cell))
    facts = msgspec.structs.replace(record.ranks, sha256=other.digest)
    values = {**record.metrics["none"].values, "P@1": record.metrics["none"].values["P@1"] + points / 100}
    metrics = {**record.metrics, "none": msgspec.structs.replace(record.metrics["none"], values=values)}
    first = store.write(msgspec.structs.replace(record, ranks=facts, metrics=metrics))
    verdict = rerun(Group((first, *checked.records[1:])), str(tiny), store, registry)
    assert first.protocol.filter == "none"
    same, differ = f"{100 * (60 - rank) / 60:.2f}%", f"{points:.3f} points"
    assert verdict.outcome.startswith(f"{same} of the ranks are equal, figures differ by at most {differ}")
    assert verdict.is_equal is is_equal


@pytest.mark.parametrize("changed", ["none", "file"])
def test_a_result_that_is_another_under_one_filter_stands_no_more(rerun, run_here, plugin, tiny, tmp_path, changed):
    (tiny / "filter_labels_test.txt").write_text("0 1\n")
    file, store = plugin(METHOD), Store(tmp_path / "runs")
    (record,) = run_here(file, methods=["chance"])
    ranks = store.ranks(record, store.truth(record))
    numbers = ranks.by_filter[changed]
    other = Ranks({**ranks.by_filter, changed: np.where(numbers > 5, 0, numbers)}, ranks.seen)
    other.save(store.ranks_path(record.cell))
    facts = msgspec.structs.replace(record.ranks, sha256=other.digest)
    first = store.write(msgspec.structs.replace(record, ranks=facts))
    verdict = rerun(Group((first,)), str(tiny), store, Registry([file]))
    assert verdict.outcome.startswith(f"{100 * np.mean(numbers <= 5):.2f}% of the ranks are equal")
    assert not verdict.is_equal


def test_a_cell_that_does_not_run_any_more_says_why(rerun, group, tiny, plugin):
    checked, _, store = group
    broken = Registry([plugin(METHOD.replace("self.labels = len(raw_Y)", "raise ValueError('gone')"), "broken.py")])
    assert str(rerun(checked, str(tiny), store, broken)) == "not confirmed: failed: ValueError: gone"


@pytest.fixture
def canary_runs(tmp_path, monkeypatch):
    """Stored outcomes of two methods and of the protocol; what runs now is given: name -> outcomes."""
    stored = {
        "tfidf": {"a": CanaryOutcome(ranks="1 2"), "b": CanaryOutcome(ranks="3")},
        "bm25": {"a": CanaryOutcome(ranks="1")},
    }
    facts = ("1" * 64, "2026-01-02", "P", {})
    write_outcomes(tmp_path / OUTCOMES, {name: Stored(*facts, outcomes) for name, outcomes in stored.items()})
    store_protocol(tmp_path / PROTOCOL)
    monkeypatch.setattr(confirmation, "canary_folder", lambda: tmp_path)
    monkeypatch.setattr(confirmation, "canaries", lambda: [SimpleNamespace(method=name) for name in stored])

    def run(found, names):
        monkeypatch.setattr(confirmation, "run_all", lambda methods, jobs: {name: found[name] for name in methods})
        verdicts = confirmation.run_canaries(dict.fromkeys(names, "2" * 64))
        confirmation.record_evidence(verdicts, "canaries", tmp_path)
        return verdicts

    return run, stored, tmp_path


def test_equal_canaries_add_the_source(canary_runs):
    run, stored, runs = canary_runs
    changed = confirmation.find_changed(Registry(), runs)
    assert changed.keys() == {"tfidf", "bm25"}
    (verdict,) = run(stored, ["tfidf"])
    assert verdict.is_equal
    assert str(verdict) == "confirmed: equal on 2 canaries"
    (listed,) = read_file(runs / FILE)["tfidf"]
    assert [(entry.source, entry.kind, entry.outcome) for entry in listed] == [
        ("1" * 64, "first", ""),
        ("2" * 64, "canaries", "equal on 2 canaries"),
    ]
    write_file(
        runs / FILE, with_evidence({}, "tfidf", "1" * 64, msgspec.structs.replace(listed[1], source=changed["tfidf"]))
    )
    assert confirmation.find_changed(Registry(), runs).keys() == {"bm25"}


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (CanaryOutcome(ranks="2 1"), "a: 2 ranks of 2"),
        (CanaryOutcome(status="skipped", reason="no torch"), "a: skipped: no torch"),
        (CanaryOutcome(status="failed", reason="ValueError: no"), "a: it failed: ValueError: no"),
    ],
)
def test_a_canary_that_differs_or_did_not_run_keeps_the_source_out(canary_runs, outcome, problem):
    run, stored, runs = canary_runs
    (verdict,) = run({"tfidf": {**stored["tfidf"], "a": outcome}}, ["tfidf"])
    assert not verdict.is_equal
    assert str(verdict) == f"not confirmed: {problem}"
    assert read_file(runs / FILE) == {}


def test_ranks_and_metrics_are_confirmed_by_themselves(canary_runs, monkeypatch):
    run, _, _ = canary_runs
    assert [str(verdict) for verdict in run({}, ["ranks", "metrics"])] == ["confirmed: equal on 1 canary"] * 2
    right = run_protocol()
    figures = {name: dict(values) for name, values in right.figures.items()}
    figures["self"]["P@1"] = [0.5, 0.4, 0.6]
    monkeypatch.setattr(confirmation, "run_protocol", lambda: ProtocolOutcome(right.ranks, figures))
    ranks, metrics = sorted(run({}, ["ranks", "metrics"]), key=lambda verdict: verdict.method, reverse=True)
    assert ranks.is_equal
    assert "P@1 under the filter self" in str(metrics)
    others = {**right.ranks, "file": right.ranks["none"]}
    monkeypatch.setattr(confirmation, "run_protocol", lambda: ProtocolOutcome(others, right.figures))
    (ranks,) = run({}, ["ranks"])
    assert str(ranks) == "not confirmed: ranks under the filter file"


def test_the_protocol_of_today_gives_the_stored_outcome():
    stored = StoredProtocol.read(canary_folder() / PROTOCOL)
    assert compare_protocol(stored.outcome, run_protocol()) == {"ranks": [], "metrics": []}


SHARING = METHOD.replace(
    "self.labels = len(raw_Y)",
    """self.labels = len(raw_Y)
            made = self.artifacts.get("drawn", {}, lambda folder: (folder / "it").write_bytes(os.urandom(8)))
            self.notes["drawn"] = (made / "it").read_bytes().hex()""",
).replace("import numpy as np", "import os\n    import numpy as np")


def test_what_one_cell_makes_another_uses(run_here, plugin, tmp_path, tiny):
    """As in one run, but nothing of the stored results is used."""
    file = plugin(SHARING)
    records = run_here(file, methods=["chance"], seeds=(0, 1))
    store, fresh = Store(tmp_path / "runs"), Store(tmp_path / "fresh")
    for record in records:
        assert confirmation.rerun(Group((record,)), str(tiny), store, Registry([file]), fresh).is_equal
    before, after = ({result.notes["drawn"] for result in found.records()} for found in (store, fresh))
    assert len(before) == len(after) == 1
    assert before != after
