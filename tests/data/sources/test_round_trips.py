"""Whatever a dataset holds, writing it in a format and reading that gives it back, or the format refuses."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench.data import export, load_dataset
from xmcbench.data.exchange import formats
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.data.xc_matrix import write_filter
from xmcbench.errors import DataError

#: Formats that hold any text.
WHOLE = {"xc", "csv", "jsonl", "parquet"}

_ANY = st.characters(blacklist_categories=("Cs",))
_ODD = st.sampled_from(["\n", "\r", "\t", '"', ",", "\ufeff", "\0", " ", "\x85", "\u2028", "[", "<", ">", "0", "|"])
_TEXT = st.text(_ANY | _ODD, max_size=6)
_PLAIN = st.text(st.characters(categories=("L", "N")) | st.sampled_from(" .;:&#"), max_size=6)


def _rows(text):
    row = st.tuples(text, text, text, st.lists(st.integers(0, 1), max_size=2))
    return st.lists(row, min_size=1, max_size=4, unique_by=lambda row: row[0])


def _labels(text):
    label = st.tuples(text, text.filter(str.strip))
    return st.lists(label, min_size=2, max_size=3, unique_by=lambda row: row[0])


def _datasets(text):
    return st.tuples(_rows(text), _rows(text), _labels(text), st.booleans(), st.booleans())


def _write(folder, drawn):
    """The folder of a drawn dataset: its uids are row numbers if they are not named, and it may have a filter."""
    train, test, labels, named, filtered = drawn
    if not named:
        train, test = ([(str(row), *texts[1:]) for row, texts in enumerate(rows)] for rows in (train, test))
        labels = [(str(row), title) for row, (_, title) in enumerate(labels)]
    folder.mkdir()
    write_instances(folder / "trn.json", train)
    write_instances(folder / "tst.json", test)
    write_labels(folder / "lbl.json", labels)
    if filtered:
        write_filter(folder / "filter_labels_test.txt", csr_matrix(([1.0], ([0], [1])), shape=(len(test), len(labels))))
    return folder


def _view(dataset):
    """Return the texts and pairs of a method and of a scorer, and the uids where they mean something."""
    corpora = {"train": dataset.train_corpus, "test": dataset.test_corpus, "labels": dataset.label_corpus}
    uids = {name: [*getattr(dataset, name).uids] for name, corpus in corpora.items() if corpus.uids}
    return dataset.digest, dataset.filters, dataset.counts(), dataset.propensity, uids


@pytest.mark.parametrize("name", sorted(formats()))
@pytest.mark.parametrize("text", [_TEXT, _PLAIN], ids=["odd", "plain"])
@settings(
    max_examples=6,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_round_trip_loses_nothing(tmp_path_factory, name, text, data):
    folder = tmp_path_factory.mktemp("sets")
    original = load_dataset(_write(folder / "set", data.draw(_datasets(text))))
    try:
        export(original, folder / "copy" / "set", name)
    except DataError:
        assert name not in WHOLE
        return
    copy = load_dataset(folder / "copy" / "set")
    before, after = _view(original), _view(copy)
    if name == "beir":  # which has the queries of both splits in one file, so their uids differ
        before, after = ((*seen[:-1], seen[-1].get("labels")) for seen in (before, after))
    assert before == after
    # Random letters may be of a script without spaces, which has a note of its own.
    notes = [note for note in copy.found if "no spaces between words" not in note]
    assert not notes or name in WHOLE


@pytest.mark.parametrize("name", sorted(formats()))
def test_the_uid_of_a_label_is_no_vector(tmp_path, name):
    """A label of zeros and ones with something between them, the only one of some rows and twice in others."""
    train = [("a", "A", "first", [1]), ("b", "B", "second", [])]
    test = [("c", "C", "third", []), ("d", "D", "fourth", [1, 1])]
    original = load_dataset(
        _write(tmp_path / "set", (train, test, [("x", "X"), ("0/0", "Y"), ("z", "Z")], True, False))
    )
    export(original, tmp_path / "copy" / "set", name, flatten=True)
    assert load_dataset(tmp_path / "copy" / "set").counts() == original.counts()


@settings(
    max_examples=6,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=_datasets(_TEXT))
@pytest.mark.parametrize("name", ["pecos", "zestxml"])
def test_what_was_flattened_once_needs_no_flattening(tmp_path_factory, name, drawn):
    folder = tmp_path_factory.mktemp("sets")
    labels = [(uid, f"label {title}") for uid, title in drawn[2]]
    original = load_dataset(_write(folder / "set", (*drawn[:2], labels, False, drawn[4])))
    export(original, folder / "flat", name, flatten=True)
    flat = load_dataset(folder / "flat")
    assert flat.counts() == original.counts()
    assert [" ".join(text.split()) for text in original.train] == [" ".join(text.split()) for text in flat.train]
    export(flat, folder / "again", name)
    assert load_dataset(folder / "again").digest == flat.digest


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_drawn_test_set_keeps_its_filters(tmp_path, name):
    """The row numbers of a drawn set are not names: an instance 5 is not the label whose uid is 5."""
    (tmp_path / "set").mkdir()
    rows = "".join(f"text {row},{row % 40 + 1}\n" for row in range(40))
    (tmp_path / "set" / "train.csv").write_text(f"text,labels\n{rows}")
    (tmp_path / "set" / "labels.csv").write_text(
        "uid,title\n" + "".join(f"{uid},label {uid}\n" for uid in range(1, 41))
    )
    original = load_dataset(tmp_path / "set")
    assert original.filters == ("none",)
    export(original, tmp_path / "copy" / "set", name)
    copy = load_dataset(tmp_path / "copy" / "set")
    assert (copy.digest, copy.filters) == (original.digest, original.filters)
