"""Importing plug-in files as they are now, and their description by another process."""

import os
import sys

import pytest

from xmcbench import Method
from xmcbench.errors import PluginError
from xmcbench.plugins import loading
from xmcbench.plugins.inspection import Answer, Inspection, Plugin, Question
from xmcbench.plugins.loading import from_file, method_name

PLUGIN = """
from worthy.helper import WORTH as NESTED
from late_helper import WORTH as BESIDE

from xmcbench import Method

class Worth(Method):
    value = VALUE, BESIDE, NESTED

    def fit(self, raw_X, raw_Y, pairs=None):
        pass

    def predict(self, raw_X, k=100):
        pass
"""


@pytest.fixture(params=[False, True], ids=["elsewhere", "in a folder on the path"])
def worth(tmp_path, monkeypatch, request):
    """Write a plug-in with a value of its own, one of a module beside it and one of a package there, and import it."""

    def write_and_import(value):
        texts = {
            "worth.py": PLUGIN.replace("VALUE", str(value)),
            "late_helper.py": f"WORTH = {value}",
            "worthy/__init__.py": "",
            "worthy/helper.py": f"WORTH = {value}",
        }
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            os.utime(path, (1e9, 1e9))  # two edits within a second
        for name in ("worthy", "worthy.helper", "late_helper"):
            sys.modules.pop(name, None)
        (imported,) = from_file(tmp_path / "worth.py")
        return imported.usable().value

    monkeypatch.setattr(sys, "path", [*sys.path, *([str(tmp_path)] if request.param else [])])
    monkeypatch.setattr(loading, "_FOLDERS", [])
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return write_and_import


def test_an_edit_within_a_second_is_seen(worth, tmp_path):
    assert worth(1) == (1, 1, 1)
    assert worth(2) == (2, 2, 2)
    assert not [*tmp_path.rglob("__pycache__")]


def test_the_packages_of_an_environment_beside_a_plugin_are_imported_as_ever(worth, tmp_path, monkeypatch):
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "far_away.py").write_text("X = 1")
    worth(1)
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, "far_away", raising=False)
    import far_away

    assert far_away.X == 1
    assert (packages / "__pycache__").is_dir()


BESIDE = """
import EARLY
from xmcbench import Method

class Twin(Method):
    def fit(self, raw_X, raw_Y, pairs=None):
        import LATE
    def predict(self, raw_X, k=100): ...
"""


@pytest.mark.parametrize(
    ("early", "late", "file"),
    [("twin", "json", "twin.py"), ("json", "twin", "twin.py"), ("near_FOLDER", "json", "twin/__init__.py")],
)
def test_two_modules_of_one_name_are_refused(tmp_path, monkeypatch, early, late, file):
    """Python imports the first one for both plug-ins, maybe only when they run."""
    monkeypatch.setattr(loading, "_FOLDERS", [])
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("near_one", "near_two", "twin"):
        sys.modules.pop(name, None)
    for folder in ("one", "two"):
        code = BESIDE.replace("EARLY", early).replace("LATE", late).replace("FOLDER", folder)
        for name, text in {"own.py": code, f"near_{folder}.py": "import twin\n", file: "WORTH = 1\n"}.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    assert from_file(tmp_path / "one" / "own.py")[0].usable()
    (found,) = from_file(tmp_path / "two" / "own.py")
    one, two = (tmp_path / folder / file for folder in ("one", "two"))
    assert found.problem.endswith(f": {two} and {one}, of another plug-in, have one name: rename one of them")
    assert from_file(tmp_path / "one" / "own.py")[0].usable()


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        ("MyMethod", "my-method"),
        ("LLMRerank", "llm-rerank"),
        ("XRLinear", "xr-linear"),
        ("BM25", "bm25"),
        ("MyBM25", "my-bm25"),
        ("BM25Plus", "bm25-plus"),
        ("TFIDF2", "tfidf2"),
        ("TFIDF", "tfidf"),
        ("KNNByText", "knn-by-text"),
        ("RankByLLM", "rank-by-llm"),
        ("T5Encoder", "t5-encoder"),
        ("ATitle", "a-title"),
        ("popular", "popular"),
        ("My_Method", "my_method"),
        ("X", "x"),
    ],
)
def test_the_name_of_a_method_has_the_words_of_its_class(cls, name):
    assert method_name(type(cls, (), {})) == name


ENDS = """
    import os
    from pathlib import Path
    from xmcbench import Method

    class Ends(Method):
        step: int = 0
        log: str = ""
        def describe(self):
            with Path(self.log).open("a") as log:
                log.write(f"{self.step} ")
            if self.step in (1, 3):
                os._exit(3)
            return f"step {self.step}"
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


def test_a_question_that_ends_the_process_does_not_lose_the_others(plugin, tmp_path):
    path, log = plugin(ENDS), tmp_path / "log"
    questions = [Question("ends", "describe", {"step": step, "log": str(log)}) for step in range(5)]
    inspection = Inspection(Plugin(file=str(path)), str(path))
    log.unlink(missing_ok=True)
    inspection.ask(questions)
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]
    inspection.ask(questions)
    for step, question in enumerate(questions):
        answer = inspection.answer(question)
        if step in (1, 3):
            with pytest.raises(PluginError, match="ends cannot be inspected: .*exit code 3"):
                answer.unwrap()
        else:
            assert answer.unwrap() == f"step {step}"
    assert log.read_text().split() == ["0", "1", "2", "3", "4"], "nothing is asked twice"


def test_an_interrupt_ends_a_plan_and_not_a_process_that_looks_at_a_plugin(plugin, monkeypatch):
    class Interrupted(Method):
        def describe(self):
            raise KeyboardInterrupt

        def fit(self, raw_X, raw_Y, pairs=None): ...

        def predict(self, raw_X, k=100): ...

    question = Question("ends", "describe", {})
    with pytest.raises(KeyboardInterrupt):
        Answer.of(Interrupted, question)
    inspection = Inspection(Plugin(file=str(plugin(ENDS.replace("os._exit(3)", "raise KeyboardInterrupt")))), "here")
    answer = inspection.answer(Question("ends", "describe", {"step": 1, "log": "/dev/null"}))
    assert answer.message == "ends cannot be inspected: KeyboardInterrupt"

    def load(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", load)
    with pytest.raises(KeyboardInterrupt):
        loading.from_point(loading.point("tfidf"))
