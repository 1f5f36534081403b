"""What every test stands on: no network, a cache of its own, and where real data would be."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings

# Two shared cores make the time of an example say nothing.
settings.register_profile("xmcbench", deadline=None)
settings.load_profile("xmcbench")

ROOT = Path(__file__).parents[1]
BLOCKED = Path(__file__).parent / "blocked_network"

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BLOCKED), os.environ.get("PYTHONPATH", "")]))
os.environ["HF_HUB_OFFLINE"] = "1"


def _block_network() -> None:
    spec = importlib.util.spec_from_file_location("blocked_network", BLOCKED / "sitecustomize.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


_block_network()


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """The caches of the user stay untouched."""
    os.environ["XMCBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def xmcbench(tmp_path):
    """Run the command line in an empty folder, as a user would: returns the completed process."""

    def run(*words, **options):
        command = [sys.executable, "-m", "xmcbench", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, **options)

    return run


TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")


@pytest.fixture
def tiny(tmp_path):
    """A dataset of 60 + 30 instances and 10 labels in the XC raw layout; an instance names its two labels."""

    def line(row):
        title = f"{TOPICS[row % 10]} story {row}"
        content = f"It is about the {TOPICS[row % 10]} and the {TOPICS[(row + 3) % 10]}."
        target = sorted({row % 10, (row + 3) % 10})
        return {"uid": f"{row:04}", "title": title, "content": content, "target_ind": target, "target_rel": [1.0, 1.0]}

    folder = tmp_path / "tiny"
    folder.mkdir()
    files = {
        "trn": [line(row) for row in range(60)],
        "tst": [line(row) for row in range(100, 130)],
        "lbl": [{"uid": f"label-{topic}", "title": f"the {topic}"} for topic in TOPICS],
    }
    for name, lines in files.items():
        with gzip.open(folder / f"{name}.json.gz", "wt") as stream:
            stream.writelines(json.dumps(each) + "\n" for each in lines)
    return folder


@pytest.fixture
def plugin(tmp_path):
    """Write a plug-in file and return its path."""

    def write(source, name="plugin.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


#: Real datasets that are not part of the project, and where they are from.
REAL_DATA = {
    "LF-AmazonTitles-131K": "from http://manikvarma.org/downloads/XC/XMLRepository.html",
    "LF-YSO-25K": "CC0 library metadata, titles and their subjects in the YSO ontology, in the XC raw layout",
}


@pytest.fixture(scope="session")
def real_data():
    """The folder of a real dataset by name; skips where it is not on the machine."""
    root = Path(os.environ.get("XMCBENCH_TEST_DATA", ROOT.parent / "shared" / "data")).resolve()

    def find(name):
        if not (root / name).is_dir():
            pytest.skip(f"no {name}: it is {REAL_DATA[name]}; name its parent folder in XMCBENCH_TEST_DATA")
        return root / name

    return find
