"""Secrets in the environment of the user, and the processes that run code of a method."""

import pytest

import xmcbench
from xmcbench import Options
from xmcbench.contract import CheckRequest, check
from xmcbench.methods.embedder import Embedder
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.xr_transformer import XRTransformer
from xmcbench.plugins.registry import Registry
from xmcbench.processes.supervisor import without_secrets

SECRETS = {
    "HF_TOKEN": "1",
    "OPENAI_API_KEY": "2",
    "AWS_SECRET_ACCESS_KEY": "3",
    "CLIENT_SECRET": "4",
    "DB_PASSWORD": "5",
    "github_token": "6",
    "TOKEN": "7",
}
OTHERS = {"TOKENIZERS_PARALLELISM": "false", "MONKEY": "8", "KEYBOARD": "9", "OMP_NUM_THREADS": "1"}

SEEN = """
    import os
    from pathlib import Path
    from xmcbench import Method, Part, TopK

    def seen():
        return ",".join(sorted(name for name in os.environ if name in {names}))

    class Sees(Method):
        {named}
        notes_file: str = ""
        def describe(self):
            return seen()
        def require(self):
            Path({file!r}).write_text(seen())
        def fit(self, raw_X, raw_Y, pairs=None):
            self.notes["seen"], self.labels = seen(), len(raw_Y)
        def predict(self, raw_X, k=100):
            import numpy as np
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

    class Around(Method):
        environment = ("CLIENT_SECRET",)
        def uses(self):
            return ("sees",)
        def fit(self, raw_X, raw_Y, pairs=None):
            self.notes["seen"], self.labels = seen(), len(raw_Y)
        predict = Sees.predict
"""


@pytest.fixture
def sees(plugin, tmp_path, monkeypatch):
    """A plug-in that tells which of the secrets it sees, and the file in which it says so while a run is planned."""
    for name, value in {**SECRETS, **OTHERS}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "planned.txt"

    def write(named=""):
        return plugin(SEEN.format(names=sorted(SECRETS), named=named, file=str(file)))

    return write, file


def test_the_names_of_secrets(monkeypatch):
    for name, value in {**SECRETS, **OTHERS}.items():
        monkeypatch.setenv(name, value)
    assert not {*without_secrets()} & {*SECRETS}
    assert without_secrets().items() >= OTHERS.items()
    assert {*without_secrets(["HF_TOKEN", "github_token"])} & {*SECRETS} == {"HF_TOKEN", "github_token"}


@pytest.mark.parametrize(("named", "right"), [("", ""), ("environment = ('HF_TOKEN', 'MISSING_TOKEN')", "HF_TOKEN")])
def test_a_cell_gets_those_that_its_method_names(sees, tiny, tmp_path, named, right):
    write, planned = sees
    options = Options(runs=tmp_path / "runs", plugins=(write(named),))
    (record,) = xmcbench.run(tiny, methods="sees", options=options)
    assert (record.ok, record.notes["seen"]) == (True, right)
    assert planned.read_text() == right
    (around,) = xmcbench.run(tiny, methods="around", options=options)
    assert around.notes["seen"] == ",".join(filter(None, ["CLIENT_SECRET", right]))


def test_a_check_gets_those_that_the_method_names(sees, inside):
    """Its checks in the process of the check, and the one that runs a cell."""
    write, planned = sees
    for named, right in (("", ""), ("environment = ('DB_PASSWORD',)", "DB_PASSWORD")):
        path = write(named)
        assert inside("check", path).returncode == 0
        assert planned.read_text() == right
    found = check(CheckRequest(name="sees", plugin=str(path), environment=("DB_PASSWORD",)))
    assert {finding.status for finding in found} == {"ok"}


def test_the_import_of_a_plugin_gets_none(plugin, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "1")
    path = plugin(SEEN.format(names=["HF_TOKEN"], named="environment = ('HF_TOKEN',)", file=str(tmp_path / "x")))
    path.write_text(f"{path.read_text()}\nPath({str(tmp_path / 'imported')!r}).write_text('at import: ' + seen())\n")
    registry = Registry([path])
    assert registry["sees"].description.environment == ("HF_TOKEN",)
    assert (tmp_path / "imported").read_text() == "at import: "


def test_what_is_not_a_tuple_of_names_breaks_the_contract(plugin, tmp_path):
    path = plugin(SEEN.format(names=[], named="environment = 'HF_TOKEN'", file=str(tmp_path / "x")))
    assert "breaks the contract" in Registry([path])["sees"].problem


@pytest.mark.parametrize("method", [Embedder, SentBERT, XRTransformer])
def test_methods_that_download_from_the_hub_get_its_token(method):
    assert "HF_TOKEN" in method.environment
