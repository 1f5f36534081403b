"""The recipes and the notebook of docs/, run as they are written; the commands; and the tests that promises name."""

import ast
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from xmcbench import Artifacts, load_dataset
from xmcbench.arguments import make_grids
from xmcbench.command import request
from xmcbench.command.main import VERBS, parser
from xmcbench.command.settings_file import expand
from xmcbench.contract import CheckRequest, check
from xmcbench.experiment import Options, only_ablation
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.tfidf import Tfidf
from xmcbench.metrics import slices
from xmcbench.plugins.description import Description
from xmcbench.plugins.loading import from_file
from xmcbench.plugins.registry import Registry
from xmcbench.runner.grid import ablation_rows, curve_grids, requests_of
from xmcbench.runner.rows import resolve
from xmcbench.setting import Setting

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md"))]
#: Pages with methods that commands of all pages name.
METHODS = ("your-method.md", "tutorial.md")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def recipes():
    """The code of each recipe. An encoder with weights takes half a minute."""
    for block in blocks("your-method.md"):
        slow = [pytest.mark.slow] if "DualEncoder" in block else []
        yield pytest.param(block, id=re.search(r"class (\w+)", block)[1], marks=slow)


@pytest.mark.parametrize("block", [*recipes()])
def test_a_recipe_holds_the_contract(block, tmp_path):
    path = tmp_path / "recipe.py"
    path.write_text(block)
    (entry,) = from_file(path)
    assert [
        finding for finding in check(CheckRequest(name=entry.name, plugin=str(path))) if finding.status != "ok"
    ] == []


def test_the_recipe_of_two_rankings_puts_the_first_one_first(tmp_path):
    (block,) = [block for block in blocks("your-method.md") if "class Backup" in block]
    (tmp_path / "recipe.py").write_text(block)
    (entry,) = from_file(tmp_path / "recipe.py")
    data = load_dataset("lf-debian-2k")
    new = data.test.take(np.arange(40))

    def rank_texts(kind):
        method = kind()
        method.artifacts = Artifacts(tmp_path / "store")
        method.fit(data.train, data.labels)
        return method.predict(new, 200).indices

    found, first, second = (rank_texts(method) for method in (entry.method, Tfidf, BM25))
    added = 0
    for row, one, other in zip(found.tolist(), first.tolist(), second.tolist(), strict=True):
        before = [label for label in one if label >= 0]
        after = [label for label in other if label >= 0 and label not in before]
        added += bool(after)
        assert [label for label in row if label >= 0] == (before + after)[:200]
    assert added, "the second method has nothing to add, so this shows nothing"


@pytest.mark.usefixtures("_few_permutations")
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


def commands():
    """(page, command) for every line of a shell block that starts xmcbench."""
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        fenced = re.findall(r"^```(?:bash|console)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        indented = re.findall(
            r"^ {4}.*$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
        )
        for line in "\n".join([*fenced, *indented]).splitlines():
            found = re.search(rf"(?:^|\s)xmcbench ((?:{'|'.join(VERBS)})\b.*)", line)
            if found:
                command = found[1].partition(" > ")[0]
                yield pytest.param(page, command, id=f"{page.name}: {command[:60]}")


#: Commands that read results or plan cells, by their first words. With --dry-run the latter take a second.
READING = re.compile(r"(cite|clean|compare|data info|doctor|explain|export (paper|qrels|table)|ls|power|rank)\b")
PLANNING = re.compile(r"(ablation|curve|run)\b")
#: Parts of commands about data, models, methods and machines that only the reader has.
ABSENT = re.compile(
    r"path/|papers\.csv|hf:|my-|lf-amazon|-dev|--dataset big|--plugin|--config|--on ray|--preset scratch|--processes|"
    r"judgments\.jsonl"
)
#: A line that cannot be wrapped: a command, and one that ends in a digest.
WHOLE = re.compile(r" *xmcbench .*|.*\b[0-9a-f]{64}")


def short_commands():
    """Every command that takes seconds on a checkout, once; those of two pages have tests of their own."""
    found = {}
    for page, command in (given.values for given in commands()):
        if page.name in ("tutorial.md", "thesaurus.md") or ABSENT.search(command):
            continue
        words = shlex.split(command, comments=True)
        if PLANNING.match(command):
            found[(*words, "--dry-run") if "--dry-run" not in words else (*words,)] = ()
        elif READING.match(command):
            found[(*words,)] = (pytest.mark.slow,) if words[:2] == ["power", "--detect"] else ()
    return [pytest.param(words, id=" ".join(words), marks=marks) for words, marks in found.items()]


@pytest.fixture
def _few_permutations(monkeypatch):
    """An explanation takes seconds to make its 10,000 permutations, and nobody reads these p-values."""
    monkeypatch.setattr(slices, "PERMUTATIONS", 100)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of the board by the name that pages give their folder: `runs` has those on the default dataset."""
    folder, board = tmp_path_factory.mktemp("results"), DOCS.parent / "leaderboards"
    for kind in ("records", "ranks", "truth"):
        shutil.copytree(board / kind, folder / "leaderboards" / kind)
        if kind != "truth":
            shutil.copytree(board / kind / "lf-debian-2k", folder / "runs" / kind / "lf-debian-2k")
    shutil.copytree(board / "truth", folder / "runs" / "truth")
    return {"leaderboards": folder / "leaderboards", "paper": folder / "leaderboards", "runs": folder / "runs"}


@pytest.mark.usefixtures("_few_permutations")
@pytest.mark.parametrize("words", short_commands())
def test_a_command_runs_and_fits_a_terminal(inside, results, tmp_path, monkeypatch, words):
    for name, folder in results.items():
        (tmp_path / name).symlink_to(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    ended = inside(*words, code=0)
    if words[0] != "cite":  # which is for a file
        lines = [line for line in ended.stdout.splitlines() if not WHOLE.fullmatch(line)]
        assert [line for line in lines if cell_len(line) > 80] == []


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """The installed methods, and those that the pages take as examples of one's own."""
    folder = tmp_path_factory.mktemp("plugins")
    sources = [block for page in METHODS for block in blocks(page) if "class " in block and "DualEncoder" not in block]
    sources.append(
        "from xmcbench import Method\n\nclass MyMethod(Method):\n    def fit(self, raw_X, raw_Y, pairs=None): ..."
    )
    # One file: each is inspected by a process.
    (folder / "examples.py").write_text("\n\n".join(sources))
    return Registry([folder / "examples.py"])


@pytest.mark.parametrize(("page", "command"), [*commands()])
def test_a_command_names_known_flags_methods_and_parameters(page, command, registry, tmp_path, monkeypatch):
    """Datasets are not looked up: most of them are not on this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Description, "missing", {})  # the names are looked at, whatever is installed
    Path("leaderboards").symlink_to(DOCS.parent / "leaderboards")
    Path("table.toml").write_text("".join(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)[:1]))
    words = shlex.split(command, comments=True)
    given = [parser().parse_args(line) for line in expand(words, lambda: parser().below(words[0]).flags())]
    match words[0]:
        case "run":
            grids, _ = make_grids([request.grid(line, line.methods) for line in given], Options())
            requests = requests_of(grids)
        case "curve":
            shares = [Setting.at(ratio, "label") for ratio in (0, 0.5, 1)]
            grids, _ = make_grids([request.grid(line, line.methods) for line in given], Options(), shares)
            requests = requests_of([curve for grid in grids for curve in curve_grids(grid, registry)])
        case "ablation":
            methods = [line.method or only_ablation(registry) for line in given]
            grids, _ = make_grids([*map(request.grid, given, ([name] for name in methods))], Options())
            requests = [row for grid in grids for _, row in ablation_rows(grid, registry)]
        case _:
            return
    assert all(rows for rows, _ in resolve(requests, registry))


def test_the_page_on_models_says_of_each_method_whether_it_can_be_kept():
    page = (DOCS / "keep-a-model.md").read_text(encoding="utf-8").casefold()
    titles = [entry.description.title for entry in Registry() if entry.description]
    assert len(titles) > 20
    assert [title for title in titles if not re.search(rf"\b{re.escape(title.casefold())}\b", page)] == []
