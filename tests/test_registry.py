import pytest

from xmcbench import UsageError
from xmcbench.errors import PluginError, UnknownName
from xmcbench.registry import Registry, from_file

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
    assert Registry([path])[expected].usable().__name__ == name


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nothing_of_that_name", "does not import: ModuleNotFoundError"),
        ("def broken(:", "does not import: SyntaxError"),
        ("raise SystemExit(3)", "does not import: SystemExit"),
        ("x = 1", "defines no subclass"),
        (GOOD.format(name="A").replace("def fit", "def fitt"), "A has no fit"),
        (GOOD.format(name="A").replace("def predict", "def guess"), "A has no predict"),
        (GOOD.format(name="A") + "        alpha: list = None\n", "is of type"),
        (GOOD.format(name="A") + "        presets = {'quick': {'alpha': 1}}\n", "preset 'quick': unknown parameter"),
        (GOOD.format(name="A") + "        supervision = 'require'\n", "not one of unused, optional, required"),
        (GOOD.format(name="A") + "        seed: int = 3\n", "A.seed is a name of the contract"),
    ],
)
def test_a_broken_file_is_an_entry_with_its_reason(plugin, source, problem):
    (entry,) = from_file(plugin(source))
    assert problem in entry.problem
    with pytest.raises(PluginError, match="plugin"):
        entry.usable()


def test_two_of_one_name_are_refused_with_both_origins(plugin):
    path = plugin(GOOD.format(name="Tfidf"))
    with pytest.raises(
        UsageError, match=r"two methods are called 'tfidf': .*xmcbench.methods.tfidf:Tfidf.* and .*plugin"
    ):
        Registry([path])
    first, second = plugin(GOOD.format(name="A"), "one.py"), plugin(GOOD.format(name="A"), "two.py")
    with pytest.raises(UsageError, match=r"one\.py.*two\.py"):
        Registry([first, second])


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no plug-in file"):
        from_file(tmp_path / "none.py")


def test_a_missing_package_is_named_with_its_command(plugin):
    source = GOOD.format(name="A") + "        packages = {'no_such_package': 'no-such'}\n"
    (entry,) = from_file(plugin(source))
    assert entry.missing == {"no_such_package": "no-such"}
    with pytest.raises(Exception, match="pip install no-such"):
        entry.usable()
