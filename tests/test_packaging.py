"""pyproject.toml agrees with the tree: every package and every dataset is shipped."""

import tomllib
from collections import Counter
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_room_is_a_package():
    rooms = {"xmcbench" if room == Path() else f"xmcbench.{room}".replace("/", ".") for room in _rooms("xmcbench")}
    rooms |= {
        "xmcbench.methods" if room == Path() else f"xmcbench.methods.{room}".replace("/", ".")
        for room in _rooms("methods")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == rooms


def _rooms(folder):
    return [path.parent.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("__init__.py")]


def test_every_dataset_is_shipped_and_none_is_python():
    targets = PROJECT["tool"]["setuptools"]["data-files"]
    shipped = {target.rpartition("/")[2] for target in targets if target.startswith("share/xmcbench/datasets/")}
    assert shipped == {path.name for path in (ROOT / "datasets").iterdir()}
    assert not list((ROOT / "datasets").rglob("*.py"))


def test_the_evidence_of_equal_sources_is_shipped():
    files = PROJECT["tool"]["setuptools"]["data-files"]
    assert files["share/xmcbench/leaderboards"] == ["leaderboards/equivalent.json"]
    assert files["share/xmcbench/leaderboards/canaries"] == ["leaderboards/canaries/*"]


def test_every_method_is_announced():
    announced = PROJECT["project"]["entry-points"]["xmcbench.methods"]
    # A method is a module or, where it has parts, the package of these.
    modules = {path.stem for path in (ROOT / "methods").glob("*.py")} - {
        "__init__",
        "declarations",
        "kernels",
        "label_text",
        "presets",
    }
    packages = (ROOT / "methods").glob("*/__init__.py")
    modules |= {path.parent.name for path in packages if "\n    title = " in path.read_text(encoding="utf-8")}
    assert {target.split(":")[0].removeprefix("xmcbench.methods.") for target in announced.values()} == modules
    installed = {point.name for point in metadata.entry_points(group="xmcbench.methods")}
    assert set(announced) <= installed


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_tested_set_has_one_version_of_every_dependency(python):
    environment = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = Counter(pin.name for pin in map(Requirement, lines) if _applies(pin, environment))
    assert {name for name, times in pinned.items() if times > 1} == set()
    extras = PROJECT["project"]["optional-dependencies"]
    others = chain.from_iterable(wanted for extra, wanted in extras.items() if extra != "gpu")
    wanted = map(Requirement, [*PROJECT["project"]["dependencies"], *others])
    names = {canonical(requirement.name) for requirement in wanted if _applies(requirement, environment)}
    assert names - {"xmcbench"} <= {canonical(name) for name in pinned}


def _applies(requirement, environment):
    return requirement.marker is None or requirement.marker.evaluate(environment)


def test_all_is_every_extra_but_another_faiss_and_the_tools():
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.name == "xmcbench"
    assert everything.extras == set(extras) - {"all", "gpu", "dev"}


def test_no_dependency_of_the_core_brings_torch():
    """Requirements are read from the packages that are installed here."""
    core = map(Requirement, PROJECT["project"]["dependencies"])
    seen, waiting = set(), [requirement.name for requirement in core if _applies(requirement, {})]
    while waiting:
        name = canonical(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        required = map(Requirement, metadata.requires(name) or [])
        waiting += [requirement.name for requirement in required if _applies(requirement, {"extra": ""})]
    assert "torch" not in seen
