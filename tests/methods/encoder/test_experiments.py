"""The committed experiments: every grid is read, and methods of one budget embed the same number of texts."""

import tomllib
from pathlib import Path

import pytest

from xmcbench.plugins.registry import Registry

FILES = sorted((Path(__file__).parents[3] / "leaderboards" / "experiments").glob("*.toml"))


def rows(path):
    """Yield the rows of each grid, described in words."""
    registry = Registry()
    for grid in tomllib.loads(path.read_text())["grid"]:
        described = []
        for spec in grid["methods"]:
            name, _, preset = spec.partition(":")
            entry = registry[name]
            values = {**(entry.declared.presets[preset] if preset else {}), **grid.get("set", {}).get(name, {})}
            described.append(entry.describe(entry.declared.resolve(name, values)))
        yield described


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_method_and_preset_of_an_experiment_is_known(path):
    assert all(map(len, rows(path)))


def test_the_methods_of_one_budget_embed_as_many_texts():
    (path,) = (path for path in FILES if path.stem == "budgets")
    for described in rows(path):
        texts = [float(name.rpartition(", ")[2].removesuffix("K texts")) for name in described]
        assert max(texts) <= 1.01 * min(texts), described
