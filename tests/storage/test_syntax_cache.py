import json
import os

import pytest

from xmcbench.storage import syntax_cache
from xmcbench.storage.syntax import Syntax
from xmcbench.storage.syntax_cache import edited, keep_first, syntax_of


@pytest.fixture
def noted(own_cache, tmp_path):
    """A file of source, its syntax, and the note of it in the cache."""
    file = tmp_path / "module.py"
    file.write_text("import numpy\nRATE = 1\n")
    syntax = syntax_of(file, "module")
    (note,) = (own_cache / "sources").glob("*.json")
    return file, syntax, note


def later(file, seconds=1):
    """The file as if it was written again."""
    os.utime(file, (file.stat().st_mtime + seconds,) * 2)
    return file


def _fail(*_):
    raise AssertionError("the file was parsed")


def test_a_file_is_parsed_once(noted, monkeypatch):
    file, syntax, _ = noted
    monkeypatch.setattr(syntax_cache, "parsed", _fail)
    assert syntax_of(later(file), "module") == syntax
    assert syntax.imports == ("numpy",)


def test_other_content_or_another_name_is_parsed(noted, monkeypatch):
    file, syntax, _ = noted
    assert syntax_of(later(file), "package.module") == syntax
    monkeypatch.setattr(syntax_cache, "parsed", _fail)
    with pytest.raises(AssertionError, match="parsed"):
        syntax_of(later(file), "another")
    file.write_text("import numpy\nRATE = 2\n")
    with pytest.raises(AssertionError, match="parsed"):
        syntax_of(later(file), "module")


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"tree": "0", "imports": []}', "forged"])
def test_a_damaged_note_is_not_believed(noted, damage):
    file, syntax, note = noted
    if damage == "forged":
        damage = json.dumps({**json.loads(note.read_text()), "tree": "0"})
    note.write_text(damage)
    assert syntax_of(later(file), "module") == syntax
    assert syntax_of(later(file), "module") == syntax != Syntax("0", ())


def test_a_process_that_keeps_the_first_reading_knows_what_was_edited(noted, tmp_path, monkeypatch):
    file, syntax, _ = noted
    monkeypatch.setattr(syntax_cache, "_readings", syntax_cache._Readings())
    assert edited([file]) == []
    keep_first()
    assert syntax_of(file, "module") == syntax
    later(file).write_text("import numpy\nRATE = 1  # a comment\n")
    assert edited([file]) == []
    later(file, 2).write_text("import numpy\nRATE = 2\n")
    assert syntax_of(file, "module") == syntax
    assert edited([file, tmp_path / "other.py"]) == [file]
    assert edited([]) == []
