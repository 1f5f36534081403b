"""Results in the formats of others, and recorded cells that are run again."""

import csv
import gzip
import hashlib
import json
import math
import re
import shutil
import sys
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from xmcbench.analysis.reproduction import Reproduction, compare_records, farthest, one_more
from xmcbench.metrics import METRICS
from xmcbench.records import Ranks, Store
from xmcbench.runner.scoring import evaluations
from xmcbench.storage.canonical import canonical_json

BOARD = Path(__file__).parents[2] / "leaderboards"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of the one run of this module."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def runs(inside, tiny, run_folder, tmp_path):
    """TF-IDF on the dataset Tiny at zero shot."""
    if not (run_folder / "runs").exists():
        ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--runs", "runs")
        assert ended.returncode == 0, ended.stderr
        shutil.copytree(tmp_path / "runs", run_folder / "runs")
        return tmp_path / "runs"
    return Path(shutil.copytree(run_folder / "runs", tmp_path / "runs"))


def test_a_run_and_qrels_score_as_the_record_does(inside, runs, tiny, tmp_path):
    assert inside("export", "run", "tfidf", "--dataset", tiny, "--out", "run.txt").returncode == 0
    assert inside("export", "qrels", "--dataset", tiny, "--out", "qrels.txt").returncode == 0
    (record,) = Store(runs).records()
    expected = record.metrics["none"].values
    of_dataset = inside("score", "--format", "trec", "--dataset", tiny, "--predictions", "run.txt", "--json")
    assert json.loads(of_dataset.stdout)["values"] == pytest.approx(expected)
    of_qrels = json.loads(
        inside("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt", "--json").stdout
    )
    assert of_qrels["values"] == pytest.approx({name: expected[name] for name in of_qrels["values"]})
    lines = (tmp_path / "run.txt").read_text().splitlines()
    (tmp_path / "other.txt").write_text("\n".join(f"x{line}" for line in lines))
    files = ("--format", "trec", "--qrels", "qrels.txt", "--predictions", "run.txt")
    ended = inside("score", *files, "--metrics", "PSP@1,F1@5")
    assert ended.returncode == 2
    assert "PSP@1: propensities need training pairs" in ended.stderr
    ended = inside("score", "--format", "trec", "--qrels", "qrels.txt", "--predictions", "other.txt")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no query of qrels.txt has predictions in other.txt (do both name queries alike?)" in ended.stderr
    assert {*METRICS} - {*of_qrels["values"]} == {"PSP@1", "PSP@3", "PSP@5"}
    assert Path("run.txt").read_text().splitlines()[0].split()[:4] == ["0100", "Q0", "label-apple", "1"]


@pytest.mark.usefixtures("runs")
def test_a_name_that_ends_in_gz_is_of_a_gzip_file(inside, tiny, tmp_path):
    for verb in (("run", "tfidf"), ("qrels",)):
        for name in (verb[0], f"{verb[0]}.gz"):
            inside("export", *verb, "--dataset", tiny, "--out", name, code=0)
        assert gzip.decompress((tmp_path / f"{verb[0]}.gz").read_bytes()) == (tmp_path / verb[0]).read_bytes()
    inside("score", "--format", "trec", "--qrels", "qrels.gz", "--predictions", "run.gz", code=0)


def test_a_judgment_that_was_cut_inside_a_character_is_left_out(inside, tmp_path):
    """By a process that was killed; the line may hold other ends of a line, too."""
    folder = tmp_path / "runs" / "artifacts" / "unfinished" / "judgments-1"
    folder.mkdir(parents=True)
    whole = '{"label": "ü\u2028"}'
    (folder / "judgments.jsonl").write_bytes(f"{whole}\n{whole}".encode()[: -len('\u2028"}'.encode()) - 1])
    assert inside("export", "judgments", "--out", "kept.jsonl", code=0).stdout == "1 judgment in kept.jsonl\n"
    assert (tmp_path / "kept.jsonl").read_bytes() == f"{whole}\n".encode()


@pytest.mark.usefixtures("runs")
def test_predictions_are_not_exported_for_another_version_of_the_dataset(inside, tiny):
    path = tiny / "tst.json.gz"
    changed = gzip.decompress(path.read_bytes()).replace(b"apple story", b"apple tale")
    path.write_bytes(gzip.compress(changed))
    ended = inside("export", "run", "tfidf", "--dataset", tiny, "--out", "run.txt")
    assert (ended.returncode, "tfidf has no result on the data at" in ended.stderr) == (2, True), ended.stderr
    assert not Path("run.txt").exists()


def test_records_as_parquet_and_csv_hold_the_same(inside, tmp_path):
    for name in ("r.parquet", "r.csv"):
        ended = inside("export", "records", "--runs", BOARD, "--out", name)
        assert ended.returncode == 0, ended.stderr
    records = {record.key: record for record in Store(BOARD).records()}
    table = pq.read_table(tmp_path / "r.parquet").to_pylist()
    with (tmp_path / "r.csv").open() as stream:
        lines = [*csv.DictReader(stream)]
    assert len(table) == len(lines) == len(records)
    for row, line in zip(table, lines, strict=True):
        record = records[row["key"]]
        values = record.metrics[record.protocol.filter].values
        assert row["key"] == line["key"]
        assert {name: row[name] for name in values} == values
        assert float(line["P@1"]) == row["P@1"]
        assert line["parameters"] == row["parameters"] == canonical_json(record.cell.parameters)


def test_records_as_a_dataset_of_the_hub(inside, runs, tmp_path):
    datasets = pytest.importorskip("datasets")
    ended = inside("export", "records", "--runs", runs, "--out", "results")
    assert ended.returncode == 0, ended.stderr
    found = datasets.load_dataset(str(tmp_path / "results"), split="train", cache_dir=str(tmp_path / "cache"))
    assert inside("export", "records", "--runs", runs, "--out", "r.parquet").returncode == 0
    assert found.to_list() == pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert "1 record, a line per cell" in (tmp_path / "results" / "README.md").read_text()
    (tmp_path / "results" / "own.txt").write_text("kept")
    assert inside("export", "records", "--runs", runs, "--out", "results").returncode == 2
    assert inside("export", "records", "--runs", runs, "--out", "results", "--force").returncode == 0
    assert (tmp_path / "results" / "own.txt").read_text() == "kept"


def test_what_cannot_be_exported_is_refused(inside, runs, tiny):
    Path("there.csv").write_text("mine")
    for words, said in (
        (("records", "--out", "there.csv"), "there.csv already exists"),
        (("records", "--out", "r.xlsx"), "name it .parquet or .csv, or without a suffix"),
        (("records", "--runs", "nowhere", "--out", "r.csv"), "there are no records in nowhere"),
        (("run", "nothing", "--dataset", tiny, "--out", "x"), "unknown row"),
    ):
        ended = inside("export", *words)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert Path("there.csv").read_text() == "mine"
    shutil.rmtree(runs / "predictions")
    ended = inside("export", "run", "tfidf", "--dataset", tiny, "--out", "x")
    assert (ended.returncode, "are not on this machine" in ended.stderr) == (2, True)
    for words, said in (
        (("--predictions", "x"), "score needs --dataset"),
        (("--predictions", "x", "--qrels", "y"), "--qrels needs --format trec"),
        (("--predictions", "x", "--qrels", "y", "--format", "trec", "--filter", "self"), "--filter self needs"),
    ):
        ended = inside("score", *words)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_an_appendix_names_commands_machines_and_references(inside, tmp_path):
    shutil.copytree(BOARD / "records" / "lf-debian-2k", tmp_path / "runs" / "records" / "lf-debian-2k")
    ended = inside("export", "paper", "--out", "appendix")
    names = ("commands.txt", "environment.txt", "references.bib", "records.zip")
    assert (ended.returncode, ended.stdout.splitlines()) == (0, [f"appendix/{name}" for name in names])
    records = [record for record in Store(tmp_path / "runs").records() if record.ok]
    lines = Path("appendix/commands.txt").read_text().splitlines()
    assert {line for line in lines if line and line[0] != "#"} == {
        f"xmcbench reproduce {record.key[:12]} --runs runs" for record in records
    }
    assert "# TF-IDF, LF-Debian-2K, few-shot, 1% of the labels, seed 0" in lines
    told = Path("appendix/environment.txt").read_text()
    hardware, packages = records[0].environment.hardware, records[0].environment.packages
    assert f"  {hardware.kind}, {hardware.system}: " in told
    assert f"numpy\n  {packages['numpy']}: " in told
    assert re.search(r"^xmcbench\n(  \S.*: [\d,]+ records?\n)+\nmachines\n", told)
    assert Path("appendix/references.bib").read_text() == inside("cite").stdout
    again = inside("export", "paper", "--out", "appendix")
    assert (again.returncode, "appendix already exists" in again.stderr) == (2, True)
    assert inside("export", "paper", "--out", "appendix", "--force").returncode == 0


def test_the_records_of_an_appendix_are_those_of_the_runs_folder(inside, runs, tiny, tmp_path):
    (runs / "records" / "notes.txt").write_text("private")
    assert inside("export", "paper", "--out", "appendix").returncode == 0
    shutil.unpack_archive("appendix/records.zip", "unpacked")
    there = tmp_path / "unpacked" / "runs"
    sums = dict(line.split("  ")[::-1] for line in (there / "SHA256SUMS").read_text().splitlines())
    files = {path.relative_to(there).as_posix(): path for path in there.rglob("*") if path.is_file()}
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if name != "SHA256SUMS"
    }
    assert {name.partition("/")[0] for name in sums} == {"records", "ranks", "truth"}
    assert not [name for name in sums if name.endswith(".txt")]
    (command,) = [
        line for line in Path("appendix/commands.txt").read_text().splitlines() if line.startswith("xmcbench")
    ]
    shutil.rmtree(runs)
    shutil.move(there, runs)
    ended = inside(*command.split()[1:], "--dataset", tiny)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr


def test_a_table_without_tests_says_so(inside, runs, tiny):
    """Marks of ties were left out without a word where the ranks of a row were damaged."""
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--runs", "runs", code=0)
    words = ("export", "table", "--setting", "ez", "--dataset", "tiny", "--out", "t.tex", "--force")
    said = "no test of rows with the ranks of 1 record, the first: "
    assert said not in inside(*words, code=0).stderr
    assert "not tested" not in Path("t.tex").read_text()
    next((runs / "ranks").rglob("tfidf*")).write_bytes(b"damaged")
    for command in (words, ("leaderboard", "--runs", "runs", "--out", "board")):
        assert inside(*command, code=0).stderr.count(said) == 1
    assert "% tiny: Ties are not tested: the ranks of a row are missing.\n" in Path("t.tex").read_text()


def alter_ranks(runs, hits, processor=None):
    """The record with so many true pairs lost from the first place, of another machine perhaps."""
    store = Store(runs)
    (record,) = store.records()
    truth = store.truth(record)
    ranks = store.ranks(record, truth)
    lost = np.flatnonzero(ranks.by_filter["none"] == 1)[:hits]
    by_filter = {name: ranks_of.copy() for name, ranks_of in ranks.by_filter.items()}
    for ranks_of in by_filter.values():
        ranks_of[lost] = 100
    made = Ranks(by_filter, ranks.seen)
    made.save(store.ranks_path(record.cell))
    metrics = {}
    for name, figures in record.metrics.items():
        low, high = figures.intervals["P@1"]
        value = figures.values["P@1"] - hits / 30
        values, intervals = {**figures.values, "P@1": value}, {**figures.intervals, "P@1": (min(low, value), high)}
        metrics[name] = msgspec.structs.replace(figures, values=values, intervals=intervals)
    hardware = record.environment.hardware
    hardware = msgspec.structs.replace(hardware, processor=processor or hardware.processor)
    store.write(
        msgspec.structs.replace(
            record,
            metrics=metrics,
            ranks=msgspec.structs.replace(record.ranks, sha256=made.digest),
            environment=msgspec.structs.replace(record.environment, hardware=hardware),
        )
    )
    return record.key[:12]


def test_a_cell_is_reproduced_and_a_changed_figure_is_found(inside, runs, tiny):
    (record,) = Store(runs).records()
    words = (record.key[:12], "--runs", runs, "--dataset", tiny)
    ended = inside("reproduce", *words, "--out", "again", "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert (document["agrees"], document["same_class"], document["largest_change"]) == (True, True, 0)
    # A second time it runs again.
    (log,) = (Path("again") / "logs").rglob("*.log")
    before = log.stat().st_mtime_ns
    assert inside("reproduce", *words, "--out", "again").returncode == 0
    assert log.stat().st_mtime_ns > before
    # One instance of 30 is 3 points: too many on the same machine, not significant on another one.
    alter_ranks(runs, 1)
    ended = inside("reproduce", *words, "--out", "again")
    assert ended.returncode == 1
    assert "differs: the largest change is +3.333 points of P@1, and 0.05 are allowed" in ended.stdout
    alter_ranks(runs, 0, "another processor")
    ended = inside("reproduce", *words, "--out", "again")
    assert (ended.returncode, "agrees" in ended.stdout) == (0, True), ended.stdout
    alter_ranks(runs, 20)
    ended = inside("reproduce", *words, "--out", "again")
    assert (ended.returncode, "differs" in ended.stdout) == (1, True), ended.stdout
    for words, said in (
        (("tfidf", "--runs", runs, "--out", "again"), f"no record in {runs} with a key that begins with 'tfidf'"),
        ((record.key[:12], "--runs", runs, "--out", runs), "holds the record itself"),
    ):
        ended = inside("reproduce", *words)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_a_changed_source_is_named_where_figures_differ(record, altered):
    before = record("a")
    other = altered(before, (("method", "source_sha256"), "0" * 64))
    said = "differs; the source of the method is not that of the record: the largest change"
    for after, change, is_said in ((other, 0.03, True), (other, 0.0, False), (before, 0.03, False)):
        assert (said in str(Reproduction(before, after, True, {"P@1": change}, {}))) == is_said


@pytest.mark.parametrize("gpu", [True, False])
def test_what_a_gpu_made_a_cpu_of_its_machine_need_not_repeat_to_the_digit(runs, tmp_path, gpu):
    fresh = Store(shutil.copytree(runs, tmp_path / "fresh"))
    (after,) = fresh.records()
    alter_ranks(runs, 1)
    store = Store(runs)
    (before,) = store.records()
    measured = msgspec.structs.replace(before.measured, peak_gpu_memory_bytes=2**30 if gpu else None)
    found = compare_records(msgspec.structs.replace(before, measured=measured), store, after, fresh)
    assert (found.same_class, found.agrees) == (not gpu, gpu)


def test_other_propensity_constants_change_nothing_that_is_compared(runs):
    """Constants of a card may change after a record was made; the record's figures are computed with the new ones."""
    alter_ranks(runs, 5)
    store = Store(runs)
    (record,) = store.records()

    def score_again(constants):
        (scores,) = evaluations([record], store, record.protocol.filter, constants)
        figures = msgspec.structs.replace(record.metrics[record.protocol.filter], values=scores.values)
        protocol = msgspec.structs.replace(record.protocol, propensity=constants)
        return msgspec.structs.replace(record, metrics={record.protocol.filter: figures}, protocol=protocol)

    before, after = score_again(record.protocol.propensity), score_again((5.0, 0.1))
    name = record.protocol.filter
    assert before.metrics[name].values["PSP@1"] != after.metrics[name].values["PSP@1"]
    found = compare_records(before, store, after, store)
    assert (found.agrees, found.largest) == (True, 0)
    assert "PSP@1" in found.changes


def test_what_is_equal_on_another_machine_agrees(runs):
    (record,) = Store(runs).records()
    hardware = msgspec.structs.replace(record.environment.hardware, processor="another processor")
    environment = msgspec.structs.replace(record.environment, hardware=hardware)
    before = msgspec.structs.replace(record, environment=environment)
    found = compare_records(before, Store(runs), record, Store(runs))
    assert (found.same_class, found.agrees) == (False, True)
    assert str(found).endswith(", and 0.05 are allowed on any machine")


def test_a_key_names_one_record(inside, runs):
    store = Store(runs)
    (record,) = store.records()
    cell = msgspec.structs.replace(record.cell, seed=1)
    store.write(msgspec.structs.replace(record, cell=cell, key=cell.key))
    ended = inside("reproduce", "", "--runs", runs)
    assert (ended.returncode, "error: 2 records in" in ended.stderr) == (2, True), ended.stderr


def stochastic(runs, *changes):
    """The record as those of so many seeds of a stochastic method on another machine, with another P@1 each."""
    store = Store(runs)
    (record,) = store.records()
    hardware = msgspec.structs.replace(record.environment.hardware, processor="another processor")
    environment = msgspec.structs.replace(record.environment, hardware=hardware)
    method = msgspec.structs.replace(record.method, deterministic=False)
    for seed, change in enumerate(changes):
        cell = msgspec.structs.replace(record.cell, seed=seed)
        metrics = {}
        for name, figures in record.metrics.items():
            value = figures.values["P@1"] - change
            low, high = figures.intervals["P@1"]
            intervals = {**figures.intervals, "P@1": (min(low, value), max(high, value))}
            values = {**figures.values, "P@1": value}
            metrics[name] = msgspec.structs.replace(figures, values=values, intervals=intervals)
        if seed:
            store.ranks_path(cell).write_bytes(store.ranks_path(record.cell).read_bytes())
        store.write(
            msgspec.structs.replace(
                record,
                cell=cell,
                key=cell.key,
                method=method,
                metrics=metrics,
                environment=environment,
                ranks=msgspec.structs.replace(record.ranks, file=store.relative(store.ranks_path(cell))),
            )
        )
    return record.key[:12]


@pytest.mark.parametrize(("changes", "agrees"), [((0.1, 0.2, 0.3), True), ((0.1, 0.1, 0.1), False)])
def test_on_another_machine_a_stochastic_method_may_be_as_far_off_as_one_more_seed(inside, runs, tiny, changes, agrees):
    key = stochastic(runs, *changes)
    ended = inside("reproduce", key, "--runs", runs, "--dataset", tiny, "--out", "again", "--json")
    assert ended.returncode == (0 if agrees else 1), ended.stderr
    document = json.loads(ended.stdout)
    assert (document["agrees"], document["same_class"], document["seeds"]) == (agrees, False, 3)
    assert document["largest_change"] == pytest.approx(0.1)
    values = [-change for change in changes]
    assert document["allowed"]["P@1"] == pytest.approx(farthest(values, 0.05 / len(document["changes"])))
    said = inside("reproduce", key, "--runs", runs, "--dataset", tiny, "--out", "once more").stdout
    assert f"P@1 may be {100 * document['allowed']['P@1']:.2f} points away from the mean of these seeds" in said


def test_two_seeds_say_too_little(runs):
    """Student's t of one degree would let a figure be 15 standard deviations away before it differs."""
    store = Store(runs)
    (after,) = store.records()
    stochastic(runs, 0.1, 0.2)
    before = next(record for record in store.records() if record.cell.seed == 0)
    found = compare_records(before, store, after, store)
    assert (found.over, found.allowed) == (0, {})


def test_the_farthest_value_that_agrees():
    values = [0.1, 0.2, 0.3]
    assert one_more(values, 0.2 + farthest(values, 0.05)) == pytest.approx(0.05)
    assert farthest([0.2, 0.2, 0.2], 0.05) == 0


def test_seeds_that_other_code_made_say_nothing(runs):
    store = Store(runs)
    (after,) = store.records()
    stochastic(runs, 0.1, 0.1, 0.1, 0.3)
    before, *_, other = sorted(store.records(), key=lambda record: record.cell.seed)
    assert compare_records(before, store, after, store).agrees
    method = msgspec.structs.replace(other.method, source_sha256="0" * 64)
    store.write(msgspec.structs.replace(other, method=method))
    found = compare_records(before, store, after, store)
    assert (found.over, found.agrees) == (3, False)


@pytest.mark.parametrize(
    ("values", "value", "p"),
    [
        ([0.1, 0.2], 0.15, 1.0),
        ([0.5, 0.5, 0.5], 0.5, 1.0),
        ([0.5, 0.5, 0.5], 0.6, 0.0),
        # t = (0.4 - 0.2) / (0.1 sqrt(4 / 3)) = sqrt(3), and with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2)
        ([0.1, 0.2, 0.3], 0.4, 1 - math.sqrt(3 / 5)),
        ([0.1, 0.2, 0.3], 0.0, 1 - math.sqrt(3 / 5)),
    ],
)
def test_one_more_draw(values, value, p):
    assert one_more(values, value) == pytest.approx(p)


def older(runs, gained):
    """The record as if its method had not had a parameter yet: the beginning of its key."""
    store = Store(runs)
    (record,) = store.records()
    parameters = {name: value for name, value in record.cell.parameters.items() if name != gained}
    cell = msgspec.structs.replace(record.cell, parameters=parameters)
    store.record_path(record.cell).unlink()
    store.ranks_path(record.cell).rename(store.ranks_path(cell))
    store.write(msgspec.structs.replace(record, cell=cell, key=cell.key))
    return cell.key[:12]


def test_a_parameter_that_was_added_is_named_and_other_data_are_refused(inside, runs, tiny):
    (record,) = Store(runs).records()
    key = older(runs, "ngrams")
    ended = inside("reproduce", key, "--runs", runs, "--dataset", tiny, "--out", "again")
    assert ended.returncode == 0, ended.stderr
    assert f"with ngrams={record.cell.parameters['ngrams']} added since" in ended.stdout
    cell = msgspec.structs.replace(Store(runs).records()[0].cell, dataset_sha256="0" * 64)
    other = Store(runs).records()[0]
    Store(runs).record_path(other.cell).unlink()
    Store(runs).write(msgspec.structs.replace(other, cell=cell, key=cell.key))
    ended = inside("reproduce", cell.key[:12], "--runs", runs, "--dataset", tiny, "--out", "again")
    said = "the data of tiny have changed since TF-IDF was run on them (restore them, or give a folder that has them"
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_records_are_looked_for_on_the_board_of_a_clone_and_else_in_runs(inside, tmp_path):
    def read_error():
        return inside("reproduce", "0" * 12).stderr

    assert "no runs folder at runs (--runs is the folder that `xmcbench run` wrote)" in read_error()
    (tmp_path / "leaderboards").mkdir()  # pages that `xmcbench leaderboard --runs runs --out leaderboards` wrote
    assert "no runs folder at runs" in read_error()
    (tmp_path / "runs").mkdir()
    assert "no record in runs with a key that begins with '000000000000'" in read_error()
    (tmp_path / "leaderboards" / "records").mkdir()
    assert "no record in leaderboards with a key that begins with '000000000000'" in read_error()


def interrupt(*_, **__):
    raise OSError("the server is gone")


def test_records_as_runs_of_mlflow(inside, runs, monkeypatch):
    """Twice is once; a record that was run again is another run."""
    pytest.importorskip("mlflow", reason="no MLflow: pip install 'xmcbench[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    for said in ("1 record in tracked\n", "0 records in tracked, 1 already there\n"):
        ended = inside("export", "mlflow", "--to", "tracked")
        assert (ended.returncode, ended.stdout) == (0, said), ended.stderr
    client = MlflowClient(tracking_uri="tracked")
    number = client.get_experiment_by_name("xmcbench").experiment_id
    (run,) = client.search_runs([number])
    (record,) = Store(runs).records()
    values = record.metrics["none"]
    assert run.data.metrics["P_at_1"] == values.values["P@1"]
    assert run.data.metrics["R_at_100_low"] == values.intervals["R@100"][0]
    assert run.data.metrics["total_s"] == record.measured.total_s
    assert run.data.params["dataset"] == record.cell.dataset
    assert run.data.params["setting"] == "ez"
    assert run.data.params["seed"] == "0"
    assert {name.removeprefix("tfidf.") for name in run.data.params if "." in name} == {*record.cell.parameters}
    assert run.data.tags["xmcbench.reproduce"] == f"xmcbench reproduce {record.key[:12]} --runs runs"
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == int(1000 * record.measured.total_s)
    # An export that was interrupt leaves a run without figures, and the next one is whole.
    with monkeypatch.context() as changed:
        changed.setattr(MlflowClient, "log_batch", interrupt)
        assert inside("export", "mlflow", "--to", "again").returncode == 1
    assert inside("export", "mlflow", "--to", "again").stdout == "1 record in again\n"
    Path("file").write_text("")
    ended = inside("export", "mlflow", "--to", "file")
    assert (ended.returncode, "MLflow cannot write to file" in ended.stderr) == (1, True), ended.stderr


def test_without_mlflow_the_export_says_how_to_install_it(inside, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    ended = inside("export", "mlflow", "--to", "tracked")
    assert ended.returncode == 1
    assert "MLflow is not installed" in ended.stderr
    assert "pip install 'xmcbench[mlflow]'" in ended.stderr
