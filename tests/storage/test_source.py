"""The digest of source code: what a result depends on changes it, and nothing else does."""

import importlib
import os
import re
import subprocess
import sys
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from xmcbench import environment
from xmcbench.plugins.loading import from_file
from xmcbench.plugins.registry import Registry
from xmcbench.storage import source, syntax
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.source import Sources, modules_digest, source_of
from xmcbench.storage.syntax import Syntax, find_edited, keep_first, save_readings, syntax_of

ROOT = Path(__file__).parents[2]

PACKAGE = {
    "__init__.py": "",
    "one.py": "from pack.rooms.shared import helper\nclass One:\n    steps = 1\n",
    "two.py": "class Two:\n    def fit(self):\n        from pack.rooms import late\n        return 1\n",
    "other.py": "x = 1\n",
    "util.py": "RATE = 1\n",
    "rooms/__init__.py": "",
    "rooms/shared.py": "def helper():\n    return 1\n",
    "rooms/late.py": "import pack.rooms.deep\ny = 1\n",
    "rooms/deep.py": "x = 1\n",
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write modules of the package ``pack``, with changes, and import it again."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(changes=()):
        for name, text in {**PACKAGE, **dict(changes)}.items():
            path = tmp_path / "pack" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in [name for name in sys.modules if name.split(".")[0] == "pack"]:
            del sys.modules[name]

    return make


@pytest.fixture
def digests(write):
    """The digests of the two classes of the package."""

    def compute(changes=()):
        write(changes)
        from pack.one import One
        from pack.two import Two

        return source_of(One).digest, source_of(Two).digest

    return compute


def find_differences(before, after):
    return [place for place, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]


@pytest.mark.parametrize(
    ("changed", "which"),
    [
        ("one.py", [0]),
        ("two.py", [1]),
        ("rooms/shared.py", [0]),
        ("rooms/late.py", [1]),
        ("rooms/deep.py", [1]),
        ("rooms/__init__.py", [0, 1]),
        ("__init__.py", [0, 1]),
        ("other.py", []),
    ],
)
def test_a_changed_constant_counts_for_what_imports_it(digests, changed, which):
    """At any depth, and inside functions; importing a module runs the packages above it."""
    before = digests()
    after = digests({changed: PACKAGE[changed].replace("1", "2") if PACKAGE[changed] else "x = 1\n"})
    assert find_differences(before, after) == which


@pytest.mark.parametrize("place", ["rooms/near.py", "rooms/inner/__init__.py", "rooms/inner/far.py", "rooms/deep.py"])
def test_relative_imports_count_too(digests, place):
    relative = {
        "one.py": "from .rooms import near\nclass One: ...\n",
        "rooms/near.py": "from . import inner\n",
        "rooms/inner/__init__.py": "from . import far as near\n",
        "rooms/inner/far.py": "def late():\n    from .. import deep\n",
    }
    before = digests(relative)
    after = digests({**relative, place: {**PACKAGE, **relative}[place] + "CHANGED = True\n"})
    assert find_differences(before, after) == ([0, 1] if place == "rooms/deep.py" else [0])


def test_a_folder_without_an_init_file_is_a_package_too(digests):
    bare = {"one.py": "from pack.bare import inside\nclass One: ...\n", "bare/inside.py": "x = 1\n"}
    assert find_differences(digests(bare), digests({**bare, "bare/inside.py": "x = 2\n"})) == [0]


FULL = '''"""A module."""
import math
from typing import TYPE_CHECKING, Annotated

from xmcbench import Doc, Method

class One(Method):
    """A class."""

    rate: Annotated[float, Doc("how fast", "another source", added=False)] = 0.5

    def fit(self, x: int) -> list:
        """A method."""
        if x < 0:
            raise ValueError(f"{x} is negative", "take another")
        return [x, "text", math.pi]
'''
SAME = {
    "a comment": ("import math", "import math  # for pi\n\n# and more"),
    "docstrings": ('"""A class."""', '"""Another class, described\n    in two lines."""'),
    "the docstring of a function": ('"""A method."""\n        ', ""),
    "the docstring of the module": ('"""A module."""', '"""Another."""'),
    "formatting": (
        '[x, "text", math.pi]',
        "[\n            x,\n            'text',\n            math.pi,\n        ]",
    ),
    "parentheses": ("if x < 0:", "if (x < 0):"),
    "the meaning of a parameter": ('"how fast", "another source"', '"how fast it learns"'),
    "the range of a parameter, whose values a record has": ("rate: Annotated[float,", "rate: Annotated[float, '>= 0',"),
    "the type of an argument": ("x: int", "x: float"),
    "the type of a result": (" -> list", ""),
    "an import for types": ("\nclass One(", "\nif TYPE_CHECKING:\n    from pack.other import x\n\nclass One("),
}
OTHER = {
    "a constant": ("0.5", "0.25"),
    "the type of a constant": ("0.5", "1 / 2"),
    "a name": ("rate", "ratio"),
    "a text": ('"text"', '"texts"'),
    "the message of an exception": ("is negative", "is less than 0"),
    "an operator": ("x < 0", "x <= 0"),
    "the kind of an exception": ("ValueError", "TypeError"),
    "an import": ("import math", "import cmath as math"),
    "the default of an argument": ("x: int", "x: int = 1"),
    "a field without a value": ("    rate:", "    steps: int\n    rate:"),
    "presets inside the module": ("    rate:", "    presets = {}\n    rate:"),
    "what runs where types are not checked": ("\nclass One(", "\nif not TYPE_CHECKING:\n    x = 1\n\nclass One("),
    "the other branch": (
        "\nclass One(",
        "\nif TYPE_CHECKING:\n    y: int\nelse:\n    from pack.other import x\n\nclass One(",
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_what_changes_no_result_changes_no_digest(digests, change):
    before = digests({"one.py": FULL})
    assert FULL.replace(*SAME[change]) != FULL
    assert digests({"one.py": FULL.replace(*SAME[change])}) == before


@pytest.mark.parametrize("change", OTHER)
def test_what_may_change_a_result_changes_the_digest(digests, change):
    before = digests({"one.py": FULL})
    assert find_differences(before, digests({"one.py": FULL.replace(*OTHER[change])})) == [0]


def test_a_module_imported_for_types_alone_does_not_count(digests):
    imports = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack import other\n"
    typed = {"one.py": f"{imports}class One: ...\n"}
    assert digests(typed) == digests({**typed, "other.py": "x = 2\n"})


@pytest.mark.parametrize("file", ["presets.py", "presets/one.py"])
def test_a_module_called_presets_does_not_count(digests, file):
    module = file.removesuffix(".py").replace("/", ".")
    named = {"one.py": f"from pack.{module} import SMALL\nclass One: presets = SMALL\n"}
    small = {file: "from pack.util import RATE\nSMALL = {'rate': RATE}\n"}
    before = digests({**named, **small})
    assert digests({**named, file: "SMALL = {'rate': 2}\n"}) == before
    assert digests({**named, **small, "util.py": "RATE = 2\n"}) == before


@pytest.mark.parametrize("names", ["('table.txt', 'rooms/data.bin')", "['table.txt', 'rooms/data.bin']"])
def test_files_that_a_class_declares_count(digests, tmp_path, names):
    declared = {"one.py": f"class One:\n    files = {names}\n"}
    files = {"table.txt": "1", "rooms/data.bin": "1"}
    before = digests({**declared, **files})
    for changed in files:
        assert find_differences(before, digests({**declared, **files, changed: "2"})) == [0]
    assert find_differences(before, digests({"one.py": declared["one.py"].replace("'table.txt', ", "")})) == [0]
    inherited = {**declared, "two.py": "from pack.one import One\nclass Two(One): ...\n"}
    assert find_differences(digests(inherited), digests({**inherited, **files, "table.txt": "2"})) == [0, 1]
    (tmp_path / "pack" / "table.txt").unlink()
    with pytest.raises(OSError, match=r"table\.txt"):
        source_of(sys.modules["pack.one"].One)
    (tmp_path / "pack" / "table.txt").mkdir()
    with pytest.raises(OSError, match=r"not a regular file: .*table\.txt"):
        source_of(sys.modules["pack.one"].One)


def test_the_modules_of_a_list_count_without_what_they_import(write):
    def digest(changes=()):
        write(changes)
        return modules_digest("pack.one", "pack.util")

    before = digest()
    assert digest({"rooms/shared.py": "x = 2\n", "__init__.py": "x = 1\n"}) == before
    assert digest({"util.py": "RATE = 2\n"}) != before


def test_a_process_that_keeps_the_first_reading_knows_which_files_were_edited(tmp_path, monkeypatch):
    file = tmp_path / "module.py"
    file.write_text("import numpy\nRATE = 1\n")

    def write(text, seconds):
        file.write_text(text)
        os.utime(file, (file.stat().st_mtime + seconds,) * 2)

    monkeypatch.setattr(syntax, "_readings", syntax._Readings())
    assert find_edited([file]) == []
    keep_first()
    first = syntax_of(file, "module")
    assert first.imports == ("numpy",)
    write("import numpy\nRATE = 1  # a comment\n", 1)
    assert find_edited([file]) == []
    write("import numpy\nRATE = 2\n", 2)
    assert syntax_of(file, "module") == first
    assert find_edited([file, tmp_path / "other.py"]) == [file]
    assert find_edited([]) == []


def digest_of(folder, module, files):
    """Return the digest of the class M in a module of a package that is written again. files: name -> content."""
    package = module.partition(".")[0]
    for name, text in files.items():
        (folder / package / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / package / name).write_text(text)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
    return source_of(importlib.import_module(module).M).digest


def test_a_package_of_somebody_counts_as_a_whole(tmp_path, monkeypatch):
    """``mypkg.methods.m`` is not a method of xmcbench: what it imports from ``mypkg`` is its own."""
    monkeypatch.syspath_prepend(tmp_path)

    def digest(rate):
        files = {
            "__init__.py": "",
            "util.py": f"RATE = {rate}\n",
            "methods/__init__.py": "",
            "methods/m.py": "from mypkg.util import RATE\nclass M: ...\n",
        }
        return digest_of(tmp_path, "mypkg.methods.m", files)

    assert digest(1) == digest(1) != digest(2)


def test_a_package_in_a_folder_of_several_authors_counts_alone(tmp_path, monkeypatch):
    """``company`` is a namespace package: it has no file of its own."""
    monkeypatch.syspath_prepend(tmp_path)

    def digest(rate, other):
        files = {
            "ours/__init__.py": "",
            "ours/util.py": f"RATE = {rate}\n",
            "ours/m.py": "from company.ours.util import RATE\nclass M: ...\n",
            "theirs/__init__.py": f"RATE = {other}\n",
        }
        return digest_of(tmp_path, "company.ours.m", files)

    assert digest(1, 1) == digest(1, 22) != digest(333, 1)


@pytest.mark.parametrize("content", ["def broken(:\n    {}\n", "x = '\0{}'\n"])
def test_a_module_that_does_not_parse_counts_as_it_is(digests, content):
    """A listing of methods has to survive it, and a change of it is a change."""
    late = {"two.py": "class Two:\n    def fit(self):\n        from pack import broken\n"}
    before = digests({**late, "broken.py": content.format(1)})
    assert find_differences(before, digests({**late, "broken.py": content.format(22)})) == [1]


def test_a_deep_module_counts_with_what_it_imports(digests):
    """Python compiles a chain of ``elif`` of any length."""
    chain = "".join(f"elif x == {place}:\n    y = {place}\n" for place in range(1_000))
    deep = "from pack import far\nx = 1\nif x == -1:\n    y = 0\n" + chain
    late = {"two.py": "class Two:\n    def fit(self):\n        from pack import deep\n", "far.py": "z = 1\n"}
    before = digests({**late, "deep.py": deep})
    assert find_differences(before, digests({**late, "deep.py": deep + "# a comment\n"})) == []
    assert find_differences(before, digests({**late, "deep.py": deep.replace("y = 999", "y = 9")})) == [1]
    assert find_differences(before, digests({**late, "deep.py": deep, "far.py": "z = 2\n"})) == [1]


PLUGIN = """
    import {module}
    from xmcbench import Method

    class A(Method):
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


@pytest.fixture
def of_plugin(plugin, tmp_path):
    """The digest of a plug-in file under a name, read again."""

    def digest(text, name="plugin.py"):
        plugin(text, name)
        (entry,) = from_file(tmp_path / name)
        return source_of(entry.usable()).digest

    return digest


def test_of_a_plugin_file_is_of_the_file(of_plugin):
    text = PLUGIN.format(module="json")
    assert of_plugin(text) == of_plugin(text + "\n    # a comment\n") != of_plugin(text + "\n    RATE = 1\n")


@pytest.mark.parametrize("name", ["my-method.py", "method.v2.py", "two words.py"])
def test_any_name_of_a_plugin_file_will_do(of_plugin, name):
    text = PLUGIN.format(module="json")
    assert of_plugin(text, name) != of_plugin(text + "\n    RATE = 1\n", name)


@pytest.mark.parametrize("neighbor", ["neighbor_a.py", "neighbor_b/__init__.py", "neighbor_c/inside.py"])
def test_what_is_beside_a_plugin_file_counts(of_plugin, plugin, tmp_path, neighbor):
    module = neighbor.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    (tmp_path / neighbor).parent.mkdir(exist_ok=True)
    plugin("RATE = 1\n", neighbor)
    plugin("RATE = 1\n", "stranger.py")
    text = PLUGIN.format(module=module)
    before = of_plugin(text)
    plugin("RATE = 2\n", "stranger.py")
    assert of_plugin(text) == before
    plugin("RATE = 2\n", neighbor)
    assert of_plugin(text) != before


def test_a_compiled_module_beside_a_plugin_file_counts(of_plugin, tmp_path):
    compiled = tmp_path / f"neighbor{EXTENSION_SUFFIXES[0]}"
    compiled.write_bytes(b"\x7fELF 1")
    text = PLUGIN.format(module="json") + "        def late(self):\n            import neighbor\n"
    before = of_plugin(text)
    compiled.write_bytes(b"\x7fELF 2")
    assert of_plugin(text) != before


def test_what_is_beside_a_plugin_file_counts_behind_a_link(plugin, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    plugin(PLUGIN.format(module="neighbor_d"), "real/plugin.py")
    found = []
    for rate in (1, 2):
        plugin(f"RATE = {rate}\n", "real/neighbor_d.py")
        (entry,) = from_file(tmp_path / "link" / "plugin.py")
        found.append(source_of(entry.usable()).digest)
    assert found[0] != found[1]


def test_an_installed_package_goes_before_a_neighbor_of_its_name(of_plugin, plugin):
    plugin("x = 1\n", "msgspec.py")
    before = of_plugin(PLUGIN.format(module="msgspec"))
    plugin("x = 2\n", "msgspec.py")
    assert of_plugin(PLUGIN.format(module="msgspec")) == before


def test_a_plugin_that_builds_on_a_method_depends_on_it(of_plugin, monkeypatch):
    text = PLUGIN.format(module="xmcbench.methods.tfidf")
    before = of_plugin(text)
    parsed = source.syntax_of

    def with_a_change(file, name):
        found = parsed(file, name)
        return found if file.name != "ngrams.py" else Syntax("changed", found.imports)

    monkeypatch.setattr(source, "syntax_of", with_a_change)
    assert of_plugin(text) != before
    assert of_plugin(PLUGIN.format(module="xmcbench")) == of_plugin(PLUGIN.format(module="xmcbench"))


def test_built_in_methods_have_their_own():
    digests = dict(Registry().sources)
    assert len({*digests.values()}) == len(digests) >= 9
    assert digests == dict(Registry().sources)


def test_the_modules_that_every_result_runs_through_count(monkeypatch):
    before, parsed = source_of(Path).digest, source.syntax_of
    for changed in ("texts.py", "topk.py", "prediction.py"):
        monkeypatch.setattr(
            source,
            "syntax_of",
            lambda file, name, changed=changed: Syntax("changed", ()) if file.name == changed else parsed(file, name),
        )
        assert source_of(Path).digest != before, changed


def test_packages_of_others_are_named(write):
    imports = "import numpy.linalg, os\nfrom scipy.sparse import csr_matrix\nfrom pack import util\n"
    write({"one.py": f"{imports}class One: ...\n"})
    from pack.one import One

    assert {"numpy", "scipy"} <= {*source_of(One).packages}
    assert not {"os", "pack", "xmcbench"} & {*source_of(One).packages}


def test_what_was_read_for_one_object_serves_the_next(write, tmp_path, monkeypatch):
    write({"two.py": "import numpy\nclass Two:\n    def fit(self):\n        from pack.rooms import shared\n"})
    from pack.one import One
    from pack.two import Two

    # Two plug-in files of the same name, each with a module beside it.
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"near_{folder}.py").write_text("x = 1\n")
        (tmp_path / folder / "own.py").write_text(
            f"import near_{folder}\nfrom xmcbench import Method\nclass Own(Method):\n"
            "    def fit(self, raw_X, raw_Y, pairs=None): ...\n    def predict(self, raw_X, k): ...\n"
        )
    plugins = [from_file(tmp_path / folder / "own.py")[0].method for folder in "ab"]
    objects = [One, Two, *plugins, One]
    alone = [source_of(value) for value in objects]
    read = []
    monkeypatch.setattr(
        source, "syntax_of", lambda file, *rest, real=source.syntax_of: read.append(file) or real(file, *rest)
    )
    sources = Sources()
    assert [sources.of(value) for value in objects] == alone
    assert len(read) == len({*read})
    assert len({found.digest for found in alone}) == 4


def test_versions_are_part_of_the_key_of_an_artifact_and_not_of_a_source(write, tmp_path, monkeypatch):
    write({"one.py": "import numpy\nclass One: ...\ndef build(folder): ...\n"})
    from pack.one import One, build

    def now():
        store = Artifacts(tmp_path / "artifacts")
        return store.get("kind", {}, build).name, store.unfinished("kind", {}, One).name, source_of(One).digest

    before = now()
    version = environment._version
    monkeypatch.setattr(environment, "_version", lambda name: "99.0" if name == "numpy" else version(name))
    assert [one == other for one, other in zip(before, now(), strict=True)] == [False, False, True]


def test_the_key_of_an_artifact_has_the_source_of_all_that_is_used(write, tmp_path):
    def folders(changes=()):
        write({"util.py": "def build(folder): ...\n", **dict(changes)})
        from pack.one import One
        from pack.util import build

        store = Artifacts(tmp_path / "artifacts")
        return [store.get("kind", {}, build).name, store.get("kind", {}, build, uses=(One(),)).name]

    before = folders()
    assert find_differences(before, folders({"rooms/shared.py": "def helper():\n    return 2\n"})) == [1]
    assert find_differences(before, folders({"util.py": "def build(folder):\n    return 2\n"})) == [0, 1]


def test_the_key_of_an_artifact_has_the_source_of_a_function_with_arguments(write, tmp_path):
    """A partial function is of the module functools, which never changes."""

    def folder(body):
        write({"util.py": f"def build(folder, number): return {body}\n"})
        from pack.util import build

        return Artifacts(tmp_path / "artifacts").get("kind", {}, partial(partial(build), number=1)).name

    assert folder("number") == folder("number") != folder("-number")


#: All kinds of syntax whose trees versions of Python could print differently.
SAMPLE = '''"""A module."""
from __future__ import annotations
import numpy as np

NUMBERS = [1, 10**20, 123456789012345678901234567890, 0.1, 1e300, 1j, -2, True, None, ...]
TEXTS = "a" "b", b"\\x00", u"u", f"{NUMBERS[0]!r:>{10}} and {{}}" " more" f"{1 + 1=}", r"\\d", "\\u00e4\\U0001f600"

@decorated(1)
async def late(a, /, b: int = 2, *args, c, d=4, **kwargs) -> None:
    """A function."""
    async with a as (b, c), d:
        await b
    return [x async for x in a if x], {**kwargs}, {1, *b}, (y := 3), lambda z: z[1:2, ::3]

class A(B, metaclass=C):
    """A class."""
    x: int = 1
    def f(self):
        try:
            yield from (1 if self else 2,)
        except* ValueError as error:
            raise TypeError("message", 1) from error
        else:
            global G; del G
        finally:
            assert not self, "text"
        match self:
            case {"a": [1, *_], **rest} | A(x=2) if rest:
                pass
            case None | "b" | -1:
                pass
'''
PINNED = "9e2a887b10ed9478ef1831ae64af0f9ad19bbc5b4c61c7c9031dee22757769a5"


def test_a_digest_is_pinned(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sample_of_syntax.py").write_text(SAMPLE)
    assert Sources().of_modules("sample_of_syntax").digest == PINNED


@pytest.fixture
def parsed(own_cache, monkeypatch):
    """The sources that are parsed, with an empty cache; ``forget`` is the start of another process."""
    found = []

    def parse(content, name, is_package, real=syntax._parse):
        found.append(content.decode())
        return real(content, name, is_package)

    monkeypatch.setattr(syntax, "_parse", parse)
    _forget()
    yield found
    _forget()


def _forget():
    syntax._syntax.cache_clear()
    syntax._memory.cache_clear()


def test_a_later_process_parses_what_has_changed(parsed, tmp_path):
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(f"import {file.stem}_needs\n")

    def read():
        _forget()
        found = [syntax_of(file, file.stem) for file in files]
        save_readings()
        return found

    first = read()
    assert parsed == ["import one_needs\n", "import two_needs\n"]
    assert read() == first
    assert len(parsed) == 2
    state = files[0].stat()
    files[0].write_text("import another\n")
    os.utime(files[0], ns=(state.st_atime_ns, state.st_mtime_ns))  # the content counts, not the time
    changed = read()
    assert changed[0].imports == ("another",)
    assert changed[1] == first[1]
    assert parsed[2:] == ["import another\n"]
    # A name counts too: relative imports are those of another package.
    _forget()
    syntax_of(files[1], "pack.two")
    assert parsed[3:] == ["import two_needs\n"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b'{"a": ["tree"]}'])
def test_a_damaged_memory_is_written_anew(parsed, own_cache, tmp_path, damage):
    own_cache.mkdir()
    (own_cache / "syntax.json").write_bytes(damage)
    file = tmp_path / "one.py"
    file.write_text("x = 1\n")
    for _ in range(2):
        _forget()
        syntax_of(file, "one")
        save_readings()
    assert parsed == ["x = 1\n"]


def test_a_memory_that_cannot_be_read_stays(parsed, own_cache, tmp_path, monkeypatch):
    """The cache is hidden from cells."""

    def refuse(path):
        raise PermissionError(13, "no", str(path))

    own_cache.mkdir()
    (own_cache / "syntax.json").write_bytes(b"kept")
    monkeypatch.setattr(syntax, "read_bytes", refuse)
    file = tmp_path / "one.py"
    file.write_text("x = 1\n")
    assert syntax_of(file, "one").imports == ()
    save_readings()
    assert (own_cache / "syntax.json").read_bytes() == b"kept"


def test_another_reader_remembers_nothing(parsed, tmp_path, monkeypatch):
    file = tmp_path / "one.py"
    file.write_text("x = 1\n")
    for reader in (b"this", b"later"):
        _forget()
        monkeypatch.setattr(syntax, "_reader", lambda reader=reader: reader)
        syntax_of(file, "one")
        save_readings()
    assert len(parsed) == 2


def test_a_script_has_a_source(tmp_path):
    (tmp_path / "beside.py").write_text("RATE = 1\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import beside\nfrom xmcbench.storage.source import source_of\nclass A: ...\nprint(source_of(A).digest)\n"
    )

    alone = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    def digest():
        return subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=alone).stdout

    before = digest()
    (tmp_path / "beside.py").write_text("RATE = 22\n")
    assert digest() != before


def test_a_neighbor_that_python_does_not_find_elsewhere_is_one(tmp_path, monkeypatch):
    (tmp_path / "nowhere_else").mkdir()
    for name in ("nowhere_else/inside.py", "without_spec.py", "json.py"):
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "without_spec", ModuleType("without_spec"))
    beside = source._Package("", tmp_path)
    assert beside.files_of_import("nowhere_else.inside")
    assert beside.files_of_import("without_spec")
    assert not beside.files_of_import("json")  # Python's own goes first
    assert not beside.files_of_import("absent")


def test_no_key_holds_a_number_that_somebody_has_to_raise():
    """Digests of code do that. The protocol of the metrics has a version because readers compare by it."""
    files = [path for folder in ("xmcbench", "methods") for path in (ROOT / folder).rglob("*.py")]
    named = re.compile(r"^_?[A-Z_]*VERSION\b *(?::[^=]*)?=", re.MULTILINE)
    assert len(files) > 200
    assert {path.name for path in files if named.search(path.read_text())} == {"protocol.py"}
