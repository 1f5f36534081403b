"""Input that was once misread, refused without a reason, or too expensive, as it was reported: what is right of it.

The cases lie beside the folder that XMCBENCH_TEST_DATA names. A test is skipped where its case is not on the machine.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from xmcbench.data import load_dataset
from xmcbench.errors import DataError
from xmcbench.metrics import VERSION
from xmcbench.records import Store

pytestmark = pytest.mark.data

DATA = Path(os.environ.get("XMCBENCH_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data")).resolve()

#: What is noted about a table without a test set.
DRAWN = "there is one set of instances"


@pytest.fixture
def case(tmp_path):
    """A copy of a case by name; skips where it is not on the machine."""

    def copy(name):
        folder = DATA.parent / "cases" / name
        if not folder.is_dir():
            pytest.skip(f"no case {name}: the cases lie beside the folder that XMCBENCH_TEST_DATA names")
        return Path(shutil.copytree(folder, tmp_path / "case", copy_function=shutil.copyfile))

    return copy


@pytest.fixture
def enter(case, monkeypatch):
    """Work in a copy of a case by name."""
    return lambda name: monkeypatch.chdir(case(name))


#: Case -> the notes that are right. All have 40 + 12 instances, 10 labels, and 50 + 18 pairs.
RIGHT = {
    "annif_depr": ["1 subject of vocabulary.tsv left out: deprecated, or without a label"],
    "annif_depr2": ["1 subject of vocabulary.tsv left out: deprecated, or without a label"],
    "annif_full": [],
    "annif_json": [],
    "annif_mixed": [],
    "beir_blankend": [],
    "beir_missingdoc": ["1 judgment of test.tsv left out: not in the corpus"],
    "hfjson": ["columns of train.json and test.json: uid=id, text=text, labels=labels"],
    "skos_depr": ["1 subject of vocabulary.ttl left out: deprecated, or without a label"],
    "skos_scheme": [],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_dataset_is_read_with_all_its_pairs(case, name):
    dataset = load_dataset(case(name) / "data")
    counts = {"train": 40, "test": 12, "labels": 10, "train_pairs": 50, "test_pairs": 18}
    assert {key: dataset.counts()[key] for key in counts} == counts
    assert [*dataset.found] == RIGHT[name]
    # The texts of an instance contain both words of each of its labels.
    for texts, pairs in ((dataset.train, dataset.train_pairs()), (dataset.test, dataset.test_pairs())):
        labels = [{*title.split()} for title in dataset.labels.titles]
        for row, text in enumerate(texts):
            expected = [label for label, words in enumerate(labels) if words <= {*text.split()}]
            assert pairs[row].indices.tolist() == expected


def test_a_table_of_views_is_read(case):
    dataset = load_dataset(case("parquet_view") / "view.parquet")
    assert (len(dataset.labels), dataset.train_pairs().nnz + dataset.test_pairs().nnz) == (10, 40)
    assert [note for note in dataset.found if not note.startswith((DRAWN, "columns of"))] == []


UNCERTAIN = [
    ("multihot", "multihot.csv", r"multihot\.csv, line 2: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot.jsonl", r"multihot\.jsonl, line 1: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot.parquet", r"multihot\.parquet, line 1: labels is '\[0, .*, a vector of 10 zeros and ones"),
    ("multihot", "multihot_bare.csv", r"bare\.csv, line 2: labels is '0000000001', a vector of 10 zeros and ones"),
    ("pyset_pytuple", "pyset.csv", r"pyset\.csv, line 2: labels is .*, which is not a JSON list"),
    ("pyset_pytuple", "pytuple.csv", r"pytuple\.csv, line 2: labels is .*, which is not a JSON list"),
    ("xcl_cancel", "data", r"trn_X_Y\.txt, line 3: has a line end of CR alone"),
]


@pytest.mark.parametrize(("name", "path", "message"), UNCERTAIN)
def test_what_cannot_be_read_with_certainty_is_refused(case, name, path, message):
    with pytest.raises(DataError, match=message):
        load_dataset(case(name) / path)


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

HOSTILE = {
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


def scored_today(archive, folder):
    """Pack the runs folder of an archive again, its records of today's metric protocol: it gives the same figures."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    store = Store(folder / "runs")
    for record in store.records():
        store.write(replace(record, protocol=replace(record.protocol, version=VERSION)))
    return shutil.make_archive(str(folder), "gztar", folder)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_dataset_is_refused_soon_and_in_little_memory(run, case, name):
    if name.startswith(("skos-", "nt-")):
        pytest.importorskip("rdflib")
    printed, seconds, memory = run("data", "info", case(f"bounds/{name}"))
    assert HOSTILE[name] in printed
    assert seconds < 60
    assert memory < 1 << 30


def test_a_hostile_archive_is_refused_soon_and_in_little_memory(run, case, inside, tmp_path):
    archive = scored_today(case("bounds/npz-header-bomb") / "runs.tar.gz", tmp_path / "unpacked")
    assert inside("data", "synth", "syn", "--instances", "400", "--labels", "120").returncode == 0
    printed, seconds, memory = run("leaderboard", "add", archive, "--out", "board", "--dataset", "syn", "--check")
    assert printed.count("refused") == 1
    assert "the header of the array 'indices' is longer than 10,000 bytes" in printed
    assert printed.count("would be added") == 5
    assert seconds < 60
    assert memory < 1 << 30


def test_a_run_with_more_columns_is_one_line(enter, inside):
    enter("trec_columns")
    commands = Path("cmd").read_text().split(";")
    for command, name in zip(commands, ("run9.txt", "run8.txt"), strict=True):
        ended = inside(*shlex.split(command)[1:])
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == (
            f"xmcbench: error: {name}: line 1 has too many columns (a line is `query Q0 document rank score tag`)\n"
        )
    lines = [" ".join(line.split()[:6]) for line in Path("run8.txt").read_text().splitlines()]
    Path("run.txt").write_text("\n".join(lines))
    ended = inside("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt", code=0)
    assert "12 test instances scored" in ended.stdout


@pytest.mark.parametrize("name", ["w2v_phrase", "w2v_comma", "w2v_blank"])
def test_word_vectors_are_read_or_refused_by_line(enter, inside, name):
    enter(name)
    wanted = ("run", "--dataset", "data", "--setting", "ez", "--methods", "glove", "--runs", "r")
    ended = inside(*wanted, "--set", "glove.vectors=v.txt", code=1)
    said = "v.txt is not a file of word vectors: line 2 is not a word and 8 numbers, as line 1 says"
    assert said in ended.stdout + ended.stderr
    right = inside(*wanted, "--set", "glove.vectors=right.txt")
    assert (right.returncode, [figure for figure in ("75.00", "36.11", "100.00") if figure not in right.stdout]) == (
        0,
        [],
    )


def test_scores_beyond_float32(enter, inside):
    enter("topk_overflow")
    wanted = ("--dataset", "data", "--plugin", "by_score.py", "--method", "by-score", "--setting", "ez")
    ended = inside("suggest", *wanted, "--k", "3", "--out", "s.tsv", "--runs", "r")
    assert (ended.returncode, Path("s.tsv").exists()) == (1, False)
    said = "has the score 1e+48, which is beyond float32 (scale the scores, or take logarithms"
    assert said in ended.stderr
    checked = inside("check", "by_score.py")
    assert (checked.returncode, said in checked.stdout) == (1, True)


def test_a_model_that_is_a_pointer_of_git_lfs(enter, inside):
    pytest.importorskip("sentence_transformers")
    enter("lfs_pointer")
    ended = inside(
        "run", "--dataset", "data", "--setting", "ez", "--methods", "embedder", "--set", "embedder.model=model"
    )
    assert ended.returncode == 1
    said = "model/model.safetensors is a Git LFS pointer, not the file itself (fetch the file: git lfs pull)"
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
