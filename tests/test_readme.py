"""README.md and the remarks: their tables are those of the board, their commands are commands."""

import re
import shlex
from pathlib import Path

import pytest

from xmcbench.command.main import parser

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BOARD = sorted((ROOT / "leaderboards").glob("*.md"))
PAGES = [README, *sorted((ROOT / "leaderboards" / "remarks").glob("*.md"))]


def test_every_table_stands_on_a_page_of_the_board():
    rows = [line for line in README.read_text().splitlines() if line.startswith(("|", "<sup>"))]
    board = {line for page in BOARD for line in page.read_text().splitlines()}
    assert len(rows) > 10
    assert [row for row in rows if row not in board] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one(page):
    commands = re.findall(r"^(?: {4})?xmcbench (?!--)(.*)$", page.read_text(), re.MULTILINE)
    assert commands or page != README
    for command in commands:
        parser().parse_args(shlex.split(command, comments=True))  # exits where it is none


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    home = ROOT if page == README else ROOT / "leaderboards"
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (home / target).exists(), target
