"""Cells at once: what each is told, what waits for what, and what this machine has room for."""

import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from xmcbench import UsageError
from xmcbench.environment import Compute
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import Ending
from xmcbench.progress import Report
from xmcbench.records import Store
from xmcbench.runner import execution, schedule, target
from xmcbench.runner.execution import execute
from xmcbench.runner.executors import local, process
from xmcbench.runner.executors.base import Ended, Needs, Room, Task
from xmcbench.runner.executors.local import Capacity, Local
from xmcbench.runner.grid import Grid, requests_of
from xmcbench.runner.job import Outcome
from xmcbench.runner.plan import plan
from xmcbench.runner.schedule import capacity, jobs_of, needs_of, pretraining_key
from xmcbench.runner.target import Target
from xmcbench.setting import Setting

PLUGIN = """
    from xmcbench import Method, TopK

    class Plain(Method):
        supervision = "unused"
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...

    class Counted(Plain):
        packages = {"numba": "numba"}

    class Trained(Plain):
        needs = {"cores": 3, "gpu": 1}
        supervision = "optional"
        def pretrain(self, raw_X, raw_Y): ...

    class Whole(Plain):
        part: str = "plain"
        presets = {"alone": {"part": "plain"}}
        def uses(self):
            return (self.part,)

    class Twin(Whole):
        ...
"""
EZ, HALF, FULL = Setting.of("ez"), Setting.of("fs", 0.5), Setting.of("full")
GONE = Ending(1, False, False, 0)


class Stage:
    """An executor on which a test ends cells, or says how far they are."""

    def __init__(self, *_):
        self.tasks, self.reports, self.started, self.most, self.canceled = {}, {}, [], 0, []
        self.script, self.hosts = iter(()), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.canceled += self.tasks

    room = Room(8, 8, 2)

    def fits(self, needs):
        return True

    def host(self, key):
        return "" if self.hosts is None else self.hosts.get(key)

    def submit(self, task):
        self.tasks[task.key] = task
        self.started.append(task)
        self.most = max(self.most, len(self.tasks))

    def report(self, key):
        return self.reports.get(key)

    def watch(self, timeout_s, files=()):
        """Do the next step of the script; without one, end the oldest."""
        step = next(self.script, None)
        if step is not None and (found := step(self)) is not None:
            return found
        return [self.end(next(iter(self.tasks)))] if self.tasks and step is None else []

    def end(self, key):
        return Ended(self.tasks.pop(key), Outcome(status="failed", reason="no"), GONE)


@pytest.fixture
def registry(plugin):
    return Registry([plugin(PLUGIN)])


@pytest.fixture
def staged(tiny, registry, tmp_path, monkeypatch):
    """Run grids on a stage, following a script; returns the stage, the cells and the records."""

    def run(*grids, jobs=1, script=(), hosts=None, **more):
        stage = Stage()
        stage.script, stage.hosts = iter(script), hosts
        monkeypatch.setattr(target, "Local", lambda _: stage)
        made = plan(requests_of(grids), registry, Store(tmp_path / "runs"))
        return stage, made.cells, execute(made, Target(Store(tmp_path / "runs"), jobs=jobs, **more))

    return run


def test_so_many_at_once_and_each_ends_once(staged, tiny):
    grid = Grid([str(tiny)], [EZ], ["plain"], seeds=range(5))
    for jobs in (1, 3):
        stage, cells, records = staged(grid, jobs=jobs)
        assert stage.most == jobs
        assert [task.key for task in stage.started] == [cell.cell.key for cell in cells]
        assert [record.key for record in records] == [cell.cell.key for cell in cells]
        neighbors = {record.measured.neighbors for record in records}
        assert neighbors == ({0} if jobs == 1 else {2})
        assert {record.environment.compute.threads for record in records} == {
            task.needs.threads for task in stage.started
        }
    assert not stage.canceled


def test_cells_at_once_are_known_by_the_memory_that_others_took(staged, tiny, record, altered, monkeypatch):
    earlier = altered(record(), (("measured", "peak_memory_bytes"), 7))
    monkeypatch.setattr(
        execution, "similar_records", lambda cells, store: dict.fromkeys((cell.cell.key for cell in cells), earlier)
    )
    for jobs, expected in ((1, 0), (2, 7)):
        stage, *_ = staged(Grid([str(tiny)], [EZ], ["plain"], seeds=[jobs]), jobs=jobs)
        assert [task.needs.memory_bytes for task in stage.started] == [expected]


def test_a_cell_is_told_what_it_and_its_parts_import(staged, tiny):
    parts = {"whole": {"part": ["plain", "counted"]}}
    stage, *_ = staged(Grid([str(tiny)], [EZ], ["plain", "counted", "whole"], overrides=parts))
    told = {(task.job.method, task.job.parameters.get("part")): "numba" in task.job.imports for task in stage.started}
    assert told == {
        ("plain", None): False,
        ("counted", None): True,
        ("whole", "plain"): False,
        ("whole", "counted"): True,
    }


def test_a_shared_pretraining_is_waited_for(staged, tiny):
    """The first cell trains; the others start when it is past that, or has ended. Cells of other seeds do not wait."""
    seen = []

    def look(stage):
        seen.append(len(stage.started))
        return []

    def says(phase):
        def step(stage):
            stage.reports[stage.started[0].key] = Report(phase)
            return look(stage)

        return step

    script = [look, says("pretrain"), says("fit"), look]
    grid = Grid([str(tiny)], [EZ, HALF, FULL], ["trained"], seeds=[0, 1])
    stage, cells, _ = staged(grid, jobs=6, script=script)
    assert seen == [2, 2, 2, 4]  # the two seeds; then the others of the first seed
    firsts = [task.key for task in stage.started[:2]]
    assert firsts == [cell.cell.key for cell in cells[:2]]

    def fails(stage):
        return [stage.end(stage.started[0].key)]

    seen.clear()
    staged(Grid([str(tiny)], [EZ, HALF, FULL], ["trained"], seeds=[2]), jobs=6, script=[look, fails, look])
    assert seen == [1, 2]  # it failed: the next one trains, and the third waits for that


def test_a_part_is_waited_for(staged, tiny):
    seen = []

    def look(stage):
        seen.append([task.job.method for task in stage.started])
        return []

    grid = Grid([str(tiny)], [EZ, HALF], ["whole", "plain"])
    stage, *_ = staged(grid, jobs=4, script=[look, lambda stage: [stage.end(stage.started[0].key)], look])
    assert seen == [["plain", "plain"], ["plain", "plain", "whole"]]
    (whole, other) = [task for task in stage.started if task.job.method == "whole"]
    assert whole.job.pairs is None  # that of the part that ended first
    assert other.job.pairs is not None


def test_two_methods_that_are_parts_of_each_other_do_not_wait_forever(staged, tiny):
    """Each uses the other one with parameters that end the chain, so neither cell is a part of the other."""
    mutual = {"whole": {"part": "twin:alone"}, "twin": {"part": "whole:alone"}}
    stage, *_ = staged(Grid([str(tiny)], [EZ], ["whole", "twin"], None, mutual), jobs=1)
    assert [task.job.method for task in stage.started] == ["whole", "twin"]


def test_a_part_with_other_parameters_is_not_waited_for(staged, tiny):
    values = {"whole": {"part": "twin:alone"}, "twin": {"part": "counted"}}
    seen = []

    def look(stage):
        seen.append(len(stage.started))
        return []

    staged(Grid([str(tiny)], [EZ], ["whole", "twin"], None, values), jobs=4, script=[look])
    assert seen == [2]


def test_cells_that_wait_for_one_pretraining_ask_for_it_once(staged, tiny, tmp_path, monkeypatch):
    """Another run does it. A thousand cells would keep a shared folder busy."""
    monkeypatch.setattr(schedule, "_LEAST_S", 1000.0)
    asked, store = [], Store(tmp_path / "runs")
    claim_of = Store.pretraining_claim
    monkeypatch.setattr(Store, "pretraining_claim", lambda self, key: asked.append(key) or claim_of(self, key))

    def interrupt(stage):
        raise KeyboardInterrupt

    grid = Grid([str(tiny)], [EZ, HALF, FULL], ["trained"])
    with ExitStack() as others:
        for planned in plan(requests_of([grid]), Registry([tmp_path / "plugin.py"]), store).cells[:1]:
            others.enter_context(claim_of(store, pretraining_key(planned)))
        with pytest.raises(KeyboardInterrupt):
            staged(grid, jobs=6, script=[*[lambda _: []] * 5, interrupt])
    assert len(asked) == 1


def test_what_others_have_keeps_no_cell_from_running(staged, tiny, tmp_path, monkeypatch):
    """Nor does a long row of questions in vain keep a run from what it has to look after."""
    monkeypatch.setattr(execution, "MOST_FAILED", 2)
    store, seen = Store(tmp_path / "runs"), []
    grid = Grid([str(tiny)], [EZ], ["plain"], seeds=range(6))
    cells = plan(requests_of([grid]), Registry([tmp_path / "plugin.py"]), store).cells
    with ExitStack() as others:
        for planned in cells[:5]:
            others.enter_context(store.claim(planned.cell))

        def look(stage):
            seen.append([task.job.seed for task in stage.started])
            if len(seen) == 3:
                monkeypatch.setattr(schedule, "_LEAST_S", 0.0)
                others.close()
            return []

        staged(grid, jobs=6, script=[look, look, look])
    assert seen == [[], [], [5]]


def test_ctrl_c_cancels_what_runs_and_leaves_nothing(staged, tiny, tmp_path, monkeypatch):
    def interrupt(stage):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        staged(
            Grid([str(tiny)], [EZ], ["plain"], seeds=range(3)),
            jobs=2,
            script=[lambda s: [s.end(s.started[0].key)], interrupt],
        )
    runs = tmp_path / "runs"
    assert len(list(runs.rglob("records/**/*.json"))) == 1
    assert not Store(runs).stagings()


def test_what_other_cells_leave_is_hidden(staged, tiny, tmp_path):
    """A cell that is scored while another one runs has the true pairs beside its predictions."""
    stage, *_ = staged(Grid([str(tiny)], [EZ], ["plain"], seeds=[0, 1]), jobs=2)
    first, second = (task.job for task in stage.started)
    inside = [path for path in second.hidden if first.predictions.startswith(path)]
    assert len(inside) == 1


def cells_of(tiny, registry, tmp_path, **grid):
    return plan(requests_of([Grid([str(tiny)], [EZ], **grid)]), registry, Store(tmp_path / "runs")).cells


@pytest.fixture
def machine(monkeypatch):
    """A machine of 8 cores and 2 GPUs."""
    for name, value in (("machine_cores", 8), ("accelerators", ("A", "A"))):
        monkeypatch.setattr(schedule, name, lambda value=value: value)
    return monkeypatch


def test_cores_gpus_and_memory_of_a_cell(machine, tiny, registry, tmp_path, record):
    plain, trained = cells_of(tiny, registry, tmp_path, methods=["plain", "trained"])
    room = Room(8, 8, 2)
    assert [jobs_of("auto", cells, room) for cells in ([plain], [plain, trained])] == [8, 2]
    assert jobs_of("auto", [plain], Room(24, 8, 0)) == 24
    assert jobs_of(5, [], room) == 5
    with pytest.raises(UsageError, match="--jobs 0 must be at least 1"):
        jobs_of(0, [], room)
    assert needs_of(plain, 2, Compute(), None, room) == Needs(4, 0, 0)
    assert needs_of(plain, 8, Compute(), record(), room) == Needs(1, 0, 2**30)
    assert needs_of(trained, 8, Compute(), None, room) == Needs(3, 1, 0)
    assert needs_of(trained, 8, Compute("cpu"), None, room) == Needs(3, 0, 0)
    assert needs_of(trained, 8, Compute("cuda", 4), None, room) == Needs(3, 2, 0)
    assert needs_of(trained, 8, Compute(), None, Room(8, 8, 0)) == Needs(3, 0, 0)
    assert needs_of(trained, 8, Compute(threads=5), None, room).threads == 5
    assert needs_of(plain, 1, Compute(), None, Room(8, 2, 0)).threads == 2
    assert needs_of(plain, 1, Compute(threads=64), None, room).threads == 8  # those of another machine
    assert needs_of(trained, 8, Compute(), None, Room(8, 2, 0)).threads == 2


def test_capacity(machine):
    assert capacity(2, 1) == Capacity(2, 8, ("0", "1"))
    assert capacity(20, 2, "3, 5") == Capacity(20, 20, ("3", "5", "3", "5"))
    assert capacity(1, 1, "") == Capacity(1, 8, ())
    machine.setattr(schedule, "accelerators", lambda: ())
    assert capacity(1, 1, "0") == Capacity(1, 8, ())


class Process:
    """A supervised process that ends when a test says so."""

    def __init__(self, module, arguments, log, environment, result, *limits):
        self.environment, self.memory_bytes, self.ending, self.pid = environment, 0, None, 0
        Process.made.append(self)

    def look(self):
        return self.ending

    def end(self):
        self.ending = self.ending or GONE
        return self.ending


Process.made = []


def task(key, job, needs):
    return Task(key, job, Path("log"), needs)


@pytest.fixture
def job(staged, tiny):
    stage, *_ = staged(Grid([str(tiny)], [EZ], ["plain"]))
    return stage.started[0].job


def test_room_for_cells(job, monkeypatch):
    monkeypatch.setattr(process, "Supervised", Process)
    monkeypatch.setattr(local, "Servers", lambda: SimpleNamespace(server=lambda *_: None, end=lambda: None))
    monkeypatch.setattr(local, "available_memory", lambda: 10)
    Process.made = []
    with Local(Capacity(4, 8, ("0", "1", "0"))) as here:
        assert here.fits(Needs(99, 9, 999))  # nothing else runs
        here.submit(task("a", job, Needs(4, 1, 6)))
        assert here.fits(Needs(4, 1, 4))
        assert not here.fits(Needs(5, 1, 4))  # cores
        assert not here.fits(Needs(4, 3, 4))  # GPUs
        assert not here.fits(Needs(4, 1, 5))  # memory: six are promised
        Process.made[0].memory_bytes = 5
        assert here.fits(Needs(4, 1, 9))  # of which five are taken already
        here.submit(task("b", job, Needs(1, 2, 0)))
        told = [started.environment.get("CUDA_VISIBLE_DEVICES") for started in Process.made]
        assert told == ["0", "1,0"]
        assert Process.made[0].environment["OMP_NUM_THREADS"] == Process.made[0].environment["NUMBA_NUM_THREADS"] == "4"
        here.submit(task("c", job, Needs()))
        here.submit(task("d", job, Needs()))
        assert not here.fits(Needs(0, 0, 0))  # slots
        Process.made[1].ending = GONE
        (ended,) = here.watch(0.0)
        assert (ended.task.key, ended.outcome, ended.ending) == ("b", None, GONE)
        folders = [started.environment["TMPDIR"] for started in Process.made]
    assert all(started.ending for started in Process.made)
    assert not any(Path(folder).exists() for folder in folders)


def test_neighbors_are_those_on_the_same_host(staged, tiny):
    """The host of a task may be known later than that it runs; a task without one has no neighbors yet."""

    def place(stage):
        stage.hosts = dict(zip(stage.tasks, ("one", "one", "two", None), strict=True))
        return []

    def pause(stage):
        time.sleep(execution._WATCH_S)  # as often as it looks
        return []

    def all_ended(stage):
        return [stage.end(key) for key in list(stage.tasks)]

    grid = Grid([str(tiny)], [EZ], ["plain"], seeds=range(4))
    *_, records = staged(grid, jobs=4, script=[place, pause, pause, all_ended], hosts={})
    assert [record.measured.neighbors for record in records] == [1, 1, 0, 0]
