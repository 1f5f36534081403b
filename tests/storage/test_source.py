import sys

import pytest

from xmcbench.registry import Registry, from_file
from xmcbench.storage.source import source_digest

PACKAGE = {
    "__init__.py": "",
    "one.py": "from pack.rooms.shared import helper\nclass One: ...\n",
    "two.py": "class Two:\n    def fit(self):\n        from pack.rooms import late\n",
    "other.py": "x = 1\n",
    "rooms/__init__.py": "",
    "rooms/shared.py": "def helper(): ...\n",
    "rooms/late.py": "import pack.rooms.deep\n",
    "rooms/deep.py": "x = 1\n",
}


@pytest.fixture
def digest(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def compute(changes=()):
        for name, text in {**PACKAGE, **dict(changes)}.items():
            path = tmp_path / "pack" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in [name for name in sys.modules if name.split(".")[0] == "pack"]:
            del sys.modules[name]
        from pack.one import One
        from pack.two import Two

        return source_digest(One), source_digest(Two)

    return compute


@pytest.mark.parametrize(
    ("changed", "which"),
    [("one.py", (0,)), ("rooms/shared.py", (0,)), ("rooms/late.py", (1,)), ("rooms/deep.py", (1,)), ("other.py", ())],
)
def test_depends_on_what_a_method_imports_from_its_package(digest, changed, which):
    before = digest()
    after = digest({changed: PACKAGE[changed] + "# changed\n"})
    assert [place for place in (0, 1) if before[place] != after[place]] == list(which)


@pytest.mark.parametrize("place", ["rooms/near.py", "rooms/inner/__init__.py", "rooms/inner/far.py", "rooms/deep.py"])
def test_relative_imports_count_too(digest, place):
    relative = {
        "one.py": "from .rooms import near\nclass One: ...\n",
        "rooms/near.py": "from .inner import far\n",
        "rooms/inner/__init__.py": "",
        "rooms/inner/far.py": "from .. import deep\n",
    }
    before = digest(relative)
    after = digest({**relative, place: {**PACKAGE, **relative}[place] + "# changed\n"})
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, place == "rooms/deep.py"]


def test_of_a_file_is_of_the_file(plugin):
    source = """
    from xmcbench import Method
    class A(Method):
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
    """
    one, two = (source_digest(from_file(plugin(text))[0].method) for text in (source, source + "\n    # changed\n"))
    assert one != two


def test_built_in_methods_have_their_own():
    digests = {name: source_digest(Registry()[name].usable()) for name in ("tfidf", "bm25", "xr-linear")}
    assert len(set(digests.values())) == 3
