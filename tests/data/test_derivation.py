import shutil

import numpy as np
import pytest

from xmcbench.data import export, load_dataset
from xmcbench.data.opening import draw
from xmcbench.data.synthesis import synthesize
from xmcbench.errors import DataError


def _draw(total, wanted, seed=0):
    return draw(total, wanted, seed, "D", "labels")


def _text(wanted, seed=0, source="source", what="labels"):
    return f'name = "D"\nslug = "d"\n[derive]\nfrom = "{source}"\n{what} = {wanted}\nseed = {seed}\n'


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A made-up dataset ``source`` with a filter file, and a card ``d`` to derive from it."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    synthesize(tmp_path / "sets" / "source", 120, 40, 0)
    (tmp_path / "sets" / "source" / "filter_labels_test.txt").write_text("0 3\n1 2\n5 7\n")
    (tmp_path / "sets" / "d").mkdir()
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(15))
    return load_dataset("source")


def test_the_draw_is_frozen_ascending_and_nested():
    assert _draw(10, 4).tolist() == [2, 4, 8, 9]
    assert set(_draw(50, 5)) < set(_draw(50, 20))
    assert _draw(50, 50).tolist() == list(range(50))


@pytest.mark.parametrize("labels", [0, 11])
def test_more_labels_than_there_are_cannot_be_drawn(labels):
    with pytest.raises(DataError, match="labels of 10"):
        _draw(10, labels)


def test_texts_pairs_and_filter_belong_together(source):
    derived, labels = load_dataset("d"), _draw(40, 15)
    assert list(derived.labels) == [source.labels[int(label)] for label in labels]
    for side in ("train", "test"):
        all_texts, all_pairs = getattr(source, side), getattr(source, f"{side}_pairs")()
        rows = np.flatnonzero(all_pairs[:, labels].getnnz(axis=1))
        assert list(getattr(derived, side)) == [all_texts[int(row)] for row in rows]
        assert (getattr(derived, f"{side}_pairs")() != all_pairs[rows][:, labels]).nnz == 0
    rows = np.flatnonzero(source.test_pairs()[:, labels].getnnz(axis=1))
    assert (derived.filter("file") != source.filter("file")[rows][:, labels]).nnz == 0
    assert derived.counts()["test_pairs"] == derived.test_pairs().nnz


def test_held_out_instances_are_training_instances_that_are_gone_from_training(source, tmp_path):
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(30, what="held_out"))
    derived, total = load_dataset("d"), len(source.train)
    rows = draw(total, 30, 0, "D", "training instances")
    left = np.setdiff1d(np.arange(total), rows)
    assert list(derived.labels) == list(source.labels)
    for side, own in (("train", left), ("test", rows)):
        assert list(getattr(derived, side)) == [source.train[int(row)] for row in own]
        assert (getattr(derived, f"{side}_pairs")() != source.train_pairs()[own]).nnz == 0
    assert not {*derived.test} & {*source.test}
    assert "file" not in derived.filters
    export(derived, tmp_path / "exported", "xc")
    held_out = [load_dataset(place).card.is_for_choosing for place in ("source", "d", str(tmp_path / "exported"))]
    assert held_out == [False, True, True]


@pytest.mark.parametrize(
    ("held_out", "reason"), [(0, "takes 0 training instances of"), (120, "holds out all 120"), (121, "takes 121")]
)
def test_some_are_held_out_and_some_are_left(source, tmp_path, held_out, reason):
    assert len(source.train) == 120
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(held_out, what="held_out"))
    with pytest.raises(DataError, match=reason):
        load_dataset("d")


def test_corrected_uids_of_a_source_are_seen(write_folder, tmp_path, monkeypatch):
    """The digest of the source does not cover them, and what is derived has them and a filter of them."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    texts = [{"uid": f"wrong{row}", "title": f"text {row}", "target_ind": [row % 3]} for row in range(12)]
    labels = [{"uid": f"right{row}", "title": f"label {row}"} for row in range(12)]
    (tmp_path / "sets").mkdir()
    for name, what, wanted in (("held", "held_out", 4), ("some", "labels", 9)):
        (tmp_path / "sets" / name).mkdir()
        card = _text(wanted, source="source", what=what).replace('slug = "d"', f'slug = "{name}"')
        (tmp_path / "sets" / name / "card.toml").write_text(card)

    def derive(word):
        instances = [{**row, "uid": row["uid"].replace("wrong", word)} for row in texts]
        named = [{**row, "uid": row["uid"].replace("right", word)} for row in labels]
        folder = write_folder(trn=instances, tst=instances[:3], lbl=named)
        card = folder.joinpath("card.toml")
        card.write_text('name = "source"\nslug = "source"\n')
        shutil.rmtree(tmp_path / "sets" / "source", ignore_errors=True)
        shutil.move(folder, tmp_path / "sets" / "source")
        return load_dataset("held"), load_dataset("some")

    for word in ("wrong", "right"):
        held, some = derive(word)
        assert {uid.rstrip("0123456789") for uid in (*held.test.uids, *some.labels.uids)} == {word}
    assert "self" in held.filters


def test_the_digest_depends_on_source_and_draw(source, tmp_path):
    digests = {load_dataset("d").digest}
    for text in (_text(15, seed=1), _text(14), _text(15, what="held_out"), _text(15, seed=1, what="held_out")):
        (tmp_path / "sets" / "d" / "card.toml").write_text(text)
        digests.add(load_dataset("d").digest)
    assert len(digests | {source.digest}) == 6


def test_the_digest_is_of_what_is_left_of_the_source(source, tmp_path):
    """A pair of the filter file counts where its instance and its label are drawn; held-out instances have none."""
    drawn = [int(label) for label in _draw(40, 15)]
    row = int(source.test_pairs()[:, drawn].getnnz(axis=1).nonzero()[0][0])
    other = next(label for label in range(40) if label not in drawn)
    cards = {"labels": _text(15), "held out": _text(15, what="held_out")}

    def digests(pairs):
        (tmp_path / "sets" / "source" / "filter_labels_test.txt").write_text(pairs)
        found = []
        for card in cards.values():
            (tmp_path / "sets" / "d" / "card.toml").write_text(card)
            found.append(load_dataset("d").digest)
        return found

    before = digests(f"{row} {drawn[0]}\n")
    assert digests(f"{row} {drawn[0]}\n{row} {other}\n") == before
    after = digests(f"{row} {drawn[1]}\n")
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


@pytest.mark.parametrize("name", ["d", "lf-amazon-1m", "nobody"])
def test_a_source_without_data_is_said(source, tmp_path, name):
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(3, source=name))
    with pytest.raises(DataError, match=f"{name} is not on this machine"):
        load_dataset("d")


def test_titles_without_their_contents(write_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path))
    whole = load_dataset(write_folder("tea", filter_labels_test__txt="1 0\n"))
    card = 'name = "Titles"\nslug = "titles"\n[derive]\nfrom = "tea"\ntitles = true\n'
    (tmp_path / "titles").mkdir()
    (tmp_path / "titles" / "card.toml").write_text(card)
    titles = load_dataset("titles")
    assert [*titles.train] == [*whole.train.titles]
    assert [*titles.test.uids] == [*whole.test.uids]
    assert {*titles.test.contents} == {""}
    assert (titles.counts(), titles.filters) == (whole.counts(), whole.filters)
    assert (titles.train_pairs() != whole.train_pairs()).nnz == 0
    assert titles.digest != whole.digest
