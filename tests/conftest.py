"""Basis of every test: no network, a separate cache, and the place of real data."""

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

# Workers share the cores, and a product of matrices waits for each of its threads to get one. Cells of a run are
# told their own number. Before numpy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import msgspec
import pytest
from hypothesis import settings

from xmcbench.command.main import main
from xmcbench.environment import Hardware, Program
from xmcbench.metrics import METRICS, VERSION
from xmcbench.processes import supervisor
from xmcbench.processes.process_tree import MARK
from xmcbench.records import Cell, Record, as_json
from xmcbench.records.record import (
    Environment,
    Figures,
    FilteredFigures,
    Measured,
    MethodFacts,
    Predictions,
    Protocol,
    RanksFacts,
    SubsetFacts,
)
from xmcbench.records.staleness import metrics_digest, ranks_digest
from xmcbench.runner import scorer
from xmcbench.runner.executors import local
from xmcbench.runner.executors.process import Servers, modules_to_import
from xmcbench.setting import Setting
from xmcbench.storage.canonical import sha256_json

# Two shared cores make the time of an example say nothing.
settings.register_profile("xmcbench", deadline=None)
settings.load_profile("xmcbench")

ROOT = Path(__file__).parents[1]
BLOCKED = Path(__file__).parent / "blocked_network"

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BLOCKED), os.environ.get("PYTHONPATH", "")]))
os.environ["HF_HUB_OFFLINE"] = "1"
# The checkout holds xmcbench without its methods. What a test starts there must import the installed package.
os.environ["PYTHONSAFEPATH"] = "1"


#: Tests that are skipped, with the reason, where an installation lacks a package: folder or file -> imports.
ENCODERS = ("torch", "transformers", "sentence_transformers", "accelerate")
NEEDED = {
    "methods/attentionxml": ("torch",),
    "methods/deepxml": ("torch",),
    "methods/dense/test_dense_search.py": ("torch",),
    "methods/distributed/test_machines.py": ("torch",),
    "methods/encoder": ENCODERS,
    "methods/hybrid/test_hybrid.py": ENCODERS,
    "methods/sparse/test_ngrams.py": ("sklearn",),
    "methods/words/test_vector_file.py": ("gensim",),
    "test_changed_code.py": ENCODERS,
    "test_tuning.py": ("optuna",),
}


class Skipped(pytest.Module):
    """A file of tests that is not imported, for a package that is missing."""

    reason: str

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    place = module_path.relative_to(Path(__file__).parent)
    for above in (place, *place.parents):
        for package in NEEDED.get(above.as_posix(), ()):
            if importlib.util.find_spec(package) is None:
                module = Skipped.from_parent(parent, path=module_path)
                module.reason = f"needs {package}"
                return module
    return None


def pytest_addoption(parser):
    parser.addoption(
        "--faults",
        choices=("sample", "full"),
        default="sample",
        help="how many trials tests/faults makes: a sample (default), or all, as `tox -e faults` does",
    )


#: What takes longest starts first, so that one worker does not sit at it when the other has nothing left to do.
LONGEST = (
    "faults/test_runs.py",
    "faults/test_bad_plugins.py",
    "leaderboard/test_committed_records.py",
    "methods/encoder/test_backbone.py",
    "methods/encoder/test_machines.py",
    "methods/encoder/test_processes.py",
    "methods/test_supervised_cells.py",
    "test_changed_code.py",
    "test_documentation.py",
    "test_golden_cells.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.nodeid.removeprefix("tests/").partition("::")[0] not in LONGEST)


def _block_network() -> None:
    spec = importlib.util.spec_from_file_location("blocked_network", BLOCKED / "sitecustomize.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


_block_network()


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """The caches of the user stay untouched."""
    os.environ["XMCBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))


#: Variables that tests change, or that every process has for itself, and that no import reads.
VARYING = {"COLUMNS", "NO_COLOR", "PYTEST_CURRENT_TEST", "XMCBENCH_CACHE", "XMCBENCH_DATASETS", MARK}


class SharedServers(Servers):
    """The fork servers of all runs in the process of the tests: one takes longer to start than most cells take."""

    def server(self, imports, environment):
        return super().server(imports, {name: environment[name] for name in environment.keys() - VARYING})

    def end(self):
        """They are for the next run too."""


#: Modules that users run in a new interpreter, and tests in a fork.
FORKED = ("xmcbench.contract", "xmcbench.plugins.inspection")


@pytest.fixture(autouse=True, scope="session")
def _servers():
    cells, others, start = SharedServers(), SharedServers(), supervisor._start

    def fork(argv, log, stream, environment, server):
        if server is None and argv[0] in FORKED:
            server = others.server(modules_to_import(()), environment)
        return start(argv, log, stream, environment, server)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "Servers", lambda: cells)
        patched.setattr(supervisor, "_start", fork)
        yield
    for shared in (cells, others):
        Servers.end(shared)


@pytest.fixture
def scored_here(monkeypatch):
    """Score in the process of the tests. As in a scoring process, datasets are kept for one run."""

    def send(self, request):
        datasets = vars(self).setdefault("datasets", {})
        self.is_busy, self.answered = True, scorer._answer(msgspec.json.encode(request), datasets)

    monkeypatch.setattr(scorer.Scorer, "_send", send)
    monkeypatch.setattr(scorer.Scorer, "_receive", lambda self: self.answered)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache for one test, which may damage it: its folder."""
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def xmcbench(tmp_path):
    """Run the command line in an empty folder, as a user would: returns the completed process."""

    def run(*words, **options):
        command = [sys.executable, "-m", "xmcbench", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, **options)

    return run


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys, scored_here):
    """Run the command line in the process of the tests: returns its exit code and what it printed.

    It takes a fraction of the time of a process of its own, which is what a user has: ``xmcbench``. code: the exit code
    that it must have.
    """

    def run(*words, code=None):
        capsys.readouterr()
        try:
            found = main([*map(str, words)])
        except SystemExit as ended:
            found = ended.code
        printed = capsys.readouterr()
        assert code in (None, found), printed.err
        return subprocess.CompletedProcess(words, found, printed.out, printed.err)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return run


TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")


@pytest.fixture
def tiny(tmp_path):
    """A dataset of 60 + 30 instances and 10 labels in the XC raw layout; an instance names its two labels."""

    def line(row):
        title = f"{TOPICS[row % 10]} story {row}"
        content = f"It is about the {TOPICS[row % 10]} and the {TOPICS[(row + 3) % 10]}."
        target = sorted({row % 10, (row + 3) % 10})
        return {"uid": f"{row:04}", "title": title, "content": content, "target_ind": target, "target_rel": [1.0, 1.0]}

    folder = tmp_path / "tiny"
    folder.mkdir()
    files = {
        "trn": [line(row) for row in range(60)],
        "tst": [line(row) for row in range(100, 130)],
        "lbl": [{"uid": f"label-{topic}", "title": f"the {topic}"} for topic in TOPICS],
    }
    for name, lines in files.items():
        with gzip.open(folder / f"{name}.json.gz", "wt") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


@pytest.fixture
def plugin(tmp_path):
    """Write a plug-in file and return its path."""

    def write(source, name="plugin.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package that brings a method, the class Method_ of the source, as pip would lay it out."""

    def install(package, name, source):
        site = tmp_path / package
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[xmcbench.methods]\n{name} = {package}_module:Method_\n")
        (site / f"{package}_module.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ["PYTHONPATH"]]))
        importlib.invalidate_caches()

    return install


@pytest.fixture
def record():
    """A record of the dataset Tiny; every metric has the same value. ``code`` names the code of the method."""

    def make(
        method="tfidf",
        seed=0,
        value=0.5,
        half_width=0.03,
        status="ok",
        setting=None,
        processor="P",
        supervision="optional",
        views=("head", "middle", "tail"),
        notes=None,
        code="today",
        deterministic=False,
        **parameters,
    ):
        setting = setting or Setting.of("ez")
        few = setting.kind == "fs"
        cell = Cell(
            dataset="Tiny",
            dataset_sha256=sha256_json("data"),
            setting=setting,
            subset_sha256=sha256_json([setting.slug, seed]) if few else None,
            method=method,
            parameters=parameters,
            seed=seed,
        )
        figures = {
            "values": dict.fromkeys(METRICS, value),
            "intervals": dict.fromkeys(METRICS, (value - half_width, value + half_width)),
            "scored": 30,
            "unlabeled": 0,
        }
        result = {}
        if status == "ok":
            groups = {view: Figures(**figures) for view in views}
            result = {
                "metrics": {"self": FilteredFigures(**figures, views=groups)},
                "predictions": Predictions(file="p.npz", sha256=sha256_json("predictions"), depth=101),
                "ranks": RanksFacts(
                    file="r.npz",
                    sha256=sha256_json("ranks"),
                    truth_sha256=sha256_json("truth"),
                    source_sha256=ranks_digest(),
                ),
            }
        return Record(
            key=cell.key,
            cell=cell,
            method=MethodFacts(
                title=method.upper(),
                variant=", ".join(f"{name}={value}" for name, value in parameters.items()),
                supervision=supervision,
                deterministic=deterministic,
                source_sha256=sha256_json(code),
            ),
            status=status,
            reason="" if status == "ok" else "ValueError: no",
            subset=SubsetFacts(name="s", sha256=sha256_json("s"), pairs=12, labels=5, instances=12) if few else None,
            counts={"train": 60, "test": 30, "labels": 10, "train_pairs": 120, "test_pairs": 60},
            protocol=Protocol(version=VERSION, filter="self", propensity=(0.55, 1.5), source_sha256=metrics_digest()),
            notes=notes or {},
            environment=Environment(
                packages={"python": "3"},
                hardware=Hardware(processor=processor, cores=2, memory_gib=24, accelerators=(), system="x"),
                xmcbench=Program(version="0", commit=""),
            ),
            measured=Measured(
                started="2026-01-02T03:04:05+00:00",
                total_s=5.0,
                wall_s={"fit": 1.5, "pretrain": 2.0, "predict": 1.0},
                reused_s=0.25,
                predict_ms_per_instance=0.5,
                peak_memory_bytes=2**30,
            ),
            **result,
        )

    return make


@pytest.fixture
def altered():
    """A record with another value at each place, such as ``("protocol", "filter")``; its key stays that of its cell."""

    def alter(record, *changes):
        values = as_json(record)
        for place, value in changes:
            inner = values
            for name in place[:-1]:
                inner = inner[name]
            inner[place[-1]] = value
        values["key"] = sha256_json(values["cell"])
        return msgspec.convert(values, Record)

    return alter


#: Real datasets that are not part of the project, and where they are from.
REAL_DATA = {
    "LF-AmazonTitles-131K": "from http://manikvarma.org/downloads/XC/XMLRepository.html",
    "LF-YSO-25K": "built by `xmcbench data build lf-yso-25k` from a clone of NatLibFi/Annif-corpora",
}


@pytest.fixture(scope="session")
def real_data():
    """The folder of a real dataset by name; skips where it is not on the machine."""
    root = Path(os.environ.get("XMCBENCH_TEST_DATA", ROOT.parent / "shared" / "data")).resolve()

    def find(name):
        if not (root / name).is_dir():
            pytest.skip(f"no {name}: it is {REAL_DATA[name]}; name its parent folder in XMCBENCH_TEST_DATA")
        return root / name

    return find
