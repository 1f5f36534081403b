"""Parts of a dataset: a test set that is drawn, instances held out for development, and some documents of it."""

import json

import numpy as np
import pytest

from xmcbench.choice import check_choosable
from xmcbench.data import export, load_dataset
from xmcbench.data.catalog import locate, reference_of
from xmcbench.errors import DataError, UsageError
from xmcbench.records import Store


@pytest.fixture
def whole(tmp_path):
    """A folder with one set of instances of these titles."""

    def write(titles, name="whole"):
        folder = tmp_path / name
        folder.mkdir()
        rows = [{"uid": f"u{row}", "title": title, "target_ind": [row % 2]} for row, title in enumerate(titles)]
        (folder / "trn.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "lbl.json").write_text('{"title": "even"}\n{"title": "odd"}\n')
        return folder

    return write


def test_a_share_of_the_texts_is_drawn_for_testing_and_duplicates_stay_together(whole):
    dataset = load_dataset(whole([f"text {row % 50}" for row in range(200)]))
    assert len({*dataset.test}) == 10
    assert not {*dataset.test} & {*dataset.train}
    assert (len(dataset.train), len(dataset.test)) == (160, 40)
    (note,) = dataset.notes
    assert "40 of 200 were drawn for testing" in note
    assert "test_share=0.2, split_seed=0" in note
    for texts, pairs in ((dataset.train, dataset.train_pairs()), (dataset.test, dataset.test_pairs())):
        rows = [int(uid[1:]) for uid in texts.uids]
        assert list(texts) == [f"text {row % 50}" for row in rows]
        assert pairs.indices.tolist() == [row % 2 for row in rows]


def test_an_instance_stays_on_its_side_wherever_it_stands(whole):
    titles = [f"text {row}" for row in range(100)]
    one, other = load_dataset(whole(titles, "a")), load_dataset(whole(titles[::-1], "b"))
    assert {*one.test} == {*other.test}


def test_the_seed_and_the_share_decide(whole):
    folder = whole([f"text {row}" for row in range(100)])
    one, other = load_dataset(folder), load_dataset(f"{folder}?split_seed=1&test_share=0.4")
    assert (len(one.test), len(other.test)) == (20, 40)
    assert not {*one.test} <= {*other.test}
    assert "test_share=0.4, split_seed=1" in other.notes[0]


def test_another_seed_is_another_split(whole):
    folder = whole([f"text {row}" for row in range(100)])
    one, other = load_dataset(folder), load_dataset(f"{folder}?split_seed=1")
    assert len(one.test) == len(other.test) == 20
    assert {*one.test} != {*other.test}


def test_both_sides_get_at_least_one_text(whole):
    folder = whole(["a", "b", "b"])
    for share in (0.01, 0.99):
        dataset = load_dataset(f"{folder}?test_share={share}")
        assert len({*dataset.train}) == len({*dataset.test}) == 1
    with pytest.raises(DataError, match="all instances have the same text"):
        load_dataset(whole(["a", "a"], "alike"))
    for options in ("test_share=1", "test_share=x", "split_seed=-1"):
        with pytest.raises(UsageError, match="invalid test_share or split_seed"):
            load_dataset(f"{folder}?{options}")


def test_one_instance_was_drawn(whole):
    assert "1 of 3 was drawn for testing" in load_dataset(whole(["one", "two", "three"])).notes[0]


def test_a_filter_about_another_test_set_is_not_used(whole):
    folder = whole(["a", "b", "c"])
    (folder / "filter_labels_test.txt").write_text("0 0\n")
    dataset = load_dataset(folder)
    assert dataset.filters == ("none",)
    assert "filter_labels_test.txt is not used" in dataset.notes[1]


def test_a_share_that_is_not_needed_is_said(write_folder):
    dataset = load_dataset(f"{write_folder()}?test_share=0.5&split_seed=1")
    assert "test_share is not used: there are a training and a test set" in dataset.notes
    assert "split_seed is not used: there are a training and a test set" in dataset.notes
    assert not any("not used" in note for note in load_dataset(write_folder("other")).notes)


@pytest.fixture
def table(tmp_path):
    rows = [f"{number},the story of {number % 40},a;{'bc'[number % 2]}" for number in range(50)]
    path = tmp_path / "docs.csv"
    path.write_text("\n".join(["uid,text,labels", *rows]) + "\n")
    return path


def test_a_share_of_the_training_texts_is_held_out(tiny):
    whole, dev = load_dataset(tiny), load_dataset(f"{tiny}?dev=0.25")
    assert (dev.name, dev.slug, len(dev.train), len(dev.test)) == ("tiny-dev-0.25", "tiny-dev-0.25", 45, 15)
    assert sorted([*dev.train.uids, *dev.test.uids]) == sorted(whole.train.uids)
    assert not {*dev.test.uids} & {*whole.test.uids}
    truth = {uid: row.indices.tolist() for uid, row in zip(whole.train.uids, whole.train_pairs(), strict=True)}
    for texts, pairs in ((dev.train, dev.train_pairs()), (dev.test, dev.test_pairs())):
        assert [row.indices.tolist() for row in pairs] == [truth[uid] for uid in texts.uids]
    assert dev.labels.digest == whole.labels.digest
    assert "15 of 60 training instances are held out for testing" in dev.notes[-1]
    assert load_dataset(f"{tiny}?dev=0.25").digest == dev.digest != load_dataset(f"{tiny}?dev=0.5").digest


def test_a_file_without_a_test_set_has_a_dev_split_of_what_is_left(table):
    """Equal texts are on one side, so that no held-out text was seen in training."""
    whole, dev = load_dataset(table), load_dataset(f"{table}?dev=0.2")
    assert dev.name == "docs-dev-0.2"
    assert len(dev.train) + len(dev.test) == len(whole.train) < 50
    assert not {*dev.test} & {*dev.train}
    assert not ({*dev.test} | {*dev.train}) & {*whole.test}
    with_columns = load_dataset(f"{table}?text=text&labels=labels&dev=0.2")
    assert with_columns.digest == dev.digest


@pytest.mark.parametrize("layout", ["xc", "table"])
def test_no_test_file_is_read(tiny, tmp_path, layout):
    """The labels have a file of their own."""
    folder = tiny
    if layout == "table":
        folder = tmp_path / "tables"
        export(load_dataset(tiny), folder, "jsonl")
    expected = load_dataset(f"{folder}?dev=0.2")
    (test,) = [path for path in folder.iterdir() if path.name.startswith(("tst", "test"))]
    test.write_bytes(b"\x00 not a file of instances")
    assert load_dataset(f"{folder}?dev=0.2").digest == expected.digest
    with pytest.raises(DataError):
        load_dataset(folder)


def test_a_derived_dataset_has_a_dev_split(monkeypatch):
    whole, dev = load_dataset("lf-debian-2k"), load_dataset("lf-debian-2k?dev=0.1")
    assert (dev.name, len(dev.train) + len(dev.test)) == ("LF-Debian-2K-dev-0.1", len(whole.train))
    assert not {*dev.test.uids} & {*whole.test.uids}
    assert dev.card.filter == whole.card.filter == "self"
    check_choosable("P@1", [dev])
    with pytest.raises(UsageError, match="would choose by the test labels"):
        check_choosable("P@1", [whole])


def test_a_filter_file_is_not_that_of_the_held_out_instances(tiny):
    (tiny / "filter_labels_test.txt").write_text("0 0\n")
    (tiny / "card.toml").write_text('name = "Tiny"\nslug = "tiny"\nfilter = "file"\n')
    assert load_dataset(tiny).filters == ("none", "file")
    assert load_dataset(f"{tiny}?dev=0.2").filters == ("none",)
    assert load_dataset(f"{tiny}?dev=0.2").card.filter == "none"


@pytest.mark.parametrize("share", ["0", "1", "-0.1", "much", "nan"])
def test_a_share_is_between_0_and_1(tiny, share):
    with pytest.raises(UsageError, match="is not a share of the training instances"):
        load_dataset(f"{tiny}?dev={share}")


@pytest.mark.parametrize("share", ["0.1", "0.25", "1e-05", "0.0001", "0.123457", "0.1234567"])
def test_two_shares_have_two_names(tiny, share):
    assert locate(f"{tiny}?dev={share}").name == f"tiny-dev-{share}"


@pytest.mark.parametrize(
    "name", ["LF-Debian-2K-dev-0.1", "LF-Debian-2K+limit100", "LF-Debian-20K-dev-0.02+limit100", "lf-debian-2k+limit9"]
)
def test_the_name_in_a_record_names_the_part_of_a_known_dataset(name, tmp_path, monkeypatch):
    made = load_dataset(name)
    assert made.name.casefold() == name.casefold()
    assert load_dataset(made.name).digest == made.digest
    assert locate(name).name == locate(reference_of(name)).name
    assert reference_of(f"{name}?limit=7").endswith("limit=7")
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()  # what is there goes before
    assert reference_of(name) == name


@pytest.mark.parametrize("name", ["LF-Debian-20K-dev", "LF-Debian-2K", "nothing+limit5", "LF-Debian-2K+limitless"])
def test_other_names_are_as_they_are(name):
    assert reference_of(name) == name


def test_a_result_on_a_part_is_selected_and_repeated(inside, tmp_path, monkeypatch):
    """By the reference that it was run on, and by its name."""
    words = ("--dataset", "lf-debian-2k", "--setting", "ez", "--methods", "tfidf")
    inside("run", *words, "--limit", "100", code=0)
    inside("run", *words, "--dev", "0.1", code=0)
    records = {record.cell.dataset: record for record in Store(tmp_path / "runs").records()}
    options = {"LF-Debian-2K+limit100": "limit=100", "LF-Debian-2K-dev-0.1": "dev=0.1"}
    assert records.keys() == options.keys()
    for name, record in records.items():
        uid = load_dataset(name).test.uids[0]
        for dataset in (f"lf-debian-2k?{options[name]}", name):
            shown = inside("show", "tfidf", "--instance", uid, "--dataset", dataset, code=0)
            assert f", {name}, " in shown.stdout
        # As `export paper` prints the command.
        again = inside(*record.reproduction("runs").split()[1:], "--out", f"again-{name}", code=0)
        assert "agrees" in again.stdout
    assert (
        "has no result with this dataset"
        in inside("show", "tfidf", "--instance", uid, "--dataset", "lf-debian-2k?limit=99").stderr
    )


def test_rows_are_run_and_compared_on_it(inside, table, tmp_path):
    words = ("run", "--dataset", "docs.csv", "--dev", "0.2", "--setting", "full", "--methods", "tfidf,knn")
    ended = inside(*words, "--best", "P@1")
    assert ended.returncode == 0, ended.stderr
    assert "best P@1 of 1 row of knn on docs-dev-0.2" in ended.stdout
    assert {record.cell.dataset for record in Store(tmp_path / "runs").records()} == {"docs-dev-0.2"}
    compared = inside("compare", "tfidf", "knn", "--dataset", "docs.csv?dev=0.2", "--setting", "full")
    assert compared.returncode == 0, compared.stderr
    assert locate("docs.csv?dev=0.2").slug == "docs-dev-0.2"
    assert "is not a share" in inside("run", "--dataset", "docs.csv", "--dev", "2", "--setting", "full").stderr


def test_a_sample_is_a_part_of_a_larger_one_and_of_the_whole():
    whole = load_dataset("lf-debian-20k")
    small, large = (load_dataset(f"lf-debian-20k?limit={number}") for number in (30, 60))
    assert (small.name, small.slug) == ("LF-Debian-20K+limit30", "lf-debian-20k-limit30")
    assert (len(small.train), len(small.test), len(small.labels)) == (30, 30, len(whole.labels))
    assert {*small.test.uids} < {*large.test.uids} < {*whole.test.uids}
    assert len({small.digest, large.digest, whole.digest}) == 3
    assert "limited to 30 of " in small.notes[-1]
    rows = np.array([[*whole.test.uids].index(uid) for uid in small.test.uids])
    assert (small.test_pairs() != whole.test_pairs()[rows]).nnz == 0
    for kind in ("self", "file"):
        assert (small.filter(kind) != whole.filter(kind)[rows]).nnz == 0
    with pytest.raises(UsageError, match="limit=0 is not a number of documents"):
        load_dataset("lf-debian-20k?limit=0")
    assert load_dataset("lf-debian-20k?limit=1000000").name == whole.name


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "docs.csv").write_text("text,labels\nred tea,tea\na cup,cup\ngreen tea,tea\n")
    (tmp_path / "docs.jsonl").write_text(
        '{"text": "x y", "labels": ["x"]}\n{"text": "y z", "labels": ["z"]}\n{"text": "z", "labels": ["z"]}\n'
    )
    return tmp_path


def test_two_files_do_not_get_one_name(tables):
    (tables / "other.jsonl").write_text((tables / "docs.jsonl").read_text())
    names = {name: load_dataset(tables / name) for name in ("docs.csv", "docs.jsonl", "other.jsonl")}
    assert {name: (dataset.name, dataset.slug) for name, dataset in names.items()} == {
        "docs.csv": ("docs", "docs"),
        "docs.jsonl": ("docs.jsonl", "docs-jsonl"),
        "other.jsonl": ("other", "other"),
    }
    (tables / "docs.csv").unlink()
    assert load_dataset(tables / "docs.jsonl").name == "docs"


def test_results_on_some_documents_are_marked_and_on_no_board(inside, tables):
    for words in (("--limit", "1"), ()):
        ended = inside("run", "--dataset", "docs.csv,docs.jsonl", "--setting", "ez", "--methods", "tfidf", *words)
        assert ended.returncode == 0, ended.stderr
    names = {record.cell.dataset for record in Store(tables / "runs").records()}
    assert names == {"docs", "docs.jsonl", "docs+limit1", "docs.jsonl+limit1"}
    made = inside("leaderboard", "--runs", "runs", "--out", "board", "--format", "json")
    assert made.returncode == 0, made.stderr
    assert "left out: 2 records of --limit" in made.stderr
    assert "+limit" not in "".join(path.read_text() for path in (tables / "board").rglob("*.json"))
    # A board, whose records are packed, takes none.
    (tables / "packed" / "records").mkdir(parents=True)
    (tables / "packed" / "records" / "docs").mkdir()
    (tables / "packed" / "records" / "docs" / "ez.jsonl").touch()
    words = ("--dataset", "docs.csv", "--setting", "ez", "--methods", "tfidf", "--limit", "1", "--runs", "packed")
    refused = inside("run", *words)
    assert refused.returncode == 2
    assert "packed is a board" in refused.stderr
    refused = inside("leaderboard", "add", "runs", "--out", "other")
    assert refused.returncode == 1
    assert refused.stderr.count("it is of --limit, on some documents of a dataset") == 2


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("vocabulary.tsv",), "it has vocabulary.tsv, but no train.tsv or test.tsv"),
        (("train/a.txt",), r"it has train, but no vocabulary.tsv \(or .csv, .ttl, .rdf, .nt\) as in Annif\)"),
        (("train/a.txt", "yso.ttl"), "as in Annif; call yso.ttl vocabulary.ttl"),
        (("readme.md",), "expected lbl.json.gz"),
    ],
)
def test_a_folder_of_no_layout_says_what_it_lacks_as_a_corpus_of_annif(tmp_path, files, said):
    for name in files:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    with pytest.raises(DataError, match=f"has no layout that xmcbench knows .*{said}"):
        load_dataset(tmp_path / "set")


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("\u6771\u4eac\u306e\u56f3\u66f8\u9928", True),
        ("\u0e2b\u0e49\u0e2d\u0e07\u0e2a\u0e21\u0e38\u0e14", True),
        ("\ub3c4\uc11c\uad00 \ubaa9\ub85d", False),
        ("a library \u56f3", False),
        ("123", False),
    ],
)
def test_texts_without_spaces_are_noted_with_a_hint(tmp_path, text, noted):
    rows = [json.dumps({"text": f"{text}{row}", "labels": [text]}) for row in range(4)]
    (tmp_path / "docs.jsonl").write_text("\n".join(rows) + "\n")
    notes = load_dataset(tmp_path / "docs.jsonl").notes
    assert any("--set METHOD.analyzer=icu" in note for note in notes) is noted


def test_a_limit_leaves_out_a_default_filter_that_removes_nothing(write_folder):
    card = 'name = "Tea"\nslug = "tea"\nfilter = "self"\n'
    rows = [{"uid": f"B{row}", "title": f"tea {row}", "target_ind": [0]} for row in range(1, 20)]
    folder = write_folder(tst=rows, card__toml=card)
    chosen = {number: load_dataset(f"{folder}?limit={number}") for number in (1, 18)}
    assert chosen[18].choose_filter(None) == "self"
    assert (chosen[1].filters, chosen[1].choose_filter(None)) == (("none",), "none")


def test_a_limit_that_leaves_all_documents_changes_nothing(tables):
    whole, same = (load_dataset(f"{tables / 'docs.csv'}{options}") for options in ("", "?limit=100"))
    assert (same.name, same.digest, same.notes) == (whole.name, whole.digest, whole.notes)
