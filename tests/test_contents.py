"""A parameter that names a file, a folder, or a model counts by its content."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest

from xmcbench import Method
from xmcbench.errors import DataError, UsageError
from xmcbench.method import contents, identity_values
from xmcbench.methods.encoder import backbone
from xmcbench.methods.encoder.backbone import MINILM, model_input
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.parts import through
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import Request
from xmcbench.setting import Setting
from xmcbench.storage import fingerprint as fingerprints

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Reader(Method):
    """Reads a file."""

    table: str = "none"
    steps: int = 1

    def fit(self, raw_X, raw_Y, pairs=None): ...
    def predict(self, raw_X, k=100): ...


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("one")
    return path


@pytest.fixture(autouse=True)
def _changes_are_seen_at_once(monkeypatch, own_cache):
    monkeypatch.setattr(fingerprints, "_SETTLED_S", -1)


def test_a_file_counts_by_its_content_and_not_by_its_name(file):
    before = contents(Reader(table=str(file)))
    assert before["table"].startswith("sha256:")
    assert contents(Reader(table=str(shutil.copy(file, file.with_name("copy.txt"))))) == before
    file.write_text("two")
    assert contents(Reader(table=str(file))) != before


def test_a_folder_counts_by_all_files_below_it_but_hidden_ones(tmp_path):
    folder = tmp_path / "model"
    (folder / "pooling").mkdir(parents=True)
    (folder / "weights").write_text("1")
    (folder / "pooling" / "config").write_text("2")
    reader = Reader(table=str(folder))
    before = contents(reader)
    (folder / ".lock").write_text("of another program")
    (folder / "above").symlink_to(folder)
    assert contents(reader) == before
    (folder / "pooling" / "config").write_text("3")
    assert contents(reader) != before


def test_a_file_in_a_linked_folder_counts(tmp_path):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "linked").symlink_to(elsewhere)
    before = contents(Reader(table=str(folder)))
    (elsewhere / "weights").write_text("1")
    assert contents(Reader(table=str(folder))) != before


def test_a_link_to_a_folder_beside_it_counts_in_any_order(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    for name in "ac":
        (folder / name).mkdir(parents=True)
        (folder / name / "weights").write_text(name)
    (folder / "b").symlink_to("a")
    (folder / "a" / "above").symlink_to(folder)
    walk, found = os.walk, set()
    for order in (sorted, lambda names: sorted(names, reverse=True)):

        def in_order(top, order=order, **options):
            for parent, below, names in walk(top, **options):
                below[:] = order(below)
                yield parent, below, names

        monkeypatch.setattr(fingerprints.os, "walk", in_order)
        found.add(fingerprints.fingerprint_folder(folder))
    assert len(found) == 1
    (folder / "b").unlink()
    (folder / "b").symlink_to("c")
    assert fingerprints.fingerprint_folder(folder) not in found


def test_folders_that_link_to_each_other_are_refused(tmp_path, monkeypatch):
    """There are more ways through them than anybody can wait for."""
    monkeypatch.setattr(fingerprints, "_MOST_FILES", 100)
    names = [str(number) for number in range(12)]
    for name in names:
        (tmp_path / name).mkdir()
        for other in names:
            (tmp_path / name / f"to-{other}").symlink_to(tmp_path / other)
    with pytest.raises(UsageError, match="more than 100 files or folders"):
        contents(Reader(table=str(tmp_path)))


def test_a_folder_with_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "_MOST_FILES", 2)
    for name in "ab":
        (tmp_path / name).write_text(name)
    contents(Reader(table=str(tmp_path)))
    (tmp_path / "c").write_text("c")
    with pytest.raises(UsageError, match="more than 2 files or folders"):
        contents(Reader(table=str(tmp_path)))


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "weights").write_text("1")
    (tmp_path / "below").mkdir()
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("below"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="cannot read .*below: Permission denied"):
        fingerprints.fingerprint_folder(tmp_path)


@pytest.mark.parametrize("table", ["none", "", "no-such-file", "a\0b", "x" * 5000, "~no-such-user/file"])
def test_other_values_keep_their_name(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").write_text("a file that is called like the default")
    assert identity_values(Reader(table=table)) == {"table": table, "steps": 1}


def test_the_two_names_of_weights_that_are_verified_need_no_content():
    assert model_input("model", MINILM) == {}
    assert model_input("model", "scratch:1x32") == {}


def test_a_model_of_the_hub_counts_by_its_commit(tmp_path, monkeypatch):
    snapshot = tmp_path / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    monkeypatch.setattr(backbone, "_find_cached", lambda model: snapshot if model == "mine/model" else None)
    assert model_input("model", "mine/model") == {"model": f"mine/model@{COMMIT}"}
    assert model_input("model", "mine/other") == {}, "offline, its commit is not known"


def test_a_model_that_is_not_downloaded_counts_by_the_commit_of_the_hub(monkeypatch):
    import huggingface_hub
    from huggingface_hub import constants

    backbone._ask.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(backbone, "_find_cached", lambda model: None)
    answer = SimpleNamespace(model_info=lambda model, timeout: SimpleNamespace(sha=COMMIT))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: answer)
    assert model_input("model", "mine/model") == {"model": f"mine/model@{COMMIT}"}
    backbone._ask.cache_clear()


def test_without_the_client_of_the_hub_its_models_count_by_their_name(monkeypatch):
    """Pages must come out the same where the packages of a method are missing."""
    monkeypatch.setattr(backbone, "find_spec", lambda name: None)
    monkeypatch.setattr("xmcbench.plugins.hub.find_spec", lambda name: None)
    assert model_input("model", "mine/model") == {}
    assert Registry()["ict"].contents({"backbone": "mine/model"}) == {}


PLUGIN = """
    from xmcbench import Method, TopK
    import numpy as np

    class Table(Method):
        supervision = "unused"
        deterministic = True
        table: str = "none"

        def fit(self, raw_X, raw_Y, pairs=None):
            self.first = int(open(self.table).read())
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            scores = np.zeros((len(raw_X), self.labels), np.float32)
            scores[:, self.first] = 1
            return TopK.from_scores(scores, k)
"""


@pytest.fixture
def figures(inside, tiny, plugin):
    """Run the plug-in with a table: the state of its cell, and its P@1."""
    file = plugin(PLUGIN, "table.py")

    def run(table, *flags):
        words = ("run", "--dataset", tiny, "--setting", "ez", "--plugin", file, "--methods", "table", "--runs", "r")
        done = inside(*words, "--set", f"table.table={table}", "--json", *flags, code=0)
        (record,) = json.loads(done.stdout)["records"]
        return "cached" if "cached" in done.stderr else "run", record

    return run


def test_a_replaced_file_is_another_cell(figures, tmp_path):
    table = tmp_path / "table.txt"
    table.write_text("3")
    state, first = figures("table.txt")
    table.write_text("7")
    again, second = figures("table.txt")
    assert (state, again) == ("run", "run")
    assert first["key"] != second["key"]
    assert first["cell"]["parameters"]["table"] != second["cell"]["parameters"]["table"]
    assert first["method"]["names"] == second["method"]["names"] == {"table": "table.txt"}
    table.write_text("3")
    assert figures("table.txt") == ("cached", first)


def test_one_path_from_two_folders_is_two_cells(figures, tmp_path, monkeypatch):
    keys = []
    for name, label in (("a", "3"), ("b", "7")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.txt").write_text(label)
        monkeypatch.chdir(tmp_path / name)
        keys.append(figures("table.txt", "--runs", str(tmp_path / "r"))[1]["key"])
    assert len({*keys}) == 2


def test_the_record_can_be_made_again(figures, inside, tmp_path, plugin, tiny):
    (tmp_path / "table.txt").write_text("3")
    _, record = figures("table.txt")
    words = ("reproduce", record["key"][:12], "--runs", "r", "--dataset", tiny, "--plugin", plugin(PLUGIN, "table.py"))
    assert inside(*words).returncode == 0
    (tmp_path / "table.txt").write_text("7")
    refused = inside(*words, code=2)
    assert "selects a different cell" in refused.stderr
    assert "parameters.table" in refused.stderr


def test_a_file_that_changes_after_planning_is_an_error(figures, inside, tmp_path, monkeypatch, tiny, plugin):
    from xmcbench.runner import tasks

    made = tasks.cell_job

    def late(*arguments, **more):
        job = made(*arguments, **more)
        (tmp_path / "table.txt").write_text("7")
        return job

    (tmp_path / "table.txt").write_text("3")
    monkeypatch.setattr(tasks, "cell_job", late)
    words = ("run", "--dataset", tiny, "--setting", "ez", "--plugin", plugin(PLUGIN, "table.py"), "--methods", "table")
    done = inside(*words, "--set", "table.table=table.txt", "--runs", "r", code=1)
    assert "table.txt (table.table) has changed since the run was planned" in done.stderr + done.stdout


def test_the_content_of_the_files_of_a_part_is_part_of_the_source(tiny, plugin, tmp_path, file):
    user = f"""
        from typing import ClassVar
        from xmcbench import Method

        class Inner(Method):
            table: str = "none"
            presets: ClassVar = {{"quick": {{"table": {str(file)!r}}}}}
            def fit(self, raw_X, raw_Y, pairs=None): ...
            def predict(self, raw_X, k=100): ...

        class Outer(Method):
            def uses(self):
                return ("inner",)
            def fit(self, raw_X, raw_Y, pairs=None): ...
            def predict(self, raw_X, k=100): ...
    """
    registry = Registry([plugin(user, "outer.py")])

    def source():
        request = Request(str(tiny), Setting.of("ez"), methods=("outer",))
        return plan([request], registry, Store(tmp_path / "runs")).cells[0].source_sha256

    before = source()
    assert source() == before
    file.write_text("two")
    registry = Registry([tmp_path / "outer.py"])
    assert source() != before


def test_parts_have_the_content_of_their_files(file, monkeypatch):
    values = [given for _, given in through(Reader(table=str(file)))]
    assert values == [{"table": contents(Reader(table=str(file)))["table"], "steps": 1}]
