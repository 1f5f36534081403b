"""From a planned cell to its record: what the process of a cell is told, what it does, and what is recorded of it."""

import platform
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from xmcbench import load_dataset
from xmcbench.environment import program, usable_cores
from xmcbench.errors import MethodError, StorageError
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import Ending
from xmcbench.records import Store
from xmcbench.runner import audit, execution, recording, scorer, worker
from xmcbench.runner.executors.base import Machine
from xmcbench.runner.executors.local import Local
from xmcbench.runner.job import Job, Outcome
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import Request
from xmcbench.runner.target import Limits
from xmcbench.setting import Setting, draw
from xmcbench.storage.locations import cache_root
from xmcbench.topk import TopK

METHODS = """
    import numpy as np
    from xmcbench import Method, TopK, Unavailable, UsageError

    class Chance(Method):
        title = "Chance"
        rate: float = 1.0

        def pretrain(self, raw_X, raw_Y):
            return {"draw": np.array([self.seed, len(raw_X), len(raw_Y)])}

        def fit(self, raw_X, raw_Y, pairs=None):
            self.notes["handed"] = [len(raw_X), len(raw_Y), None if pairs is None else pairs.indices.tolist()]
            self.notes["pretrained"] = self.pretrained["draw"].tolist()
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            self.notes["asked"] = [len(raw_X), k, raw_X.titles[0]]
            return TopK.from_scores(np.random.RandomState(self.seed).rand(len(raw_X), self.labels), k)

    class Lacking(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise Unavailable("the weights are not here", "get-weights")

    class Wrong(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise UsageError("not for these texts", "others")

    class Broken(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise ValueError("two\\nlines")

    class Greedy(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise MemoryError

    class Short(Chance):
        def predict(self, raw_X, k=100):
            return super().predict(raw_X, k - 1)

    class Silent(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise ValueError
"""


@pytest.fixture
def methods(plugin):
    return plugin(METHODS)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_a_cell_from_its_pairs_to_its_record(run_here, at_hand, methods, store, tiny):
    dataset = load_dataset(str(tiny))
    found = run_here(methods, "fs", 0.3, methods=["chance"], seeds=(0, 1))
    assert [record.cell.seed for record in found] == [0, 1]
    for record in found:
        subset = draw(dataset.train_pattern(), Setting.of("fs", 0.3), record.cell.seed)
        assert (record.status, record.reason) == ("ok", "")
        assert record == store.find(record.cell)
        depth = 100 + dataset.longest_filter
        assert record.notes == {
            "handed": [60, 10, subset.pairs.indices.tolist()],
            "pretrained": [record.cell.seed, 60, 10],
            "asked": [30, depth, "apple story 100"],
        }
        assert (record.subset.name, record.subset.sha256) == (f"fs-label-0.3-s{record.cell.seed}", subset.digest)
        assert (record.subset.pairs, record.subset.labels, record.subset.instances) == (
            subset.pairs.nnz,
            subset.labels,
            subset.instances,
        )
        assert record.counts == dataset.counts()
        predicted = TopK.load(store.predictions_path(record.cell))
        expected = TopK.from_scores(np.random.RandomState(record.cell.seed).rand(30, 10), depth)
        assert (predicted.indices == expected.indices).all()
        assert record.predictions.depth == depth
        assert record.protocol.filter == dataset.card.filter
        assert record.protocol.propensity == dataset.propensity
        measured = record.measured
        assert {*measured.wall_s} == {"load", "pretrain", "fit", "predict"}
        assert measured.total_s >= sum(measured.wall_s.values())
        assert measured.predict_ms_per_instance == pytest.approx(1000 * measured.wall_s["predict"] / 30)
        assert measured.reused_s == 0
        assert measured.peak_memory_bytes > 2**20
        assert measured.peak_gpu_memory_bytes is None
        assert [name.split("/")[-2] for name in record.artifacts] == ["pretraining", "ranking"]
        assert (record.method.title, record.method.supervision, record.method.variant) == ("Chance", "optional", "")
        assert "numpy" in record.environment.packages
        assert record.environment.xmcbench == program()
        assert program().version
        assert record.environment.compute == execution.Compute(threads=usable_cores())
        assert record.log is None  # nobody needs it
        assert record.isolation == "landlock"
    assert found[0].predictions.sha256 != found[1].predictions.sha256
    assert at_hand.calls == 2 * ["enable", "oom", "seal", "hide"]


def test_what_a_cell_may_not_read_and_what_it_needs(run_here, at_hand, methods, store, tiny, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    with store.staging() as of_another:
        run_here(methods, methods=["chance"])
    hidden = {path.resolve() for path in at_hand.hidden}
    names = ("records", "ranks", "truth", "subsets", "predictions", "logs", "trained")
    results = {store.root.resolve() / name for name in names}
    assert hidden >= {cache_root().resolve(), of_another.root.resolve(), *results}
    assert hidden >= {path.resolve() for path in load_dataset(str(tiny)).sources}
    (training,) = (store.root / "trained").iterdir()
    environment = [Path(sys.prefix), Path(sys.base_prefix)]
    shared, own, plugin, predictions, *rest = at_hand.needed
    assert [shared.name, own, plugin.name] == ["artifacts", training.resolve(), "plugin.py"]
    assert [predictions.name, *rest[:-1], rest[-1].name] == ["ez", *environment, "huggingface"]
    assert all(path.is_absolute() for path in (*at_hand.hidden, *at_hand.needed))
    assert at_hand.module == "xmcbench.runner.worker"
    assert at_hand.environment["PYTHONHASHSEED"] == "0"
    assert at_hand.environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert at_hand.environment["TMPDIR"] == str(at_hand.files[0].parent) == str(at_hand.files[1].parent)
    assert at_hand.limits == (None, None)


def test_a_cell_reuses_the_memory_that_it_freed(run_here, at_hand, methods, monkeypatch):
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the settings are those of glibc's malloc")
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    run_here(methods, methods=["chance"])
    script = """
import mmap, resource
begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    b"x" * 2**26
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin) * mmap.PAGESIZE / 2**26)
"""
    pages = subprocess.run(
        [sys.executable, "-c", script], env=at_hand.environment, capture_output=True, text=True, check=True
    )
    assert float(pages.stdout) < 2  # ten arrays take the pages of fewer than two


def test_settings_of_malloc_that_the_user_has_made_stay(run_here, at_hand, methods, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1048576")
    run_here(methods, methods=["chance"])
    assert at_hand.environment["MALLOC_TRIM_THRESHOLD_"] == "1048576"


@pytest.mark.gpu
def test_attention_builds_no_plans_for_new_shapes(run_here, at_hand, methods, monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    monkeypatch.delenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", raising=False)
    run_here(methods, methods=["chance"])
    script = """
import torch
heads = torch.randn(2, 12, 40, 32, device="cuda", dtype=torch.bfloat16)
mask = torch.ones(2, 1, 40, 40, device="cuda", dtype=torch.bool)
with torch.profiler.profile() as profile:
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
print(*(event.key for event in profile.key_averages()))
"""
    called = subprocess.run(
        [sys.executable, "-c", script], env=at_hand.environment, capture_output=True, text=True, check=True
    ).stdout
    assert "aten::scaled_dot_product_attention" in called
    assert "cudnn" not in called


@pytest.mark.parametrize("set_by_user", ["0", None])
def test_attention_of_a_cell_avoids_cudnn_unless_the_user_wants_it(
    run_here, at_hand, methods, monkeypatch, set_by_user
):
    monkeypatch.delenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", raising=False)
    if set_by_user:
        monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", set_by_user)
    run_here(methods, methods=["chance"])
    assert at_hand.environment["TORCH_CUDNN_SDPA_DEPRIORITIZED"] == (set_by_user or "1")


def test_limits_are_in_seconds_and_bytes(run_here, at_hand, methods):
    run_here(methods, methods=["chance"], limits=Limits(5.0, 0.5))
    assert at_hand.limits == (5.0, 2**29)


def test_where_the_kernel_hides_nothing_the_record_says_so(run_here, at_hand, methods):
    at_hand.kernel = False
    (record,) = run_here(methods, methods=["chance"])
    assert record.isolation == "process"


def test_what_was_pretrained_is_taken_by_the_next_cell(run_here, methods):
    (first,) = run_here(methods, methods=["chance"])
    (second,) = run_here(methods, "full", methods=["chance"])
    assert first.artifacts[0] == second.artifacts[0]
    assert first.measured.reused_s == 0 < second.measured.reused_s
    assert second.notes["handed"][2]
    assert first.notes["handed"][2] is None
    assert (first.subset, second.subset.name) == (None, "full")


def test_packages_of_a_record_stand_there_once_by_the_name_they_are_installed_by(run_here, plugin):
    """huggingface_hub, faiss and sklearn are names of modules."""
    code = (
        METHODS
        + """
    class Faiss(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            import annotated_types, faiss, huggingface_hub, sklearn
            super().fit(raw_X, raw_Y, pairs)
    """
    )
    (record,) = run_here(plugin(code), methods=["faiss"])
    names = [*record.environment.packages]
    spelled = [re.sub("[-_.]+", "-", name).lower() for name in names]
    assert len(set(spelled)) == len(spelled)
    assert {"annotated-types", "faiss-cpu", "huggingface-hub", "scikit-learn"} <= {*spelled}
    assert not {"faiss", "sklearn"} & {*spelled}


def test_the_version_of_a_package_is_that_which_its_process_had(run_here, methods, monkeypatch):
    """This process may have read it before the package was replaced."""
    monkeypatch.setitem(Machine.current().packages, "numpy", "0.1")
    (record,) = run_here(methods, methods=["chance"])
    assert record.environment.packages["numpy"] == np.__version__


def test_processes_that_a_plugin_starts_can_call_its_functions(run_here, plugin, tmp_path):
    """A process that is started anew could not import its module."""
    code = (
        METHODS
        + """
    import beside

    def squared(number):
        return beside.SIGN * number**2

    class Parallel(Chance):
        def fit(self, raw_X, raw_Y, pairs=None):
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context
            import joblib

            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                by_spawn = [*pool.map(squared, [2, 3])]
            by_joblib = joblib.Parallel(n_jobs=2)(joblib.delayed(squared)(number) for number in (2, 3))
            super().fit(raw_X, raw_Y, pairs)
            self.notes["squared"] = [by_spawn, by_joblib]
    """
    )
    (tmp_path / "beside.py").write_text("SIGN = -1\n")
    (record,) = run_here(plugin(code, "my.plug-in.py"), methods=["parallel"])
    assert record.ok, record.reason
    assert record.notes["squared"] == [[-4, -9], [-4, -9]]


@pytest.mark.parametrize(
    ("method", "status", "reason"),
    [
        ("lacking", "skipped", "the weights are not here (get-weights)"),
        ("wrong", "failed", "not for these texts (others)"),
        ("broken", "failed", "ValueError: two lines"),
        ("silent", "failed", "ValueError"),
        ("greedy", "failed", "out of memory"),
        ("short", "failed", "predictions have the shapes"),
    ],
)
def test_what_goes_wrong_is_a_record(run_here, methods, store, tiny, method, status, reason):
    (record,) = run_here(methods, methods=[method])
    assert (record.status, record.reason[: len(reason)]) == (status, reason)
    assert record == store.find(record.cell)
    assert (record.metrics, record.ranks, record.predictions) == ({}, None, None)
    assert (record.measured.wall_s, record.measured.predict_ms_per_instance) == ({}, None)
    assert record.log == store.relative(store.log_path(record.cell))
    assert record.protocol.filter == load_dataset(str(tiny)).card.filter
    assert record.protocol.propensity == load_dataset(str(tiny)).propensity


@pytest.mark.parametrize(
    ("outcome", "ending", "status", "reason"),
    [
        (None, Ending(0, True, False, 1), "timeout", "stopped after the time limit of 5 s"),
        (Outcome(status="ok"), Ending(0, True, False, 1), "ok", ""),  # how it ended after that changes nothing
        (None, Ending(3, False, False, 1), "failed", "ended with exit code 3 and no result"),
        (None, Ending(-11, False, False, 1), "failed", "killed by SIGSEGV"),
        (None, Ending(0, False, True, 2**30), "failed", "out of memory: it used 1.0 GiB, more than"),
        (Outcome(status="skipped", reason="why"), Ending(0, False, False, 1), "skipped", "why"),
        (Outcome(status="ok"), Ending(0, False, False, 1), "ok", ""),
    ],
)
def test_the_status_of_a_cell(outcome, ending, status, reason):
    found, why = recording.status_of(outcome, ending, 5.0)
    assert (found, why[: len(reason)]) == (status, reason)


def test_an_outcome_that_cannot_be_read(tmp_path):
    assert Outcome.read(tmp_path / "none.json") is None
    for content in (b"{", b"[1]", b"\xff", b'{"status": "ok", "notes": ' + b'{"a":' * 5000):
        (tmp_path / "outcome.json").write_bytes(content)
        with pytest.raises(StorageError, match="the outcome of the cell cannot be read"):
            Outcome.read(tmp_path / "outcome.json")


def resident():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def test_memory_is_what_the_system_lists():
    before = resident()
    assert before <= worker._high_water_mark() <= resident()


def test_memory_where_the_system_does_not_list_it(monkeypatch):
    def unreadable(_):
        raise OSError("no such file")

    monkeypatch.setattr(worker.Path, "read_text", unreadable)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert before <= worker._high_water_mark() <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_cell_is_the_first_to_go_where_memory_runs_out(monkeypatch):
    written = []
    monkeypatch.setattr(worker.Path, "write_text", lambda path, text: written.append((str(path), text)))
    worker._raise_oom_score()
    assert written == [("/proc/self/oom_score_adj", "1000")]

    def refuse(*_):
        raise PermissionError("not allowed")

    monkeypatch.setattr(worker.Path, "write_text", refuse)
    worker._raise_oom_score()


def test_what_a_failed_cell_was_writing_is_removed(run_here, at_hand, methods, monkeypatch):
    swept = []
    whole = Store.sweep
    monkeypatch.setattr(Store, "sweep", lambda store: (swept.append("sweep"), whole(store)))
    run_here(methods, methods=["chance"])
    before = len(swept)
    swept.clear()
    run_here(methods, methods=["broken"])
    assert len(swept) == before + 1


def test_a_place_shares_no_gpu_unless_it_is_told_to(store):
    place = execution.Target(store)
    assert (place.cells_per_gpu, place.jobs, place.on) == (1, None, "local")


def test_who_watches_is_told_for_how_long_a_cell_has_run(at_hand, methods, store, tiny, monkeypatch):
    looks, watch = iter([True]), Local.watch
    # At the first look the cell has not ended yet.
    monkeypatch.setattr(Local, "watch", lambda self, *rest: [] if next(looks, False) else watch(self, *rest))
    made, seen = plan([Request(str(tiny), Setting.of("ez"), methods=["chance"])], Registry([methods]), store), []
    begin = time.perf_counter()
    execution.execute(made, execution.Target(store), watch=seen.append)
    took = time.perf_counter() - begin
    underway = [cell for cells in seen for cell in cells]
    assert underway
    assert all(0 <= cell.since_s <= took for cell in underway)


def test_a_result_that_came_in_between_is_taken(at_hand, methods, store, tiny):
    """A plan that was made before another run finished its cells."""
    request, registry = Request(str(tiny), Setting.of("ez"), methods=["chance"]), Registry([methods])
    plans = [plan([request], registry, store) for _ in range(2)]
    (first,) = execution.execute(plans[0], execution.Target(store))
    written = store.record_path(first.cell).stat().st_ino
    assert execution.execute(plans[1], execution.Target(store)) == [first]
    assert store.record_path(first.cell).stat().st_ino == written


def test_the_higher_of_two_peaks_counts(run_here, at_hand, methods):
    at_hand.ending = Ending(0, False, False, 2**50)
    (record,) = run_here(methods, methods=["chance"])
    assert record.measured.peak_memory_bytes == 2**50


def test_a_finished_cell_runs_again_only_if_forced(run_here, at_hand, methods):
    seen = []

    def progress(planned, position, record):
        seen.append((planned.cell.method, position, record and record.status))

    first = run_here(methods, methods=["chance", "broken"], progress=progress)
    assert seen == [("chance", 0, None), ("chance", 0, "ok"), ("broken", 1, None), ("broken", 1, "failed")]
    seen.clear()
    assert run_here(methods, methods=["chance"], progress=progress) == first[:1]
    assert seen == []
    (again,) = run_here(methods, methods=["chance"], progress=progress, force=True)
    assert [state for *_, state in seen] == [None, "ok"]
    assert again.predictions == first[0].predictions


def test_files_of_a_result_stay_until_there_is_another_one(run_here, at_hand, methods, store, monkeypatch):
    (first,) = run_here(methods, methods=["chance"])
    files = [store.predictions_path(first.cell), store.ranks_path(first.cell), store.record_path(first.cell)]
    before = [file.stat().st_ino for file in files]

    def refuse(*_, **__):
        raise MethodError("these predictions are invalid")

    with monkeypatch.context() as patch:
        patch.setattr(scorer.Scorer, "answer", refuse)
        (refused,) = run_here(methods, methods=["chance"], force=True)
    assert (refused.status, refused.reason) == ("failed", "these predictions are invalid")
    assert [file.stat().st_ino for file in files] == before
    (again,) = run_here(methods, methods=["chance"], force=True)
    assert again.predictions == first.predictions
    assert {file.stat().st_ino for file in files}.isdisjoint(before)
    assert not [*store.root.glob(".*")]


def test_a_runs_folder_that_cannot_be_written_is_named(run_here, methods, store, tmp_path, monkeypatch):
    """Instead of the first of the files that would have been written into it."""

    def folder_in(parent):
        raise StorageError(f"cannot write {parent}: Read-only file system")

    with monkeypatch.context() as read_only:
        read_only.setattr("xmcbench.records.store.folder_in", folder_in)
        with pytest.raises(StorageError, match=f"^cannot write {store.root}: Read-only file system"):
            run_here(methods, methods=["chance"])
    assert not store.root.exists()
    store.root.touch()
    with pytest.raises(StorageError, match=f"^{store.root} is not a folder"):
        run_here(methods, methods=["chance"])


def test_a_cell_that_another_run_has_is_left_to_it(run_here, at_hand, methods, store, monkeypatch):
    """It is waited for when all others are done, and its record is taken."""
    order, claims = [], iter((False, True, True))
    (made,) = run_here(methods, methods=["chance"])

    class Claim:
        def __init__(self, held):
            self.held = held

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def is_ours(self):
            return True

    def claim(self, cell):
        order.append(cell.method)
        return Claim(next(claims))

    store.record_path(made.cell).unlink()
    monkeypatch.setattr(Store, "claim", claim)
    records = run_here(methods, methods=["chance", "broken"])
    assert order == ["chance", "broken", "chance"]
    assert [record.status for record in records] == ["ok", "failed"]


def test_texts_and_pairs_that_are_others_are_refused(run_here, at_hand, methods, tmp_path, monkeypatch):
    jobs, real = [], worker.run

    def run(job):
        jobs.append(job)
        return real(job)

    monkeypatch.setattr(worker, "run", run)
    run_here(methods, "full", methods=["chance"])
    (job,) = jobs
    for name in ("train", "labels", "test"):
        other = msgspec.structs.replace(getattr(job, name), sha256="0" * 64)
        with pytest.raises(worker.DataError, match="checksum mismatch"):
            real(msgspec.structs.replace(job, **{name: other}))
    with pytest.raises(worker.DataError, match="checksum mismatch"):
        real(msgspec.structs.replace(job, pairs_sha256="0" * 64))
    job.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == job


def test_a_record_is_held_against_its_predictions(run_here, methods, tiny, store, altered):
    (record,) = run_here(methods, "fs", 0.3, methods=["chance"], seeds=(1,))
    dataset, registry = load_dataset(str(tiny)), Registry([methods])

    def check(changed):
        audit.audit(changed, store, dataset, str(tiny), registry, scorer.Scorer())

    ranks = store.ranks_path(record.cell)
    ranks.unlink()
    check(record)
    assert not ranks.exists()  # scored again, not written again
    value = record.metrics["none"].values["P@1"]
    for place, said in (
        (("metrics", "none", "values", "P@1"), value + 1e-6),
        (("metrics", "none", "intervals", "R@5"), [0.0, 1.0]),
        (("counts", "test_pairs"), 61),
        (("subset", "pairs"), record.subset.pairs + 1),
        (("protocol", "version"), 1),
        (("predictions", "file"), "elsewhere.npz"),
        (("predictions", "sha256"), "0" * 64),
        (("ranks", "sha256"), "0" * 64),
        (("method", "title"), "Another"),
        (("method", "variant"), "rate=2"),
        (("method", "supervision"), "unused"),
        (("method", "deterministic"), True),
        (("cell", "subset_sha256"), "0" * 64),
        (("cell", "dataset"), "Other"),
    ):
        with pytest.raises(StorageError, match="its |it is "):
            check(altered(record, (place, said)))
    # Rounding, and other code with the same figures, are no fault.
    check(
        altered(
            record, (("metrics", "none", "values", "P@1"), value + 1e-12), (("protocol", "source_sha256"), "0" * 64)
        )
    )
