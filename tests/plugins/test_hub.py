"""A hub whose host has no address is not asked, and the client is as it was before."""

import subprocess
import sys
from typing import ClassVar

import pytest
from huggingface_hub import constants

from xmcbench import Method
from xmcbench.plugins import hub
from xmcbench.plugins.hub import has_no_address, offline_without_address

#: RFC 2606 keeps this name without an address.
NOWHERE = "https://hub.invalid"


class Needs(Method):
    """Needs the hub's client."""

    packages: ClassVar = {"huggingface_hub": "huggingface-hub"}


class Free(Method):
    """Needs no package."""


@pytest.fixture(autouse=True)
def online(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def offline(method):
    with offline_without_address(method):
        return constants.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    ("method", "endpoint", "expected"),
    [
        (Needs, NOWHERE, True),
        (Needs, f"https://{'a' * 64}.invalid", True),
        (Needs, "http://127.0.0.1:1", False),
        (Free, NOWHERE, False),
    ],
    ids=["no address", "not a name", "an address", "another method"],
)
def test_the_client_is_offline_where_the_host_has_no_address(monkeypatch, method, endpoint, expected):
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    assert offline(method) is expected
    assert constants.HF_HUB_OFFLINE is False


@pytest.mark.parametrize(("endpoint", "expected"), [(NOWHERE, True), ("http://127.0.0.1:1", False)])
def test_a_host_has_an_address_or_none(monkeypatch, endpoint, expected):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert has_no_address() is expected
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    assert has_no_address() is False


def test_a_proxy_knows_addresses_of_its_own(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    assert offline(Needs) is False


@pytest.mark.parametrize("endpoint", [NOWHERE, "http://127.0.0.1:1"])
def test_a_client_that_is_offline_stays_so(monkeypatch, endpoint):
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert offline(Needs) is True
    assert constants.HF_HUB_OFFLINE is True


def test_the_client_is_as_before_where_the_method_raises(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    with pytest.raises(KeyError), offline_without_address(Needs):
        raise KeyError
    assert constants.HF_HUB_OFFLINE is False


def test_a_plan_without_the_hub_does_not_import_its_client(monkeypatch, tmp_path):
    """It took 0.3 of 0.9 seconds of a plan of all methods."""
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    words = ["-X", "importtime", "-m", "xmcbench", "run", "--setting", "ez", "--methods", "rerank", "--dry-run"]
    planned = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True, cwd=tmp_path)
    imported = {line.rpartition("|")[2].strip() for line in planned.stderr.splitlines()}
    assert "the hub cannot be reached" in planned.stderr
    assert "huggingface_hub.constants" in imported
    assert not imported & {"httpx", "huggingface_hub.hf_api"}


def test_an_address_is_looked_up_once_a_minute(monkeypatch):
    """A resolver without a network can take seconds for each answer, and a board asks hundreds of times."""
    asked, clock = [], [0.0]
    monkeypatch.setattr(hub.socket, "getaddrinfo", lambda *given: asked.append(given))
    monkeypatch.setattr(hub.time, "monotonic", lambda: clock[0])
    hub._look_up.cache_clear()
    assert all(hub._has_address("https://hub.example") for _ in range(3))
    assert asked == [("hub.example", None)]
    clock[0] = 61.0
    assert hub._has_address("https://hub.example")
    assert len(asked) == 2
    hub._look_up.cache_clear()
