import json

import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import DataError, UsageError


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
