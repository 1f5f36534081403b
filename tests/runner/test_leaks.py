"""Ways to test pairs and to results of others that a cell had: the history of a repository, and the runs folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xmcbench import environment
from xmcbench.contract import CheckRequest, check
from xmcbench.records import Store
from xmcbench.runner import isolation
from xmcbench.storage import locations

HISTORY = '''
import gzip, json, subprocess

import numpy as np
from xmcbench import Method, TopK

class History(Method):
    """Asks Git for the test instances, and predicts their labels."""

    deterministic = True

    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)
        command = ["git", "--git-dir", {git!r}, "cat-file", "blob", "HEAD:tiny/tst.json.gz"]
        asked = subprocess.run(command, capture_output=True)
        self.notes["error"] = asked.stderr.decode()
        lines = gzip.decompress(asked.stdout).splitlines() if asked.stdout else []
        self.found = [json.loads(line)["target_ind"] for line in lines]
        if {must!r} and self.found:
            raise ValueError("Git gave the test instances")

    def predict(self, raw_X, k=100):
        scores = np.zeros((len(raw_X), self.labels), np.float32)
        for row, labels in enumerate(self.found):
            scores[row, labels] = 1
        return TopK.from_scores(scores, k)
'''


def git(folder, *words):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *map(str, words)], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, tiny):
    """A repository that holds a dataset, with its objects packed, and the dataset in a worktree and in a clone of it.

    The clone has no objects of its own.
    """
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "repository"
    root.mkdir()
    shutil.move(tiny, root / "tiny")
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "the data")
    git(root, "gc")
    git(root, "worktree", "add", tmp_path / "worktree")
    git(root, "clone", "--shared", root, tmp_path / "clone")
    return root


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("repository", "repository/.git"),
        ("worktree", "repository/.git"),
        ("worktree", "repository/.git/worktrees/worktree"),
        ("clone", "clone/.git"),
        ("clone", "repository/.git"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_the_history_of_the_data_is_out_of_reach(inside, plugin, tmp_path, place, asked):
    source = plugin(HISTORY.format(git=str(tmp_path / asked), must=False), "history.py")
    words = ("--dataset", tmp_path / place / "tiny", "--setting", "ez", "--methods", "history", "--plugin", source)
    (record,) = json.loads(inside("run", *words, "--json").stdout)["records"]
    assert record["isolation"] == "landlock"
    assert record["metrics"]["none"]["values"]["P@1"] < 0.5  # 1.0 with the test pairs
    assert record["notes"]["error"]


@pytest.mark.usefixtures("sealed")
def test_a_check_reads_no_history_either(repository, plugin, monkeypatch):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(repository))
    source = plugin(HISTORY.format(git=str(repository / ".git"), must=True), "history.py")
    found = check(CheckRequest(name="history", plugin=str(source), time_s=250))
    assert [finding.reason for finding in found if finding.status != "ok"] == []


def test_repositories_are_found_through_every_link(tmp_path):
    """A submodule of a worktree, whose objects are in a repository that takes some from another one, and back."""
    one, other, tree = (tmp_path / name for name in ("one", "other", "tree"))
    for objects, borrowed in ((one / ".git/objects", other / "objects"), (other / "objects", one / ".git/objects")):
        (objects / "info").mkdir(parents=True)
        (objects / "info" / "alternates").write_text(f"{borrowed}\n\n")
    worktree, submodule = one / ".git/worktrees/tree", one / ".git/modules/inner"
    for folder in (worktree, submodule, tree / "inner" / "data"):
        folder.mkdir(parents=True)
    (worktree / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {worktree}\n")
    (tree / "inner" / ".git").write_text("gitdir: ../../one/.git/modules/inner\n")
    (tmp_path / ".hg").mkdir()
    (tmp_path / "link").symlink_to(tree / "inner")
    found = {*isolation.add_histories([tmp_path / "link" / "data"])}
    files = {tree / ".git", tree / "inner" / ".git"}
    folders = {worktree, submodule, one / ".git", one / ".git/objects", other / "objects", tmp_path / ".hg"}
    assert {path for path in found if Path(path).is_relative_to(tmp_path)} == {
        str(path.resolve()) for path in (tree / "inner" / "data", *files, *folders)
    }


def test_a_file_of_another_kind_names_no_repository(tmp_path):
    (tmp_path / ".git").write_text("\n..\nobjects: /\n")
    assert {*isolation.add_histories([tmp_path / "data"])} >= {str(tmp_path / ".git"), str(tmp_path / "data")}
    assert str(tmp_path.parent) not in isolation.add_histories([tmp_path / "data"])


def test_copies_of_what_comes_with_xmcbench_are_hidden(tmp_path, monkeypatch):
    """Installed, in the checkout that it was installed from, and packed there."""
    checkout, installed = tmp_path / "check out", tmp_path / "environment" / "share" / "xmcbench"
    names = ("datasets", "leaderboards/truth", "leaderboards/published", "build", "dist", ".tox")
    for folder in (*(checkout / name for name in names), installed / "datasets"):
        folder.mkdir(parents=True)
    noted = json.dumps({"url": checkout.as_uri(), "dir_info": {}})
    distribution = type("Distribution", (), {"read_text": lambda self, name: noted})
    monkeypatch.setattr(environment.metadata, "distribution", lambda name: distribution())
    monkeypatch.setattr(locations, "install_note", environment.install_note.__wrapped__)
    monkeypatch.setattr(locations.sys, "prefix", str(tmp_path / "environment"))
    found = {path for path in isolation.paths_of_machine() if path.is_relative_to(tmp_path)}
    hidden_names = ("datasets", "leaderboards/truth", "build", "dist", ".tox")
    assert found == {*(checkout / name for name in hidden_names), installed / "datasets"}
    for text in ("{}", "[", json.dumps({"url": "https://example.org/xmcbench", "vcs_info": {}})):
        noted = text
        assert {path for path in isolation.paths_of_machine() if path.is_relative_to(tmp_path)} == {
            installed / "datasets"
        }


@pytest.mark.usefixtures("sealed")
def test_an_environment_below_what_is_hidden_can_be_read(tmp_path):
    """As that of tox in a checkout."""
    environment = tmp_path / ".tox" / "tests"
    for name in ("lib/module.py", "share/xmcbench/datasets/tst.json"):
        (environment / name).parent.mkdir(parents=True)
        (environment / name).write_text("read")
    code = f"""
import sys
from pathlib import Path
from xmcbench.runner import isolation
sys.prefix = {str(environment)!r}
root, files = Path({str(tmp_path)!r}), []
assert isolation.hide([root / ".tox", root / ".tox/tests/share/xmcbench/datasets"], isolation.find_needed_paths())
for path in sorted(file for file in root.rglob("*") if file.is_file()):
    try:
        files.append(path.name + " " + path.read_text())
    except PermissionError:
        pass
print(files)
"""
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "['module.py read']\n"


OTHERS = '''
from pathlib import Path

import numpy as np
from xmcbench import Method, Part, TopK

class Known(Method):
    """Ranks labels by their known pairs; leaves a checkpoint, as a training that was killed, and an artifact."""

    def fit(self, raw_X, raw_Y, pairs=None):
        self.scores = np.asarray(pairs.sum(axis=0)).ravel()
        state = self.artifacts.unfinished("training", {{}})
        state.mkdir(parents=True, exist_ok=True)
        self.notes["goes on"] = (state / "checkpoint").exists()
        (state / "checkpoint").write_text("weights")
        self.artifacts.get("lengths", {{}}, lambda folder: (folder / "lengths").write_text("shared"))
        large = np.random.RandomState(0).bytes(2**20)
        self.artifacts.get("model", {{}}, lambda folder: (folder / "weights").write_bytes(large), own=True)

    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.tile(self.scores, (len(raw_X), 1)), k)

class Outer(Known):
    """Has the ranking of another method."""

    def uses(self):
        return ("known",)

    def fit(self, raw_X, raw_Y, pairs=None):
        self.texts, self.pairs = (raw_X, raw_Y), pairs

    def predict(self, raw_X, k=100):
        return Part.of("known", self).ranking((*self.texts, raw_X), self.pairs, k)[0]

class Thief(Method):
    """Predicts what others have predicted, if it can."""

    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels, read = len(raw_Y), []
        for path in sorted(file for file in Path({runs!r}).rglob("*") if file.is_file()):
            try:
                path.read_bytes()
            except PermissionError:
                continue
            read.append(path.relative_to({runs!r}).as_posix())
        self.notes["read"] = read

    def predict(self, raw_X, k=100):
        for name in self.notes["read"]:
            if name.endswith(".npz"):
                found = TopK.load(Path({runs!r}, name))
                if len(found) == len(raw_X):
                    return TopK(found.indices[:, :k], found.scores[:, :k])
        return TopK.from_scores(np.zeros((len(raw_X), self.labels), np.float32), k)
'''


@pytest.fixture
def others(inside, plugin, tiny, tmp_path):
    """Run methods in one runs folder: returns their records."""
    source = plugin(OTHERS.format(runs=str(tmp_path / "runs")), "others.py")

    def run(*words, methods="known"):
        inside("run", "--dataset", tiny, "--methods", methods, "--plugin", source, *words)
        records = Store(tmp_path / "runs").records()
        assert [record.reason for record in records if not record.ok] == []
        return {record.cell.method: record for record in records}

    return run


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("setting", [("ez",), ("full",), ("fs", "--ratio", "0.5")])
def test_results_of_others_are_out_of_reach(others, tmp_path, setting):
    """Also those that know less, or the same."""
    runs = tmp_path / "runs"
    others("--setting", "full")
    others("--setting", "full,fs", "--ratio", "0.5", methods="outer")
    found = others("--setting", *setting, methods="thief")
    shared = {path.relative_to(runs).as_posix() for path in (runs / "artifacts").rglob("*") if path.is_file()}
    assert any(name.endswith("/lengths") for name in shared)
    assert {*found["thief"].notes["read"]} <= shared
    assert [*runs.glob("trained/*/ranking/*/ranking.npz")]
    assert not [*runs.glob("artifacts/*/*/ranking.npz")]
    assert not [*runs.glob("artifacts/content/*")]  # a large file of a training is linked to nowhere else


def test_a_cell_reads_what_it_declares(others):
    known = others("--setting", "full")["known"]
    outer = others("--setting", "full", methods="outer")["outer"]
    assert {*outer.artifacts} == {name for name in known.artifacts if "/ranking/" in name}
    assert outer.metrics == known.metrics


def test_a_part_that_has_no_cell_of_its_own_is_trained_by_the_first_that_asks(others, tmp_path):
    """Its ranking is where its own cell finds it, and so is a checkpoint."""
    outer = others("--setting", "full", methods="outer")["outer"]
    (training,) = {name.split("/")[1] for name in outer.artifacts if name.startswith("trained/")}
    assert not (tmp_path / "runs" / "artifacts" / "unfinished").exists()
    known = others("--setting", "full")["known"]
    assert known.notes["goes on"]
    assert {name.split("/")[1] for name in known.artifacts if name.startswith("trained/")} == {training}
    assert outer.metrics == known.metrics
