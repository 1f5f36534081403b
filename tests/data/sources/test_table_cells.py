"""Tables as other programs write them: what their cells hold, and of which type."""

import gzip
import json
import time

import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import DataError, XmcbenchError

ROWS = [{"text": "red tea", "labels": ["tea", "a cup"]}, {"text": "a pot", "labels": []}]
TEST = {"test.csv": "text,labels\ngreen tea,a cup\n"}


def parquet(path, columns):
    """Write a Parquet file with columns of any type."""
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), path)


def save(folder, columns, names=None):
    """A folder as `save_to_disk` writes it; names: of coded labels."""
    import pyarrow as pa

    features = {"labels": {"feature": {"names": names}}} if names else {}
    noted = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table(columns).replace_schema_metadata(noted)
    folder.mkdir()
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    with pa.OSFile(str(folder / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return folder


#: Labels of three instances as vectors of zeros and ones.
VECTORS = [[0, 1, 0], [1, 0, 1], [0, 0, 0]]

CELLS = {
    "json": [json.dumps(vector) for vector in VECTORS],
    "strings": [json.dumps([*map(str, vector)]) for vector in VECTORS],
    "spaces": [" ".join(map(str, vector)) for vector in VECTORS],
    "commas": [",".join(map(str, vector)) for vector in VECTORS],
    "separator": [";".join(map(str, vector)) for vector in VECTORS],
    "bare": ["".join(map(str, vector)) for vector in VECTORS],
    "two": ["[0, 1]", "[1, 0]", "[0, 1]"],
    "both": ["[1, 1]", "[1, 1]", "[1, 1]"],
    "some": ["", "[0, 1, 0]", " "],
}


@pytest.mark.parametrize("name", CELLS)
def test_vectors_in_cells_of_text_are_refused(made, name):
    rows = "".join(f'{row},"{cell.replace(chr(34), chr(34) * 2)}"\n' for row, cell in enumerate(CELLS[name]))
    folder = made({"train.csv": f"text,labels\n{rows}"})
    line = 3 if name == "some" else 2
    with pytest.raises(DataError, match=rf"train\.csv, line {line}: labels is .*, a vector of . zeros and ones as in"):
        load_dataset(folder / "train.csv")


def test_vectors_in_lists_are_refused(made, tmp_path):
    """Codes with names and without, labels in a table and not."""
    import pyarrow as pa

    lines = [json.dumps({"text": str(row), "labels": vector}) for row, vector in enumerate(VECTORS)]
    folder = made({"train.jsonl": lines, "train.json": f"[{','.join(lines)}]"})
    texts = ["a", "b", "c"]
    parquet(folder / "list.parquet", {"text": texts, "labels": VECTORS})
    fixed = pa.array(VECTORS, pa.list_(pa.int8(), 3))
    parquet(folder / "fixed.parquet", {"text": texts, "labels": fixed})
    places = [folder / name for name in ("train.jsonl", "train.json", "list.parquet", "fixed.parquet")]
    places.append(save(tmp_path / "codes", {"text": texts, "labels": fixed}))
    places.append(save(tmp_path / "names", {"text": texts, "labels": VECTORS}, ["tea", "cup", "pot"]))
    places.append(made({"train.jsonl": lines, "labels.csv": "uid,title\n0,tea\n1,cup\n"}, "table"))
    for place in places:
        with pytest.raises(
            DataError, match=r"line 1: labels is '\[0, 1, 0\]', a vector of 3 zeros and ones as in every"
        ):
            load_dataset(place)


@pytest.mark.parametrize("vector", [[0.0, 1.0], [False, True]])
def test_vectors_of_other_types_are_refused_with_the_same_way_out(made, vector):
    folder = made({"train.jsonl": [json.dumps({"text": "one", "labels": vector})], **TEST})
    with pytest.raises(
        DataError, match=r"which is not a label \(.*of a vector of zeros and ones, the labels at its ones"
    ):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["0", "1", "1"], ["0", "1"]),  # a label each
        (["[0, 1]", "[0, 1]", "[0, 1]"], ["0", "1"]),  # both labels
        (["[0, 1, 0]", "[2]", "[1, 0]"], ["0", "1", "2"]),
        (["[0]", "[0, 1]", "[]"], ["0", "1"]),
        (["[1, 0]", "[0, 1, 1]", ""], ["1", "0"]),
        (["0;1", "1", ""], ["0", "1"]),
        (["101", "110", "100"], ["101", "110", "100"]),  # numbers
        (["010", "011", "01"], ["010", "011", "01"]),
        (["10;01", "01;10", "00;11"], ["10", "01", "00", "11"]),
    ],
)
def test_zeros_and_ones_that_are_labels_are_read(made, cells, labels):
    rows = [json.dumps({"text": str(row), "labels": cell}) for row, cell in enumerate(cells)]
    assert [*load_dataset(made({"train.jsonl": rows, "test.csv": "text\none\n"})).labels] == labels


def test_codes_of_zeros_and_ones_with_a_table_of_labels_are_read(made):
    rows = ["text,labels", "one,001", "two,010"]
    folder = made({"train.csv": rows, "test.csv": rows, "labels.csv": ["uid,title", "001,tea", "010,a cup"]})
    assert [*load_dataset(folder).labels] == ["tea", "a cup"]


@pytest.mark.parametrize("cells", [["7.0", "8.0"], ["7", "", "8.0"], ["7.0;8.0", "nan"], ["-1.0", "7"]])
def test_integers_written_as_floats_are_refused_as_in_parquet(made, cells):
    """As pandas writes a column of which a value is missing: no label of this file was one of a file without gaps."""
    rows = ["text,labels", *(f"{row},{cell}" for row, cell in enumerate(cells))]
    folder = made({"train.csv": rows, "test.csv": ["text,labels", "one,7"]})
    first = next(cell for cell in cells if ".0" in cell).partition(";")[0]
    hint = r"in pandas, frame\['labels'\]\.astype\('Int64'\) writes -?\d;"
    with pytest.raises(DataError, match=rf"train\.csv, line \d: labels has '{first}', which is not a label .*{hint}"):
        load_dataset(folder)


@pytest.mark.parametrize("cells", [["7.0", "8.0", "beta"], ["1.5", "2.0"], ['"[""7.0""]"', '"[""8.0""]"']])
def test_versions_and_other_numbers_are_labels(made, cells):
    rows = ["text,labels", *(f"{row},{cell}" for row, cell in enumerate(cells))]
    assert len(load_dataset(made({"train.csv": rows, "test.csv": ["text,labels", "one,7"]})).labels) == len(cells) + 1


def test_missing_values_as_pandas_prints_them_are_noted(made):
    rows = ["text,labels", "one,a", "two,nan", "three,NaN", "four,None;a", "five,nanometer"]
    folder = made({"train.csv": rows, "test.csv": ["text,labels", "six,a"]})
    dataset = load_dataset(folder)
    assert [*dataset.labels] == ["a", "nan", "NaN", "None", "nanometer"]
    said = "3 rows of train.csv have the label 'nan', 'NaN' or 'None': if that means no label, leave the cell empty"
    assert dataset.notes[-1] == said
    table = {"labels.csv": ["uid,title", "a,tea", "none,nothing"]}
    listed = made({"train.csv": "text,labels\none,none\n", "test.csv": "text,labels\ntwo,a\n", **table}, "listed")
    assert not [note for note in load_dataset(listed).notes if "leave the cell" in note]


@pytest.mark.parametrize(
    "cell",
    [
        "{'fruit', 'food'}",
        '{"fruit"}',
        "{1, 2}",
        "{'fruit': 1}",
        "{}",
        "{fruit,food}",  # PostgreSQL
        "('fruit', 'food')",
        "('fruit',)",
        '("fruit", "food")',
        " (1, 2) ",
        "(1,)",
        "()",
        "set()",
        "frozenset({'fruit'})",
        "array(['fruit', 'food'], dtype=object)",
        "dict_keys(['fruit'])",
    ],
)
def test_a_container_as_python_prints_it_is_an_error(made, cell):
    folder = made(
        {"train.jsonl": [json.dumps({"text": "one", "labels": labels}) for labels in ("fruit", cell)], **TEST}
    )
    hint = r'line 2: labels is .*, which is not a JSON list \(write \["a", "b"\] or a;b; a single label in brackets is'
    with pytest.raises(DataError, match=hint):
        load_dataset(folder)


@pytest.mark.parametrize("start", ["('x'", "(1,"])
def test_a_label_of_many_spaces_takes_no_longer_than_another(made, start):
    cell = f"{start}{' ' * 100_000}b)"
    made({"train.jsonl": [json.dumps({"text": "one", "labels": labels}) for labels in ("fruit", cell)], **TEST})
    start_s = time.perf_counter()
    assert load_dataset(made({})).labels[1] == cell
    assert time.perf_counter() - start_s < 10


def test_parentheses_and_braces_in_a_label_are_part_of_it(made):
    labels = [
        "(R)-carvone (oil)",
        "(1)",
        "('Round Midnight",
        "(1,3)-glucan",
        "poly((R)-3-hydroxybutyrate)",
        "set (mathematics)",
        "{x} and y",
    ]
    quoted = ["{x}", "('a', 'b')", "set()"]
    rows = [json.dumps({"text": "one", "labels": labels}) for labels in (*labels, json.dumps(quoted))]
    assert [*load_dataset(made({"train.jsonl": rows, **TEST})).labels] == [*labels, *quoted, "a cup"]


def types():
    """The types that Arrow has for texts, and for lists of them."""
    import pyarrow as pa

    texts = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
    lists = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
    return [(text, kind(text)) for text in texts for kind in lists]


@pytest.mark.parametrize(("text", "labels"), types(), ids=str)
def test_a_text_is_one_whatever_its_type_is(made, tmp_path, monkeypatch, text, labels):
    import pyarrow as pa

    monkeypatch.setattr("xmcbench.data.sources.arrow_tables._ROWS", 3)

    expected = load_dataset(made({"train.jsonl": [json.dumps(row) for row in ROWS]}, "expected") / "train.jsonl")
    long = "which is longer than the twelve bytes that a view holds itself"
    columns = {
        "text": pa.array([row["text"] for row in ROWS] * 2 + [long], text),
        "labels": pa.array([row["labels"] for row in ROWS] * 2 + [[long]], labels),
    }
    places = [save(tmp_path / "saved", columns)]
    if "view" not in str(labels).partition("<")[0]:  # which Parquet does not have
        parquet(tmp_path / "train.parquet", columns)
        places.append(tmp_path / "train.parquet")
    for place in places:
        dataset = load_dataset(place)
        assert [*dataset.labels] == [*expected.labels, long]
        titles = [*dataset.train.titles, *dataset.test.titles]
        assert {*titles} == {"red tea", "a pot", long}
        assert len(titles) == 5
        assert dataset.train_pairs().nnz + dataset.test_pairs().nnz == 5


def test_bytes_that_are_no_text_are_an_error(made):
    folder = made({"labels.csv": "uid,title\na,tea\n"})
    for columns in ({"text": [b"\xff"], "labels": ["a"]}, {"text": ["one"], "labels": [[b"a", b"\xff"]]}):
        parquet(folder / "train.parquet", columns)
        with pytest.raises(DataError, match=r"train\.parquet, line 1: (text|labels) is not UTF-8"):
            load_dataset(folder)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
@pytest.mark.parametrize("kind", ["lines", "array", "indented"])
def test_a_json_file_is_json_lines_or_an_array(made, ending, kind):
    lines = "\n".join(json.dumps(row) for row in ROWS)
    expected = load_dataset(made({"train.jsonl": lines, **TEST}, "expected"))
    texts = {"lines": lines, "array": json.dumps(ROWS), "indented": f"\ufeff\n {json.dumps(ROWS, indent=1)}\n"}
    content = texts[kind].encode()
    folder = made({f"train{ending}": gzip.compress(content) if ending.endswith("gz") else content, **TEST})
    assert load_dataset(folder).digest == expected.digest
    assert load_dataset(folder / f"train{ending}").name == "train"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "one"}, 3]', r"train\.json, line 2: is not a JSON object \(.*or an array of objects"),
        ("[[]]", r"train\.json, line 1: is not a JSON object"),
        ('[{"text": "one"}', r"train\.json, line 1: is not JSON"),
        ("[" * 99_999, r"train\.json, line 1: is not JSON"),
        (b"[\xff]", r"train\.json, line 1: is not JSON"),
        ('{"text":\n"one"}', r"train\.json, line 1: is not JSON"),
        ("[]", r"train\.json is empty"),
        ("", r"train\.json is empty"),
        ('[{"text": "a", "uid": "1", "labels": "b"}, {"text": "c", "uid": "1"}]', r"line 2: duplicate uid '1'"),
    ],
)
def test_a_broken_json_file_is_one_error_with_the_number_of_the_row(made, content, message):
    with pytest.raises(DataError, match=message):
        load_dataset(made({"train.json": content, **TEST}))


def test_a_large_array_is_refused(made, monkeypatch):
    monkeypatch.setattr("xmcbench.data.sources.records._ARRAY", 100)
    folder = made({"train.json": json.dumps(ROWS * 10), **TEST})
    with pytest.raises(DataError, match=r"cannot read .*train\.json: an array, which is read at once, takes more than"):
        load_dataset(folder)
    monkeypatch.setenv("XMCBENCH_MAX_UNPACKED", "1")
    assert len(load_dataset(folder).train) == 20


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_tables_in_a_form_that_annif_does_not_have_are_read_beside_a_vocabulary(made, ending):
    folder = made({"vocabulary.tsv": "<http://a>\ta\n", "train.json": json.dumps(ROWS), "test.json": json.dumps(ROWS)})
    if ending == "parquet":
        for name in ("train", "test"):
            parquet(folder / f"{name}.parquet", {key: [row[key] for row in ROWS] for key in ROWS[0]})
            (folder / f"{name}.json").unlink()
    assert [*load_dataset(folder).labels] == ["tea", "a cup"]


def test_an_index_without_a_name_is_the_content_of_nothing(made):
    """As ``to_csv`` of pandas writes it: a role without a column read the column with the empty name."""
    train, labels = ",title,labels\n0,red car,car\n1,blue bike,bike\n", ",uid,text\n0,car,a car\n1,bike,a bike\n"
    dataset = load_dataset(made({"train.csv": train, "test.csv": train, "labels.csv": labels}))
    assert [*dataset.train] == ["red car", "blue bike"]
    assert ([*dataset.labels], dataset.labels.details) == (["a car", "a bike"], {})


@pytest.mark.parametrize(
    ("header", "texts", "carried", "named"),
    [
        ("uid,title,content", ["car"], ["a thing with wheels"], None),
        ("id,label,content", ["car"], ["a thing with wheels"], "label"),
        ("id,name,abstract", ["car"], None, "name"),
        ("id,label,text", ["a thing with wheels"], None, "text"),
        ("id,caption,content", ["a thing with wheels"], None, "content"),
    ],
)
def test_the_text_of_labels_is_their_title_or_a_note_says_what(made, header, texts, carried, named):
    labels = f"{header}\n1,car,a thing with wheels\n"
    dataset = load_dataset(made({"train.csv": "text,labels\none,1\ntwo,1\n", "labels.csv": labels}))
    assert [*dataset.labels] == texts
    assert ([*dataset.labels.contents] if dataset.labels.details else None) == carried
    said = [note for note in dataset.notes if "text of labels" in note]
    assert said == ([f"the text of labels is the column {named} of labels.csv"] if named else [])


def test_a_cell_of_many_lines_beyond_the_limit_names_the_flag(made, monkeypatch):
    monkeypatch.setattr("xmcbench.data.sources.records.LINE", 100)
    folder = made({"train.csv": f'text,labels\n"{"a line" * 5}\n{"of it " * 15}",a\n', **TEST})
    said = r"train\.csv, line 3: has a cell of more than 100 characters \(--max-unpacked 1 raises the limit\)"
    with pytest.raises(DataError, match=said):
        load_dataset(folder)
    monkeypatch.setenv("XMCBENCH_MAX_UNPACKED", "1")
    assert len(load_dataset(folder).train) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "id;text;labels\n1;tea;cup\n", r"no text column .*; it has: id;text;labels; its columns seem"),
        ("a.csv", "id;text;labels\n1;tea, red;cup\n", r"line 2: has 2 cells \(the header has 1; its columns seem"),
        ("a.csv", "id\ttext\tlabels\n1\ttea\tcup\n", r"no text column .* seem divided by tabs: write it with commas"),
        ("a.csv?text=text", "id;text\n1;tea\n", r"no column 'text' .* seem divided by semicolons: write"),
        ("a.tsv", "id,text,labels\n1,tea,cup\n", r"no text column .* seem divided by commas: write it with tabs\)"),
    ],
)
def test_columns_that_another_sign_divides_are_told(made, name, content, said):
    folder = made({name.partition("?")[0]: content})
    with pytest.raises(XmcbenchError, match=said):
        load_dataset(f"{folder}/{name}")


def test_a_single_column_with_a_plain_name_is_told_nothing_of_signs(made):
    folder = made({"a.csv": "words\ntea\n"})
    with pytest.raises(XmcbenchError, match=r"it has: words\)$"):
        load_dataset(folder / "a.csv")
