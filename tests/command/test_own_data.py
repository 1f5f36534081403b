"""Data of a user from file to table: any layout, no split, no pairs."""

import argparse
import csv
import json
import re
import shutil

import numpy as np
import pytest

from xmcbench import UsageError
from xmcbench.api import evaluate
from xmcbench.command import request
from xmcbench.data import export, load_dataset
from xmcbench.errors import DataError
from xmcbench.records import Store
from xmcbench.setting import Setting
from xmcbench.suggestions import Suggestions
from xmcbench.topk import TopK


def test_a_table_without_a_split_is_run_and_the_record_says_so(inside, tiny, tmp_path):
    path = tmp_path / "stories.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["key", "abstract", "subjects"])
        dataset = load_dataset(tiny)
        for text, row in zip(dataset.train, dataset.train_pairs(), strict=True):
            writer.writerow([len(text), text, "; ".join(dataset.labels[label] for label in row.indices)])
    run = ("run", "--dataset", path, "--columns", "text=abstract,labels=subjects", "--setting", "full")
    ended = inside(*run, "--methods", "tfidf")
    assert ended.returncode == 0, ended.stderr
    assert "stories (48 train, 12 test, 10 labels)" in ended.stdout
    assert "note: there is one set of instances: 12 of 60 were drawn" in ended.stderr
    (record,) = Store(tmp_path / "runs").records()
    assert record.data_notes == load_dataset(f"{path}?text=abstract&labels=subjects").notes
    assert len(record.data_notes) == 2
    assert inside(*run[:3], "--columns", "abstract", *run[5:], "--methods", "tfidf").returncode == 2
    shutil.copy(path, tmp_path / "tales.csv")
    (tmp_path / "x.toml").write_text(
        'setting = "ez"\nmethods = "tfidf"\n[[grid]]\ndataset = "lf-debian-2k"\n'
        '[[grid]]\ndataset = ["stories.csv", "lf-debian-2k", "tales.csv"]\n'
        'columns = ["text=abstract", "labels=subjects"]\n'
    )
    ended = inside("run", "--config", "x.toml", "--dry-run")
    assert (ended.returncode, "3 cells: 3 to run." in ended.stdout) == (0, True), ended.stderr
    assert [f"note: {name}: there is one set" in ended.stderr for name in ("stories", "tales")] == [True, True]


def test_every_command_reads_the_columns_of_a_table(inside, tiny, tmp_path):
    """Processes that read the table again did not know its columns, and the default ones do not exist."""
    path = tmp_path / "stories.csv"
    dataset = load_dataset(tiny)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["split", "abstract", "subjects"])
        for split, texts, pairs in (
            ("train", dataset.train, dataset.train_pairs()),
            ("test", dataset.test, dataset.test_pairs()),
        ):
            for text, row in zip(texts, pairs, strict=True):
                writer.writerow([split, text, "; ".join(dataset.labels[label] for label in row.indices)])
    table = ("--dataset", path, "--columns", "text=abstract,labels=subjects")
    ended = inside("run", *table, "--setting", "ez", "--methods", "tfidf,bm25")
    assert ended.returncode == 0, ended.stderr
    (record, _) = Store(tmp_path / "runs").records()
    predictions = Store(tmp_path / "runs").predictions_path(record.cell)
    commands = (
        ("compare", "tfidf", "bm25"),
        ("explain", "tfidf", "bm25"),
        ("show", "tfidf", "--text", "a story"),
        ("show", "tfidf", "--instance", load_dataset(f"{path}?text=abstract&labels=subjects").test.uids[0]),
        ("export", "run", "tfidf", "--out", "run.txt", "--force"),
        ("score", "--predictions", predictions),
        ("reproduce", record.key[:12], "--runs", "runs"),
        ("confirm", "--full", "--methods", "tfidf"),
        ("leaderboard", "--runs", "runs"),
        ("leaderboard", "add", "runs", "--out", "board"),
    )
    for words in commands:
        ended = inside(*words, *table)
        assert ended.returncode == 0, (words, ended.stderr)
    for words in (*commands, ("power", "--detect", "1")):
        ended = inside(*words, *table[2:])
        assert (ended.returncode, "--columns needs --dataset (give the table" in ended.stderr) == (2, True), words


def test_datasets_are_a_list_of_places(tmp_path):
    place = tmp_path / "a,b.csv"

    def datasets(dataset, columns=None):
        return request.datasets(argparse.Namespace(dataset=dataset, columns=columns, dev=None, limit=None))

    assert datasets(str(place)) == (str(place.parent / "a"), "b.csv")
    place.touch()
    assert datasets(str(place), "text=x") == (f"{place}?text=x",)
    assert datasets(f"{place}?text=x", "labels=y") == (f"{place}?text=x&labels=y",)
    both = datasets("lf-debian-2k,hf:one/two,./three?labels=y,four", "text=x")
    assert both == ("lf-debian-2k", "hf:one/two?text=x", "./three?labels=y&text=x", "four?text=x")
    for names in ("LF-Debian-2K,lf-debian-20k", None):
        with pytest.raises(
            UsageError, match=r"--columns is for tables, and (?i:lf-debian-2k) is a name \(leave it out"
        ):
            datasets(names, "text=x")
    with pytest.raises(UsageError, match="--columns is for tables"):
        request.reference("lf-debian-2k", "text=x")
    with pytest.raises(UsageError, match=r"--columns '' is not ROLE=COLUMN"):
        request.reference(str(place), "")
    with pytest.raises(UsageError, match=r"--columns names text twice"):
        request.reference(str(place), "text=a, text=b")
    for reference, flags, said in (
        ("x.csv?text=y", {"columns": "text=x"}, "--columns has text=x, and x.csv?text=y another text"),
        ("x.csv?dev=0.2", {"dev": "0.1"}, "--dev has dev=0.1, and x.csv?dev=0.2 another dev"),
        ("x.csv?limit=3", {"limit": 5}, "--limit has limit=5, and x.csv?limit=3 another limit"),
    ):
        given = {"columns": None, "dev": None, "limit": None, **flags}
        with pytest.raises(UsageError, match=re.escape(f"{said} (choose one of them)")):
            request.grid(argparse.Namespace(dataset=reference, set=[], **given), ("tfidf",))
    assert datasets(f"{place}?text=x", "text=x") == (f"{place}?text=x",)
    assert datasets("one, two,one") == ("one", "two")
    assert datasets("one?text=x,two") == ("one?text=x", "two")
    for options in ("separator=,", "text=x&separator=,", "separator=,&text=x"):  # as the note says
        assert datasets(f"one?{options}") == (f"one?{options}",)
        assert datasets(f"{place}?{options}") == (f"{place}?{options}",)
        assert datasets(f"one?{options},two") == (f"one?{options}", "two")
    assert datasets(None) == ("lf-debian-2k",)
    assert request.only_dataset(argparse.Namespace(dataset="one", columns=None, dev=None, limit=None)) == "one"
    with pytest.raises(UsageError, match="names several datasets"):
        request.only_dataset(argparse.Namespace(dataset="one,two", columns=None, dev=None, limit=None))
    twice = argparse.Namespace(dataset=["LF-Debian-2K", "lf-debian-2k"], columns=None, dev=None, limit=None)
    assert request.places_by_name(twice) == {"LF-Debian-2K": "LF-Debian-2K"}
    one = argparse.Namespace(setting=["fs"], ratio=[0.5], by=None)
    assert request.only_setting(one) == Setting.of("fs", 0.5)
    with pytest.raises(UsageError, match="several settings are given"):
        request.only_setting(argparse.Namespace(setting=["fs"], ratio=[0.5, 1.0], by=None))


def test_import_export_verify_and_layouts(inside, tiny, tmp_path):
    assert inside("data", "export", tiny, "--out", "beir", "--format", "beir").returncode == 0
    ended = inside("data", "import", "beir", "--out", "raw")
    assert (ended.returncode, ended.stdout.splitlines()[0][:11]) == (0, "tiny in raw")
    assert load_dataset(tmp_path / "raw").digest == load_dataset(tiny).digest
    assert inside("data", "verify", "beir").stdout == "beir matches its card\n"
    assert inside("data", "export", tiny, "--out", "x", "--format", "bier").returncode == 2
    listed = {layout["name"]: layout for layout in json.loads(inside("ls", "layouts", "--json").stdout)}
    assert listed["pecos"]["written"] == "yes"
    assert listed["text2text"]["written"] == "no"
    assert listed["tables"]["options"] == "labels, separator, text, title, uid"


@pytest.fixture
def corpus(tiny):
    """The dataset Tiny without its pairs."""
    for name in ("trn", "tst"):
        texts = getattr(load_dataset(tiny), {"trn": "train", "tst": "test"}[name])
        lines = [json.dumps({"uid": f"{name}{row}", "title": text}) + "\n" for row, text in enumerate(texts)]
        (tiny / f"{name}.json.gz").unlink()
        (tiny / f"{name}.json").write_text("".join(lines))
    return tiny


def test_predictions_without_figures_can_be_looked_at(inside, corpus, tmp_path):
    """They were said not to be there."""
    ended = inside("run", "--dataset", corpus, "--setting", "ez", "--methods", "tfidf")
    assert ended.returncode == 0, ended.stderr
    (record,) = Store(tmp_path / "runs").records()
    predictions = TopK.load(tmp_path / "runs" / record.predictions.file)
    shown = json.loads(inside("show", "tfidf", "--instance", "tst0", "--dataset", corpus, "-k", "2", "--json").stdout)
    assert [(label["rank"], label["true"]) for label in shown["labels"]] == [(1, None), (2, None)]
    assert [label["label"] for label in shown["labels"]] == predictions.indices[0, :2].tolist()
    assert shown["notes"] == ["no label is marked as true: no test instance has a label"]
    assert inside("show", "tfidf", "--text", "the engine", "--dataset", corpus).returncode == 0
    ended = inside("export", "run", "tfidf", "--dataset", corpus, "--out", "run.txt")
    assert (ended.returncode, ended.stdout) == (0, "30 instances in run.txt\n")
    assert (tmp_path / "run.txt").read_text().split()[0] == "tst0"
    for words in (("compare", "tfidf", "tfidf"), ("show", "tfidf", "--instance", "tst0", "--setting", "full")):
        ended = inside(*words, "--dataset", corpus)
        said = "without figures" if words[0] == "compare" else "no result with this dataset, setting and seed"
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_a_corpus_without_pairs_is_predicted_and_not_scored(inside, corpus, tmp_path):
    ended = inside("run", "--dataset", corpus, "--setting", "ez", "--methods", "tfidf")
    assert ended.returncode == 0, ended.stderr
    assert "unscored: no test instance has a label (predictions: runs/predictions/" in ended.stdout
    (record,) = Store(tmp_path / "runs").records()
    assert (record.status, record.metrics, record.ranks) == ("unscored", {}, None)
    predictions = TopK.load(tmp_path / "runs" / record.predictions.file)
    assert len(predictions) == 30
    with pytest.raises(DataError, match="no test instance has a label"):
        evaluate(predictions, load_dataset(corpus))
    again = inside("run", "--dataset", corpus, "--setting", "ez", "--methods", "tfidf")
    assert "1 of 1 cell cached" in again.stderr
    assert inside("ls", "results").stdout.count("unscored") == 1
    ended = inside("run", "--dataset", corpus, "--setting", "full", "--methods", "tfidf")
    assert (ended.returncode, "tiny has no training pairs" in ended.stderr) == (2, True)

    (tmp_path / "new.txt").write_text("the engine and the bridge\nzzz\n")
    words = ("suggest", "--dataset", corpus, "--method", "tfidf", "--documents", "new.txt", "--k", "2")
    two_rows = ("--set", "tfidf.max_df=0.98", "--set", "tfidf.max_df=1.0")
    assert "these options select 2" in inside(*words, *two_rows, "--out", "labels.tsv").stderr
    ended = inside(*words, "--out", "labels.tsv")
    assert ended.returncode == 0, ended.stderr
    assert ": done, " in ended.stderr, "no document has a label, which is nothing to warn of"
    assert "unscored" not in ended.stderr
    again = inside(*words, "--out", "labels.tsv")
    assert (again.returncode, "labels.tsv already exists" in again.stderr) == (2, True)
    assert inside(*words, "--out", "labels.tsv", "--overwrite").returncode == 0
    missing = inside(*words[:5], "--documents", "no.txt", "--out", "other.tsv")
    assert (missing.returncode, "there is no file or folder at no.txt" in missing.stderr) == (2, True)
    assert inside("clean", "--kind", "predictions", "--remove").returncode == 0
    ended = inside(*words, "--out", "labels.tsv", "--overwrite")
    assert ended.returncode == 0, ended.stderr
    assert "2 documents; 1 of them without a suggestion" in ended.stdout
    lines = [line.split("\t") for line in (tmp_path / "labels.tsv").read_text().splitlines()]
    assert lines[0] == ["uid", "rank", "score", "label_uid", "label"]
    assert {(line[0], line[1]) for line in lines[1:]} == {("0", "1"), ("0", "2")}
    assert {line[4] for line in lines[1:]} == {"the engine", "the bridge"}
    ended = inside(*words[:5], "--documents", "LF-Debian-20K", "--out", "of-debian.tsv")
    assert (ended.returncode, "5,115 documents" in ended.stdout) == (0, True), ended.stderr
    ended = inside(*words[:5], "--documents", "lf-debian-2k", "--out", "derived.tsv")
    assert (ended.returncode, "LF-Debian-2K has no files" in ended.stderr) == (1, True), ended.stderr


@pytest.mark.parametrize("name", ["lbl.json.gz", "card.toml"])
def test_suggestions_replace_no_file_of_the_dataset(inside, tiny, tmp_path, name):
    (tiny / "card.toml").write_text('name = "Tiny"\nslug = "tiny"\ndescription = "Own."\n')
    (tmp_path / "new.txt").write_text("the engine\n")
    before = (tiny / name).read_bytes()
    words = ("suggest", "--dataset", tiny, "--method", "tfidf", "--out", tiny / name, "--overwrite")
    for more in ((), ("--documents", "new.txt")):
        ended = inside(*words, *more)
        said = f"xmcbench: error: {tiny / name} is read, and would be replaced (choose another name, as suggested.tsv)"
        assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, said)
    assert (tiny / name).read_bytes() == before
    assert not (tmp_path / "runs").exists()


def test_a_document_is_not_suggested_to_itself(inside, tmp_path):
    """Suggestions are what `export run` writes, under the filter of the card or another one."""
    words = ("--dataset", "lf-debian-2k", "--method", "tfidf", "--k", "3")
    assert inside("suggest", *words, "--out", "a.tsv").returncode == 0
    assert inside("suggest", *words, "--out", "b.tsv", "--filter", "none").returncode == 0
    assert inside("export", "run", "tfidf", "--out", "c.run").returncode == 0
    found = {}
    for name in ("a", "b"):
        with (tmp_path / f"{name}.tsv").open(newline="") as stream:
            for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
                found.setdefault((name, row["uid"]), []).append(row["label_uid"])
    exported = {}
    for line in (tmp_path / "c.run").read_text().splitlines():
        uid, _, label, *_ = line.split()
        exported.setdefault(uid, []).append(label)
    suggested = {uid: labels for (name, uid), labels in found.items() if name == "a"}
    assert suggested == {uid: labels[:3] for uid, labels in exported.items()}
    assert sum(uid in labels for (name, uid), labels in found.items() if name == "b") == 62


def test_suggestions_are_inert(inside, tmp_path):
    """In a terminal that prints the file, and in a spreadsheet that opens it."""
    labels = ["=1+1|calc", "-omics", "red \x1b[31m\x07", "turned \u202e", "-12.25", "plain"]
    rows = [{"id": f"{'@' * (row == 5)}{row}", "title": label, "labels": [label]} for row, label in enumerate(labels)]
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ended = inside("suggest", "--dataset", tmp_path, "--method", "knn", "--k", "1", "--out", "suggested/it.tsv")
    assert ended.returncode == 0, ended.stderr
    assert "uids that would act in a terminal or a spreadsheet are changed in the file: 5, such as '@5'" in ended.stderr
    lines = [line.split("\t") for line in (tmp_path / "suggested" / "it.tsv").read_text().splitlines()[1:]]
    shown = ["'=1+1|calc", "'-omics", r"red \x1b[31m\x07", r"turned \u202e", "-12.25", "plain"]
    found = {line[0]: line[3:] for line in lines}
    assert {*found} == {"0", "1", "2", "3", "4", "'@5"}
    assert {label for both in found.values() for label in both} <= {*shown}
    assert found["0"] == ["'=1+1|calc"] * 2
    assert found["2"] == [r"red \x1b[31m\x07"] * 2


def test_predictions_that_are_not_those_of_the_record_are_made_again(inside, tiny, tmp_path):
    """The file can be read, and its rankings are reversed."""
    words = ("--dataset", tiny, "--setting", "ez", "--runs", "changed")  # files that were read stay in memory, by path
    assert inside("run", *words, "--methods", "tfidf").returncode == 0
    suggested = ("suggest", *words, "--method", "tfidf", "--k", "2", "--out")
    (record,) = Store(tmp_path / "changed").records()
    file = tmp_path / "changed" / record.predictions.file
    kept, right = file.read_bytes(), TopK.load(file)
    TopK(np.ascontiguousarray(right.indices[:, ::-1]), right.scores).save(file)
    ended = inside(*suggested, "one.tsv")
    assert ended.returncode == 0, ended.stderr
    assert f"{file.relative_to(tmp_path)}: checksum mismatch; the cell runs again" in ended.stderr
    lines = [line.split("\t") for line in (tmp_path / "one.tsv").read_text().splitlines()[1:]]
    assert [line[3] for line in lines[:2]] == [load_dataset(tiny).labels.uids[row] for row in right.indices[0, :2]]
    assert file.read_bytes() == kept
    again = inside(*suggested, "two.tsv")
    assert (again.returncode, "1 of 1 cell cached" in again.stderr) == (0, True)
    assert (tmp_path / "two.tsv").read_bytes() == (tmp_path / "one.tsv").read_bytes()


def test_documents_are_no_dataset_of_the_board(inside, tiny, tmp_path):
    """Two files of documents are two datasets of one name, which a board cannot have."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"the engine of {name}\n")
        words = ("suggest", "--dataset", tiny, "--method", "tfidf", "--documents", f"{name}.txt", "--setting", "ez")
        ended = inside(*words, "--out", f"{name}.tsv")
        assert (ended.returncode, "1 document\n" in ended.stdout) == (0, True), ended.stderr
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf").returncode == 0
    ended = inside("leaderboard", "--runs", "runs", "--out", "board")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "board" / "tiny.md").is_file()
    assert not list((tmp_path / "board").glob("*documents*"))


def test_methods_are_ranked_on_the_latest_version_of_the_data(inside, tmp_path):
    """As a board does, which says the same of what it leaves out."""
    table = "text,labels\nthe engine,a\nthe bridge,b\nan arch,b\nthe old engine,a\n"
    (tmp_path / "papers.csv").write_text(table)
    (tmp_path / "others.csv").write_text(table.replace("engine", "motor"))
    words = ("run", "--setting", "ez", "--methods", "tfidf,bm25")
    assert inside(*words, "--dataset", "papers.csv,others.csv").returncode == 0
    (tmp_path / "papers.csv").write_text(table + "a new arch,b\n")
    assert inside(*words, "--dataset", "papers.csv").returncode == 0
    ended = inside("rank", "--setting", "ez")
    assert ended.returncode == 0, ended.stderr
    old, new = versions(tmp_path, "papers")
    said = f"left out: 2 results on other data of the same name, papers (data {old})"
    assert ended.stderr.splitlines() == [f"{said}; shown are those on data {new}, which were run last"]
    assert "over others, papers;" in ended.stdout
    listed = inside("ls", "results").stdout.splitlines()
    headings = [line for line in listed if line.endswith("filter none")]
    rows = json.loads(inside("ls", "results", "--json").stdout)
    shown = {row["dataset_sha256"][:12] for row in rows if row["dataset"] == "papers"}
    assert {digest[:4] for digest in shown} == {old, new}
    expected = {f"papers (data {digest}), ez, filter none" for digest in shown}
    assert {*headings} == {*expected, "others, ez, filter none"}


def versions(folder, name):
    """First digits of the data of a name, by the time of the first result."""
    records = sorted(Store(folder / "runs").records(), key=lambda record: record.measured.started)
    return [*dict.fromkeys(record.cell.dataset_sha256[:4] for record in records if record.cell.dataset == name)]


def test_the_data_that_are_here_are_current(inside, tmp_path, monkeypatch):
    """An edit was run, and then taken back: nothing runs again, and the last run is that of the edit."""
    table = "text,labels\nthe engine,a\nthe bridge,b\nan arch,b\nthe old engine,a\n"
    file = tmp_path / "sets" / "papers" / "train.csv"
    file.parent.mkdir(parents=True)
    for edit in ("", "a new arch,b\n", ""):
        file.write_text(table + edit)
        inside("run", "--setting", "ez", "--methods", "tfidf,bm25", "--dataset", "sets/papers", code=0)
    first, edited = versions(tmp_path, "papers")

    def note(*words):
        (said,) = [line for line in inside(*words, code=0).stderr.splitlines() if line.startswith("left out: 2 ")]
        return said.partition("(")[2]

    board, table = ("leaderboard", "--runs", "runs", "--out", "board"), ("export", "table", "--setting", "ez")
    of_run = f"data {first}); shown are those on data {edited}, which were run last"
    here = f"data {edited}); shown are those on data {first}, which are on this machine"
    assert note(*board) == note(*table, "--out", "t.tex") == of_run
    assert note(*board, "--dataset", "sets/papers") == here
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))  # found by its name
    assert note(*board) == note(*table, "--out", "t.tex", "--force") == here
    file.write_text("")  # cannot be read
    assert note(*board) == of_run


@pytest.mark.parametrize("name", ["labels.tsv", "TRAIN.tsv", "label.txt", "test.tsv"])
def test_suggestions_are_no_part_of_the_dataset(inside, tmp_path, name):
    """A file of that name beside the table would be read with it from then on."""
    (tmp_path / "papers.csv").write_text("text,labels\nthe engine,a\nthe bridge,b\nan arch,b\n")
    words = ("suggest", "--dataset", "papers.csv", "--method", "tfidf", "--setting", "ez")
    ended = inside(*words, "--out", name)
    assert (ended.returncode, "would be taken for a part of the dataset" in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / name).exists()
    assert inside(*words, "--out", "suggested.tsv").returncode == 0
    assert inside("data", "info", "papers.csv").returncode == 0


def test_a_method_that_ignores_pairs_suggests_without_them(inside, tiny):
    ended = inside("suggest", "--dataset", tiny, "--method", "tfidf", "--out", "labels.tsv")
    assert "zero-shot (no pairs)" in ended.stdout, ended.stderr


def test_a_uid_is_suggested_as_it_is_or_refused(inside, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"uid": "0", "text": "one", "labels": []}\n')
    (folder / "test.jsonl").write_text('{"uid": " d  1", "text": "apple", "labels": []}\n')
    (folder / "labels.jsonl").write_text('{"uid": " fruit  7", "title": "a\\tfruit "}\n')
    ranked = TopK(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32))
    data = load_dataset(folder)
    suggestions = Suggestions("TF-IDF", "ez", data.name, data.test, data.labels, ranked, 1)
    assert suggestions.empty == 0
    suggestions.write(tmp_path / "labels.tsv")
    assert (tmp_path / "labels.tsv").read_text().splitlines()[1] == " d  1\t1\t1\t fruit  7\ta fruit"
    words = ("suggest", "--dataset", "set", "--method", "tfidf", "--out", "more.tsv")
    for name, row, uid in (
        ("labels", '{"uid": "fruit\\tpie", "title": "fruit"}\n', r"'fruit\tpie' of a label"),
        ("test", '{"uid": "d\\n1", "text": "apple"}\n', r"'d\n1' of a document"),
    ):
        (folder / f"{name}.jsonl").write_text(row)
        ended = inside(*words)
        assert (ended.returncode, f"the uid {uid} has a tab or a line break" in ended.stderr) == (1, True), ended.stderr
        assert not (tmp_path / "runs").exists()


def test_psp_is_left_out_where_there_are_too_few_training_instances(inside, tiny, tmp_path):
    export(load_dataset(tiny), tmp_path / "few", "jsonl")
    lines = (tmp_path / "few" / "train.jsonl").read_text().splitlines()[:2]
    (tmp_path / "few" / "train.jsonl").write_text("\n".join(lines))
    (tmp_path / "few" / "card.toml").unlink()
    ended = inside("run", "--dataset", "few", "--setting", "full", "--methods", "tfidf", "--runs", "runs")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "note: PSP is left out: propensities need 3 training instances" in ended.stderr
    (record,) = Store(tmp_path / "runs").records()
    assert {name.partition("@")[0] for name in record.metrics["none"].values} == {"P", "R", "nDCG"}
    assert record.data_notes[-1] == "PSP is left out: propensities need 3 training instances"
    predictions = TopK.load(tmp_path / "runs" / record.predictions.file)
    assert "PSP@1" not in evaluate(predictions, tmp_path / "few").values
    assert inside("leaderboard", "--runs", "runs", "--out", "pages").returncode == 0
    curve = ("curve", "--dataset", "few", "--methods", "tfidf", "--no-run", "--ratio", "1", "--metric")
    assert "no results to draw" in inside(*curve, "PSP@1").stdout
    assert "rows are left out: without PSP@1" in inside("power", "--detect", "1", "--metric", "PSP@1").stderr


def test_a_card_with_a_filter_that_is_not_there_is_refused_before_anything_runs(inside, tiny, tmp_path):
    """Also where another filter is asked for: a record has the figures under that of the card."""
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf")
    assert inside(*words).returncode == 0
    (tiny / "card.toml").write_text('name = "tiny"\nslug = "tiny"\nfilter = "file"\n')
    for more in ((), ("--filter", "none"), ("--filter", "none", "--seed", "1")):
        ended = inside(*words, *more)
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert "tiny has no filter 'file'" in ended.stderr
        assert "change filter in its card.toml; it has: none" in ended.stderr


def test_arguments_that_are_not_utf8_are_named(inside, tiny):
    for words in (
        ("show", "tfidf", "--text", "\udcff"),
        ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--runs", "r\udcff"),
        ("check", "p\udcff.py"),
    ):
        ended = inside(*words)
        assert "internal error" not in ended.stderr, ended.stderr
        assert ended.returncode in (1, 2)
