"""Other names, contents and parents of labels, from files to methods."""

import json

import pytest

from xmcbench import LabelTexts, Texts, UsageError, run
from xmcbench.data import export, load_dataset
from xmcbench.data.sources.source import Details
from xmcbench.errors import DataError
from xmcbench.methods.bm25 import BM25
from xmcbench.methods.knn import KNN
from xmcbench.methods.label_expansion import LabelExpansion
from xmcbench.methods.label_text import read_labels
from xmcbench.methods.tfidf import Tfidf

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
<http://a/car> a skos:Concept ; skos:prefLabel "motor car"@en, "Auto"@de ;
  skos:altLabel "automobile"@en, "Wagen"@de, "motor car"@en ; skos:hiddenLabel "autos" ;
  skos:definition "a wheeled vehicle"@en ; skos:scopeNote "Not for lorries."@en ;
  skos:broader <http://a/vehicle>, <http://a/old> .
<http://a/vehicle> a skos:Concept ; skos:prefLabel "vehicle"@en .
<http://a/cat> a skos:Concept ; skos:prefLabel "Katze"@de ; skos:altLabel "felines"@en, "Mieze"@de, "chat"@fr .
<http://a/old> a skos:Concept ; skos:prefLabel "thing"@en ; owl:deprecated true .
"""
#: The labels of the thesaurus: title, details.
LABELS = {
    "http://a/car": (
        "motor car",
        Details(("automobile", "autos"), "Not for lorries. a wheeled vehicle", ("http://a/old", "http://a/vehicle")),
    ),
    "http://a/cat": ("Katze", Details(("Mieze", "felines"))),
    "http://a/vehicle": ("vehicle", Details()),
}
#: The first two test instances share words with alternatives only.
TEST = ["many autos here\t<http://a/car>", "of felines\t<http://a/cat>", "one vehicle\t<http://a/vehicle>"]


@pytest.fixture
def thesaurus(tmp_path):
    pytest.importorskip("rdflib")
    folder = tmp_path / "thesaurus"
    folder.mkdir()
    (folder / "vocabulary.ttl").write_text(TURTLE)
    (folder / "train.tsv").write_text("\n".join(["an automobile\t<http://a/car>", *TEST]) + "\n")
    (folder / "test.tsv").write_text("\n".join(TEST) + "\n")
    return folder


def carried(labels):
    """All texts of labels, by uid."""
    columns = (labels.uids, labels.titles, labels.alternatives, labels.contents, labels.parents)
    return {uid: (title, Details(*more)) for uid, title, *more in zip(*columns, strict=True)}


def test_a_thesaurus_gives_names_contents_and_parents(thesaurus):
    dataset = load_dataset(thesaurus)
    assert carried(dataset.labels) == LABELS
    assert [*dataset.labels] == ["motor car", "Katze", "vehicle"]
    assert "1 parent in vocabulary.ttl left out: no labels" in dataset.found
    assert carried(load_dataset(f"{thesaurus}?language=de").labels)["http://a/car"] == (
        "Auto",
        Details(("Wagen", "autos"), "", ("http://a/old", "http://a/vehicle")),
    )


def test_a_parent_without_a_uri_is_none(thesaurus):
    """rdflib gives it another name each time, and so the dataset had another digest."""
    vocabulary = thesaurus / "vocabulary.ttl"
    vocabulary.write_text(vocabulary.read_text().replace("<http://a/old>", '[ skos:prefLabel "thing"@en ]', 1))
    assert [*load_dataset(thesaurus).labels.parents] == [("http://a/vehicle",), (), ()]


@pytest.mark.parametrize("name", ["xc", "maclr", "csv", "jsonl", "parquet"])
def test_formats_keep_what_labels_carry(thesaurus, tmp_path, name):
    dataset = load_dataset(thesaurus)
    export(dataset, tmp_path / "copy", name)
    copy = load_dataset(tmp_path / "copy")
    assert carried(copy.labels) == LABELS
    assert copy.digest == dataset.digest


def test_a_format_that_cannot_hold_it_is_refused_or_told_to_leave_it_out(thesaurus, tmp_path):
    dataset = load_dataset(thesaurus)
    with pytest.raises(DataError, match=r"pecos cannot hold .*: alternatives, description, parents \(it fits into "):
        export(dataset, tmp_path / "copy", "pecos")
    export(dataset, tmp_path / "copy", "pecos", flatten=True)
    assert [*load_dataset(tmp_path / "copy").labels] == [*dataset.labels]


def test_cells_of_a_table_of_labels_are_lists(tmp_path):
    (tmp_path / "labels.csv").write_text(
        "uid,title,alternatives,content,parents\n"
        'c,car,"auto;[x]",,v\n'
        'v,vehicle,"[""a;b"", ""vehicle"", "" ""]",wheels,\n'
    )
    (tmp_path / "train.csv").write_text("text,labels\nan auto,c\na vehicle,v\n")
    labels = load_dataset(tmp_path).labels
    assert carried(labels) == {
        "c": ("car", Details(("auto", "[x]"), "", ("v",))),
        "v": ("vehicle", Details(("a;b",), "wheels", ())),
    }


def test_half_a_surrogate_pair_in_a_name_is_one_error_with_its_line(tmp_path):
    (tmp_path / "lbl.json").write_text('{"title": "a"}\n{"title": "b", "alternatives": ["\\ud800"]}\n')
    (tmp_path / "trn.json").write_text('{"uid": "0", "title": "a car", "target_ind": [0]}\n')
    with pytest.raises(DataError, match=r"lbl\.json, line 2: contains half a surrogate pair"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("alternatives", "auto"), ("alternatives", [1]), ("parents", {"a": 1}), ("content", 3)]
)
def test_a_value_of_another_type_is_one_error_with_its_line(tmp_path, key, value):
    (tmp_path / "lbl.json").write_text(json.dumps({"uid": "c", "title": "car", key: value}) + "\n")
    (tmp_path / "trn.json").write_text(json.dumps({"uid": "0", "title": "a car", "target_ind": [0]}) + "\n")
    with pytest.raises(DataError, match=rf"lbl\.json, line 1: {key} is "):
        load_dataset(tmp_path)


def test_the_digest_covers_all_that_labels_carry_and_titles_alone_have_their_own():
    uids, titles = ["c", "v"], ["car", "vehicle"]
    plain = Texts.from_lists(titles)
    details = [Details(("auto",)), Details(("a", "uto")), Details((), "auto"), Details((), "", ("v",))]
    made = [LabelTexts.with_details(titles, [one, Details()], uids) for one in details]
    moved = LabelTexts.with_details(titles, [Details(), details[0]], uids)
    assert len({plain.digest, moved.digest, *(labels.digest for labels in made)}) == 6
    assert {labels.titles_only().digest for labels in (*made, moved)} == {plain.digest}
    assert LabelTexts.with_details(titles, [Details(), Details()], uids).digest == plain.digest
    assert {read_labels(labels, "title").digest for labels in (*made, moved, plain)} == {plain.digest}


def test_the_digest_covers_which_labels_are_the_parents():
    details = [Details((), "", ("v",)), Details(), Details()]
    one, other = (LabelTexts.with_details(["car", "vehicle", "tool"], details, uids) for uids in ("cvt", "ctv"))
    assert [*read_labels(one, "parents")] != [*read_labels(other, "parents")]
    assert one.digest != other.digest


def test_what_is_read_of_a_label():
    uids = ["c", "v"]
    details = [Details(("auto", "motor"), "it has wheels", ("v", "gone")), Details()]
    labels = LabelTexts.with_details(["car", "vehicle"], details, uids)
    read = {part: [*read_labels(labels, part)] for part in ("title", "alternatives", "content", "parents", "all")}
    assert read == {
        "title": ["car", "vehicle"],
        "alternatives": ["car\tauto; motor", "vehicle"],
        "content": ["car\tit has wheels", "vehicle"],
        "parents": ["car\tvehicle", "vehicle"],
        "all": ["car\tauto; motor; vehicle; it has wheels", "vehicle"],
    }
    assert labels[1:].contents[0] == ""
    assert labels.take([1, 0]).alternatives[:] == [(), ("auto", "motor")]


@pytest.mark.parametrize("part", ["alternatives", "content", "all"])
@pytest.mark.parametrize("labels", [Texts.from_lists(["a"]), LabelTexts.with_details(["a"], [Details()], ["0"])])
def test_labels_without_it_are_one_error_with_a_hint(part, labels):
    with pytest.raises(UsageError, match=rf"label_text={part}: the labels of this dataset have no.*\(SKOS, labels.csv"):
        read_labels(labels, part)


def test_the_error_names_what_there_is():
    labels = LabelTexts.with_details(["a"], [Details(("b",))], ["0"])
    with pytest.raises(UsageError, match=r"have no parents \(they have alternatives; label_text=title\)"):
        read_labels(labels, "parents")


@pytest.mark.parametrize("kind", [Tfidf, BM25, LabelExpansion])
def test_methods_find_labels_by_other_names(thesaurus, kind):
    dataset = load_dataset(thesaurus)
    found = {}
    for part in ("title", "alternatives"):
        method = kind(label_text=part)
        method.fit(dataset.train, dataset.labels)
        found[part] = method.predict(dataset.test, 1).indices[:, 0].tolist()
    assert found["alternatives"] == [0, 1, 2]
    assert found["title"][1] == -1


def test_knn_reads_them_too(thesaurus):
    dataset = load_dataset(thesaurus)
    method = KNN(label_text="alternatives", text=1.0)
    method.fit(dataset.train, dataset.labels, dataset.train_pairs())
    assert method.predict(dataset.test, 1).indices[:, 0].tolist() == [0, 1, 2]


def test_rows_with_and_without_on_a_thesaurus(thesaurus, tmp_path):
    values = {name: {"label_text": ["title", "alternatives", "content"]} for name in ("tfidf", "bm25")}
    found = run(thesaurus, methods=["tfidf", "bm25"], set=values, runs=tmp_path / "runs")
    figures = {
        (record.cell.method, record.cell.parameters.get("label_text")): record.metrics["none"].values["P@1"]
        for record in found
    }
    # The default is no part of a cell: earlier results stay in place.
    by_part = {None: 1 / 3, "alternatives": 1.0, "content": 1 / 3}
    assert figures == {
        (name, part): pytest.approx(value) for name in ("tfidf", "bm25") for part, value in by_part.items()
    }


def test_a_cell_that_asks_for_what_is_not_there_fails_in_one_line(tmp_path):
    (tmp_path / "lbl.json").write_text('{"uid": "c", "title": "car"}\n')
    for name in ("trn", "tst"):
        (tmp_path / f"{name}.json").write_text('{"uid": "0", "title": "a car", "target_ind": [0]}\n')
    (record,) = run(tmp_path, methods=["tfidf"], set={"tfidf": {"label_text": "parents"}}, runs=tmp_path / "runs")
    assert record.status == "failed"
    assert record.reason == (
        "label_text=parents: the labels of this dataset have no parents "
        "(SKOS, labels.csv and lbl.json can have them; label_text=title)"
    )
