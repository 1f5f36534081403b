"""Folders of every layout as their own programs write them, and as people damage them."""

import gzip
import json

import numpy as np
import pytest
from scipy.sparse import csc_matrix, save_npz

from xmcbench.data import load_dataset
from xmcbench.data.sources.finding import place_of, reference_to, source_at
from xmcbench.data.sources.tables import Tables
from xmcbench.errors import DataError, UsageError
from xmcbench.output.escaping import visible

TRAIN, TEST = ["red tea\tA red tea.", "a pot"], ["green tea"]
LABELS = ["tea", "a cup"]


def pecos(folder):
    """The matrices of the three instances; that of the training set is CSC with an entry of 0."""
    save_npz(folder / "Y.trn.npz", csc_matrix(np.array([[1.0, 0.5], [0, 0]])))
    save_npz(folder / "Y.tst.npz", csc_matrix(([0.0, 2.0], ([0, 0], [0, 1])), shape=(1, 2)))
    return folder


XC = {
    "trn.json.gz": gzip.compress(
        b'{"uid": "1", "title": "red tea", "content": "A red tea.", "target_ind": [0, 1]}\n'
        b'{"uid": "2", "title": "a pot", "content": "", "target_ind": []}\n'
    ),
    "tst.json": ['{"uid": "3", "title": "green tea", "content": "", "target_ind": [1]}'],
    "lbl.json": ['{"title": "tea"}', '{"title": "a cup"}'],
}
ANNIF = {
    "vocabulary.tsv": ["<http://a/tea>\ttea\t1.1", "<http://a/cup>\ta cup"],
    "train.csv": "title,text,subject_uris\nred tea,A red tea.,<http://a/tea> http://a/cup\n,a pot,\n",
    "test.tsv": ["green tea\t<http://a/cup> <http://a/gone>"],
}
FULL = {
    "vocab.csv": 'uri,label_en,notation\nhttp://a/tea,tea,1\n<http://a/cup>,"a cup",2\n',
    "train/a.txt": "red tea\nA red tea.\n",
    "train/a.tsv": ["<http://a/tea>\ttea", "<http://a/cup>\ta cup"],
    "train/b.txt": "a pot",
    "test/c.txt": "green tea",
    "test/c.key": ["a cup"],
}


def tibkat(title, *subjects, **properties):
    """A record of TIBKAT, after the nodes that name its people and subjects."""
    named = [{"@id": code, "sameAs": f"name of {code}"} for code in ("gnd:120089777", *subjects)]
    if subjects:
        found = [{"@id": code} for code in subjects]
        properties["dcterms:subject"] = found[0] if len(found) == 1 else found
    record = {"@id": "https://www.tib.eu/de/suchen/id/TIBKAT%3A1", "@type": "bibo:Book", "title": title, **properties}
    return json.dumps({"@graph": [*named, {**record, "subject": ["(classificationName=ddc)620"]}], "@context": {}})


TIBKAT = {
    "GND-Subjects-all.json": json.dumps(
        [
            {"Code": "gnd:4059251-0", "Name": "tea", "Alternate Name": ["chai"], "Related Subjects": []},
            {"Code": "gnd:4165929-6", "Name": "a cup"},
        ],
        indent=4,
    ),
    "data/train/Article/en/3A1.jsonld": tibkat("red tea", "gnd:4059251-0", "gnd:4165929-6", abstract="A red tea."),
    "data/train/Book/de/3A02X.jsonld": tibkat("a pot"),
    "data/test/gold-standard-testset/Book/de/3A3.jsonld": tibkat(["green", "tea"], "gnd:4165929-6", abstract=[]),
}
LAYOUTS = {
    "xc": XC,
    "maclr": {
        "trn.json": gzip.decompress(XC["trn.json.gz"]),
        "tst.json": ['{"uid": "3", "title": "green tea"}'],
        "lbl.json": ['{"uid": "L1", "title": "tea"}', '{"uid": "L2", "title": "a cup"}'],
        "all_pairs.txt": ["3 L2 1"],
    },
    "pecos": {"X.trn.txt": TRAIN, "X.tst.txt": TEST, "output-items.txt": LABELS},
    "text2text": {
        "training-data.txt": ["0,1:0.5\tred tea\tA red tea.", "0:0\ta pot"],
        "test-data.txt": ["1\tgreen tea"],
        "output-labels.txt": LABELS,
    },
    "zestxml": {
        "raw/trn_X.txt": TRAIN,
        "raw/tst_X.txt": TEST,
        "raw/Y.txt": LABELS,
        "trn_X_Y.txt": ["2 2", "0:1 1:1", ""],
        "tst_X_Y.txt": ["1 2", "1:1"],
        "Xf.txt": ["tea"],
        "val_X_Y.txt": ["0 2"],
    },
    "xc-lines": {
        "trn_X.txt": "\ufeff" + "".join(f"{line}\r\n" for line in TRAIN),
        "tst_X.txt": "green tea",
        "Y.txt": LABELS,
        "trn_X_Y.txt": ["2 2", "0:1 1:0.5", ""],
        "tst_X_Y.txt": ["1 2", "0:0 1:1"],
        "trn_X_Xf.txt": ["2 1", "0:1", ""],
    },
    "beir": {
        "corpus.jsonl": ['{"_id": "L1", "title": "tea"}', '{"_id": "L2", "title": "", "text": "a cup"}'],
        "queries.jsonl": [
            '{"_id": "1", "text": "red tea\\tA red tea.", "metadata": {}}',
            '{"_id": "3", "text": "green tea"}',
            '{"_id": "2", "text": "a pot"}',
            '{"_id": "9", "text": "of no split"}',
        ],
        "qrels/train.tsv": ["query-id\tcorpus-id\tscore", "1\tL1\t1", "1\tL2\t2", "2\tL1\t0"],
        "qrels/test.tsv": ["query-id\tcorpus-id\tscore", "3\tL2\t1"],
        "qrels/dev.tsv": ["query-id\tcorpus-id\tscore"],
    },
    "annif": ANNIF,
    "annif full": FULL,
    "llms4subjects": TIBKAT,
    "tables csv": {
        "train.csv": 'id,title,text,labels\n1,red tea,A red tea.,tea; a cup\n2,a pot,"",\n',
        "test.csv": 'id,title,text,labels\n3,green tea,,"[""a cup""]"\n',
    },
    "tables jsonl": {
        "train.jsonl": [
            '{"title": "red tea", "text": "A red tea.", "labels": [7, "8"]}',
            '{"title": "a pot", "labels": null}',
        ],
        "data/test-0-of-1.jsonl": ['{"title": "green tea", "labels": 8}'],
        "labels.tsv": ["uid\ttitle", "7\ttea", "8\ta cup"],
    },
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_same_dataset(made, name):
    folder = made(LAYOUTS[name])
    if name == "pecos":
        pecos(folder)
    assert source_at(place_of(folder)).name == name.split()[0]
    dataset, expected = load_dataset(folder), load_dataset(made(XC, "expected"))
    assert [*dataset.labels] == LABELS
    assert (list(dataset.train), list(dataset.test)) == (TRAIN, TEST)
    assert dataset.train_pairs().toarray().tolist() == [[1, 1], [0, 0]]
    assert dataset.test_pairs().toarray().tolist() == [[0, 1]]
    assert dataset.digest == expected.digest


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_text_may_be_gzipped(made, name, is_named):
    folder = made({**LAYOUTS[name], "filter_labels_test.txt": ["0 0"]})
    if name == "pecos":
        pecos(folder)
    expected, packed = load_dataset(folder), made({}, "packed") / "set"
    for path in [*folder.rglob("*.*")]:
        target = packed / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".gz", ".npz"):
            target.write_bytes(path.read_bytes())
        else:
            target = target.with_name(f"{path.name}.gz") if is_named else target
            target.write_bytes(gzip.compress(path.read_bytes()))
    dataset = load_dataset(packed)
    assert (dataset.digest, dataset.filters) == (expected.digest, expected.filters)
    assert [note.replace(".gz", "") for note in dataset.found] == [*expected.found]


def test_what_is_not_used_is_said(made):
    assert load_dataset(made(ANNIF, "a")).found == ("1 subject of test.tsv left out: not in the vocabulary",)
    notes = load_dataset(made(LAYOUTS["zestxml"], "b")).found
    assert notes == (
        "bags of words are not read, methods get the raw text: Xf.txt",
        "the validation set is not used: val_X_Y.txt",
    )
    assert "validation" in load_dataset(made(LAYOUTS["beir"], "c")).found[0]
    both = {**LAYOUTS["maclr"], "tst.json": ['{"uid": "3", "title": "green tea", "target_ind": [0]}']}
    assert "all_pairs.txt lists other labels than tst.json" in load_dataset(made(both, "d")).found[0]


@pytest.mark.usefixtures("own_cache")
def test_rows_of_json_are_read_once(made, monkeypatch):
    """Their columns are known only when all rows were read; a key may be no text."""
    rows = ['{"text": "a", "labels": [7]}', '{"title": "b", "\\ud800": 1}']
    folder = made({**LAYOUTS["tables jsonl"], "train.jsonl": rows})
    before = load_dataset(folder)
    with monkeypatch.context() as patch:
        patch.setattr("xmcbench.data.sources.records.parse_object", lambda *_: pytest.fail("read again"))
        assert load_dataset(folder).notes == before.notes
    made({"train.jsonl": ['{"sentence": "a", "labels": [7]}']})
    assert "text=sentence" in load_dataset(folder).notes[0]


@pytest.mark.parametrize(("layout", "matrix"), [("pecos", "Y.tst.npz"), ("xc-lines", "tst_X_Y.txt")])
def test_a_matrix_that_is_not_there_is_told(made, layout, matrix):
    """A link that leads nowhere, as git-annex leaves, is an error."""
    folder = made(LAYOUTS[layout])
    if layout == "pecos":
        pecos(folder)
    (folder / matrix).unlink()
    dataset = load_dataset(folder)
    assert dataset.test_pairs().nnz == 0
    assert f"no pairs: {matrix} is not there" in dataset.found
    for name in (matrix, f"{matrix}.gz") if layout == "xc-lines" else (matrix,):
        (folder / name).symlink_to("elsewhere")
        with pytest.raises(DataError, match=rf"{name} is a link to a file that is not there \("):
            load_dataset(folder)
        (folder / name).unlink()


def test_notes_are_kept_with_the_loaded_form(made, monkeypatch):
    folder = made(ANNIF)
    before = load_dataset(folder).notes
    monkeypatch.setattr("xmcbench.data.store.load_corpus", lambda *_: pytest.fail("read again"))
    assert load_dataset(folder).notes == before


BROKEN = [
    ("xc", "lbl.json", None, "has no lbl.json.gz"),
    ("maclr", "all_pairs.txt", "3 L9 1\n", "all_pairs.txt, line 1: there is no label 'L9'"),
    ("maclr", "all_pairs.txt", "3\n", "all_pairs.txt, line 1: is not a pair"),
    ("maclr", "all_pairs.txt", "3 L2 yes\n", "all_pairs.txt, line 1: 'yes' is not a number"),
    ("maclr", "all_pairs.txt", "3 L2 nan\n", "all_pairs.txt, line 1: 'nan' is not a number"),
    ("xc-lines", "trn_X.txt", "one\n", r"trn_X_Y.txt has 2 rows, but .*trn_X.txt has 1 line "),
    ("xc-lines", "trn_X.txt", "one\ntwo\nthree\n", "has 2 rows, but .* has 3 lines"),
    ("xc-lines", "Y.txt", "one\n", "has 2 columns, but .*Y.txt has 1 line "),
    ("xc-lines", "Y.txt", "one\n \n", "Y.txt, line 2: the label has no text"),
    ("xc-lines", "tst_X.txt", b"\xff\n", "tst_X.txt, line 1: is not UTF-8"),
    ("xc-lines", "trn_X_Y.txt", "2 2\n0:1 \n0:1\r1:1\n", "trn_X_Y.txt, line 3: has a line end of CR alone"),
    ("xc-lines", "filter_labels_test.txt", "0 1\r0 0\n\n", "test.txt, line 1: has a line end of CR alone"),
    ("xc-lines", "trn_X.uids.txt", "1\n", "uids.txt does not have as many lines as"),
    ("xc-lines", "trn_X.uids.txt", "1\n1\n", r"trn_X.txt, line 2: duplicate uid '1', first in line 1"),
    ("pecos", "Y.trn.npz", b"PK\x03\x04", r"cannot read the matrix .*Y\.trn\.npz"),
    ("text2text", "test-data.txt", "1 green tea\n", "test-data.txt, line 1: has no tab"),
    ("text2text", "test-data.txt", "-1\tgreen tea\n", "line 1: '-1' is not a label id"),
    ("text2text", "test-data.txt", "2\tgreen tea\n", "line 1: label 2 is out of range"),
    ("text2text", "test-data.txt", "1:1e\tgreen tea\n", "line 1: '1:1e' has no number"),
    ("text2text", "test-data.txt", "1:1e999\tgreen tea\n", "line 1: '1:1e999' has no number"),
    ("text2text", "test-data.txt", "1\tgreen tea\r0\tred tea\n", "test-data.txt, line 1: has a line end of CR alone"),
    ("beir", "corpus.jsonl", '{"_id": "L1", "title": " "}\n', "corpus.jsonl, line 1: the label has no text"),
    ("beir", "corpus.jsonl", '{"title": "tea"}\n', "corpus.jsonl, line 1: _id is missing"),
    (
        "beir",
        "queries.jsonl",
        '{"_id": "9"}\n{"_id": "1", "text": "x"}\n\n{"_id": "1", "text": "y"}\n',
        "queries.jsonl, line 4: duplicate uid '1', first in line 2",
    ),
    ("beir", "queries.jsonl", "[]\n", "queries.jsonl, line 1: is not a JSON object"),
    ("beir", "queries.jsonl", "[" * 9999, "queries.jsonl, line 1: is not JSON"),
    ("beir", "qrels/test.tsv", "3\tL9\t1\n", r"test.tsv, line 1: there is no 'L9'"),
    ("beir", "qrels/test.tsv", "3\tL1\tx\n", r"test.tsv, line 1: '3\\tL1\\tx' is not a judgment"),
    ("beir", "qrels/test.tsv", "3\tL2\t1\n3\tL1\tnan\n", r"test.tsv, line 2: '3\\tL1\\tnan' is not a judgment"),
    ("beir", "qrels/test.tsv", "3\tL1\tinf\n", r"test.tsv, line 1: '3\\tL1\\tinf' is not a judgment"),
    ("beir", "qrels/test.tsv", "3\tL1\n", r"test.tsv, line 1: '3\\tL1' is not a judgment"),
    ("beir", "qrels/test.tsv", "3\tL2\t1\r3\tL1\t1\n", "test.tsv, line 1: has a line end of CR alone"),
    ("maclr", "all_pairs.txt", "3 L2 1\r3 L1 1\n", "all_pairs.txt, line 1: has a line end of CR alone"),
    ("annif", "vocabulary.tsv", "a tea\n", "vocabulary.tsv, line 1: has no tab"),
    ("annif", "vocabulary.tsv", "\n<a>\n<b>", "vocabulary.tsv, line 2: the subject 'a' has no label, and no other has"),
    ("annif", "vocabulary.tsv", "<a>\t\n", "vocabulary.tsv, line 1: the subject 'a' has no label"),
    ("annif", "vocabulary.tsv", "<a>\tx\n\n<a>\ty\n", "vocabulary.tsv, line 3: duplicate uid 'a', first in line 1"),
    ("annif", "vocabulary.tsv", "<a>\tx\r<b>\ty\n", "vocabulary.tsv, line 1: has a line end of CR alone"),
    ("annif", "test.tsv", "one\t<a>\rtwo\t<b>\n", "test.tsv, line 1: has a line end of CR alone"),
    ("annif full", "test/c.key", "tea\ra cup\r", "c.key, line 1: has a line end of CR alone"),
    ("annif", "train.csv", "title\nx\n", "train.csv, line 1: there is no column 'text'"),
    (
        "annif",
        "train.csv",
        'text,document_id\n"a\nb",7\n\nc,7\n',
        "train.csv, line 5: duplicate uid '7', first in line 3",
    ),
    ("annif full", "vocab.csv", "uri,label_en\na,x\na,y\n", "vocab.csv, line 3: duplicate uid 'a', first in line 2"),
    ("annif full", "train/a.txt", b"\xff", r"cannot read .*a\.txt"),
    ("llms4subjects", "GND-Subjects-all.json", None, r"has no GND-Subjects-all\.json \(.*vocabulary=FILE"),
    ("llms4subjects", "GND-Subjects-all.json", '[{"Code": "gnd:1", "Name": " "}]', "line 1: the subject has no name"),
    ("llms4subjects", "GND-Subjects-all.json", '[{"Name": "tea"}]', "all.json, line 1: Code is missing"),
    ("llms4subjects", "data/train/Book/de/3A02X.jsonld", "[]", "3A02X.jsonld, line 1: is not a JSON object"),
    ("llms4subjects", "data/train/Book/de/3A02X.jsonld", '{"@graph": []}', "line 1: is not a record of TIBKAT"),
    ("llms4subjects", "data/train/Book/de/3A02X.jsonld", '{"@graph": [{"sameAs": "x"}]}', "is not a record of TIBKAT"),
    ("llms4subjects", "data/train/Book/de/3A02X.jsonld", tibkat({"de": "x"}), "line 1: a value of title is not a text"),
    (
        "llms4subjects",
        "data/train/Book/de/3A02X.jsonld",
        tibkat("x", **{"dcterms:subject": "gnd:4059251-0"}),
        "3A02X.jsonld, line 1: a value of dcterms:subject has no @id",
    ),
    ("tables csv", "train.csv", "id,title,text,labels\n1,x\n", "train.csv, line 2: has 2 cells"),
    ("tables csv", "train.csv", 'id,title,text,labels\n1,"x\n', "train.csv, line 2: is not CSV"),
    ("tables csv", "train.csv", "id,title,text,labels\n1\n", "train.csv, line 2: has 1 cell "),
    (
        "tables csv",
        "train.csv",
        'id,title,text,labels\r1,"x","y",z\r',
        r"train.csv, line 1: has a line end of CR alone \(convert the line ends to LF, .*tr '\\r' '\\n'\)",
    ),
    ("tables csv", "train.csv", 'id,title,text,labels\n1,"x\ry",z\rw,\n', "train.csv, line 2: has a line end of CR"),
    ("tables csv", "train.csv", "id,id\n1,x\n", "train.csv, line 1: a column is named twice"),
    ("tables csv", "train.csv", "", "train.csv is empty"),
    (
        "tables csv",
        "train.csv",
        "id,text,labels\n1,x,a\n1,y,a\n",
        "train.csv, line 3: duplicate uid '1', first in line 2",
    ),
    (
        "tables csv",
        "train.csv",
        "id,text,labels\n1,x,a\n\n1,y,a\n",
        "train.csv, line 4: duplicate uid '1', first in line 2",
    ),
    ("tables jsonl", "train.jsonl", '{"title": "x", "labels": [9]}\n', "train.jsonl, line 1: there is no label '9'"),
    (
        "tables jsonl",
        "train.jsonl",
        '{"title": "x", "labels": [{}]}\n',
        "line 1: labels has '{}', which is not",
    ),
    ("tables jsonl", "train.jsonl", '{"title": 0.5, "labels": []}\n', "line 1: title is '0.5', not a text"),
]


@pytest.mark.parametrize(("layout", "path", "content", "message"), BROKEN)
def test_a_broken_file_is_one_error_with_file_and_line(made, layout, path, content, message):
    folder = made(LAYOUTS[layout])
    if layout == "pecos":
        pecos(folder)
    (folder / path).unlink(missing_ok=True)
    if content is not None:
        made({path: content})
    with pytest.raises(DataError, match=message):
        load_dataset(folder)


def test_a_row_of_json_lines_need_not_have_every_key(made):
    rows = ['{"text": "one"}', '{"text": "two", "labels": ["a"], "title": "Two"}', '{"text": "three", "year": 1}']
    folder = made({"train.jsonl": "\n".join(rows), "test-0.jsonl": rows[0], "test-1.jsonl": rows[1]})
    dataset = load_dataset(folder)
    assert [*dataset.train.titles] == ["", "Two", ""]
    assert [*dataset.train.contents] == ["one", "two", "three"]
    assert dataset.train_pairs().toarray().tolist() == [[0], [1], [0]]
    assert dataset.test_pairs().toarray().tolist() == [[0], [1]]
    made({"train.jsonl": '{"id": "1", "text": "one", "labels": []}\n{"text": "two"}'})
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: id is missing \(give every row one, or none\)"):
        load_dataset(folder)


@pytest.mark.parametrize(
    "cell",
    [
        "['fruit', 'food']",  # pandas: a list
        "['fruit' 'food']",  # numpy
        "[1 2]",
        "[fruit, food]",
        "[]]",
        '["fruit", "food",]',
        '["fruit", "fo',  # cut off
        "[ 'fruit'; food",
        " [sic] ",
        "[" * 9999 + "]",
    ],
)
def test_a_cell_in_brackets_is_a_json_list_or_an_error(made, cell):
    folder = made({"train.jsonl": [json.dumps({"text": "one", "labels": text}) for text in ("fruit", cell)]})
    hint = r'line 2: labels is .*, which is not a JSON list \(write \["a", "b"\] or a;b; a single label in brackets is'
    with pytest.raises(DataError, match=hint):
        load_dataset(folder)


def test_a_quoted_cell_of_tsv_is_an_error(made):
    """As pandas writes one with quotation marks in it; one with a quotation mark at each end may be a text."""
    head, row = "text\tlabels", '"the ""best"" tea"\ttea'
    folder = made({"train.tsv": [head, row], "test.tsv": [head, "a cup\ttea"]}, "a")
    with pytest.raises(
        DataError, match=r'train.tsv, line 2: has the cell "the ""best"" tea", which is quoted as in CSV'
    ):
        load_dataset(folder).counts()
    folder = made({"train.tsv": [head, '"green" and "black"\ttea'], "test.tsv": [head, '"a cup"\ttea']}, "b")
    assert [*load_dataset(folder).test] == ['"a cup"']


def test_brackets_within_a_cell_are_part_of_a_label(made):
    cells = ['["[sic]", "a [b]"]', "[sic]; pie", "pie [sic]", " [] ", ' ["pie"] ']
    rows = [json.dumps({"text": cell, "labels": cell}) for cell in cells]
    dataset = load_dataset(made({"train.jsonl": rows, "test.csv": "text\none\n"}))
    assert [*dataset.labels] == ["[sic]", "a [b]", "pie", "pie [sic]"]
    assert dataset.train_pairs().toarray().tolist() == [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [0] * 4, [0, 0, 1, 0]]


def test_white_space_around_the_text_of_a_label_is_none_of_it(made):
    rows = [
        json.dumps({"text": "one", "labels": labels})
        for labels in ([" fruit ", "\t"], ["fruit"], "fruit; pie\n", [" "])
    ]
    dataset = load_dataset(made({"train.jsonl": rows, "test.csv": "text\none\n"}))
    assert ([*dataset.labels], [*dataset.labels.uids]) == (["fruit", "pie"], ["fruit", "pie"])
    assert dataset.train_pairs().toarray().tolist() == [[1, 0], [1, 0], [1, 1], [0, 0]]


def test_a_uid_keeps_its_white_space(made):
    files = {"labels.jsonl": ['{"uid": " 7", "title": "a"}', '{"uid": "7", "title": "b"}'], "test.csv": "text\none\n"}
    folder = made({**files, "train.jsonl": ['{"text": "one", "labels": [" 7"]}', '{"text": "two", "labels": ["7"]}']})
    assert load_dataset(folder).train_pairs().toarray().tolist() == [[1, 0], [0, 1]]


def test_parts_with_different_columns_are_noted_each(made):
    folder = made({"train.csv": "text,labels\none,a\n", "test.csv": "text,classes\ntwo,a\n"})
    assert load_dataset(folder).notes[:2] == (
        "columns of train.csv: text=text, labels=labels, separator=;",
        "columns of test.csv: text=text; there is no column of labels",
    )
    both = made({"train.csv": "text,labels\none,a\n", "test.csv": "text,labels\ntwo,a\n"}, "both")
    assert load_dataset(both).notes[0] == "columns of train.csv and test.csv: text=text, labels=labels, separator=;"
    listed = made({"train.jsonl": ['{"text": "one", "labels": ["a"]}', '{"text": "two"}']}, "listed")
    assert load_dataset(listed).notes[0] == "columns of train.jsonl: text=text, labels=labels"


@pytest.mark.parametrize(
    ("sign", "option", "name"),
    [
        (",", ",", "commas"),
        ("|", "|", "vertical bars"),
        ("\n", "%0A", "line breaks"),
        (" / ", "%20/%20", "slashes"),
        ("\uff0c", "\uff0c", "full-width commas"),
        ("\u3001", "\u3001", "ideographic commas"),
        ("\uff1b", "\uff1b", "full-width semicolons"),
    ],
)
@pytest.mark.parametrize(
    ("cells", "noted"),
    [
        (["a, b"] * 10 + ["c"] * 10 + [""] * 5, "0 of 20 cells of labels in train.jsonl, and {} in 10 of the others"),
        (["a, b"] * 10 + ["c"] * 11, None),  # less than half of those with text
        (["a, b"] * 9, None),
        (["a, b"] * 20 + ["a; b, c"], "1 of 21 cells of labels in train.jsonl, and {} in 20 of the others"),
        (["a, b"] * 20 + ["a; b"] * 3, None),  # more than a tenth
        (['["a", "b"]'] * 20 + ["a"], None),
    ],
)
def test_another_sign_where_the_separator_is_expected_is_noted(made, cells, noted, sign, option, name):
    texts = [cell if cell.startswith("[") else cell.replace(",", sign) for cell in cells]
    rows = [json.dumps({"text": f"text {row}", "labels": cell}) for row, cell in enumerate(texts)]
    folder = made({"train.jsonl": rows, "test.csv": "text,labels\none,a\n"})
    notes = [note for note in load_dataset(folder).notes if "separator" in note and "columns of" not in note]
    advice = f"; if {name} separate the labels, append ?separator={option} to the place"
    said = f"the separator ';' is in {noted.format(visible(repr(sign)))}{advice}" if noted else ""
    assert notes == ([said] if noted else [])
    divided = load_dataset(f"{folder}?separator={option}")
    assert not [note for note in divided.notes if "the separator" in note]
    if noted and "a; b, c" not in cells:
        assert [*divided.labels] == ["a", "b", "c"]


def test_line_breaks_in_quoted_cells_of_csv_separate_labels(made):
    rows = [f'{row},"a, b{end}c"' for row, end in enumerate(["\n", "\r\n"] * 6)]
    path = made({"papers.csv": ["text,labels", *rows]}) / "papers.csv"
    notes = load_dataset(path).notes
    assert any("if line breaks separate the labels, append ?separator=%0A" in note for note in notes)
    divided = load_dataset(f"{path}?separator=%0A")
    assert [*divided.labels] == ["a, b", "c"]
    assert divided.notes[0].endswith("labels=labels, separator=%0A")


def test_a_table_of_labels_needs_a_title(made):
    folder = made({"train.csv": "text,labels\none,0\n", "labels.csv": "id,caption\n0,a\n"})
    with pytest.raises(
        UsageError,
        match=r"labels\.csv has no text column with a known name .*call them uid and title; it has: id, caption",
    ):
        load_dataset(folder)


def test_labels_beside_a_single_table_are_its_labels(made):
    folder = made({"papers.csv": "text,labels\none,a1\ntwo,b2; a1\n", "new.csv": "text\none\ntwo\n"})
    before = load_dataset(folder / "papers.csv")
    assert [*before.labels] == ["a1", "b2"]
    labels = {"labels.csv": "uid,title\nb2,auto\na1,fruit\nc3,pie\n", "data/labels.csv": "", "label-a.csv": "x\n"}
    made(labels)
    dataset = load_dataset(folder / "papers.csv")
    assert ([*dataset.labels], [*dataset.labels.uids]) == (["auto", "fruit", "pie"], ["b2", "a1", "c3"])
    pairs = dict(zip([*dataset.train, *dataset.test], [*dataset.train_pairs(), *dataset.test_pairs()], strict=True))
    assert {text: row.indices.tolist() for text, row in pairs.items()} == {"one": [1], "two": [0, 1]}
    assert dataset.notes[0] == "the labels of papers.csv are uids of labels.csv, which lies beside it"
    assert folder / "labels.csv" in dataset.sources
    assert dataset.digest != before.digest
    assert [*load_dataset(folder / "new.csv").labels] == ["auto", "fruit", "pie"]
    made({"labels.csv": "uid,title\nb2,auto\na1,apple\n"})
    assert [*load_dataset(folder / "papers.csv").labels] == ["auto", "apple"]
    made({"labels.csv": "uid,title\nb2,auto\n"})
    said = r"papers.csv, line 2: there is no label 'a1' \(labels are uids of labels.csv; if they are texts, move it to"
    with pytest.raises(DataError, match=said):
        load_dataset(folder / "papers.csv")


def test_a_table_of_labels_without_uids_names_no_labels(made):
    """A code was taken for the number of a row: every label was another one, and nobody said so."""
    labels = {"labels.csv": "label_id,title\n1,auto\n2,fruit\n3,pie\n"}
    folder = made({"papers.csv": "text,labels\none,1\ntwo,2;1\n", **labels})
    said = r"papers\.csv, line 2: labels\.csv has no column uid \(call the column of its uids uid; it has: label_id"
    with pytest.raises(DataError, match=said):
        load_dataset(folder / "papers.csv")
    made({"papers.csv": "text,labels\none,\ntwo,\n"})
    assert [*load_dataset(folder / "papers.csv").labels] == ["auto", "fruit", "pie"]
    listed = made(
        {"train.csv": "text,labels\none,auto\n", "test.csv": "text\none\n", "labels.csv": "title\nauto\n"}, "b"
    )
    with pytest.raises(DataError, match=r"train\.csv, line 2: labels\.csv has no column uid \(.*; it has: title\)"):
        load_dataset(listed)


def test_titles_in_the_place_of_uids_are_told(made):
    labels = {"labels.csv": "uid,title\n1,auto\n2,fruit\n"}
    folder = made({"papers.csv": "text,labels\none,fruit\ntwo,auto\n", **labels})
    said = (
        r"line 2: there is no label 'fruit' \(labels are uids of labels\.csv, where this is the title of '2'; if they"
    )
    with pytest.raises(DataError, match=said):
        load_dataset(folder / "papers.csv")


def test_a_table_is_not_its_own_table_of_labels(made):
    path = made({"labels.csv": "text,labels\none,a\ntwo,b\n"}) / "labels.csv"
    assert [*load_dataset(path).labels] == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("train.csv", "train.jsonl"),
        ("train.csv", "train.csv.gz"),
        ("train.csv", "trn.csv"),
        ("train.csv", "data/train.csv"),
        ("train.csv", "train-0.csv"),
        ("test.csv", "test-00000-of-00002.parquet"),
        ("labels.csv", "labels.tsv"),
    ],
)
def test_of_two_files_that_could_be_one_part_none_is_read(made, one, other):
    folder = made({"train.csv": "text,labels\na,b\n", one: "", other: ""})
    assert source_at(place_of(folder)).name == "tables"
    with pytest.raises(DataError, match=f"set has {one} and {other}: only one of them can be read"):
        load_dataset(folder)
    if one == "labels.csv":
        with pytest.raises(DataError, match="set has labels.csv and labels.tsv: only one"):
            load_dataset(folder / "train.csv")


def test_a_file_that_only_begins_like_a_part_is_none_beside_one(made):
    folder = made({"train.csv": "text,labels\na,b\n", "train-small.jsonl": "", "test-1.csv": "text\nc\n"})
    made({"test-2.csv": "text\nd\n", "test-of-tea.csv": "text\ne\n", "valid.csv": "", "valid.tsv": ""})
    dataset = load_dataset(folder)
    assert ([*dataset.train], [*dataset.test]) == (["a"], ["c", "d"])
    assert dataset.notes[0] == "the validation set is not used: valid.csv, valid.tsv"


def test_shards_of_a_part_are_read_if_all_are_there(made):
    shards = {f"train-0000{number}-of-00003.csv": f"text,labels\n{number},b\n" for number in range(3)}
    folder = made({**shards, "train-small.csv": "text,labels\nsmall,b\n", "test.csv": "text,labels\nt,b\n"})
    assert [*load_dataset(folder).train] == ["0", "1", "2"]
    made({"train-00000-of-00001.csv": "text,labels\nwhole,b\n"})
    with pytest.raises(DataError, match="set has train-00000-of-00001.csv and train-00000-of-00003.csv: only one"):
        load_dataset(folder)
    (folder / "train-00000-of-00001.csv").unlink()
    (folder / "train-00001-of-00003.csv").unlink()
    with pytest.raises(DataError, match="set has 2 of 3 shards such as train-00000-of-00003.csv"):
        load_dataset(folder)
    made({"train-0-of-00003.csv": ""})  # the number of another one
    with pytest.raises(DataError, match="of 3 shards"):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("columns", "head", "texts"),
    [
        ("text=title", "title,abstract,labels", ["t"]),
        ("title=abstract", "title,abstract,labels", ["a"]),
        ("title=text", "text,labels", ["t"]),
        ("title=title", "title,abstract,labels", ["t\ta"]),
        ("uid=title", "title,labels", ["t"]),
    ],
)
def test_a_named_column_is_title_or_text(made, columns, head, texts):
    cells = {"title": "t", "text": "t", "abstract": "a", "labels": "b"}
    folder = made({"train.csv": f"{head}\n{','.join(cells[column] for column in head.split(','))}\n"})
    made({"test.csv": (folder / "train.csv").read_text()})
    assert [*load_dataset(f"{folder}?{columns}").train] == texts


def test_documents_do_not_depend_on_tables_of_labels(made):
    folder = made({"train.csv": "text,labels\na,b\n", "test.csv": "text,labels\nc,b\n"})
    made({"new/new.csv": "text\nd\n", "new/labels.csv": "", "new/labels.jsonl": ""})
    assert [*load_dataset(f"{folder}?documents={folder / 'new' / 'new.csv'}").test] == ["d"]


@pytest.mark.parametrize(
    ("options", "head", "said", "text"),
    [
        ("", "number,subject,abstract,body", "uid=number, title=subject, text=body", "s\tb"),
        ("?text=abstract", "number,subject,abstract,body", "text=abstract", "a"),  # it has columns of its own
        ("", "subject,body", "title=subject, text=body", "s\tb"),
        ("", "number,abstract,subject", "uid=number, text=abstract", "a"),  # not the title alone
        ("", "number,abstract,body", "uid=number, text=body", "b"),
        ("", "uid,text,labels", "uid=uid, text=text", "t"),
    ],
)
def test_documents_have_the_columns_of_the_dataset_if_they_can(made, options, head, said, text):
    """Those of the documents were guessed, and no note said which were taken."""
    cells = {"number": "7", "uid": "7", "subject": "s", "abstract": "a", "body": "b", "text": "t", "labels": "x"}
    table = "number,subject,body,classes\n1,s,b,c\n2,s,b,c\n"
    folder = made({"train.csv": table, "test.csv": table})
    new = made({"new.csv": f"{head}\n{','.join(cells[column] for column in head.split(','))}\n"}, "new") / "new.csv"
    place = f"{folder}?uid=number&title=subject&text=body&labels=classes"
    dataset = load_dataset(reference_to(place, {"documents": f"{new}{options}"}))
    assert [*dataset.test] == [text]
    assert dataset.test.uids[0] == ("7" if "uid=" in said else "0")
    assert dataset.notes[-1] == f"columns of new.csv: {said}"


def test_a_code_without_a_name_is_no_label(made, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    noted = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["neg", "pos"]}}}})}
    train = pa.table({"text": ["x", "y", "z"], "label": [1, -1, 0]}).replace_schema_metadata(noted)
    for split in ("train", "test"):
        parquet.write_table(train, tmp_path / f"{split}.parquet")
    dataset = load_dataset(tmp_path)
    assert [*dataset.labels] == ["pos", "neg"]
    assert dataset.train_pairs().toarray().tolist() == [[1, 0], [0, 0], [0, 1]]
    parquet.write_table(
        pa.table({"text": ["x"], "label": [2]}).replace_schema_metadata(noted), tmp_path / "train.parquet"
    )
    with pytest.raises(DataError, match="line 1: label has the code 2 .*0 to 1"):
        load_dataset(tmp_path)


def test_an_error_names_the_shard(made):
    row = "1,x,tea\n"
    folder = made({"train-0.csv": f"id,text,labels\n{row}", "train-1.csv": f"id,text,labels\n2,y,tea\n\n{row}"})
    with pytest.raises(DataError, match=r"train-1.csv, line 4: duplicate uid '1', first in train-0.csv, line 2"):
        load_dataset(folder)


def test_parquet_and_arrow_files_name_their_codes(made):
    """As `datasets` writes them: labels are codes, their names are in the metadata of the schema."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = made({"dataset_dict.json": json.dumps({"splits": ["train", "test", "validation"]})}, "saved")
    features = {"labels": {"feature": {"names": LABELS, "_type": "ClassLabel"}, "_type": "List"}}
    noted = {"huggingface": json.dumps({"info": {"features": features}})}
    tables = {
        "train": {"title": ["red tea", "a pot"], "text": ["A red tea.", None], "labels": [[0, 1], []]},
        "test": {"title": ["green tea"], "text": [""], "labels": [[1]]},
    }
    for split, columns in tables.items():
        made({f"{split}/state.json": json.dumps({"_data_files": [{"filename": "data.arrow"}]})}, "saved")
        table = pa.table(columns).replace_schema_metadata(noted)
        with pa.OSFile(str(folder / split / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        shards = made({"data/.keep": ""}, "shards")
        parquet.write_table(table, shards / "data" / f"{split}-00000-of-00001.parquet")
    assert load_dataset(folder).notes[0] == "not used: validation"
    for place, layout in ((folder, "huggingface"), (shards, "tables")):
        assert source_at(place_of(place)).name == layout
        dataset = load_dataset(place)
        assert dataset.digest == load_dataset(made(XC, "expected")).digest
        (row,) = source_at(place_of(place)).documents().rows()
        assert row.title == "green tea"
    made({"train/state.json": json.dumps({"_data_files": [{"filename": "../x.arrow"}]})}, "saved")
    with pytest.raises(DataError, match=r"cannot read .*state\.json"):
        load_dataset(folder)


def save_table(made, name, splits, table, files=("data.arrow",)):
    """A folder as `save_to_disk` writes it, with one table in every split."""
    import pyarrow as pa

    folder = made({"dataset_dict.json": json.dumps({"splits": splits})}, name)
    for split in splits:
        made({f"{split}/state.json": json.dumps({"_data_files": [{"filename": file} for file in files]})}, name)
        for file in files:
            with pa.OSFile(str(folder / split / file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
    return folder


@pytest.mark.parametrize(
    ("splits", "files"), [(["validation"], ["data.arrow"]), ([], []), (["train", "test"], []), (["train"], [])]
)
def test_a_saved_folder_without_a_split_that_is_used(made, splits, files):
    import pyarrow as pa

    table = pa.table({"text": ["one", "two"], "labels": ["a", "b"]})
    whole = save_table(made, "whole", ["train", "test"], table)
    folder = save_table(made, "saved", splits, table, files)
    for place in (str(folder), f"{whole}?documents={folder}"):
        with pytest.raises(DataError, match=r"saved has no train or test split \("):
            load_dataset(place)


def test_a_saved_folder_with_a_split_without_files(made):
    import pyarrow as pa

    table = pa.table({"text": ["one", "two"], "labels": ["a", "b"]})
    folder = save_table(made, "saved", ["train", "test"], table)
    (folder / "test" / "state.json").write_text(json.dumps({"_data_files": []}))
    dataset = load_dataset(folder)
    assert {*dataset.train, *dataset.test} == {"one", "two"}  # the training set is divided, as in a folder without test


def test_parts_that_are_swapped_keep_their_labels(made):
    """As in a cross-validation of two folds: the files have the same names, and labels are numbered over both parts."""
    import pyarrow as pa

    tables = [
        pa.table({"text": ["one apple", "a pear"], "labels": [["apple"], ["pear"]]}),
        pa.table({"text": ["one plum", "two pears"], "labels": [["plum"], ["pear"]]}),
    ]
    for fold, (train, test) in enumerate([tables, tables[::-1]]):
        folder = save_table(made, f"fold{fold}", ["train"], train)
        save_table(made, f"fold{fold}", ["test"], test)
        made({"dataset_dict.json": json.dumps({"splits": ["train", "test"]})}, f"fold{fold}")
        dataset = load_dataset(folder)
        for texts, pairs, table in (
            (dataset.train, dataset.train_pairs(), train),
            (dataset.test, dataset.test_pairs(), test),
        ):
            assert [*texts] == table["text"].to_pylist()
            assert [[dataset.labels[label]] for label in pairs.indices] == table["labels"].to_pylist()


def test_of_two_columns_of_one_name_the_last_one_is_read(made):
    import pyarrow as pa
    from pyarrow import parquet

    names = ["text", "text", "labels"]
    table = pa.Table.from_arrays([["one", "two"], ["three", "four"], ["a", "b"]], names=names)
    folder = save_table(made, "saved", ["train", "test"], table)
    shards = made({"data/.keep": ""}, "shards")
    for split in ("train", "test"):
        parquet.write_table(table, shards / f"{split}.parquet")
    for place in (folder, shards):
        assert [*load_dataset(place).train] == ["three", "four"]


def test_a_column_that_is_not_read_can_hold_anything(made):
    import pyarrow as pa
    from pyarrow import parquet

    folder = made({"data/.keep": ""}, "times")
    beyond = pa.array([2**62, 0], pa.int64()).cast(pa.timestamp("us"))  # of no year that Python knows
    table = pa.table({"text": ["one", "two"], "labels": ["a", "b"], "when": beyond, "whole": beyond})
    for split in ("train", "test"):
        parquet.write_table(table, folder / f"{split}.parquet")
    assert [*load_dataset(folder).train] == ["one", "two"]
    with pytest.raises(DataError, match="cannot read .*train.parquet"):
        load_dataset(f"{folder}?title=when")


def test_a_packed_parquet_file_is_not_a_table(made):
    assert not Tables.recognize(place_of(made({"train.parquet.gz": b""}, "packed")))
    assert not Tables.recognize(place_of(made({"one.parquet.gz": b""}, "single") / "one.parquet.gz"))


def test_a_layout_without_instances_is_said(made):
    folder = made({"output-labels.txt": "tea\npot\n"}, "bare")
    with pytest.raises(DataError, match="bare has no instances"):
        load_dataset(f"{folder}?layout=pecos")


def test_one_file_with_named_columns(made):
    made({"my papers.csv.gz": gzip.compress(b"key,summary,topics\n1,one,a|b\n2,two,b\n3,three,a\n4,one,a\n")})
    path = made({}) / "my papers.csv.gz"
    reference = f"{path}?text=summary&labels=topics&separator=|&uid=key&test_share=0.5"
    dataset = load_dataset(reference)
    assert dataset.name == "my papers"
    assert sorted(dataset.labels) == ["a", "b"]
    assert sorted([*dataset.train.uids, *dataset.test.uids]) == ["1", "2", "3", "4"]
    assert "columns of my papers.csv.gz: uid=key, text=summary, labels=topics, separator=|" in dataset.notes
    with pytest.raises(UsageError, match=r"has no column 'subject' .*it has: key, summary, topics"):
        load_dataset(f"{path}?text=subject")
    with pytest.raises(UsageError, match=r'name it: "PLACE\?text=COLUMN&labels=COLUMN"; it has: key, summary, topics'):
        load_dataset(path)
    with pytest.raises(UsageError, match=r'has no labels \(name their column: "PLACE\?labels=COLUMN"; or put'):
        load_dataset(f"{path}?text=summary")
    with pytest.raises(UsageError, match="unknown option 'lables' of the layout tables.*did you mean 'labels'"):
        load_dataset(f"{path}?text=summary&lables=topics")


def test_a_skos_vocabulary(made):
    pytest.importorskip("rdflib")
    turtle = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://a/cup> a skos:Concept ; skos:prefLabel "a cup"@en, "kuppi"@fi .
<http://a/tea> a skos:Concept ; skos:prefLabel "tea"@en, "tee"@fi ; skos:altLabel "chai"@en .
"""
    files = {"subjects.ttl": turtle, **{name: text for name, text in ANNIF.items() if name != "vocabulary.tsv"}}
    folder = made(files)
    dataset = load_dataset(folder)
    assert [*dataset.labels] == ["a cup", "tea"]
    assert dataset.test_pairs().toarray().tolist() == [[1, 0]]
    assert [*load_dataset(f"{folder}?language=fi").labels] == ["kuppi", "tee"]
    with pytest.raises(DataError, match="has no preferred label in the language 'de'"):
        load_dataset(f"{folder}?language=de")
    made({"subjects.ttl": "@prefix"})
    with pytest.raises(DataError, match="is not SKOS"):
        load_dataset(folder)


def test_the_first_of_two_subjects_with_one_label_is_meant(made):
    files = {**FULL, "vocab.csv": FULL["vocab.csv"] + "http://a/mug,a cup,3\n"}
    assert load_dataset(made(files)).test_pairs().toarray().tolist() == [[0, 1, 0]]


def test_lines_without_a_tab_are_no_documents_of_annif(made):
    lines = ["one\t<http://a/cup>", "", "no subjects", "\t<http://a/tea>", "two\t", " ", "three"]
    dataset = load_dataset(made({**ANNIF, "test.tsv": lines}))
    assert ([*dataset.test], [*dataset.test.uids]) == (["one", "", "two"], ["0", "1", "2"])
    assert dataset.test_pairs().toarray().tolist() == [[0, 1], [1, 0], [0, 0]]
    assert dataset.found == ("2 lines of test.tsv left out: no tab",)
    blank = load_dataset(made({"test.tsv": ["one\t<http://a/cup>", "", ""]}))
    assert (len(blank.test), blank.found) == (1, ())
    with pytest.raises(DataError, match=r"test\.tsv, line 2: has no tab \(expected the text, a tab"):
        load_dataset(made({"test.tsv": ["", "one", "two"]}))


def test_a_subject_without_a_label_in_the_language_is_left_out(made):
    vocabulary = ["uri,label_en,label_fi", "http://a/tea,tea,tee", "http://a/x,,x", "http://a/cup,a cup,kuppi"]
    assert [*load_dataset(made({**FULL, "vocab.csv": vocabulary})).labels] == LABELS


def test_blank_lines_in_a_beir_corpus_move_no_judgment(made):
    first, second = LAYOUTS["beir"]["corpus.jsonl"]
    dataset = load_dataset(made({**LAYOUTS["beir"], "corpus.jsonl": [first, "", second]}))
    assert dataset.test_pairs().toarray().tolist() == [[0, 1]]


def test_judgments_of_what_is_not_in_the_corpus_are_left_out_with_a_note(made):
    judged = [*LAYOUTS["beir"]["qrels/test.tsv"], "3\tL9\t1", "", "2\tL9\t0", ""]
    dataset = load_dataset(made({**LAYOUTS["beir"], "qrels/test.tsv": judged}))
    assert [*dataset.test.uids] == ["3", "2"]
    assert dataset.test_pairs().toarray().tolist() == [[0, 1], [0, 0]]
    assert "2 judgments of test.tsv left out: not in the corpus" in dataset.found


def test_a_test_set_of_beir_is_kept_and_the_other_queries_are_for_training(made):
    files = {name: content for name, content in LAYOUTS["beir"].items() if name != "qrels/train.tsv"}
    dataset = load_dataset(made(files, "a"))
    assert ([*dataset.train.uids], [*dataset.test.uids]) == (["1", "2", "9"], ["3"])
    assert (dataset.train_pairs().nnz, dataset.test_pairs().toarray().tolist()) == (0, [[0, 1]])
    assert "the training instances are without pairs: 3 queries not in test.tsv" in dataset.found
    judged = [*files["qrels/test.tsv"], *(f"{uid}\tL1\t1" for uid in "129")]
    whole = load_dataset(made({**files, "qrels/test.tsv": judged}, "b"))
    assert len(whole.train) + len(whole.test) == 4
    assert any(note.startswith("there is one set of instances: 1 of 4 was drawn") for note in whole.found)


def test_queries_that_nobody_judges_are_counted(made):
    assert (
        "1 query of queries.jsonl left out: not in train.tsv or test.tsv"
        in load_dataset(made(LAYOUTS["beir"], "a")).found
    )
    alone = {name: content for name, content in LAYOUTS["beir"].items() if name != "qrels/test.tsv"}
    assert "2 queries of queries.jsonl left out: not in train.tsv" in load_dataset(made(alone, "b")).found


def test_judgments_that_are_missing_are_named(made):
    files = {name: content for name, content in LAYOUTS["beir"].items() if not name.startswith("qrels")}
    said = "no judgments: qrels/train.tsv and qrels/test.tsv are not there"
    assert said in load_dataset(made(files, "a")).found
    beside = load_dataset(made({**files, "qrels.tsv": LAYOUTS["beir"]["qrels/test.tsv"]}, "b"))
    assert f"{said}; not read: qrels.tsv" in beside.found
    for split in ("train", "test"):
        folder = made({**LAYOUTS["beir"], f"qrels/{split}.tsv": "query-id\tcorpus-id\tscore\n"}, split)
        with pytest.raises(DataError, match=rf"{split}\.tsv has no judgments \(remove it if nothing is judged"):
            load_dataset(folder)


def test_a_carriage_return_in_a_text_is_part_of_it(made):
    """Its lines are counted: a label matrix has one row for each."""
    folder = made({**LAYOUTS["xc-lines"], "trn_X.txt": "red\rtea\tA red tea.\r\na pot\n", "Y.txt": "tea\na\rcup\n"})
    dataset = load_dataset(folder)
    assert ([*dataset.train.titles], [*dataset.labels]) == (["red\rtea", "a pot"], ["tea", "a\rcup"])
    assert dataset.train_pairs().toarray().tolist() == [[1, 1], [0, 0]]


def test_documents_in_lines_that_end_with_a_carriage_return_are_refused(made):
    folder = made({**LAYOUTS["xc-lines"], "new.txt": "one\rtwo\rthree\r"})
    with pytest.raises(DataError, match=r"new\.txt, line 1: has a line end of CR alone"):
        load_dataset(f"{folder}?documents={folder / 'new.txt'}")


@pytest.mark.parametrize(
    "layout", ["xc", "maclr", "zestxml", "beir", "annif", "annif full", "tables csv", "tables jsonl"]
)
def test_two_byte_order_marks_are_no_part_of_a_file(made, layout):
    expected, folder = (load_dataset(made(LAYOUTS[layout], "plain")), made(LAYOUTS[layout], "marked"))
    for path in folder.rglob("*.*"):
        if path.suffix != ".gz" and path.parent.name != "raw":  # the first line of those is a text
            path.write_bytes(b"\xef\xbb\xbf" * 2 + path.read_bytes())
    dataset = load_dataset(folder)
    assert (dataset.digest, dataset.found) == (expected.digest, expected.found)


def test_a_text_may_begin_with_a_byte_order_mark(made):
    folder = made({**LAYOUTS["xc-lines"], "tst_X.txt": "\ufeff\ufeffgreen tea\n"})
    assert [*load_dataset(folder).test] == ["\ufeffgreen tea"]


def test_judgments_of_unknown_queries_are_noted(made):
    queries = [line for line in LAYOUTS["beir"]["queries.jsonl"] if '"9"' not in line]
    judged = LAYOUTS["beir"]["qrels/train.tsv"]
    files = {"corpus.jsonl": LAYOUTS["beir"]["corpus.jsonl"], "queries.jsonl": queries}
    folder = made({**files, "qrels/train.tsv": [*judged, "7\tL1\t1"]})
    assert "1 query of train.tsv is not in queries.jsonl" in load_dataset(folder).notes
    made({"qrels/train.tsv": [*judged, "7\tL1\t1", "8\tL1\t1"]})
    assert "2 queries of train.tsv are not in queries.jsonl" in load_dataset(folder).notes


def test_a_pair_of_relevance_0_is_none(made):
    files = {**LAYOUTS["maclr"], "all_pairs.txt": ["\ufeff3 L2 1.0", "3 L1 0.0", "3 L1 0"]}
    assert load_dataset(made(files)).test_pairs().toarray().tolist() == [[0, 1]]


def test_a_pair_of_negative_relevance_is_none_and_one_in_a_matrix_is(made):
    """A relevance is a judgment, which may be that a label is wrong; the entries of a label matrix are its pairs."""
    lines = {**LAYOUTS["text2text"], "training-data.txt": ["0:-1,1:1e-9\tred tea", "0:-0.0\ta pot"]}
    assert load_dataset(made(lines, "lines")).train_pairs().toarray().tolist() == [[0, 1], [0, 0]]
    matrix = {**LAYOUTS["xc-lines"], "trn_X_Y.txt": ["2 2", "0:-1 1:1", "0:0"]}
    assert load_dataset(made(matrix, "matrix")).train_pairs().toarray().tolist() == [[1, 1], [0, 0]]


def test_pairs_of_unknown_test_uids_are_noted(made):
    files = {**LAYOUTS["maclr"], "all_pairs.txt": ["3 L2 1", "03 L2 1"]}
    assert "1 test uid of all_pairs.txt is not in tst.json" in load_dataset(made(files)).notes


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_tables_beside_a_vocabulary_are_not_annifs(made, ending):
    """A vocabulary is only one of Annif where the texts are in its form: theirs named no column of labels."""
    rows = {
        "csv": "text,labels\na,b;c\n",
        "tsv": "text\tlabels\na\tb;c\n",
        "jsonl": '{"text": "a", "labels": ["b", "c"]}\n',
    }[ending]
    folder = made({f"train.{ending}": rows, f"test.{ending}": rows, "vocab.tsv": "<http://x>\tx\n"})
    dataset = load_dataset(folder)
    assert ([*dataset.labels], dataset.train_pairs().nnz) == (["b", "c"], 2)
    assert load_dataset(made({"subjects.csv": "uri,label_en\nu,x\n"})).digest == dataset.digest


def test_of_two_files_of_one_part_annif_takes_none(made):
    folder = made({"train.tsv": "a\t<u>\n", "train.jsonl": "", "test.tsv": "b\t<u>\n", "vocabulary.tsv": "<u>\tx\n"})
    with pytest.raises(DataError, match=r"set has train\.tsv and train\.jsonl: only one of them can be read"):
        load_dataset(folder)
    (folder / "train.jsonl").unlink()
    (folder / "train").mkdir()
    with pytest.raises(DataError, match=r"set has train\.tsv and train/: only one"):
        load_dataset(folder)


def test_a_column_named_as_the_labels_is_not_the_text_too(made):
    folder = made({"train.csv": "title,abstract,document\nt,x;y,d\nu,x,e\n", "test.csv": "title,abstract\nt,x\n"})
    dataset = load_dataset(f"{folder}?labels=abstract")
    assert ([*dataset.train.contents], [*dataset.test.contents]) == (["d", "e"], [""])
    assert [*dataset.labels] == ["x", "y"]
    other = made({"train.csv": "text,id\na,1\n", "test.csv": "text,id\na,1\n"}, "other")
    with pytest.raises(UsageError, match="has no text column"):
        load_dataset(f"{other}?labels=text")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("head", "lacks"),
    [
        ("text,tags", "labels"),
        ("a pot of tea,pot;tea", "text"),  # as `split -l` divides a file
        ("labels,text,more", None),
    ],
)
def test_a_shard_without_a_column_that_others_have_is_refused(made, ending, head, lacks):
    from pyarrow import csv, parquet

    folder = made({"train-0.csv": "text,labels\none,a\n", "test.csv": "text,labels\nt,b\n"})
    made({"train-1.csv": f"{head}\n{','.join('cell' for _ in head.split(','))}\n", "train-2.csv": f"{head}\n"})
    if ending == "parquet":
        for shard in folder.glob("train-*.csv"):
            parquet.write_table(csv.read_csv(shard), shard.with_suffix(".parquet"))
            shard.unlink()
    if lacks is None:
        assert [*load_dataset(folder).train] == ["one", "cell"]
    else:
        has = head.replace(",", ", ")
        said = rf"train-1\.{ending} has no column '{lacks}', which other shards have \(.*; it has: {has}\)"
        with pytest.raises(DataError, match=said):
            load_dataset(folder)


def test_a_shard_of_labels_without_their_other_names_is_refused(made):
    shards = {"labels-0.csv": "uid,title,alternatives\n1,tea,chai\n", "labels-1.csv": "uid,title\n2,pot\n"}
    folder = made({"train.csv": "text,labels\none,1\n", "test.csv": "text,labels\ntwo,2\n", **shards})
    with pytest.raises(DataError, match=r"labels-1\.csv has no column 'alternatives', which other shards have"):
        load_dataset(folder)


def test_rows_of_json_without_a_key_are_counted(made):
    rows = ['{"text": "one", "labels": ["a"]}', '{"text": "two", "label": ["b"]}', '{"text": "2", "labels": null}']
    folder = made({"train.jsonl": [*rows, '{"text": "four"}'], "test.json": ['{"text": "t", "labels": []}']})
    said = "no key 'labels' in 2 of 4 rows, the first in train.jsonl, line 2: read as empty"
    assert load_dataset(folder).notes[-1] == said
    made({"new.jsonl": ['{"text": "one"}', '{"txt": "two"}']}, "new")
    documents = load_dataset(f"{folder}?documents={folder.parent / 'new' / 'new.jsonl'}")
    assert documents.notes[-1] == "no key 'text' in 1 of 2 rows, the first in new.jsonl, line 2: read as empty"


def test_shards_with_the_digests_of_older_versions_are_read(made):
    name, sum_ = "train-0000{}-of-00002-{}.csv", "0123456789abcdef"
    folder = made({name.format(number, sum_): f"text,labels\n{number},b\n" for number in range(2)})
    made({"test.csv": "text,labels\nt,b\n", "train-small.csv": "text,labels\nsmall,b\n"})
    assert [*load_dataset(folder).train] == ["0", "1"]
    (folder / name.format(1, sum_)).unlink()
    with pytest.raises(DataError, match="set has 1 of 2 shards"):
        load_dataset(folder)


def test_unrelated_files_are_not_joined(made):
    row = "text,labels\na,b\n"
    folder = made({"train-small.csv": row, "train-large.csv": row, "test.csv": row})
    with pytest.raises(DataError, match=r"set has train-large\.csv and train-small\.csv: only one of them can be read"):
        load_dataset(folder)
    (folder / "train-large.csv").unlink()
    assert len(load_dataset(folder).train) == 1


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        ("xc", "trn.json.gz"),
        ("maclr", "all_pairs.txt"),
        ("pecos", "Y.trn.npz"),
        ("zestxml", "trn_X_Y.txt"),
        ("xc-lines", "Y.txt"),
        ("xc-lines", "filter_labels_test.txt"),
        ("beir", "qrels/test.tsv"),
        ("annif", "train.csv"),
        ("annif full", "train/a.txt"),
        ("annif full", "test/c.key"),
        ("llms4subjects", "GND-Subjects-all.json"),
        ("llms4subjects", "data/train/Article/en/3A1.jsonld"),
        ("tables csv", "test.csv"),
        ("tables jsonl", "train.jsonl"),
    ],
)
def test_a_pointer_of_git_lfs_is_named(made, layout, path):
    folder = made(LAYOUTS[layout])
    if layout == "pecos":
        pecos(folder)
    made({path: POINTER})
    with pytest.raises(DataError, match=rf"{path} is a Git LFS pointer, not the file itself \(.*git lfs pull\)"):
        load_dataset(folder)


def test_a_pointer_of_git_lfs_in_place_of_a_table_is_named(made, tmp_path):
    import pyarrow as pa

    made({"train.parquet": POINTER, "test.parquet": POINTER})
    with pytest.raises(DataError, match=r"train\.parquet is a Git LFS pointer"):
        load_dataset(tmp_path / "set")
    folder = save_table(made, "saved", ["train"], pa.table({"text": ["one"], "labels": ["a"]}))
    (folder / "train" / "data.arrow").write_text(POINTER)
    with pytest.raises(DataError, match=r"data\.arrow is a Git LFS pointer"):
        load_dataset(folder)


def test_a_row_without_labels_beside_one_with_labels_gets_none_from_the_pairs(made):
    """The labels are those of the lines if any line has one."""
    targets = {"3": [0], "4": []}
    tests = [json.dumps({"uid": uid, "title": "tea", "target_ind": labels}) for uid, labels in targets.items()]
    files = {**LAYOUTS["maclr"], "tst.json": tests, "all_pairs.txt": ["3 L1 1", "4 L2 1"]}
    dataset = load_dataset(made(files))
    assert dataset.test_pairs().toarray().tolist() == [[1, 0], [0, 0]]
    assert "all_pairs.txt lists other labels than tst.json for 1 test instance; it is not used" in dataset.found
