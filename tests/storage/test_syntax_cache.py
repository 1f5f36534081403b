import json

import pytest

from xmcbench.storage import syntax_cache
from xmcbench.storage.syntax import Syntax
from xmcbench.storage.syntax_cache import syntax_of


@pytest.fixture
def noted(own_cache, tmp_path):
    """A file of source, its syntax, and the note of it in the cache."""
    file = tmp_path / "module.py"
    file.write_text("import numpy\nRATE = 1\n")
    syntax = syntax_of(file, "module", 0)
    (note,) = (own_cache / "sources").glob("*.json")
    return file, syntax, note


def _fail(*_):
    raise AssertionError("the file was parsed")


def test_a_file_is_parsed_once(noted, monkeypatch):
    file, syntax, _ = noted
    monkeypatch.setattr(syntax_cache, "parsed", _fail)
    assert syntax_of(file, "module", 1) == syntax
    assert syntax.imports == ("numpy",)


def test_other_content_or_another_name_is_parsed(noted, monkeypatch):
    file, syntax, _ = noted
    assert syntax_of(file, "package.module", 1) == syntax
    monkeypatch.setattr(syntax_cache, "parsed", _fail)
    with pytest.raises(AssertionError, match="parsed"):
        syntax_of(file, "another", 1)
    file.write_text("import numpy\nRATE = 2\n")
    with pytest.raises(AssertionError, match="parsed"):
        syntax_of(file, "module", 2)


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"tree": "0", "imports": []}', "forged"])
def test_a_damaged_note_is_not_believed(noted, damage):
    file, syntax, note = noted
    if damage == "forged":
        damage = json.dumps({**json.loads(note.read_text()), "tree": "0"})
    note.write_text(damage)
    assert syntax_of(file, "module", 1) == syntax
    assert syntax_of(file, "module", 2) == syntax != Syntax("0", ())
