"""What every test stands on: no network, a cache of its own, and where real data would be."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
