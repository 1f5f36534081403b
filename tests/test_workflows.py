""".github/: workflows for a public board, whose commands are commands of this program."""

import re
import shlex
from pathlib import Path

import pytest

from xmcbench.command.main import parser

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow):
    """The arguments of every call of xmcbench."""
    lines = [line.strip() for step in steps(workflow) for line in step.get("run", "").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("xmcbench ")]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_command_is_one(name):
    assert commands(WORKFLOWS[name])
    for command in commands(WORKFLOWS[name]):
        parser().parse_args(command)  # exits where it is none


def test_a_submission_is_only_checked():
    workflow = WORKFLOWS["check-submission.yml"]
    assert workflow["permissions"] == {"contents": "read"}
    for command in commands(workflow):
        assert parser().parse_args(command).check, command


def test_code_of_a_submission_is_not_run_where_its_archive_is_read():
    checkout = WORKFLOWS["check-submission.yml"]["jobs"]["archive"]["steps"][0]
    assert checkout["with"]["ref"].startswith("${{ github.event.pull_request.base.sha")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_text_of_others_becomes_part_of_a_script(name):
    """A description or an address is given to a script as a variable: in its text it could be a command."""
    assert all("${{" not in step.get("run", "") for step in steps(WORKFLOWS[name]))


@pytest.mark.parametrize(
    ("description", "address"),
    [
        ("* Archive: https://example.org/a/mine-1.tar.gz\n* Machine: x", "https://example.org/a/mine-1.tar.gz"),
        ("see [it](https://example.org/mine.zip) and https://example.org/other.zip", "https://example.org/mine.zip"),
        ("https://example.org/mine.zip;$(id).zip", "https://example.org/mine.zip"),
        ("http://example.org/mine.zip, https://example.org/mine.txt", None),
    ],
)
def test_the_address_of_an_archive_is_found(description, address):
    (script,) = [step["run"] for step in steps(WORKFLOWS["check-submission.yml"]) if step.get("id") == "find"]
    (pattern,) = re.findall(r"grep -oE '(.*?)'", script)
    assert next(iter(found[0] for found in re.finditer(pattern, description)), None) == address


def test_the_site_is_written_into_the_folder_that_is_published():
    workflow = WORKFLOWS["publish-site.yml"]
    (uploaded,) = [step["with"]["path"] for step in steps(workflow) if "upload" in step.get("uses", "")]
    scripts = [step["run"] for step in steps(workflow) if "run" in step]
    documentation = scripts.index(f"mkdocs build --strict --site-dir {uploaded}")
    board = scripts.index(f"xmcbench leaderboard --format html --out {uploaded}/board")
    records = scripts.index(f"mkdir {uploaded}/board && cp -r leaderboards/records {uploaded}/board")
    assert documentation < records < board
