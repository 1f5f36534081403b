"""The command that installs a missing package."""

import email
import sys
from importlib.metadata import requires

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from xmcbench import Unavailable, extras, installation
from xmcbench.extras import data_frame
from xmcbench.plugins.registry import Registry

METADATA = """\
Requires-Dist: numpy
Requires-Dist: torch>=2; extra == "encoders"
Requires-Dist: sentence-transformers>=5.4; extra == "encoders"
Requires-Dist: libpecos>=1.2.8; (python_version < "3.13" and sys_platform == "linux") and extra == "pecos"
Requires-Dist: libpecos; extra == "all"
Requires-Dist: icu4py; extra == "dev"
Provides-Extra: all
Provides-Extra: dev
Provides-Extra: encoders
Provides-Extra: pecos
"""


@pytest.fixture
def metadata(monkeypatch):
    monkeypatch.setattr(extras.metadata, "metadata", lambda name: email.message_from_string(METADATA))
    extras._extra.cache_clear()
    yield
    extras._extra.cache_clear()


@pytest.fixture
def on(monkeypatch):
    def place(python, system, machine):
        names = {"Linux": "linux", "Darwin": "darwin"}
        environment = {**default_environment(), "python_version": python, "sys_platform": names[system]}
        monkeypatch.setattr("packaging.markers.default_environment", lambda: environment)
        monkeypatch.setattr(extras.platform, "python_version_tuple", lambda: (*python.split("."), "1"))
        monkeypatch.setattr(extras.platform, "system", lambda: system)
        monkeypatch.setattr(extras.platform, "machine", lambda: machine)

    return place


@pytest.mark.parametrize(
    ("packages", "command"),
    [
        (["numpy"], "pip install numpy"),
        (["somebodys"], "pip install somebodys"),
        (["torch"], "pip install 'xmcbench[encoders]'"),
        (["torch", "numpy", "Sentence_Transformers"], "pip install 'xmcbench[encoders]' numpy"),
        (["libpecos"], "pip install 'xmcbench[pecos]'"),
        (["icu4py"], "pip install icu4py"),
    ],
)
def test_commands(metadata, on, packages, command):
    on("3.12", "Linux", "x86_64")
    assert installation(*packages) == command


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("3.13", "Linux", "aarch64"), "there is no libpecos for Python 3.13 on Linux aarch64"),
        (("3.12", "Darwin", "arm64"), "there is no libpecos for Python 3.12 on Darwin arm64"),
    ],
)
def test_there_may_be_no_package(metadata, on, place, words):
    on(*place)
    assert installation("torch", "libpecos") == words


def test_a_checkout_that_is_not_installed(monkeypatch):
    def fail(name):
        raise extras.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras.metadata, "metadata", fail)
    extras._extra.cache_clear()
    assert installation("torch") == "pip install torch"
    extras._extra.cache_clear()


def test_every_package_of_a_built_in_method_is_in_the_core_or_in_an_extra():
    stated = {canonicalize_name(Requirement(line).name) for line in requires("xmcbench")}
    used = {package for entry in Registry() for package in entry.declared.packages.values()}
    assert {*map(canonicalize_name, used)} <= stated


def test_a_data_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Unavailable, match="a DataFrame needs pandas"):
        data_frame([{"a": 1}])
