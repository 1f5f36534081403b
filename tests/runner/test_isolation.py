"""Files that the kernel hides from the code of a method, and secrets of the environment that it does not get."""

import ctypes
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

import xmcbench
from xmcbench import Options
from xmcbench.contract import CheckRequest, check
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.xr_transformer import XRTransformer
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import without_secrets
from xmcbench.runner import isolation
from xmcbench.runner.isolation import paths_of_dataset

CODE = """
import json, os, sys
from pathlib import Path
from xmcbench.runner.isolation import hide

root = Path(sys.argv[1])
hidden = hide([root / name for name in json.loads(sys.argv[2])], [root / name for name in json.loads(sys.argv[3])])
read = []
for path in sorted(file for file in root.rglob("*") if file.is_file()):
    try:
        path.read_text()
        read.append(path.relative_to(root).as_posix())
    except PermissionError:
        pass
(root / "open" / "new.txt").write_text("new")
linked = []
for name in ("open/new.txt", "secret/b.txt"):
    try:
        os.link(root / name, root / "linked" / Path(name).name)
        linked.append(name)
    except OSError:
        pass
print(json.dumps([hidden, read, (root / "open" / "new.txt").read_text(), linked]))
"""


@pytest.fixture
def root(tmp_path):
    for name in ("open/a.txt", "secret/b.txt", "secret/needed/c.txt", "beside/d.txt", "beside/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "linked").mkdir()
    (tmp_path / "open" / "link.txt").symlink_to(tmp_path / "secret" / "b.txt")
    return tmp_path


def read_hidden(root, hidden, needed):
    command = [sys.executable, "-c", CODE, root, json.dumps(hidden), json.dumps(needed)]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_what_is_hidden_cannot_be_read_and_the_rest_can(root):
    hidden, read, new, linked = read_hidden(root, ["secret", "beside/d.txt", "absent"], ["secret/needed", "not there"])
    # Artifacts share files between folders; a link is no way to what is hidden.
    assert linked == (["open/new.txt"] if hidden else ["open/new.txt", "secret/b.txt"])
    for link in (root / "linked").iterdir():
        link.unlink()
    _, everything, _, _ = read_hidden(root, [], [])
    assert len([name for name in everything if not name.startswith("linked/")]) == 7
    # A kernel without Landlock hides nothing.
    at_first = [name for name in everything if name != "open/new.txt" and not name.startswith("linked/")]
    assert read == (["beside/e.txt", "open/a.txt", "secret/needed/c.txt"] if hidden else at_first)
    assert new == "new"


def test_what_is_hidden_below_a_needed_folder_stays_hidden(root):
    """As data in the folder of the hub, where the models are too."""
    for needed in ("secret", "."):
        hidden, read, *_ = read_hidden(root, ["secret/b.txt", "beside/d.txt"], [needed])
        expected = {"open/a.txt", "secret/needed/c.txt", "beside/e.txt"}
        assert {*read} >= expected
        assert ({"secret/b.txt", "beside/d.txt"}.isdisjoint(read)) == hidden


def test_all_is_named_but_what_is_hidden_and_what_is_above_it(root):
    hidden = {root / "secret", root / "beside" / "d.txt"}
    above = {parent for path in hidden for parent in path.parents}
    found = {*isolation._visible(root, hidden, above)}
    assert found == {root / "open", root / "linked", root / "beside" / "e.txt"}
    assert {*isolation._visible(root / "open", set(), set())} == {root / "open" / "a.txt"}  # a link has no rule
    assert [*isolation._visible(root / "absent", set(), set())] == []


def test_files_that_are_named_as_parts_are_hidden_with_the_data(tmp_path):
    parts = ["tst.json", "tst_X_Y.txt", "Y.tst.npz", "TEST.csv", "my-train.tsv", "trn.json.gz"]
    others = ["notes.txt", "contest.csv", "strain.txt", "test.py", "latest.npz", "vectors.txt"]
    for name in (*parts, *others):
        (tmp_path / name).touch()
    for name in ("test", "train"):
        (tmp_path / name).mkdir()
    found = paths_of_dataset(SimpleNamespace(sources=(tmp_path / "lbl.json.gz", tmp_path / "test")))
    assert {*found} == {tmp_path / name for name in (*parts, "lbl.json.gz", "test")}
    assert paths_of_dataset(SimpleNamespace(sources=(tmp_path,))) == [tmp_path]


class Kernel:
    """A kernel that answers what it is told to: each call by its number."""

    def __init__(self, **answers):
        self.answers, self.calls = {"create": 77, "add": 0, "restrict": 0, "prctl": 0, **answers}, []

    def syscall(self, number, *arguments):
        if number == 446:
            assert arguments == (self.answers["create"], 0)  # no flags
        self.calls.append(number)
        return self.answers[{444: "create", 445: "add", 446: "restrict"}[number]]

    def prctl(self, *arguments):
        self.calls.append(arguments)
        return self.answers["prctl"]


@pytest.mark.parametrize(
    ("answers", "hidden", "closed"),
    [
        ({}, True, [77]),
        ({"create": 0}, True, [0]),
        ({"create": -1}, False, []),
        ({"restrict": -1}, False, [77]),
        ({"prctl": -1}, False, [77]),
    ],
)
def test_the_answer_is_that_of_the_kernel(monkeypatch, root, answers, hidden, closed):
    kernel, ended = Kernel(**answers), []
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: kernel)
    monkeypatch.setattr(isolation, "_visible", lambda *_: iter([root / "open"]))
    real = isolation.os.close
    monkeypatch.setattr(
        isolation.os, "close", lambda number: ended.append(number) if number in (0, 77) else real(number)
    )
    assert isolation.hide([root / "secret"], [root / "beside", root / "absent"]) is hidden
    assert ended == closed
    if not closed:
        assert kernel.calls == [444, 444]  # an older kernel knows fewer rights
        return
    assert kernel.calls[:4] == [444, 445, 445, (38, 1, 0, 0, 0)]
    assert kernel.calls[4:] == ([446] if answers.get("prctl", 0) == 0 else [])


def test_a_system_without_system_calls_hides_nothing(monkeypatch, root):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    assert isolation.hide([root / "secret"]) is False


def test_too_many_rules_hide_nothing(monkeypatch, root):
    monkeypatch.setattr(isolation, "_MOST_RULES", 2)
    kernel = Kernel()
    assert isolation._allow(kernel, 77, 4, [root / "open", root / "gone"])
    assert isolation._allow(kernel, 77, 4, [root / "open", root / "beside"])
    assert kernel.calls == 3 * [445]
    assert not isolation._allow(kernel, 77, 4, [root / "open", root / "beside", root / "secret"])


def test_another_system_is_not_asked(monkeypatch, root):
    """The numbers of system calls mean others there."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: pytest.fail("asked"))
    assert not isolation.hide([root])


def test_a_libc_without_system_calls_hides_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation.ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    assert isolation.hide([tmp_path], []) is False


def test_a_kernel_without_landlock_hides_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation, "_ruleset", lambda libc: (isolation._READ_FILE, -1))
    assert isolation.hide([tmp_path], []) is False


SECRETS = {
    "HF_TOKEN": "1",
    "OPENAI_API_KEY": "2",
    "AWS_SECRET_ACCESS_KEY": "3",
    "CLIENT_SECRET": "4",
    "DB_PASSWORD": "5",
    "github_token": "6",
    "TOKEN": "7",
    "PGPASSWORD": "8",
    "APIKEY": "8",
}
OTHERS = {"TOKENIZERS_PARALLELISM": "false", "KEYS": "8", "KEYBOARD": "9", "OMP_NUM_THREADS": "1"}

SEEN = """
    import os
    from pathlib import Path
    from xmcbench import Method, Part, TopK

    def seen():
        return ",".join(sorted(name for name in os.environ if name in {names}))

    class Sees(Method):
        {named}
        notes_file: str = ""
        def describe(self):
            return seen()
        def require(self):
            Path({file!r}).write_text(seen())
        def fit(self, raw_X, raw_Y, pairs=None):
            self.notes["seen"], self.labels = seen(), len(raw_Y)
        def predict(self, raw_X, k=100):
            import numpy as np
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

    class Around(Method):
        environment = ("CLIENT_SECRET",)
        def uses(self):
            return ("sees",)
        def fit(self, raw_X, raw_Y, pairs=None):
            self.notes["seen"], self.labels = seen(), len(raw_Y)
        predict = Sees.predict
"""


@pytest.fixture
def sees(plugin, tmp_path, monkeypatch):
    """A plug-in that tells which of the secrets it sees, and the file in which it says so while a run is planned."""
    for name, value in {**SECRETS, **OTHERS}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "planned.txt"

    def write(named=""):
        return plugin(SEEN.format(names=sorted(SECRETS), named=named, file=str(file)))

    return write, file


def test_the_names_of_secrets(monkeypatch):
    for name, value in {**SECRETS, **OTHERS}.items():
        monkeypatch.setenv(name, value)
    assert not {*without_secrets()} & {*SECRETS}
    assert without_secrets().items() >= OTHERS.items()
    assert {*without_secrets(["HF_TOKEN", "github_token"])} & {*SECRETS} == {"HF_TOKEN", "github_token"}


@pytest.mark.parametrize(("named", "right"), [("", ""), ("environment = ('HF_TOKEN', 'MISSING_TOKEN')", "HF_TOKEN")])
def test_a_cell_gets_those_that_its_method_names(sees, tiny, tmp_path, named, right):
    write, planned = sees
    options = Options(runs=tmp_path / "runs", plugins=(write(named),))
    (record,) = xmcbench.run(tiny, methods="sees", options=options)
    assert (record.ok, record.notes["seen"]) == (True, right)
    assert planned.read_text() == right
    (around,) = xmcbench.run(tiny, methods="around", options=options)
    assert around.notes["seen"] == ",".join(filter(None, ["CLIENT_SECRET", right]))


def test_a_check_gets_those_that_the_method_names(sees, inside):
    """Its checks in the process of the check, and the one that runs a cell."""
    write, planned = sees
    for named, right in (("", ""), ("environment = ('DB_PASSWORD',)", "DB_PASSWORD")):
        path = write(named)
        assert inside("check", path).returncode == 0
        assert planned.read_text() == right
    found = check(CheckRequest(name="sees", plugin=str(path), environment=("DB_PASSWORD",)))
    assert {finding.status for finding in found} == {"ok"}


def test_the_import_of_a_plugin_gets_none(plugin, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "1")
    path = plugin(SEEN.format(names=["HF_TOKEN"], named="environment = ('HF_TOKEN',)", file=str(tmp_path / "x")))
    path.write_text(f"{path.read_text()}\nPath({str(tmp_path / 'imported')!r}).write_text('at import: ' + seen())\n")
    registry = Registry([path])
    assert registry["sees"].description.environment == ("HF_TOKEN",)
    assert (tmp_path / "imported").read_text() == "at import: "


def test_what_is_not_a_tuple_of_names_breaks_the_contract(plugin, tmp_path):
    path = plugin(SEEN.format(names=[], named="environment = 'HF_TOKEN'", file=str(tmp_path / "x")))
    assert "breaks the contract" in Registry([path])["sees"].problem


@pytest.mark.parametrize("method", [Embedder, SentBERT, XRTransformer])
def test_methods_that_download_from_the_hub_get_its_token(method):
    assert "HF_TOKEN" in method.environment
