"""`xmcbench show`: what a stored run predicts, and what a method predicts for a text of one's own."""

import gzip
import json

import msgspec
import pytest

from xmcbench.data import load_dataset
from xmcbench.records import Store


@pytest.fixture
def runs(inside, tiny, tmp_path):
    """TF-IDF on the dataset Tiny at zero shot."""
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--runs", "runs", code=0)
    return tmp_path / "runs"


def test_what_is_stored_is_shown_and_a_text_is_predicted_as_in_the_cell(inside, runs, tiny):
    document = json.loads(inside("show", "tfidf", "--instance", "0100", "--dataset", tiny, "--json").stdout)
    stored = document["labels"]
    assert document["text"].startswith("apple story 100\t")
    assert {label["text"] for label in stored if label["true"]} == {"the apple", "the desert"}
    assert stored[0] == {
        "rank": 1,
        "label": 0,
        "text": "the apple",
        "score": stored[0]["score"],
        "frequency": 12,
        "true": True,
    }
    assert [label["rank"] for label in stored] == sorted(label["rank"] for label in stored)
    text = inside("show", "tfidf", "--instance", "0100", "--dataset", tiny, "-k", "1").stdout
    assert "the apple" in text

    asked = json.loads(inside("show", "tfidf", "--text", document["text"], "--dataset", tiny, "--json").stdout)
    again = [(label["label"], label["score"]) for label in asked["labels"]]
    assert again == [(label["label"], pytest.approx(label["score"], rel=1e-6)) for label in stored if label["score"]]
    assert all(label["true"] is None for label in asked["labels"])

    for path in (runs / "predictions").rglob("*.npz"):
        path.unlink()
    document = json.loads(inside("show", "tfidf", "--instance", "0100", "--dataset", tiny, "--json").stdout)
    assert [(label["text"], label["score"]) for label in document["labels"]] == [
        ("the apple", None),
        ("the desert", None),
    ]
    (note,) = document["notes"]
    assert note.startswith("only true labels are shown, by their stored ranks: the predictions ")
    kept = [(label["label"], label["rank"]) for label in stored if label["true"]]
    assert [(label["label"], label["rank"]) for label in document["labels"]] == kept


def test_a_stale_result_is_marked_and_the_seed_is_named(inside, runs, tiny):
    words = ("show", "tfidf", "--instance", "0100", "--dataset", tiny, "--json")
    assert json.loads(inside(*words).stdout)["notes"] == []
    store = Store(runs)
    (record,) = store.records()
    older = msgspec.structs.replace(record.method, source_sha256="0" * 64)
    store.write(msgspec.structs.replace(record, method=older))
    said = "stale: the method's code has changed since this result was made"
    assert json.loads(inside(*words).stdout)["notes"] == [said]
    assert said in inside(*words[:-1]).stdout.splitlines()
    glove = ("--methods", "glove", "--set", "glove.epochs=1")
    inside("run", "--dataset", tiny, "--setting", "ez", *glove, "--seed", "3,1", "--runs", "runs", code=0)
    shown = json.loads(inside("show", "glove", *words[2:]).stdout)
    assert (shown["seed"], shown["notes"]) == (1, ["seed 1 of 1, 3 is shown"])


def test_flags_that_would_do_nothing_are_refused(inside, runs, tiny):
    for flag, value in (("--time-limit", "5"), ("--memory-limit", "5"), ("--device", "cpu"), ("--processes", "2")):
        ended = inside("show", "tfidf", "--instance", "0100", "--dataset", tiny, flag, value)
        said = f"{flag} can only be used with --text (--instance reads a stored result and runs nothing)"
        assert (ended.returncode, ended.stdout, said in ended.stderr) == (2, "", True), ended.stderr


def test_all_labels_of_a_text_are_shown(inside, tiny):
    """Also the first one, and the last; asking for more than there are is no error."""
    labels = load_dataset(tiny).labels
    words = ("show", "tfidf", "--text", " ".join(labels.titles), "--dataset", tiny, "-k", "100", "--json")
    shown = json.loads(inside(*words).stdout)["labels"]
    assert sorted(label["label"] for label in shown) == [*range(len(labels))]
    assert [label["rank"] for label in shown] == [*range(1, len(labels) + 1)]


def test_what_cannot_be_shown_is_refused(inside, runs, tiny):
    for words, said in (
        (("tfidf", "--instance", "x"), "has no test instance 'x' (for example '0100')"),
        (("tfidf", "--instance", "0100", "-k", "0"), "k 0 must be in 1..100"),
        (("tfidf", "--text", " "), "--text is empty"),
        (("tfidf", "--text", "caf\udce9"), r"--text 'caf\udce9' is not valid UTF-8"),
        (("tfidf", "--text", "a", "--filter", "none"), "--filter can only be used with --instance"),
        (("nothing", "--text", "a"), "unknown row"),
        (("nothing", "--instance", "0100"), "unknown row"),
        (("tfidf", "--instance", "0100", "--ratio", "0.1"), "ratio and by can only be used with the setting fs"),
    ):
        ended = inside("show", *words, "--dataset", tiny)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    ended = inside("show", "tfidf", code=2)
    assert "--instance --text" in ended.stderr


def test_an_instance_of_another_version_of_the_dataset_is_not_shown(inside, runs, tiny):
    """A key names the version that was there."""
    (record,) = Store(runs).records()
    words = ("show", record.key, "--instance", "0100", "--dataset", tiny)
    assert inside(*words).returncode == 0
    path = tiny / "lbl.json.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"the apple", b"the pear")))
    ended = inside(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "tiny on this machine is a different version from the record's" in ended.stderr


@pytest.mark.parametrize("by_key", [True, False])
def test_a_row_of_other_data_is_not_trained_on_these(inside, runs, tiny, by_key):
    word = Store(runs).records()[0].key[:12] if by_key else "tfidf"
    labels = tiny / "lbl.json.gz"
    with gzip.open(labels, "rt") as stream:
        changed = stream.read().replace("apple", "cherry")
    with gzip.open(labels, "wt") as stream:
        stream.write(changed)
    ended = inside("show", word, "--text", "apple", "--dataset", tiny)
    said = "the data of tiny have changed" if by_key else "tfidf has no result on the data at"
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_a_method_without_a_result_is_trained(inside, runs, tiny):
    shown = inside("show", "bm25", "--text", "the garden and the harbor", "--dataset", tiny, "-k", "2", "--json")
    assert shown.returncode == 0, shown.stderr
    assert {label["text"] for label in json.loads(shown.stdout)["labels"]} == {"the garden", "the harbor"}
    assert not list((runs / "records").rglob("bm25*"))
    elsewhere = ("show", "tfidf", "--text", "the garden", "--dataset", tiny, "--setting", "full", "-k", "2", "--json")
    assert not list((runs / "records").rglob("full/tfidf*"))
    assert {label["text"] for label in json.loads(inside(*elsewhere).stdout)["labels"]} >= {"the garden"}


def test_a_row_with_a_parameter_that_is_gone_is_not_answered_by_another_cell(inside, plugin, tiny):
    """As `reproduce` says it; the method would run with its defaults."""
    source = """
        import numpy as np
        from xmcbench import Method, TopK

        class My(Method):
            steps: int = 3

            def fit(self, raw_X, raw_Y, pairs=None):
                self.labels = len(raw_Y)

            def predict(self, raw_X, k=100):
                return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)
    """
    file = plugin(source)
    where = ("--dataset", tiny, "--plugin", file)
    assert inside("run", *where, "--setting", "full", "--methods", "my").returncode == 0
    plugin(source.replace("steps: int = 3", ""))
    for words in (("my",), ("my", "--setting", "full")):
        ended = inside("show", *words, "--text", "a garden", *where)
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert "unknown parameter 'my.steps'" in ended.stderr


def test_a_text_leaves_the_log_of_the_cell_alone(inside, plugin, tiny, tmp_path):
    """A record names it; where it is asked about a text the method has a log of its own."""
    file = plugin("""
        from xmcbench import Method

        class Bad(Method):
            def fit(self, raw_X, raw_Y, pairs=None):
                raise ValueError("no luck")

            def predict(self, raw_X, k=100): ...
    """)
    where = ("--dataset", tiny, "--plugin", file)
    assert inside("run", *where, "--setting", "ez", "--methods", "bad").returncode == 1
    (log,) = (tmp_path / "runs" / "logs").rglob("*.log")
    diagnosis = log.read_text()
    assert "ValueError: no luck" in diagnosis
    ended = inside("show", "bad", "--text", "x y", *where)
    assert (ended.returncode, "bad: ValueError: no luck" in ended.stderr) == (1, True), ended.stderr
    assert log.read_text() == diagnosis
    own = log.with_name(f"text-{log.name}")
    assert f"(log: {own.relative_to(tmp_path)})" in ended.stderr
    assert "ValueError: no luck" in own.read_text()
    assert json.loads(inside("clean", "--kind", "logs", "--unneeded", "--remove", "--json").stdout)["items"]
    assert (log.exists(), own.exists()) == (True, False)
