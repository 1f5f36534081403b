from pathlib import Path

import pytest

from xmcbench.errors import StorageError
from xmcbench.storage.locations import cache_root


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({}, Path.home() / ".cache" / "xmcbench"),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/xmcbench")),
        ({"XDG_CACHE_HOME": "/x", "XMCBENCH_CACHE": "/y"}, Path("/y")),
        ({"XMCBENCH_CACHE": "~/y"}, Path.home() / "y"),
        ({"XDG_CACHE_HOME": "", "XMCBENCH_CACHE": ""}, Path.home() / ".cache" / "xmcbench"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, root):
    for name in ("XDG_CACHE_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == root


def test_a_user_without_a_home(monkeypatch):
    def refuse():
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", refuse)
    with pytest.raises(StorageError, match="no home directory for the cache") as raised:
        cache_root()
    assert "XMCBENCH_CACHE" in raised.value.hint
