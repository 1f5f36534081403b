"""README.md: short, and true. Its figures are those of the board, its commands run, its links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from xmcbench.command.main import parser
from xmcbench.leaderboard.rows import rows
from xmcbench.records import Store

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text()
REMARKS = sorted((ROOT / "leaderboards" / "remarks").glob("*.md"))
COMMAND = re.compile(r"^(?: {4})?xmcbench (?!--)(.*)$", re.MULTILINE)
#: Columns of the table that are metrics.
METRICS = ("P@1", "R@10", "R@100")


def table():
    """The rows of the table, each as column -> text."""
    head, _, *body = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")
    ]
    return [dict(zip(head, cells, strict=True)) for cells in body]


@pytest.fixture(scope="module")
def row_of_title():
    """(title, preset) -> the row of the committed records for the command above the table."""
    (command,) = [line for line in COMMAND.findall(TEXT) if "--methods all" in line]
    given = parser().parse_args(shlex.split(command))
    records = [
        record
        for record in Store(ROOT / "leaderboards").records()
        if record.cell.dataset == "LF-Debian-2K"
        and record.cell.setting.slug == f"fs-label-{given.ratio[0]}"
        and given.setting == ["fs"]
    ]
    return {(row.facts.title, row.facts.preset): row for row in rows(records, "self")}


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 130
    assert len(TEXT.encode()) <= 8000


def test_the_table_has_the_figures_of_the_records(row_of_title):
    assert 1 <= len(table()) <= 8
    for shown in table():
        assert list(shown) == ["Method", "Preset", *METRICS]
        figures = row_of_title[shown["Method"], shown["Preset"]].figures
        assert {name: shown[name] for name in METRICS} == {name: f"{100 * figures[name].value:.1f}" for name in METRICS}


def test_the_table_is_in_the_order_that_it_claims(row_of_title):
    assert "best P@1 first" in " ".join(TEXT.split())
    places = [list(row_of_title).index((shown["Method"], shown["Preset"])) for shown in table()]
    assert places == sorted(places)
    first = table()[0]
    assert places[0] == 0, f"{first['Method']} is not the best"


def test_all_other_methods_of_the_run_are_named(row_of_title):
    (named,) = re.findall(r"The others are (.*?);", " ".join(TEXT.split()))
    others = {title for title, _ in row_of_title} - {shown["Method"] for shown in table()}
    assert {name.lower() for name in re.split(r", | and ", named)} == {title.lower() for title in others}
    assert f"{len(table())} of its {len(row_of_title)} rows" in TEXT


def run(command, folder):
    words = [sys.executable, "-m", "xmcbench", *shlex.split(command)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_first_run_prints_what_is_shown(tmp_path):
    (shown,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    printed = run(COMMAND.findall(TEXT)[0], tmp_path)
    lines = [line.split() for line in printed.splitlines()]
    assert all(line.split() in lines for line in shown.splitlines() if "±" in line)
    assert shown.count("±") > 20


def test_the_method_runs_and_has_the_figures_that_are_told(tmp_path):
    pytest.importorskip("sklearn")
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) == 10
    (name,) = re.findall(r"in a file `(.*?)`", TEXT)
    (tmp_path / name).write_text(code)
    (command,) = [line for line in COMMAND.findall(TEXT) if "--plugin" in line]
    lines = [line.split() for line in run(command, tmp_path).splitlines()]
    (names,) = [line[1:] for line in lines if line[:2] == ["Method", "P@1"]]
    (cells,) = [line[1::2] for line in lines if line[:1] == ["trigrams"] and "±" in " ".join(line)]
    figures = dict(zip(names, cells, strict=True))
    told = dict(re.findall(r"([PR]@\d+) (\d+\.\d)", " ".join(re.findall(r"adds a row.*", TEXT))))
    assert told == {name: f"{float(figures[name].rstrip('*')):.1f}" for name in METRICS}


@pytest.mark.parametrize("page", [README, *REMARKS], ids=lambda page: page.name)
def test_every_command_is_one(page):
    commands = COMMAND.findall(page.read_text())
    assert commands or page != README
    for command in commands:
        parser().parse_args(shlex.split(command, comments=True))  # exits where it is none


@pytest.mark.parametrize("page", [README, *REMARKS, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    home = ROOT / "leaderboards" if page in REMARKS else page.parent
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (home / target).exists(), target
