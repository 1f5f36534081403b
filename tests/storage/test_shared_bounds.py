"""Small files that took gigabytes or hours, made by others: each ends in one line, soon, and in little memory."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from xmcbench.metrics import VERSION
from xmcbench.records import Store

DATA = Path(os.environ.get("XMCBENCH_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data")).resolve()
BOUNDS = DATA.parent / "cases" / "bounds"

#: Runs the command, and writes its peak of memory in KiB. What the system says of an ended process begins with the
#: memory of the process that started it.
PEAK = """
import sys
from pathlib import Path
from xmcbench.command.main import main

try:
    code = main(sys.argv[2:])
except SystemExit as ended:
    code = ended.code
status = Path("/proc/self/status").read_text()
Path(sys.argv[1]).write_text(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
sys.exit(code)
"""

REFUSED = {
    "arrow-null-rows": "reading 50,000,000 rows and 0 pairs takes more than the limit",
    "arrow-zstd-bomb": "it takes more memory than there is, or than the limit",
    "parquet-dictionary-bomb": "a batch of rows takes more than the limit",
    "skos-billion-laughs": "vocabulary.rdf, line 2: has a DTD, which is not read",
    "skos-million-laughs": "vocabulary.rdf, line 2: has a DTD, which is not read",
    "nt-1MB-literal": "vocabulary.nt, line 1: has a literal of more than 64 KiB",
}


@pytest.fixture
def run(tmp_path, own_cache):
    """Run the command line: what it printed on stderr, its seconds, and its highest memory in bytes."""

    def run_until_end(*words):
        start = time.monotonic()
        with (tmp_path / "stderr").open("wb") as stream:
            command = [sys.executable, "-c", PEAK, str(tmp_path / "peak"), *map(str, words)]
            process = subprocess.run(command, cwd=tmp_path, stdout=stream, stderr=stream, check=False)
        assert process.returncode == 1
        peak = int((tmp_path / "peak").read_text()) << 10
        return (tmp_path / "stderr").read_text(), time.monotonic() - start, peak

    return run_until_end


def case(name, tmp_path):
    """A copy of a case; skips where it is not on the machine."""
    if not (BOUNDS / name).is_dir():
        pytest.skip(f"no {name} in {BOUNDS}: it was made for an attack on xmcbench")
    return shutil.copytree(BOUNDS / name, tmp_path / "case")


def scored_today(archive, folder):
    """Pack the runs folder of an archive again, its records of today's metric protocol: it gives the same figures."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    store = Store(folder / "runs")
    for record in store.records():
        store.write(replace(record, protocol=replace(record.protocol, version=VERSION)))
    return shutil.make_archive(str(folder), "gztar", folder)


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_dataset_is_refused_soon_and_in_little_memory(run, tmp_path, name):
    if name.startswith(("skos-", "nt-")):
        pytest.importorskip("rdflib")
    printed, seconds, memory = run("data", "info", case(name, tmp_path))
    assert REFUSED[name] in printed
    assert seconds < 60
    assert memory < 1 << 30


def test_a_hostile_archive_is_refused_soon_and_in_little_memory(run, inside, tmp_path):
    archive = scored_today(case("npz-header-bomb", tmp_path) / "runs.tar.gz", tmp_path / "unpacked")
    assert inside("data", "synth", "syn", "--instances", "400", "--labels", "120").returncode == 0
    printed, seconds, memory = run("leaderboard", "add", archive, "--out", "board", "--dataset", "syn", "--check")
    assert printed.count("refused") == 1
    assert "the header of the array 'indices' is longer than 10,000 bytes" in printed
    assert printed.count("would be added") == 5
    assert seconds < 60
    assert memory < 1 << 30
