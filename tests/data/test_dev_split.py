"""Training instances held out of any dataset, without its test instances."""

import pytest

from xmcbench import UsageError, load_dataset
from xmcbench.choice import check_choosable
from xmcbench.data import export
from xmcbench.data.catalog import locate
from xmcbench.errors import DataError
from xmcbench.records import Store


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
