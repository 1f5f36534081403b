"""Folders that come with xmcbench, found in a checkout and in an installed package."""

import sysconfig

import pytest

from xmcbench.storage import locations


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
