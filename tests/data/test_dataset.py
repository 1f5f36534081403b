import gzip
import shutil
import subprocess
import sys

import numpy as np
import pytest

from xmcbench.data import load_dataset, statistics
from xmcbench.errors import DataError, UsageError
from xmcbench.storage.arrays import write_pairs


def test_a_folder_is_a_dataset(write_folder):
    dataset = load_dataset(write_folder())
    assert (dataset.name, dataset.slug, dataset.propensity) == ("Tea Things", "tea-things", (0.55, 1.5))
    assert dataset.counts() == {"train": 3, "test": 2, "labels": 3, "train_pairs": 3, "test_pairs": 3}
    assert list(dataset.labels) == ["red tea", "green tea", "a cup"]
    assert dataset.train[0] == "tea &#8212; red\tA red tea."
    assert list(dataset.train.uids)[1] == "0000031895"
    assert dataset.train.contents[2] == "Two\nlines\tof it."
    assert repr(dataset) == "<Dataset Tea Things: 3 training and 2 test instances, 3 labels>"


@pytest.mark.usefixtures("own_cache")
def test_the_digest_of_one_that_was_read_before_needs_no_pandas(write_folder):
    """Its import takes longer than what it is imported for."""
    pytest.importorskip("pandas")
    load_dataset(folder := write_folder())
    code = f"import sys, xmcbench; xmcbench.load_dataset({str(folder)!r}).digest; print('pandas' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_plain_files_give_the_same_texts_and_pairs(write_folder):
    packed, plain = load_dataset(write_folder("a")), load_dataset(write_folder("b", ".json"))
    assert packed.train.digest == plain.train.digest
    assert (packed.test_pairs() != plain.test_pairs()).nnz == 0


@pytest.mark.parametrize("option", ["", "?dev=0.5"])
def test_of_a_packed_and_a_plain_file_none_is_chosen(write_folder, option):
    """Either may be the older one. A file that is named is read, whatever lies beside it."""
    folder = write_folder()
    (folder / "trn.json").write_text('{"uid": "1", "title": "one", "content": "", "target_ind": [0]}\n')
    message = r"has trn\.json\.gz and trn\.json: only one of them can be read \(move the other to another folder\)"
    with pytest.raises(DataError, match=message):
        load_dataset(f"{folder}{option}")
    for name in ("docs.csv", "docs.csv.gz"):
        content = b"text,labels\none,a\ntwo,b\n"
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert load_dataset(folder / "docs.csv").digest == load_dataset(folder / "docs.csv.gz").digest


def test_pairs_are_binary_float32_with_sorted_columns(write_folder):
    rows = [{"uid": "1", "title": "t", "content": "", "target_ind": [2, 0, 2, 0], "target_rel": [1.0] * 4}]
    pairs = load_dataset(write_folder(trn=rows)).train_pairs()
    assert pairs.dtype == np.float32
    assert pairs.shape == (1, 3)
    assert pairs.indices.tolist() == [0, 2]
    assert pairs.data.tolist() == [1, 1]


@pytest.mark.usefixtures("own_cache")
def test_texts_can_be_read_without_any_pairs(write_folder):
    dataset = load_dataset(write_folder())
    for corpus in (dataset.train_corpus, dataset.test_corpus):
        corpus.pair_file.unlink()
    assert len(dataset.train) == 3
    assert len(dataset.test) == 2
    with pytest.raises(DataError, match="cannot read the pairs .*delete its folder"):
        dataset.train_pairs()
    shutil.rmtree(dataset.train_corpus.folder)
    assert load_dataset(dataset.sources[0].parent).train_pairs().nnz == 3


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("part", ["train", "test", "filter"])
def test_pairs_that_are_not_those_that_were_kept_are_refused(write_folder, part):
    """Whoever writes into the cache cannot choose what predictions are scored against."""
    dataset = load_dataset(write_folder(filter_labels_test__txt="0 1\n"))
    read = {"train": dataset.train_pairs, "test": dataset.test_pairs, "filter": lambda: dataset.filter("file")}[part]
    path = {"train": dataset.train_corpus.pair_file, "test": dataset.test_corpus.pair_file}.get(part)
    path, before = path or dataset.filter_pairs, read()
    write_pairs(path, before.indptr, (before.indices + 1) % 3)
    with pytest.raises(DataError, match=f"{path}: checksum mismatch"):
        read()


def test_a_label_id_beyond_lbl_names_file_and_line(write_folder):
    rows = [{"uid": str(row), "title": "t", "content": "", "target_ind": [row]} for row in range(4)]
    folder = write_folder(tst=rows)
    with pytest.raises(DataError, match="line 4: target_ind 3 is out of range") as caught:
        load_dataset(folder)
    assert "0..2" in caught.value.hint


def test_a_missing_file_is_named(write_folder):
    folder = write_folder()
    (folder / "lbl.json.gz").unlink()
    with pytest.raises(DataError, match=r"has no lbl\.json\.gz"):
        load_dataset(folder)


def test_self_filter_is_the_label_with_the_uid_of_the_instance(write_folder):
    dataset = load_dataset(write_folder())
    assert dataset.filters == ("none", "self")
    assert dataset.filter("none") is None
    assert dataset.filter("self").toarray().tolist() == [[0, 1, 0], [0, 0, 0]]
    assert dataset.longest_filter == 1


def test_the_first_label_can_be_the_instance_itself(write_folder, things):
    things["tst"][0] = {**things["tst"][0], "uid": "B1"}
    things["tst"][1] = {**things["tst"][1], "uid": "0007"}
    dataset = load_dataset(write_folder(**things))
    assert dataset.filter("self").toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    alone = {"tst": [things["tst"][0]]}
    assert load_dataset(write_folder("alone", **alone)).filters == ("none", "self")
    assert load_dataset(write_folder("again", **alone)).longest_filter == 1


def test_row_numbers_are_not_an_identity(write_folder):
    instances = [{"uid": str(row), "title": "t", "content": "", "target_ind": [0]} for row in range(2)]
    dataset = load_dataset(write_folder(tst=instances, lbl=[{"title": "one"}, {"title": "two"}, {"title": "three"}]))
    assert dataset.filters == ("none",)
    assert dataset.longest_filter == 0


@pytest.mark.parametrize("name", ["filter_labels_test__txt", "tst_filter_labels__txt"])
def test_the_filter_file_is_found_under_either_name(write_folder, name):
    dataset = load_dataset(write_folder(**{name: "0 1\n1 0\n1 2\n"}))
    assert dataset.filters == ("none", "self", "file")
    assert dataset.filter("file").toarray().tolist() == [[0, 1, 0], [1, 0, 1]]
    assert dataset.longest_filter == 2


def test_a_filter_file_that_removes_nothing_is_noted(write_folder):
    """As in the folders that others publish, which have no card."""
    folder = write_folder(filter_labels_test__txt="0 1\n")
    note = load_dataset(folder).notes[0]
    assert note.startswith("the filter file removes nothing unless --filter file is given")
    (folder / "card.toml").write_text('name = "mine"\nslug = "mine"\nfilter = "file"\n')
    assert note not in load_dataset(folder).notes


def test_a_broken_filter_file_is_found_on_loading(write_folder):
    with pytest.raises(DataError, match=r"filter_labels_test\.txt, line 2: label 3 is out of range"):
        load_dataset(write_folder(filter_labels_test__txt="0 1\n1 3\n"))


def test_a_filter_the_dataset_lacks_is_refused_with_a_reason(write_folder):
    dataset = load_dataset(write_folder())
    with pytest.raises(UsageError, match=r"it has no filter_labels_test\.txt") as caught:
        dataset.filter("file")
    assert "none, self" in caught.value.hint
    with pytest.raises(UsageError, match="no filter 'some'"):
        dataset.filter("some")


def test_the_digest_is_of_the_content(write_folder):
    one, same = load_dataset(write_folder("a")), load_dataset(write_folder("b"))
    other = load_dataset(write_folder("c", filter_labels_test__txt=""))
    assert one.digest == same.digest != other.digest


def test_the_digest_does_not_depend_on_files_and_layout(write_folder, things):
    """Packed or plain, keys in another order, a filter under another name: the content is the same."""
    packed = load_dataset(write_folder("a", filter_labels_test__txt="0 1\n1 0\n"))
    rows = [dict(reversed(row.items())) for row in things["trn"]]
    plain = load_dataset(write_folder("b", ".json", trn=rows, tst_filter_labels__txt="0 1\n1 0\n"))
    assert packed.digest == plain.digest


@pytest.mark.parametrize(
    ("side", "change"),
    [
        ("trn", {"title": "tea"}),
        ("tst", {"content": "It is red."}),
        ("lbl", {"title": "a mug"}),
        ("trn", {"target_ind": [2, 1]}),
        ("tst", {"target_ind": [1]}),
        ("tst", {"uid": "B1"}),  # the self filter removes another label
        ("filter", "0 2\n"),
        ("filter", None),
    ],
)
def test_all_that_a_figure_depends_on_is_part_of_the_digest(write_folder, things, side, change):
    files = {**things, "filter_labels_test__txt": "0 1\n"}
    before = load_dataset(write_folder("a", **files)).digest
    if side == "filter":
        files["filter_labels_test__txt"] = change
    else:
        files[side][0] = {**files[side][0], **change}
    files = {name: content for name, content in files.items() if content is not None}
    assert load_dataset(write_folder("b", **files)).digest != before


def test_a_card_in_the_folder_counts(write_folder):
    card = 'name = "Tea"\nslug = "tea"\nfilter = "self"\n[propensity]\na = 0.6\nb = 2.6\n'
    dataset = load_dataset(write_folder(card__toml=card))
    assert (dataset.name, dataset.slug, dataset.propensity, dataset.card.filter) == ("Tea", "tea", (0.6, 2.6), "self")


def test_a_file_other_than_the_cards_is_refused(write_folder):
    card = f'name = "Tea"\nslug = "tea"\n[files]\n"lbl.json.gz" = "{"0" * 64}"\n'
    with pytest.raises(DataError, match=r"lbl\.json\.gz does not match the card of Tea"):
        load_dataset(write_folder(card__toml=card))


def test_the_filter_of_a_card_that_the_dataset_lacks_is_said_to_be_of_the_card(write_folder):
    dataset = load_dataset(write_folder(card__toml='name = "D"\nslug = "d"\nfilter = "file"\n'))
    with pytest.raises(UsageError, match="D has no filter 'file'") as caught:
        dataset.choose_filter(None)
    assert caught.value.hint == "change filter in its card.toml; it has: none, self"
    assert dataset.choose_filter("none") == "none"


def test_counts_and_means(write_folder):
    facts = statistics(load_dataset(write_folder()))
    assert facts["train"] == 3
    assert facts["labels_per_train_instance"] == 1
    assert facts["labels_per_test_instance"] == 1.5
    assert facts["train_instances_per_label"] == 1
    assert facts["words_per_title"] == pytest.approx((4 - 1 + 2 + 1 + 2 + 1) / 5)
    assert facts["words_per_content"] == pytest.approx((3 + 4 + 3) / 5)
    assert facts["words_per_label"] == 2
    assert facts["labels_without_train_pair"] == 0


def test_labels_nobody_trains_on_are_counted(write_folder):
    rows = [{"uid": "A1", "title": "t", "content": "", "target_ind": [0]}]
    facts = statistics(load_dataset(write_folder(trn=rows)))
    assert facts["labels_without_train_pair"] == 2
    assert facts["test_pairs_of_labels_without_train_pair"] == 3
