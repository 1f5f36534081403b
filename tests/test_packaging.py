"""pyproject.toml agrees with the tree: every package and every dataset is shipped."""

import tomllib
from importlib import metadata
from pathlib import Path

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


def test_every_method_is_announced():
    announced = PROJECT["project"]["entry-points"]["xmcbench.methods"]
    # A method is a module, or a package with a module of that name.
    modules = {path.stem for path in (ROOT / "methods").glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in (ROOT / "methods").glob("*/method.py")}
    assert {target.split(":")[0].removeprefix("xmcbench.methods.") for target in announced.values()} == modules
    installed = {point.name for point in metadata.entry_points(group="xmcbench.methods")}
    assert set(announced) <= installed


def test_every_dependency_is_pinned_in_the_tested_set():
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["cpu"], *extras["offline"], *extras["dev"]]
    names = {requirement.split(">")[0].lower() for requirement in wanted}
    assert names <= pinned
