"""The search of the documentation's site; run by `tox -e docs`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
lunr = pytest.importorskip("lunr")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The search index, with the weights that the theme gives to titles and texts."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-P", "-m", "mkdocs", "build", "--quiet", "--site-dir", site], cwd=ROOT, check=True)
    held = json.loads((site / "search" / "search_index.json").read_text())
    fields = [{"field_name": name, **held["config"]["fields"][name]} for name in ("title", "text")]
    entries = [(entry, {"boost": entry.get("boost", 1)}) for entry in held["docs"]]
    return lunr.lunr(ref="location", fields=fields, documents=entries)


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("significance", "statistics/"),
        ("install", "install/"),
        ("slurm", "many-experiments/"),
        ("gpu", "install/"),
        ("ray", "many-experiments/"),
        ("offline", "install/"),
        ("stale", "validity/"),
    ],
)
def test_a_word_finds_its_page_first(index, word, page):
    assert index.search(word)[0]["ref"].partition("#")[0] == page
