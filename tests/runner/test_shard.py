"""Parts of a plan on one folder: shards, pre-trainings ahead of the cells, and what one run leaves to another."""

import pytest

from xmcbench import UsageError
from xmcbench.display import execute_shown
from xmcbench.environment import Compute
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner import schedule
from xmcbench.runner.execution import execute
from xmcbench.runner.executors.local import Local
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.plan import plan
from xmcbench.runner.pretraining import pretrain
from xmcbench.runner.schedule import Shard, pretraining_key, waits_for_parts
from xmcbench.runner.target import Target
from xmcbench.setting import Setting
from xmcbench.storage.locks import Heartbeat

PLUGIN = """
    from pathlib import Path
    import numpy as np
    from xmcbench import Method, TopK

    class Learner(Method):
        noted: str = "."
        def inputs(self):
            return {}  # it writes there
        def pretrain(self, raw_X, raw_Y):
            with open(Path(self.noted) / "pretrained", "a") as stream:
                print(self.seed, file=stream)
            return {"scores": np.random.RandomState(self.seed).rand(len(raw_Y))}
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.pretrained["scores"], (len(raw_X), 10)), k)

    class Failing(Learner):
        def pretrain(self, raw_X, raw_Y):
            super().pretrain(raw_X, raw_Y)
            raise ValueError("no luck")

    class Plain(Learner):
        ...

    class Whole(Plain):
        def uses(self):
            return ("plain",)

    class Fixed(Plain):
        supervision = "unused"
        deterministic = True

    class OnFixed(Plain):
        def uses(self):
            return ("fixed",)
"""
EZ, HALF, FULL = Setting.of("ez"), Setting.of("fs", 0.5), Setting.of("full")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture
def planned(tiny, plugin, tmp_path, store):
    registry = Registry([plugin(PLUGIN)])

    def make(methods, seeds=(0, 1), settings=(EZ, HALF, FULL), told=True):
        """told: whether the methods get a folder to note their pre-trainings in; a part has its defaults."""
        noted = {name: {"noted": str(tmp_path)} for name in methods} if told else {}
        return plan(requests_of([Grid([str(tiny)], settings, methods, None, noted, seeds)]), registry, store)

    return make


def read_pretrained(tmp_path):
    return (tmp_path / "pretrained").read_text().split()


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_every_cell_is_in_one_shard(planned, parts):
    made = planned(["learner"], seeds=range(8))
    shards = [Shard(number, parts).of(made) for number in range(1, parts + 1)]
    keys = [cell.cell.key for shard in shards for cell in shard.cells]
    assert sorted(keys) == sorted(cell.cell.key for cell in made.cells)
    again = Shard(1, parts).of(planned(["learner"], seeds=range(4, 12)))
    assert {cell.cell.key for cell in again.cells} & set(keys) <= {cell.cell.key for cell in shards[0].cells}


@pytest.mark.parametrize("number", [1, 2])
def test_a_method_is_in_a_shard_with_its_parts(planned, number):
    """Another shard may have them too; they run in one. Without this they would be trained in both."""
    made = planned(["whole", "plain", "learner"], seeds=range(8), told=False)
    of = Shard(number, 2).of(made)
    own = [cell for cell in made.cells if int(cell.cell.key[:12], 16) % 2 == number - 1]
    wholes = [cell.cell for cell in own if cell.cell.method == "whole"]
    parts = {(cell.cell.setting, cell.cell.seed) for cell in of.cells if cell.cell.method == "plain"}
    assert wholes
    assert {(cell.setting, cell.seed) for cell in wholes} <= parts
    more = [cell for cell in of.cells if cell not in own]
    assert more
    assert {(cell.cell.setting, cell.cell.seed) for cell in more} <= {(cell.setting, cell.seed) for cell in wholes}
    assert {cell.cell.method for cell in more} == {"plain"}
    assert of.cells == [cell for cell in made.cells if cell in of.cells]


def test_a_part_that_neither_pairs_nor_a_seed_change_is_one_of_every_seed(planned):
    made = planned(["fixed", "on-fixed", "plain"], seeds=(1, 2), settings=(HALF,), told=False)
    fixed, *wholes, plain, _ = made.cells
    assert [cell.cell.seed for cell in (fixed, *wholes)] == [1, 1, 2]
    assert all(waits_for_parts(whole, [fixed]) for whole in wholes)
    assert not any(waits_for_parts(whole, [plain]) for whole in wholes)
    for number in (1, 2):
        of = Shard(number, 2).of(made).cells
        assert fixed in of or not any(whole in of for whole in wholes)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2"])
def test_what_is_no_shard(text):
    with pytest.raises(UsageError, match="is not I/N"):
        Shard.parse(text)
    assert [Shard.parse(spec) for spec in ("2/3", "3/3", "1/1")] == [Shard(2, 3), Shard(3, 3), Shard(1, 1)]


def test_pretrainings_ahead_are_done_once_and_found(planned, store, at_hand, tmp_path):
    seen = []
    made = planned(["learner"])
    found = pretrain(
        made, Target(store), lambda cell, place, ended: seen.append((cell.cell.seed, place, ended and ended.ok))
    )
    assert seen == [(0, 0, None), (0, 0, True), (1, 1, None), (1, 1, True)]
    assert read_pretrained(tmp_path) == ["0", "1"]
    assert all(ended.took_s > 0 for ended in found)
    assert not [*(store.root / "records").rglob("*.json")]
    assert all(ended.ok for ended in pretrain(made, Target(store)))
    records = execute(made, Target(store))
    assert {record.status for record in records} == {"ok"}
    assert read_pretrained(tmp_path) == ["0", "1"]
    assert all(record.measured.reused_s > 0 for record in records)


def test_a_pretraining_that_fails_says_why(planned, store, at_hand, tmp_path):
    ok, failed = pretrain(planned(["learner", "failing"], seeds=[0]), Target(store))
    assert (ok.ok, failed.ok) == (True, False)
    assert failed.reason == "ValueError: no luck"
    assert failed.log.exists()
    assert read_pretrained(tmp_path) == ["0", "0"]  # one each
    assert not [*store.artifacts.rglob("*.claim")]


def test_what_another_run_pretrains_is_waited_for_ahead_of_the_cells(planned, store, at_hand, monkeypatch):
    made = planned(["learner", "plain"], seeds=[0], settings=[EZ])
    other = store.pretraining_claim(pretraining_key(made.cells[0]))
    other.__enter__()
    order = []

    def progress(cell, position, ended):
        order.append((cell.cell.method, ended and ended.ok))
        if order == [("plain", None), ("plain", True)]:
            other.__exit__()

    monkeypatch.setattr(schedule, "_LEAST_S", 0.01)
    pretrain(made, Target(store), progress)
    assert order == [("plain", None), ("plain", True), ("learner", None), ("learner", True)]
    assert not [*store.root.rglob("*.claim")]


def test_what_another_run_pretrains_is_waited_for(planned, store, at_hand, monkeypatch):
    """Its claim is asked for again; meanwhile other cells run."""
    made = planned(["learner", "plain"], seeds=[0], settings=[EZ])
    learner, plain = made.cells
    assert pretraining_key(learner) != pretraining_key(plain)
    other = store.pretraining_claim(pretraining_key(learner))
    other.__enter__()
    order = []

    def progress(cell, position, record):
        order.append((cell.cell.method, record and record.status))
        if order == [("plain", None), ("plain", "ok")]:
            other.__exit__()

    monkeypatch.setattr(schedule, "_LEAST_S", 0.01)
    execute(made, Target(store), progress)
    assert [name for name, _ in order] == ["plain", "plain", "learner", "learner"]
    assert not [*store.root.rglob("*.claim")]


@pytest.mark.parametrize("removed", [False, True])
def test_a_finished_cell_that_another_run_holds_is_shown_only_if_it_runs(
    planned, store, at_hand, altered, monkeypatch, capsys, removed
):
    """Both runs compute its figures again; or the other one has removed its record."""
    of = {"methods": ["learner"], "seeds": [0], "settings": [EZ]}
    (record,) = execute(planned(**of), Target(store))
    store.write(altered(record, (("protocol", "source_sha256"), "0" * 64)))
    made, claim = planned(**of), store.claim(record.cell)
    claim.__enter__()

    def release(*_):
        claim.__exit__()
        if removed:
            store.record_path(record.cell).unlink()

    monkeypatch.setattr(schedule.Backoff, "fail", release)
    (found,) = execute_shown(made, Target(store))
    assert found.protocol == record.protocol
    assert (found.measured == record.measured) is not removed
    lines = [line.partition(": ")[2].split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == (["started", "ok"] if removed else [])


def test_a_cell_that_was_lost_is_left_to_who_has_it(planned, store, at_hand, monkeypatch):
    """The process was stopped for long: another run took the cell over, and its record is taken."""
    made = planned(["learner"], seeds=[0], settings=[EZ])
    (theirs,) = execute(made, Target(store, compute=Compute(threads=1)))
    store.record_path(theirs.cell).unlink()
    claim, taken = store.claim(made.cells[0].cell), []

    def is_ours(self):
        if self.path == claim.path and not taken:
            taken.append(store.write(theirs))
            return False
        return True

    monkeypatch.setattr(type(claim), "is_ours", is_ours)
    monkeypatch.setattr(Heartbeat, "start", lambda *_: None)  # it asks too, whenever its time comes
    monkeypatch.setattr(schedule, "_LEAST_S", 0.01)
    (record,) = execute(made, Target(store))
    assert record == taken[0]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_cell_that_was_lost_is_recorded_unless_somebody_else_did(
    planned, store, at_hand, monkeypatch, tmp_path, recorded
):
    """Whoever took the cell over has ended since, with a record or without."""
    made = planned(["learner"], seeds=[0], settings=[EZ])
    (theirs,) = execute(made, Target(store, compute=Compute(threads=1)))
    store.record_path(theirs.cell).unlink()
    claim, lost = store.claim(made.cells[0].cell), []

    def is_ours(self):
        if self.path == claim.path and not lost:
            lost.append(self.path.unlink())
            if recorded:
                store.write(theirs)
            return False
        return True

    started = []
    monkeypatch.setattr(type(claim), "is_ours", is_ours)
    monkeypatch.setattr(Heartbeat, "start", lambda *_: None)
    monkeypatch.setattr(schedule, "_LEAST_S", 0.01)
    (record,) = execute(made, Target(store), lambda cell, place, ended: started.append(ended))
    assert (record.measured == theirs.measured) is recorded
    assert started.count(None) == 1, "the cell ran once"


def test_claims_are_given_back_when_pretraining_is_interrupted(planned, store, at_hand, monkeypatch):
    made = planned(["learner"], seeds=[0])

    def interrupt(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Local, "watch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, Target(store))
    assert not [*store.root.rglob("*.claim")]
