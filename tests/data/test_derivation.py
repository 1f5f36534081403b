import numpy as np
import pytest

from xmcbench.data import load_dataset
from xmcbench.data.card import Card, Derivation
from xmcbench.data.derivation import draw_labels
from xmcbench.data.synthesis import synthesize
from xmcbench.errors import DataError


def _card(labels, seed=0):
    return Card("D", "d", derive=Derivation("source", labels, seed))


def _text(labels, seed=0, source="source"):
    return f'name = "D"\nslug = "d"\n[derive]\nfrom = "{source}"\nlabels = {labels}\nseed = {seed}\n'


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A made-up data set ``source`` with a filter file, and a card ``d`` to derive from it."""
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    synthesize(tmp_path / "sets" / "source", 120, 40, 0)
    (tmp_path / "sets" / "source" / "filter_labels_test.txt").write_text("0 3\n1 2\n5 7\n")
    (tmp_path / "sets" / "d").mkdir()
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(15))
    return load_dataset("source")


def test_the_draw_is_frozen_ascending_and_nested():
    assert draw_labels(10, _card(4)).tolist() == [2, 4, 8, 9]
    assert set(draw_labels(50, _card(5))) < set(draw_labels(50, _card(20)))
    assert draw_labels(50, _card(50)).tolist() == list(range(50))


@pytest.mark.parametrize("labels", [0, 11])
def test_more_labels_than_there_are_cannot_be_drawn(labels):
    with pytest.raises(DataError, match="labels of 10"):
        draw_labels(10, _card(labels))


def test_texts_pairs_and_filter_belong_together(source):
    derived, labels = load_dataset("d"), draw_labels(40, _card(15))
    assert list(derived.labels) == [source.labels[int(label)] for label in labels]
    for side in ("train", "test"):
        all_texts, all_pairs = getattr(source, side), getattr(source, f"{side}_pairs")()
        rows = np.flatnonzero(all_pairs[:, labels].getnnz(axis=1))
        assert list(getattr(derived, side)) == [all_texts[int(row)] for row in rows]
        assert (getattr(derived, f"{side}_pairs")() != all_pairs[rows][:, labels]).nnz == 0
    rows = np.flatnonzero(source.test_pairs()[:, labels].getnnz(axis=1))
    assert (derived.filter("file") != source.filter("file")[rows][:, labels]).nnz == 0
    assert derived.counts()["test_pairs"] == derived.test_pairs().nnz


def test_the_digest_hangs_on_source_and_draw(source, tmp_path):
    digests = {load_dataset("d").digest}
    for text in (_text(15, seed=1), _text(14)):
        (tmp_path / "sets" / "d" / "card.toml").write_text(text)
        digests.add(load_dataset("d").digest)
    (tmp_path / "sets" / "source" / "filter_labels_test.txt").write_text("0 3\n")
    digests.add(load_dataset("d").digest)
    assert len(digests | {source.digest}) == 5


@pytest.mark.parametrize("name", ["d", "lf-amazon-1m", "nobody"])
def test_a_source_without_data_is_said(source, tmp_path, name):
    (tmp_path / "sets" / "d" / "card.toml").write_text(_text(3, source=name))
    with pytest.raises(DataError, match=f"{name}, its source, has no data of its own"):
        load_dataset("d")
