import os
import subprocess
import sys
import textwrap

import pytest

from xmcbench import UsageError
from xmcbench.errors import PluginError, Unavailable, UnknownName
from xmcbench.plugins import inspection
from xmcbench.plugins.loading import from_file, import_file, load
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import supervise
from xmcbench.records import Store
from xmcbench.storage.source import Sources

GOOD = """
    from xmcbench import Method, TopK

    class {name}(Method):
        '''Nothing.'''
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


def test_built_in_methods_come_by_entry_point():
    names = [entry.name for entry in Registry()]
    assert names == sorted(names)
    assert {"tfidf", "bm25", "xr-linear"} <= set(names)
    assert "xmcbench.methods.tfidf:Tfidf" in Registry()["tfidf"].origin


def test_unknown_method_suggests_one():
    with pytest.raises(UnknownName, match="did you mean 'tfidf'"):
        Registry()["tfifd"]


@pytest.mark.parametrize(("name", "expected"), [("MyBM25", "my-bm25"), ("Popularity", "popularity"), ("XR", "xr")])
def test_a_file_gives_its_classes_dashed_names(plugin, name, expected):
    path = plugin(GOOD.format(name=name))
    (entry,) = from_file(path)
    assert entry.name == expected
    assert entry.origin == f"{path}:4"
    assert Registry([path])[expected].usable().cls.endswith(f":{name}")
    import_file(path)
    assert load(expected).__name__ == name


_IMPORT = """
import sys, tempfile
from pathlib import Path
from xmcbench.plugins.loading import import_file

import_file(Path(sys.argv[1]))
assert [*Path(tempfile.gettempdir()).iterdir()]
"""


def test_an_import_leaves_no_files(plugin, tmp_path):
    """A program that loads a kept model imports its plug-in in its own process."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    path = plugin(GOOD.format(name="Mine"))
    subprocess.run([sys.executable, "-c", _IMPORT, str(path)], env={**os.environ, "TMPDIR": str(folder)}, check=True)
    assert not [*folder.iterdir()]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("def broken(:", "cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit"),
        ("x = 1", "defines no subclass"),
        (GOOD.format(name="A").replace("def fit", "def fitt"), "A does not define fit"),
        (GOOD.format(name="A").replace("def predict", "def guess"), "A does not define predict"),
        (GOOD.format(name="A") + "        alpha: list = None\n", "has the type"),
        (GOOD.format(name="A") + "        presets = {'quick': {'alpha': 1}}\n", "preset 'quick': unknown parameter"),
        (GOOD.format(name="A") + "        supervision = 'require'\n", "not one of unused, optional, required"),
        (
            GOOD.format(name="A") + "        ablation = {'1': {'alpha': 1}}\n",
            "row of the ablation '1': unknown parameter 'A.alpha'",
        ),
        (
            "    from typing import Annotated\n    from annotated_types import Ge\n"
            + GOOD.format(name="A")
            + "        steps: Annotated[int, Ge(1)] = 1\n        presets = {'quick': {'steps': 0}}\n",
            "preset 'quick': A.steps = 0 is out of range: it must be at least 1",
        ),
        (GOOD.format(name="A") + "        seed: int = 3\n", "A.seed is part of the contract"),
        (GOOD.format(name="A") + "        files = 'words.txt'\n", "A.files is 'words.txt': write ('words.txt',)"),
        (GOOD.format(name="A") + "        files = (3,)\n", "A.files is (3,), not names of files"),
    ],
)
def test_a_broken_file_is_an_entry_with_its_reason(plugin, source, problem):
    (entry,) = from_file(plugin(source))
    assert problem in entry.problem
    with pytest.raises(PluginError, match="plugin"):
        entry.usable()


@pytest.mark.parametrize(
    ("source", "problem"),
    [("def broken(:", "cannot be imported: SyntaxError"), ("x = 1", "defines no subclass of xmcbench.Method")],
)
def test_a_file_without_a_method_is_said_where_another_method_is_run(plugin, inside, source, problem):
    path = plugin(source)
    (note,) = Registry([path]).notes
    assert note.startswith(f"no method from {path}: {problem}")
    ended = inside("run", "--setting", "ez", "--methods", "tfidf", "--dry-run", "--plugin", path)
    assert (ended.returncode, ended.stderr.count(note)) == (0, 1), ended.stderr
    assert Registry([plugin(GOOD.format(name="A"))]).notes == []


def test_a_file_that_a_plug_in_declares_and_lacks_is_said_where_it_is_not_run(plugin, inside):
    path = plugin(GOOD.format(name="A") + "        files = ('words.txt',)\n" + GOOD.format(name="B"))
    (note,) = Registry([path]).notes
    said = f"a ({path}:4) cannot be used: has no source that can be read: [Errno 2] No such file or directory: "
    assert note == f"{said}'{path.with_name('words.txt')}'"
    ended = inside("run", "--setting", "ez", "--methods", "b", "--dry-run", "--plugin", path)
    assert (ended.returncode, ended.stderr.count(note)) == (0, 1), ended.stderr
    path.with_name("words.txt").write_text("a\n")
    assert Registry([path]).notes == []


def test_a_class_with_two_names_is_one_method(plugin):
    file = plugin("""
        from xmcbench import Method

        class Mine(Method):
            def fit(self, raw_X, raw_Y, pairs=None): ...
            def predict(self, raw_X, k=100): ...

        METHOD = Mine
    """)
    assert Registry([file])["mine"].usable()


def test_two_of_one_name_are_refused_with_both_origins(plugin):
    path = plugin(GOOD.format(name="Tfidf"))
    with pytest.raises(
        UsageError, match=r"two methods are called 'tfidf': .*xmcbench.methods.tfidf:Tfidf.* and .*plugin"
    ):
        Registry([path])
    first, second = plugin(GOOD.format(name="A"), "one.py"), plugin(GOOD.format(name="A"), "two.py")
    with pytest.raises(UsageError, match=r"one\.py.*two\.py"):
        Registry([first, second])


def test_a_class_with_an_underscore_is_a_base_of_others(plugin):
    path = plugin(
        """
        from xmcbench import Method

        class _Base(Method):
            def fit(self, raw_X, raw_Y, pairs=None): ...

        class Derived(_Base):
            def predict(self, raw_X, k=100): ...
        """
    )
    assert [(entry.name, bool(entry.description)) for entry in Registry([path]) if entry.plugin] == [("derived", True)]


def test_a_class_below_an_installed_method_has_its_own_name(plugin):
    """Unless it has a title, or one of a base that is no installed method."""
    path = plugin(
        """
        from xmcbench.methods.tfidf import Tfidf
        class _Base(Tfidf):
            title = "Of a base"
        class Below(_Base):
            ngrams: int = 3
        class MyTfidf(Tfidf):
            ngrams: int = 3
        class Titled(Tfidf):
            title = "Mine"
        """
    )
    registry = Registry([path])
    titles = {name: registry[name].title for name in ("below", "my-tfidf", "titled", "tfidf")}
    assert titles == {"below": "Of a base", "my-tfidf": "my-tfidf", "titled": "Mine", "tfidf": "TF-IDF"}


def test_a_file_that_cannot_be_imported_in_a_cell_alone_says_why(plugin):
    """The message was that there was no such method."""
    with pytest.raises(PluginError, match="cannot be imported: ZeroDivisionError"):
        import_file(plugin(GOOD.format(name="Mine") + "\n    1 / 0"))
    with pytest.raises(UnknownName):
        load("mine")


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no plug-in file"):
        from_file(tmp_path / "none.py")


def test_a_missing_package_is_named_with_its_command(plugin):
    source = GOOD.format(name="Lacking") + "        packages = {'no_such_package': 'no-such'}\n"
    path = plugin(source)
    entry = Registry([path])["lacking"]
    import_file(path)
    assert entry.description.missing == {"no_such_package": "no-such"}
    for ask in (entry.usable, lambda: load("lacking")):
        with pytest.raises(Unavailable, match="pip install no-such"):
            ask()


def test_a_package_that_is_installed_meanwhile_is_found(plugin, tmp_path, monkeypatch):
    """A notebook is one process."""
    source = GOOD.format(name="Late") + "        packages = {'installed_meanwhile': 'late'}\n"
    path = plugin(source)
    with pytest.raises(Unavailable, match="pip install late"):
        Registry([path])["late"].usable()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "installed_meanwhile.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert Registry([path])["late"].usable().missing == {}


def test_a_class_that_is_not_finished_is_not_a_method(plugin):
    source = "    from abc import ABC, abstractmethod\n" + GOOD.format(name="Base").replace("(Method)", "(Method, ABC)")
    source += "        @abstractmethod\n        def score(self): ...\n"
    source += "\n    class Whole(Base):\n        def score(self): ...\n"
    assert [entry.name for entry in from_file(plugin(source))] == ["whole"]


def test_a_file_goes_before_an_installed_plugin_of_its_name_and_says_so(installed, plugin, inside):
    installed("popularity", "popular", GOOD.format(name="Method_"))
    assert Registry()["popular"].origin == "popularity_module:Method_ in popularity"
    assert Registry().notes == []
    path = plugin(GOOD.format(name="Popular"))
    registry = Registry([path])
    assert registry["popular"].plugin == path
    note = f"using popular from {path}:4 instead of popularity_module:Method_ in popularity"
    assert registry.notes == [note]
    ended = inside("run", "--dataset", "lf-debian-2k", "--setting", "ez", "--methods", "popular", "--plugin", path)
    assert f"xmcbench: {note}\n" in ended.stderr
    for words in (("ls", "methods"), ("doctor",), ("check", path), ("confirm", "--full", "--runs", "runs")):
        said = inside(*words, *(() if words[0] == "check" else ("--plugin", path))).stderr
        assert said.count(note) == 1, (words, said)
    with pytest.raises(UsageError, match=r"two methods are called 'popular': .*plugin\.py:4 and .*other\.py:4"):
        Registry([path, plugin(GOOD.format(name="Popular"), "other.py")])


def test_a_file_that_is_named_twice_is_one(plugin, tmp_path):
    path = plugin(GOOD.format(name="Popular"))
    (tmp_path / "link.py").symlink_to(path)
    twice = Registry([path, path.parent / "." / ".." / path.parent.name / path.name, tmp_path / "link.py"])
    assert twice["popular"].description.title == Registry([path])["popular"].description.title


def test_neither_a_built_in_method_nor_another_package_gives_way(installed, plugin):
    for name in ("Tfidf", "BM25"):
        with pytest.raises(UsageError, match="two methods are called"):
            Registry([plugin(GOOD.format(name=name), f"{name}.py")])
    installed("first", "popular", GOOD.format(name="Method_"))
    installed("second", "popular", GOOD.format(name="Method_"))
    with pytest.raises(UsageError, match=r"two methods are called 'popular': .*_module:Method_ in .* and .*_module:"):
        Registry()


def test_an_installed_plugin_may_not_take_the_name_of_a_built_in_method(installed):
    installed("thief", "tfidf", GOOD.format(name="Method_"))
    with pytest.raises(UsageError, match="two methods are called 'tfidf': ") as caught:
        Registry()
    assert "thief_module:Method_ in thief" in caught.value.message
    assert "xmcbench.methods.tfidf:Tfidf in xmcbench" in caught.value.message


def test_a_broken_package_is_an_entry_with_its_reason(installed):
    installed("crooked", "crooked", "import nothing_of_that_name")
    assert Registry()["crooked"].problem.startswith("cannot be imported: ModuleNotFoundError")
    assert Registry()["tfidf"].problem == ""


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--setting", "ez", "--methods", "a", "--dry-run"],
        ["curve", "--methods", "a", "--dry-run"],
        ["ablation", "--method", "a", "--dry-run"],
        ["suggest", "--method", "a", "--out", "a.tsv"],
        ["ls", "methods"],
    ],
)
def test_a_file_that_starts_a_command_on_import_does_not_start_it_again(xmcbench, plugin, tiny, tmp_path, words):
    """Without a guard, each import would start a process that imports the file."""
    given = [*words, *([] if words[0] == "ls" else ["--dataset", str(tiny)]), "--plugin", str(tmp_path / "plugin.py")]
    code = f"""
    from contextlib import redirect_stderr
    from xmcbench.command.main import main

    with open({str(tmp_path / "said")!r}, "a") as stream, redirect_stderr(stream):
        main({given!r})
    """
    plugin(textwrap.dedent(GOOD.format(name="A")) + textwrap.dedent(code))
    xmcbench(*given, timeout=60)
    assert "it starts a run on import (move that below `if __name__" in (tmp_path / "said").read_text()


def test_today_s_code_knows_what_each_preset_sets(plugin, tmp_path):
    path = plugin(GOOD.format(name="A") + "        steps: int = 9\n        presets = {'quick': {'steps': 2}}\n")
    registry = Registry([path, plugin("raise SystemExit(3)", "broken.py")])
    staleness = registry.staleness(tmp_path)
    assert staleness.presets["a"] == {"": {"steps": 9}, "quick": {"steps": 2}}
    assert staleness.presets.keys() == staleness.sources.keys() >= {"a", "bm25"}
    assert "broken" not in staleness.sources


def test_only_the_code_of_judged_methods_is_read(tmp_path, monkeypatch, record):
    read = []
    fresh = Sources.of
    monkeypatch.setattr(Sources, "of", lambda sources, method: read.append(method.__name__) or fresh(sources, method))
    staleness = Registry([]).staleness(tmp_path)
    assert staleness.problem(record("tfidf")).startswith("stale")
    assert staleness.find_missing_methods(record("nobodys")) == ["nobodys"]
    assert read == ["Tfidf"]


def test_a_list_of_results_asks_a_plugin_about_all_of_them_at_once(plugin, inside, tmp_path, record, monkeypatch):
    """Starting a process takes half a second."""
    started = []
    monkeypatch.setattr(inspection, "supervise", lambda *given: started.append(given) or supervise(*given))
    uses = "        steps: int = 9\n        def uses(self):\n            return ('tfidf',)\n"
    path, store = plugin(GOOD.format(name="A") + uses), Store(tmp_path / "runs")
    for steps in range(4):
        store.write(record("a", steps=steps))
    store.write(record("nobodys"))
    listed = inside("ls", "results", "--plugin", path, "--json", code=0)
    assert listed.stdout.count('"stale: the method') == 4
    assert len(started) == len(["describe", "uses"])
