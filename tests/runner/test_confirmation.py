"""Which records one check covers, and what lets them stand."""

import shutil

import msgspec
import numpy as np
import pytest

from xmcbench.environment import Compute, hardware
from xmcbench.plugins.registry import Registry
from xmcbench.records import Standing, Store
from xmcbench.records.ranks import Ranks
from xmcbench.runner import confirmation
from xmcbench.runner.confirmation import Group, Verdict, groups
from xmcbench.runner.execution import execute
from xmcbench.runner.place import Place
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


@pytest.mark.parametrize(
    ("same_ranks", "largest_change", "stands"),
    [(1.0, 0.0, True), (0.999, 0.0005, True), (0.9989, 0.0, False), (1.0, 0.000501, False)],
)
def test_a_result_stands_within_the_tolerance(same_ranks, largest_change, stands):
    assert Verdict(Group(()), same_ranks, largest_change).stands is stands
    assert not Verdict(Group(()), problem="it did not run").stands


def test_one_check_covers_the_cells_of_a_method_with_or_without_pairs(record, altered):
    def made(seed, setting, total_s, method="a", **more):
        return altered(record(method, seed, setting=setting, **more), (("measured", "total_s"), total_s))

    ez, fs, full = Setting.of("ez"), Setting.of("fs", 0.1), Setting.of("full")
    slow, quick = made(0, ez, 9.0), made(1, ez, 2.0)
    few, all_pairs = made(0, fs, 5.0), made(0, full, 4.0)
    other = made(0, ez, 1.0, rate=2)
    left_out = [made(2, ez, 1.0, status="failed"), made(3, ez, 1.0, method="today", code="now")]
    standing = Standing({"a": "0" * 64, "today": left_out[1].method.source_sha256})
    found = [group.records for group in groups([slow, quick, few, all_pairs, other, *left_out], standing)]
    assert found == [(quick, slow), (all_pairs, few), (other,)]
    assert Group((quick, slow)).name.endswith("on Tiny, without pairs: 2 records")
    assert Group((all_pairs, few)).name.endswith("on Tiny, with pairs: 2 records")


def test_a_cell_of_this_class_of_machine_is_run_again_before_a_cheaper_one(record, altered):
    here, there = hardware(), msgspec.structs.replace(hardware(), processor="another one")
    older = msgspec.structs.replace(here, processor=here.model, cores=here.cores + 1)

    def made(seed, machine, total_s):
        hardware = (("environment", "hardware"), msgspec.to_builtins(machine))
        return altered(record("a", seed), hardware, (("measured", "total_s"), total_s))

    records = [made(0, there, 1.0), made(1, here, 9.0), made(2, here, 5.0), made(3, there, 0.5), made(4, older, 7.0)]
    (found,) = groups(records, Standing({"a": "0" * 64}))
    assert [each.cell.seed for each in found.records] == [2, 1, 4, 3, 0]


@pytest.fixture
def group(run_here, plugin, tmp_path):
    """Two records of a method, its registry and the store."""
    file = plugin(METHOD)
    records = run_here(file, methods=["chance"], seeds=(0, 1))
    return Group(tuple(records)), Registry([file]), Store(tmp_path / "runs")


@pytest.fixture
def confirm(tmp_path_factory):
    """Each check in a runs folder of its own, as if by a command of its own."""

    def check(group, dataset, store, registry, **options):
        return confirmation.confirm(group, dataset, store, registry, Store(tmp_path_factory.mktemp("fresh")), **options)

    return check


def test_a_check_is_written_into_all_that_it_covers(confirm, group, tiny):
    checked, registry, store = group
    verdict = confirm(checked, str(tiny), store, registry)
    assert (verdict.same_ranks, verdict.largest_change, verdict.problem) == (1.0, 0.0, "")
    for record in store.records():
        (check,) = record.checks
        assert (check.key, check.same_ranks, check.largest_change) == (checked.records[0].key, 1.0, 0.0)
        assert check.source_sha256 == record.method.source_sha256


def test_the_cell_runs_as_it_did_then(confirm, group, tiny, monkeypatch):
    """On the device and on as many processes."""
    checked, registry, store = group
    places = []

    def executed(planned, place):
        places.append(place)
        return execute(planned, Place(place.store))

    monkeypatch.setattr(confirmation, "execute", executed)
    first = checked.records[0]
    environment = msgspec.structs.replace(first.environment, compute=Compute(device="cpu", processes=3))
    first = store.write(msgspec.structs.replace(first, environment=environment))
    assert confirm(Group((first,)), str(tiny), store, registry).stands
    environment = msgspec.structs.replace(first.environment, compute=None)
    first = store.write(msgspec.structs.replace(first, environment=environment))
    assert confirm(Group((first,)), str(tiny), store, registry).stands
    assert [place.compute for place in places] == [Compute(device="cpu", processes=3), Compute()]


def test_a_result_that_is_another_stands_no_more(confirm, group, tiny):
    checked, registry, store = group
    record = checked.records[0]
    ranks = store.ranks(record, store.truth(record))
    changed = {name: np.where(np.arange(len(each)) == 0, 100 - each, each) for name, each in ranks.by_filter.items()}
    other = Ranks({name: each.astype(np.uint8) for name, each in changed.items()}, ranks.seen)
    other.save(store.ranks_path(record.cell))
    facts = msgspec.structs.replace(record.ranks, sha256=other.digest)
    values = {**record.metrics["none"].values, "P@1": record.metrics["none"].values["P@1"] + 0.25}
    metrics = {**record.metrics, "none": msgspec.structs.replace(record.metrics["none"], values=values)}
    first = store.write(msgspec.structs.replace(record, ranks=facts, metrics=metrics))
    verdict = confirm(Group((first, *checked.records[1:])), str(tiny), store, registry)
    assert verdict.same_ranks == pytest.approx(59 / 60)
    assert verdict.largest_change == pytest.approx(0.25 if first.protocol.filter == "none" else 0.0)
    assert not verdict.stands
    assert not any(each.checks for each in store.records())


@pytest.mark.parametrize("changed", ["none", "file"])
def test_a_result_that_is_another_under_one_filter_stands_no_more(confirm, run_here, plugin, tiny, tmp_path, changed):
    (tiny / "filter_labels_test.txt").write_text("0 1\n")
    file, store = plugin(METHOD), Store(tmp_path / "runs")
    (record,) = run_here(file, methods=["chance"])
    ranks = store.ranks(record, store.truth(record))
    each = ranks.by_filter[changed]
    other = Ranks({**ranks.by_filter, changed: np.where(each > 5, 0, each)}, ranks.seen)
    other.save(store.ranks_path(record.cell))
    facts = msgspec.structs.replace(record.ranks, sha256=other.digest)
    first = store.write(msgspec.structs.replace(record, ranks=facts))
    verdict = confirm(Group((first,)), str(tiny), store, Registry([file]))
    assert verdict.same_ranks == pytest.approx(np.mean(each <= 5))
    assert not verdict.stands


def test_a_cell_that_does_not_run_any_more_says_why(confirm, group, tiny, plugin):
    checked, _, store = group
    broken = Registry([plugin(METHOD.replace("self.labels = len(raw_Y)", "raise ValueError('gone')"), "broken.py")])
    assert confirm(checked, str(tiny), store, broken).problem == "failed: ValueError: gone"


@pytest.fixture
def elsewhere(group):
    """The group as another machine would have made it: with other ranks and figures."""
    checked, registry, store = group
    made = []
    for record in checked.records:
        ranks = store.ranks(record, store.truth(record))
        other = Ranks({name: np.where(each > 5, 0, each) for name, each in ranks.by_filter.items()}, ranks.seen)
        other.save(store.ranks_path(record.cell))
        facts = msgspec.structs.replace(record.ranks, sha256=other.digest)
        made.append(store.write(msgspec.structs.replace(record, ranks=facts)))
    return Group(tuple(made)), registry, store


@pytest.fixture
def reference(group, tmp_path):
    """What the older code gives here, for the second cell of the group alone; to be asked for before ``elsewhere``."""
    checked, _, store = group
    shutil.copytree(store.root, tmp_path / "older")
    older = Store(tmp_path / "older")
    older.record_path(checked.records[0].cell).unlink()
    return older


def test_a_result_from_another_machine_is_compared_with_one_of_this_machine(confirm, reference, elsewhere, tiny):
    """The cell that the reference has is run, though it is not the cheapest."""
    checked, registry, store = elsewhere
    assert not confirm(checked, str(tiny), store, registry).stands
    verdict = confirm(checked, str(tiny), store, registry, reference=reference)
    assert (verdict.same_ranks, verdict.largest_change) == (1.0, 0.0)
    for record in store.records():
        (check,) = record.checks
        assert check.key == checked.records[1].key
        assert check.machine == record.environment.hardware.kind


def test_a_reference_by_other_code_is_not_used(confirm, reference, elsewhere, tiny):
    checked, registry, store = elsewhere
    for record in reference.records():
        method = msgspec.structs.replace(record.method, source_sha256="0" * 64)
        reference.write(msgspec.structs.replace(record, method=method))
    assert not confirm(checked, str(tiny), store, registry, reference=reference).stands


def test_what_somebody_else_recorded_meanwhile_stays_as_it_is(confirm, group, tiny, monkeypatch):
    checked, registry, store = group
    theirs = []

    def executed(planned, place):
        if not theirs:
            measured = msgspec.structs.replace(checked.records[1].measured, total_s=12345.0)
            theirs.append(store.write(msgspec.structs.replace(checked.records[1], measured=measured)))
        return execute(planned, place)

    monkeypatch.setattr(confirmation, "execute", executed)
    assert confirm(checked, str(tiny), store, registry).stands
    assert store.find(checked.records[0].cell).checks
    assert store.find(checked.records[1].cell) == theirs[0]


def test_a_check_against_the_record_itself_names_no_machine(confirm, group, tiny, tmp_path):
    checked, registry, store = group
    assert confirm(checked, str(tiny), store, registry, reference=Store(tmp_path / "none")).stands
    assert [each.checks[0].machine for each in store.records()] == [None, None]


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
        assert confirmation.confirm(Group((record,)), str(tiny), store, Registry([file]), fresh).stands
    before, after = ({each.notes["drawn"] for each in found.records()} for found in (store, fresh))
    assert len(before) == len(after) == 1
    assert before != after
