"""docs/reference.py: the pages that are made from the code."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import xmcbench
from xmcbench.analysis.scale import in_words
from xmcbench.command.main import main

NAVIGATION = Path(__file__).parents[1] / "mkdocs.yml"
HOOK = Path(__file__).parents[1] / "docs" / "reference.py"
PRINT = f"""
import importlib.util, json
spec = importlib.util.spec_from_file_location("reference", {str(HOOK)!r})
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
print(json.dumps(reference.pages()))
"""


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", HOOK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(reference):
    return reference.pages()


def section(page, heading):
    return re.search(rf"^#+ {re.escape(heading)}( \{{[^\n]*)?$(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)[2]


def test_pages_are_the_same_in_every_build():
    def build(seed, columns):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "COLUMNS": columns}
        command = [sys.executable, "-c", PRINT]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert build("1", "60") == build("2", "200")


def test_pages_show_no_addresses_and_no_factories(pages):
    for name, text in pages.items():
        assert " at 0x" not in text, name
        assert "<factory>" not in text, name


def test_signatures_are_python(pages):
    signatures = re.findall(r"^```python\n(?:class )?(\w+)(\(.*)\n```$", pages["api.md"], re.MULTILINE)
    assert {"run", "Options", "Method"} <= {name for name, _ in signatures} <= {*xmcbench.__all__}
    for name, signature in signatures:
        ast.parse(f"def {name}{signature}: ...")
    assert "limits: Limits = ..." in section(pages["api.md"], "Options")
    assert "on: str = 'local'" in section(pages["api.md"], "Options")


def test_the_actions_of_a_command_show_their_flags(pages):
    fetch = section(pages["commands.md"], "xmcbench data fetch")
    assert {"--out", "--offline", "--force"} <= {*re.findall(r"--[\w-]+", fetch)}
    assert "--to URI" in section(pages["commands.md"], "xmcbench export mlflow")


def test_where_the_values_of_a_preset_come_from(pages):
    said = section(pages["methods.md"], "Embedder")
    assert "Values of quick come from: a budget of minutes on two cores; nothing was chosen." in said
    commands = section(pages["methods.md"], "TF-IDF")
    assert "Values of sklearn come from:\n\n```text\nxmcbench run --dataset lf-debian-20k-dev" in commands


def test_tables_of_a_docstring_are_code_blocks(pages):
    method = section(pages["api.md"], "Method")
    assert "\n\n    title        the name in tables\n    supervision  `unused`" in method


def test_layouts_are_those_that_the_command_lists(pages, capsys):
    main(["ls", "layouts", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert re.findall(r"^## (.*)$", pages["layouts.md"], re.MULTILINE) == [layout["name"] for layout in listed]
    for layout in listed:
        said = section(pages["layouts.md"], layout["name"])
        assert layout["description"] in said
        assert ("read and written" in said) == (layout["written"] == "yes")
        assert all(f"`{option}`" in said for option in layout["options"].split(", ") if option)


def test_the_schema_of_a_record_has_all_its_fields(pages, record):
    made = record()
    for name, thing in (("Record", made), ("Cell", made.cell), ("Measured", made.measured)):
        fields = re.findall(r"^\| `(\w+)` \|", section(pages["record.md"], name), re.MULTILINE)
        assert fields == [*thing.__struct_fields__]
    assert "| `file` | `str` | required |" in section(pages["record.md"], "Predictions")
    assert "| `subset` | `SubsetFacts \\| None` | required |" in section(pages["record.md"], "Record")


def test_links_that_leave_the_folder_become_text(reference):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="submit.md"), meta={})
    shown = reference.on_page_markdown("[The claims](../leaderboards/claims.md), [data](your-data.md)", page=page)
    assert shown == "The claims (`leaderboards/claims.md`), [data](your-data.md)"
    assert page.meta == {}


def test_links_to_modules_that_have_a_page_lead_there(pages, reference):
    for module, target in reference._PAGES_OF.items():
        page, _, anchor = target.partition("#")
        assert (reference.ROOT / "docs" / module).is_file()
        assert not anchor or re.search(rf"^#+ .*{anchor}", pages[page], re.MULTILINE | re.IGNORECASE)
        shown = reference.on_page_markdown(
            f"[It]({module})", page=SimpleNamespace(file=SimpleNamespace(src_uri=page), meta={})
        )
        assert shown == f"[It]({target})"


def test_links_of_the_home_page_lead_to_pages(pages, reference):
    """A link into the repository that the site does not hold is plain text."""
    held = {*pages, *(path.name for path in HOOK.parent.glob("*.md"))}
    targets = re.findall(r"(?<!!)\[[^]]+\]\((?!https?://|#)([^)#]*)", pages["index.md"])
    assert targets
    assert {*targets} <= held
    assert "[Install](install.md)" in pages["index.md"]
    assert "the full table" in pages["index.md"]


def test_the_home_page_has_the_table_and_the_chart(pages, reference):
    (chart,) = re.findall(r"!\[[^]]+\]\(figures/(.*?)\)", pages["index.md"])
    assert (reference.ROOT / "leaderboards" / "figures" / chart).exists()
    assert "| Method | Preset | P@1 |" in pages["index.md"]


def test_every_page_is_in_the_navigation_once(pages):
    listed = re.findall(r"[\w-]+\.md\b", NAVIGATION.read_text().partition("nav:")[2])
    assert sorted(listed) == sorted({*pages, *(path.name for path in HOOK.parent.glob("*.md"))})


def test_the_page_of_costs_has_what_a_dry_run_prints(pages, inside):
    ended = inside(
        *("run", "--dataset", "lf-wikipedia-500k", "--setting", "ez", "--methods", "maclr", "--preset", "paper"),
        *("--dry-run", "--json", "--runs", str(HOOK.parents[1] / "leaderboards")),
    )
    seconds = json.loads(ended.stdout)["forecast"][0]["estimate_s"]
    page = section(pages["scale.md"], "Preset paper, zero-shot")
    for device, title in (("cpu", "CPU"), ("gpu", "1 GPU")):
        assert f"| MACLR | {title} | " in page
        (line,) = (line for line in page.splitlines() if line.startswith(f"| MACLR | {title} |"))
        assert line.split(" | ")[4] == in_words(tuple(seconds[device]))
