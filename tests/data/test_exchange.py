import errno
import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import load_npz

from xmcbench.data import export, load_dataset
from xmcbench.data.card import Card, Derivation, write_card
from xmcbench.data.opening import derive
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.data.verification import examine
from xmcbench.data.xc_matrix import read_matrix
from xmcbench.errors import DataError, UnknownName, UsageError
from xmcbench.storage.locks import temporary_name

_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
_ROWS = st.lists(
    st.tuples(_TEXT, _TEXT, _TEXT, st.lists(st.integers(0, 1), max_size=2)),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row[0],
)
_LABELS = st.lists(
    st.tuples(_TEXT, _TEXT.filter(lambda text: text.strip())), min_size=2, max_size=4, unique_by=lambda row: row[0]
)


def _equal(one, other):
    for side in ("train", "test", "labels"):
        for column in ("uids", "titles", "contents"):
            assert list(getattr(getattr(one, side), column)) == list(getattr(getattr(other, side), column))
    assert (one.train_pairs() != other.train_pairs()).nnz == 0
    assert (one.test_pairs() != other.test_pairs()).nnz == 0
    assert one.counts() == other.counts()


@given(_ROWS, _ROWS, _LABELS)
@settings(max_examples=25)
def test_any_dataset_survives_export_as_xc(tmp_path_factory, train, test, labels):
    folder = tmp_path_factory.mktemp("sets")
    (folder / "a").mkdir()
    write_instances(folder / "a" / "trn.json", train)
    write_instances(folder / "a" / "tst.json", test)
    write_labels(folder / "a" / "lbl.json", labels)
    original = load_dataset(folder / "a")
    export(original, folder / "b", "xc")
    copy = load_dataset(folder / "b")
    _equal(original, copy)
    assert original.filters == copy.filters


def test_xc_keeps_card_and_filter_and_adds_matrices(write_folder, tmp_path):
    card = 'name = "Tea"\nslug = "tea"\nfilter = "file"\n[propensity]\na = 0.6\nb = 2.6\n'
    original = load_dataset(write_folder(card__toml=card, filter_labels_test__txt="1 0\n"))
    files = export(original, tmp_path / "out", "xc")
    copy = load_dataset(tmp_path / "out")
    _equal(original, copy)
    assert (copy.filter("file") != original.filter("file")).nnz == 0
    assert (copy.propensity, copy.card.filter) == ((0.6, 2.6), "file")
    assert examine(tmp_path / "out").findings == []
    assert (read_matrix(tmp_path / "out" / "tst_X_Y.txt") != original.test_pairs()).nnz == 0
    assert all(path.is_file() for path in files)


def test_pecos_has_a_text_a_line_and_float32_matrices(write_folder, tmp_path):
    dataset = load_dataset(write_folder())
    with pytest.raises(DataError, match="has a line break, which X.trn.txt cannot hold"):
        export(dataset, tmp_path / "out", "pecos")
    export(dataset, tmp_path / "out", "pecos", flatten=True)
    lines = (tmp_path / "out" / "X.trn.txt").read_text().split("\n")
    assert lines == ["tea &#8212; red\tA red tea.", "a pot", "green\tTwo lines of it.", ""]
    assert (tmp_path / "out" / "output-items.txt").read_text() == "red tea\ngreen tea\na cup\n"
    matrix = load_npz(tmp_path / "out" / "Y.tst.npz")
    assert matrix.dtype == np.float32
    assert (matrix != dataset.test_pairs()).nnz == 0


def test_maclr_has_plain_json_lines_and_the_test_pairs_by_uid(write_folder, tmp_path):
    dataset = load_dataset(write_folder())
    export(dataset, tmp_path / "out", "maclr")
    assert (tmp_path / "out" / "all_pairs.txt").read_text() == "B2 0007 1\nT2 B2 1\nT2 0007 1\n"
    assert json.loads((tmp_path / "out" / "trn.json").read_text().split("\n")[0])["target_ind"] == [0, 2]
    _equal(dataset, load_dataset(tmp_path / "out"))


def test_maclr_cannot_hold_a_uid_with_a_space(write_folder, tmp_path):
    labels = [{"uid": f"label {row}", "title": "t"} for row in range(3)]
    dataset = load_dataset(write_folder(lbl=labels))
    with pytest.raises(DataError, match="uid 'label 0' contains a space"):
        export(dataset, tmp_path / "out", "maclr")
    assert not (tmp_path / "out").exists()


def test_zestxml_has_raw_texts_and_label_matrices(write_folder, tmp_path):
    dataset = load_dataset(write_folder())
    export(dataset, tmp_path / "out", "zestxml", flatten=True)
    assert (tmp_path / "out" / "raw" / "tst_X.txt").read_text() == "green tea\tIt is green.\nsaucer\n"
    assert (tmp_path / "out" / "raw" / "Y.txt").read_text().count("\n") == 3
    assert (read_matrix(tmp_path / "out" / "trn_X_Y.txt") != dataset.train_pairs()).nnz == 0


@pytest.mark.parametrize(("side", "drawn"), [("tst", "train is 2"), ("trn", "test is 1")])
def test_a_part_that_is_missing_is_found_and_one_that_is_drawn_is_as_it_was(write_folder, tmp_path, side, drawn):
    """The card has the counts of both parts, also where one of them is drawn from the other."""
    dataset = load_dataset(write_folder())
    out = tmp_path / "out"
    export(dataset, out, "xc")
    (out / f"{side}.json.gz").unlink()
    for matrix in ("trn_X_Y.txt", "tst_X_Y.txt"):
        (out / matrix).unlink()
    findings = examine(out).findings
    assert f"{out / f'{side}.json.gz'} is missing" in findings
    assert any(drawn in finding for finding in findings)
    counts = load_dataset(out).counts()
    write_card(out / "card.toml", Card("out", "out", counts=counts))
    assert examine(out).findings == []


def test_a_sample_is_another_dataset_than_the_one_it_is_of(write_folder, tmp_path, monkeypatch):
    """Also by the name in its card: both may lie in one folder of datasets."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    whole = load_dataset(write_folder("sets/gamma"))
    texts = tmp_path / "new.txt"
    texts.write_text("a jug\n")
    samples = {"a-small": "gamma?limit=1", "a-new": f"gamma?documents={texts}"}
    for name, reference in samples.items():
        export(load_dataset(reference), tmp_path / "sets" / name, "xc")
    assert load_dataset("gamma").digest == whole.digest
    assert load_dataset("gamma-limit1").counts()["train"] == 1
    assert [*load_dataset("gamma-documents").test] == ["a jug"]


def test_nothing_is_overwritten(write_folder, tmp_path):
    dataset = load_dataset(write_folder())
    with pytest.raises(UsageError, match="already exists"):
        export(dataset, tmp_path, "xc")


def test_an_unknown_format_is_answered_with_the_nearest(write_folder, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'pecos'"):
        export(load_dataset(write_folder()), tmp_path / "out", "pecoss")


def test_force_keeps_other_files(write_folder, tmp_path):
    """And replaces those of the same names only."""
    dataset, out = load_dataset(write_folder()), tmp_path / "mine"
    (out / "deep").mkdir(parents=True)
    (out / "deep" / "notes.txt").write_text("mine")
    (out / "lbl.json.gz").write_text("mine too")
    with pytest.raises(UsageError, match=r"contains deep \("):
        export(dataset, out, "xc")
    assert (out / "lbl.json.gz").read_text() == "mine too"
    written = export(dataset, out, "xc", force=True)
    assert all(path.is_file() for path in written)
    assert (out / "deep" / "notes.txt").read_text() == "mine"
    assert list(load_dataset(out).labels) == list(dataset.labels)
    assert sorted(path.name for path in tmp_path.glob(".mine*")) == []


def test_a_folder_that_is_there_stays_the_same_folder(write_folder, tmp_path):
    """Someone may stand in it, share it with its permissions, or have linked to it."""
    dataset = load_dataset(write_folder())
    empty, link = tmp_path / "empty", tmp_path / "link"
    empty.mkdir(mode=0o2770)
    empty.chmod(0o2770)
    link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    before = empty.stat()
    for out in (empty, link):
        export(dataset, out, "xc")
        assert list(load_dataset(out).labels) == list(dataset.labels)
    after = empty.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert link.is_symlink()


def test_a_folder_on_another_disk_than_its_parent(write_folder, tmp_path, monkeypatch):
    """A mount point, or a link to one; its parent may not be writable either."""
    dataset, out = load_dataset(write_folder()), tmp_path / "mount"
    (out / "deep").mkdir(parents=True)
    replace = os.replace

    def across(source, path):
        if Path(source).is_relative_to(out) != Path(path).is_relative_to(out):
            raise OSError(errno.EXDEV, "another disk")
        replace(source, path)

    monkeypatch.setattr(os, "replace", across)
    (out / "deep").rmdir()
    export(dataset, out, "xc")
    export(dataset, out, "xc", force=True)
    assert load_dataset(out).digest == dataset.digest
    assert sorted(path.name for path in out.glob(".*")) == []


def test_what_another_process_makes_in_a_folder_is_no_file_of_somebody_else(write_folder, tmp_path):
    dataset, out = load_dataset(write_folder()), tmp_path / "out"
    other = out / temporary_name("out")
    other.mkdir(parents=True)
    (other / "lbl.json").write_text("half a line")
    export(dataset, out, "xc")
    assert load_dataset(out).digest == dataset.digest


@pytest.mark.parametrize("name", ["filter_labels_test.txt", "filter_labels_test.txt.gz", "tst_filter_labels.txt"])
def test_the_filter_of_something_else_is_not_left_beside_a_dataset(write_folder, tmp_path, name):
    """Also with --force: whoever reads the folder would take it for a filter of this dataset."""
    out = tmp_path / "out"
    out.mkdir()
    content = b"0 0\n"
    (out / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(UsageError, match=f"out/{re.escape(name)} would be taken for a part of the new dataset"):
        export(load_dataset(write_folder("tea-things")), out, "xc", force=True)
    assert [path.name for path in out.iterdir()] == [name]
    filtered = load_dataset(write_folder("filtered", filter_labels_test__txt="1 0\n"))
    if name.endswith(".gz"):
        with pytest.raises(UsageError, match="would be taken for a part"):
            export(filtered, out, "xc", force=True)
    else:
        export(filtered, out, "xc", force=True)
        assert load_dataset(out).filter("file").nnz == 1
        assert ((out / name).read_bytes() == content) == (name == "tst_filter_labels.txt")


def _rows(number, prefix):
    """Instances of the raw layout; without a prefix, their uids are row numbers."""
    return [{"uid": f"{prefix}{row}", "title": f"{number} tea {row}", "target_ind": [row % 2]} for row in range(6)]


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ("xc", "maclr", r"(lbl|trn|tst)\.json\.gz"),
        ("xc", "pecos", r"(lbl|trn|tst)\.json\.gz"),
        ("maclr", "xc", r"all_pairs\.txt"),
        ("pecos", "pecos", r"(X\.trn|X\.tst|output-items)\.uids\.txt"),
        ("xc-lines", "xc-lines", r"(trn_X|tst_X|Y)\.uids\.txt"),
    ],
)
def test_files_of_an_earlier_dataset_are_not_taken_for_those_of_a_later_one(
    write_folder, tmp_path, first, second, taken
):
    """Also with --force: they lie beside its own, and whoever reads the folder takes them."""
    labels = [{"title": "one"}, {"title": "two"}]
    named = [{"uid": f"l{row}", **label} for row, label in enumerate(labels)]
    earlier = load_dataset(write_folder("earlier", trn=_rows(1, "a"), tst=_rows(2, "b"), lbl=named))
    later = load_dataset(write_folder("later", trn=_rows(3, ""), tst=_rows(4, ""), lbl=labels))
    out = tmp_path / "out"
    export(earlier, out, first)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(UsageError, match=rf"{taken} would be taken for a part of the new dataset \(move it, or "):
        export(later, out, second, force=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    export(earlier, out, first, force=True)
    assert load_dataset(out).digest == earlier.digest


def test_labels_without_uids_do_not_get_those_of_others_rows(write_folder, tmp_path):
    """The rows of labels that were drawn have the numbers of others, which a reader would take for names."""
    labels = [{"title": title} for title in ("one", "two", "three", "four", "five", "six")]
    rows = [{"uid": str((row + 1) % 6), "title": f"tea {row}", "target_ind": [row]} for row in range(6)]
    labels[0]["alternatives"] = ["first"]
    folder = write_folder("mine", trn=rows, tst=rows, lbl=labels)
    card = Card("few", "few", derive=Derivation("mine", seed=0, labels=3))
    dataset = derive(load_dataset(folder), card)
    for layout in ("xc", "csv"):
        export(dataset, tmp_path / layout, layout)
        copy = load_dataset(tmp_path / layout)
        assert (copy.digest, copy.filters) == (dataset.digest, ("none",))
