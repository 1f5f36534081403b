"""Places of files: the cache of the user, and the folders that come with xmcbench."""

import sysconfig
from pathlib import Path

import pytest

from xmcbench.errors import StorageError
from xmcbench.storage import locations
from xmcbench.storage.locations import cache_root, hub_home


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({}, Path.home() / ".cache" / "xmcbench"),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/xmcbench")),
        ({"XDG_CACHE_HOME": "~/x"}, Path.home() / "x" / "xmcbench"),
        ({"XDG_CACHE_HOME": "/x", "XMCBENCH_CACHE": "/y"}, Path("/y")),
        ({"XMCBENCH_CACHE": "~/y"}, Path.home() / "y"),
        ({"XMCBENCH_CACHE": "~nosuchuser/y"}, Path("~nosuchuser/y")),
        ({"XDG_CACHE_HOME": "", "XMCBENCH_CACHE": ""}, Path.home() / ".cache" / "xmcbench"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, root):
    for name in ("XDG_CACHE_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == root


@pytest.mark.parametrize("name", ["HF_HOME", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("value", ["~/caches", "$HOME/caches"])
def test_the_hub_is_where_its_own_package_has_it(monkeypatch, name, value):
    for other in ("HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    caches = Path.home() / "caches"
    assert hub_home() == (caches if name == "HF_HOME" else caches / "huggingface")


def test_a_user_without_a_home(monkeypatch):
    def refuse():
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", refuse)
    with pytest.raises(StorageError, match="no home directory for the cache") as raised:
        cache_root()
    assert "XMCBENCH_CACHE" in raised.value.hint


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package somewhere else, in an environment that holds nothing: the folder that it lies in."""
    root, environment = tmp_path / "root", tmp_path / "environment"
    monkeypatch.setattr(locations, "__file__", str(root / "xmcbench" / "storage" / "locations.py"))
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(environment))
    monkeypatch.setattr(locations.sys, "prefix", str(environment))
    return root


def test_a_checkout_has_them_at_its_root(package):
    (package / "datasets").mkdir(parents=True)
    assert locations.find_shipped("datasets") is None  # somebody else's, as no project is there
    (package / "pyproject.toml").touch()
    assert locations.find_shipped("datasets") == package / "datasets"
    assert locations.find_shipped("leaderboards/published") is None


def test_an_installed_package_has_them_in_its_environment(package, tmp_path):
    beside = package / "share" / "xmcbench" / "datasets"
    beside.mkdir(parents=True)
    assert locations.find_shipped("datasets") == beside
    own = tmp_path / "environment" / "share" / "xmcbench" / "datasets"
    own.mkdir(parents=True)
    assert locations.find_shipped("datasets") == own
