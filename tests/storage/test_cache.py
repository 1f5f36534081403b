from pathlib import Path

import pytest

from xmcbench.storage.cache import cache_root


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({}, Path.home() / ".cache" / "xmcbench"),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/xmcbench")),
        ({"XDG_CACHE_HOME": "/x", "XMCBENCH_CACHE": "/y"}, Path("/y")),
        ({"XDG_CACHE_HOME": "", "XMCBENCH_CACHE": ""}, Path.home() / ".cache" / "xmcbench"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, root):
    for name in ("XDG_CACHE_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == root
