"""`xmcbench explain`: planted effects are found from stored ranks, and what is shown is what is stored."""

import html
import json
import re
import shutil
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from committed import copy_records

from xmcbench import load_dataset
from xmcbench.analysis import attributes
from xmcbench.analysis.attributes import common_words, shared_words, words
from xmcbench.analysis.explain import explain
from xmcbench.analysis.explanation import Moved, TrueLabel, _block
from xmcbench.analysis.explanation_page import _tell_apart, page
from xmcbench.comparison import compare
from xmcbench.errors import UnknownName
from xmcbench.metrics import TruePairs, slices
from xmcbench.records import Ranks, Store, Truth
from xmcbench.runner.scoring import evaluations

PLANTED = "words of the text: 121 to 2,578"


@pytest.fixture(autouse=True)
def _fewer_permutations(monkeypatch):
    """Most of the time of an explanation is that of its 10,000 permutations; enough for Holm's correction stay."""
    monkeypatch.setattr(slices, "PERMUTATIONS", 2_000)


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """TF-IDF and BM25 on LF-Debian-20K without pairs, from the committed records: no predictions."""
    root = tmp_path_factory.mktemp("board")
    for name in ("tfidf", "bm25"):
        copy_records(f"lf-debian-20k/ez/{name}-s0-*", root)
    return root


def explain_rows(*rows, metric="P@1", instances=5, **chosen):
    return explain(compare(*rows, setting="ez", **chosen), metric, instances)


def plant(board, root, members, points):
    """A copy of the board in which TF-IDF is called BM25 and has lost so many points of P@1 on the members."""
    shutil.copytree(board, root)
    store = Store(root)
    tfidf = next(record for record in store.records() if record.name == "TF-IDF")
    bm25 = next(record for record in store.records() if record.name == "BM25")
    truth = store.truth(tfidf)
    ranks = store.ranks(tfidf, truth)
    changed = {name: ranks_of.copy() for name, ranks_of in ranks.by_filter.items()}
    rows = np.flatnonzero(truth.pairs.lengths)[members]
    for ranks_of in changed.values():
        hit = np.flatnonzero((ranks_of == 1) & np.isin(truth.pairs.rows, rows))
        lost = np.random.RandomState(0).permutation(hit)[: round(points / 100 * len(rows))]
        ranks_of[lost] = 100
    made = Ranks(changed, ranks.seen)
    made.save(store.ranks_path(bm25.cell))
    store.write(msgspec.structs.replace(bm25, ranks=msgspec.structs.replace(bm25.ranks, sha256=made.digest)))
    return root


def groups_of(board):
    store = Store(board)
    truth = store.truth(store.records()[0])
    data = load_dataset("lf-debian-20k")
    found = attributes.of_labels(truth, [])
    return found | attributes.of_texts(truth, data.test, data.labels, common_words(data.labels.titles))


def test_an_effect_planted_in_stored_ranks_is_named_first(board, tmp_path):
    members = groups_of(board)[PLANTED]
    assert members.sum() == pytest.approx(0.1 * len(members), rel=0.03)
    runs = plant(board, tmp_path / "runs", members, 5)
    found = explain_rows("tfidf:", "bm25", runs=runs, instances=2)
    assert next(iter(found.slices)) == found.found[0] == PLANTED
    contrast = found.slices[PLANTED]
    assert contrast.inside == pytest.approx(0.05, abs=0.001)
    assert contrast.outside == 0
    assert all(moved.difference == 1 for moved in found.better)
    assert found.worse == ()
    assert PLANTED in str(found)
    assert len(found.better) == 2
    for moved in found.better:
        assert [label.first for label in moved.labels if 1 in label.first]
        assert all(label.seen is None for label in moved.labels)
        assert moved.rankings == (None, None)


def test_two_equal_rows_have_no_slice_and_no_instance(board):
    found = explain_rows("bm25", "bm25", runs=board)
    assert (found.found, found.better, found.worse) == ([], (), ())
    assert "No slice differs significantly from the other instances (5% level)." in str(found)


def test_the_command_gives_text_json_and_a_page(inside, board, tmp_path):
    command = ("explain", "bm25", "tfidf:", "--setting", "ez", "--runs", board, "--instances", "3")
    page = tmp_path / "page.html"
    ended = inside(*command, "--html", page, "--json", code=0)
    document = json.loads(ended.stdout)
    assert document["overall"]["delta"] == pytest.approx(-0.0109, abs=0.0001)
    assert len(document["better"]) == len(document["worse"]) == 3
    assert [*document["problems"]] == ["first", "second"]
    shown = re.sub("</?mark>", "", html.unescape(page.read_text()))
    assert document["found"][0] in shown
    assert document["better"][0]["text"].split("\t")[0] in shown
    again = inside(*command, "--html", page)
    assert (again.returncode, "already exists" in again.stderr) == (2, True)


@pytest.mark.parametrize("metric", ["P@5", "PSP@5"])
def test_the_difference_of_a_slice_is_that_of_its_instances(board, metric):
    """As if the test set had only these: of PSP@k a ratio of sums. Over an attribute it adds up to the whole."""
    found = explain_rows("bm25", "tfidf:", runs=board, metric=metric, instances=0)
    rows = [found.comparison.first, found.comparison.second]
    bm25, tfidf = (evaluations(row.records, row.store, "self")[0] for row in rows)
    groups = {name: members for name, members in groups_of(board).items() if name.startswith("words of the text")}
    assert len(groups) > 2
    whole = 0.0
    for name, members in groups.items():
        attainable = bm25.attainable.get(metric, np.ones(bm25.scored))
        delta = (bm25.per_instance[metric] - tfidf.per_instance[metric])[members].sum() / attainable[members].sum()
        assert found.slices[name].inside == pytest.approx(delta)
        whole += delta * attainable[members].sum() / attainable.sum()
    assert whole == pytest.approx(found.comparison.differences[metric].delta)


def test_an_unknown_metric_is_refused(board):
    with pytest.raises(UnknownName, match="unknown metric 'P@2'"):
        explain_rows("bm25", "tfidf:", metric="P@2", runs=board)


def test_without_the_dataset_ranks_are_explained_and_it_says_so(board, tmp_path):
    """Records whose dataset is another version here."""
    runs = tmp_path / "runs"
    shutil.copytree(board, runs)
    store = Store(runs)
    for record in store.records():
        (store.record_path(record.cell)).unlink()
        cell = msgspec.structs.replace(record.cell, dataset_sha256="0" * 64)
        for path in (store.ranks_path, store.predictions_path):
            if path(record.cell).exists():
                path(cell).parent.mkdir(parents=True, exist_ok=True)
                path(record.cell).rename(path(cell))
        store.write(msgspec.structs.replace(record, cell=cell, key=cell.key))
    found = explain_rows("bm25", "tfidf:", runs=runs, instances=1)
    assert "another version" in found.note
    assert not any(name.startswith("words") for name in found.slices)
    assert found.better[0].text == ""
    assert found.better[0].labels[0].shared is None


def test_a_dataset_with_a_card_and_without_data_is_one_that_is_not_here(board, tmp_path, monkeypatch):
    (tmp_path / "sets" / "lf-debian-20k").mkdir(parents=True)
    (tmp_path / "sets" / "lf-debian-20k" / "card.toml").write_text('name = "LF-Debian-20K"\nslug = "lf-debian-20k"\n')
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", list)
    found = explain_rows("bm25", "tfidf:", runs=board, instances=1)
    assert found.note.startswith("Without texts: LF-Debian-20K is not on this machine")


def test_a_page_is_inert(board):
    found = explain_rows("bm25", "tfidf:", runs=board, instances=1)
    hostile = "<script>alert(1)</script>\u202e\"'&lt;"
    moved = replace(found.better[0], text=hostile, uid=hostile)
    moved = replace(moved, labels=(replace(moved.labels[0], text=hostile),), rankings=((hostile,), None))
    made = page(replace(found, better=(moved,), note=hostile))
    assert "<script" not in made
    assert "\u202e" not in made
    assert "&amp;lt;" in made


def test_a_page_names_the_rows_and_a_terminal_has_letters(board):
    found = explain_rows("bm25", "tfidf:", runs=board, instances=1)
    (record,) = found.comparison.first.records
    quick = msgspec.structs.replace(record, method=msgspec.structs.replace(record.method, variant="quick"))
    first = replace(found.comparison.first, records=(quick,))
    made = page(replace(found, comparison=replace(found.comparison, first=first)))
    assert "<h1>P@1: BM25 (quick) and TF-IDF</h1>" in made
    assert re.findall("<h2>(.*?)</h2>", made) == [
        "Slices",
        "Instances on which BM25 is better",
        "Instances on which TF-IDF is better",
    ]
    assert re.search(r"<h3>[^<]*: BM25 100\.0, TF-IDF 0\.0</h3>", made)
    assert "BM25: BM25 (quick), LF-Debian-20K, zero-shot (no pairs), seed 0<br>TF-IDF, LF-Debian-20K" in made
    assert re.search(r"P@1: BM25 \S+, TF-IDF \S+, BM25 - TF-IDF -1\.09", made)
    assert '<th scope="col">BM25 - TF-IDF</th>' in made
    assert "rank in BM25 1, in TF-IDF" in made
    assert not re.search(r"\b[AB] (is better|- B|\d)|in A\b|of [AB]\b", made)
    assert re.search(r"A \S+, B \S+, A - B -1\.09", str(found))


def test_a_page_about_rows_of_one_name_has_letters(board):
    assert "P@1: A 36.27, B 36.27, A - B +0.00" in page(explain_rows("bm25", "bm25", runs=board))


def test_rows_have_the_shortest_names_that_differ():
    assert _tell_apart(("MACLR", "ICT"), ("MACLR (quick)", "ICT (quick)")) == ("MACLR", "ICT")
    assert _tell_apart(("TF-IDF", "TF-IDF"), ("TF-IDF", "TF-IDF (pecos)")) == ("TF-IDF", "TF-IDF (pecos)")


def test_shared_words_and_hits_are_marked_and_rankings_stand_side_by_side(board):
    found = explain_rows("bm25", "tfidf:", runs=board, instances=1)
    labels = (
        TrueLabel(3, "A web Server", 1, None, (2, 9), (0, 1), ("server", "web")),
        TrueLabel(4, "an e-mail client", 1, None, (6, 1), (50, 1), ()),
    )
    moved = replace(found.better[0], text="Web servers & server\tfor webs", labels=labels)
    moved = replace(moved, rankings=(("A web browser", "A web Server"), ("A web Server", "other")))
    made = page(replace(found, better=(moved,), worse=()))
    assert "<bdi><mark>Web</mark> servers &amp; <mark>server</mark> for webs</bdi>" in made
    true, first, second = re.findall(r"<[uo]l>(.*?)</[uo]l>", made)
    hit = '<li><span class="hit">\u2713 <bdi>{}</bdi></span>'
    assert true.startswith(hit.format("A <mark>web</mark> <mark>Server</mark>"))
    assert "<li><bdi>an e-mail client</bdi> <small>rank in BM25 6/1, in TF-IDF 50/1" in true
    # A label of the same text as a true one is a hit where the rank of that one says so.
    assert first == "<li><bdi>A web browser</bdi></li>" + hit.format("A web Server") + "</li>"
    assert second == "<li><bdi>A web Server</bdi></li><li><bdi>other</bdi></li>"
    assert re.search(
        r'<div class="pair"><div><p>First predictions of BM25:</p><ol>.*</ol></div><div><p>First pred', made
    )


def test_groups_are_of_consecutive_values_and_hold_every_instance():
    values = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, 9])
    groups = attributes._bin("value", values)
    assert np.sum([*groups.values()], axis=0).tolist() == [1] * 10
    assert groups["value: 1"].sum() == 5
    assert attributes._bin("value", np.zeros(30)) == {"value: 0": pytest.approx(np.ones(30, bool))}
    large = attributes._bin("value", np.arange(1_234_560, 1_234_570) + 0.5)
    assert np.sum([*large.values()], axis=0).tolist() == [1] * 10
    assert next(iter(large)) == "value: 1,234,560.5"


def test_what_true_pairs_say_of_instances():
    pairs = TruePairs(np.array([0, 0, 2]), np.array([1, 2, 0]), 3)
    truth = Truth(pairs, np.array([5, 0, 2]), 10)
    seen = np.array([False, True, False])
    assert {name: members.tolist() for name, members in attributes.of_labels(truth, [seen]).items()} == {
        "true labels: 1": [False, True],
        "true labels: 2": [True, False],  # the second instance has no label and is not scored
        "training pairs of its labels, median: 1": [True, False],
        "training pairs of its labels, median: 5": [False, True],
        "labels with known pairs: all": [False, False],
        "labels with known pairs: some": [True, False],
        "labels with known pairs: none": [False, True],
    }


@pytest.fixture
def truth():
    """True pairs of three instances of four; the labels have 1, 2 and 90 training pairs."""
    return Truth(TruePairs(np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 1, 0]), 4), np.array([1, 2, 90]), 100)


def test_the_median_is_of_the_labels_of_an_instance(truth):
    found = attributes.of_labels(truth, [])
    groups = {name: np.flatnonzero(members).tolist() for name, members in found.items() if name.startswith("training")}
    median = "training pairs of its labels, median"
    assert groups == {f"{median}: 1": [2], f"{median}: 2": [0, 1]}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([[1, 1, 1]], False),
        ([[0, 0, 0]], False),
        ([[1, 0, 1]], True),
        ([[1, 1, 1], [0, 0, 0]], True),
        ([[1, 1, 1], [1, 1, 1]], False),
    ],
)
def test_known_pairs_are_an_attribute_where_some_labels_have_some(truth, seen, said):
    found = attributes.of_labels(truth, [np.array(of_run, bool) for of_run in seen])
    assert ("labels with known pairs: some" in found) == said


def test_words_in_common():
    assert words("The R-2 package, a naïve Web_server") == {"the", "package", "naïve", "web", "server"}
    assert words("हिन्दी में पाठ, a İstanbul") == {"हिन्दी", "में", "पाठ", "i\u0307stanbul"}
    labels = [f"the label number{row}" for row in range(200)]
    assert common_words(labels) == {"the", "label"}
    assert common_words(labels[:50]) == frozenset()
    assert shared_words("the web server", "a Server of the web", frozenset({"the"})) == ("server", "web")


@pytest.mark.parametrize(("labels", "said"), [(6, None), (7, "and 1 other true label"), (8, "and 2 other true labels")])
def test_true_labels_that_are_not_shown_are_counted(labels, said):
    every = tuple(TrueLabel(label, "a label", 1, None, (1,), (2,), None) for label in range(labels))
    last = _block(Moved(0, "uid", "", 1.0, 0.0, every, (None, None))).splitlines()[-1].strip()
    assert (last if last.startswith("and") else None) == said
