"""The recipes and the notebook of docs/, run as they are written, and the tests that the promises name."""

import ast
import re
from pathlib import Path

import pytest

from xmcbench.contract import Question, check
from xmcbench.plugins.loading import from_file

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("block", blocks("recipes.md"), ids=lambda block: re.search(r"class (\w+)", block)[1])
def test_a_recipe_holds_the_contract(block, tmp_path):
    path = tmp_path / "recipe.py"
    path.write_text(block)
    (entry,) = from_file(path)
    assert [each for each in check(Question(name=entry.name, plugin=str(path))) if each.status != "ok"] == []


def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {}
    for block in blocks("notebook.md"):
        exec(compile(block, "notebook.md", "exec"), names)
    assert len(names["frame"]) == 2
    assert {"P@1", "P@1 low", "P@1 high", "total_s"} <= {*names["frame"]}
    assert names["scores"].values["P@1"] == pytest.approx(
        names["frame"].set_index("method").loc["tfidf", "P@1"], abs=1e-12
    )


def promises():
    """(promise, its tests) of every row of the tables in promises.md."""
    rows = [line for line in (DOCS / "promises.md").read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(f"{when}: {what}", tests) for when, what, tests in cells if when != "When" and set(when) != {"-"}]


@pytest.mark.parametrize(("promise", "tests"), promises(), ids=lambda text: text[:40])
def test_the_tests_of_a_promise_exist(promise, tests):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    assert named, f"no test is named for: {promise}"
    for path, name in named:
        tree = ast.parse((DOCS.parent / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path} has no {name}"
