"""Corpora and vocabularies of Annif, as Annif reads them; and small RDF that takes its parser hours."""

import gzip
from pathlib import Path

import pytest

from xmcbench.data import load_dataset
from xmcbench.data.sources.vocabulary import check_literals, read_vocabulary
from xmcbench.errors import DataError

VOCABULARY = ["<http://a/tea>\ttea", "<http://a/cup>\ta cup"]
SHORT = {"train.tsv": ["red tea\t<http://a/tea> <http://a/cup>"], "test.tsv": ["green tea\t<http://a/cup>"]}

#: A thesaurus with what is no subject, and with several labels of a concept, in an order that says nothing.
TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
<http://a/> a skos:ConceptScheme ; skos:prefLabel "things"@en .
<http://a/all> a skos:Collection ; skos:prefLabel "all things"@en ; skos:member <http://a/tea> .
<http://a/bare> skos:prefLabel "of no class"@en .
<http://a/old> a skos:Concept ; skos:prefLabel "mug"@en ; owl:deprecated true .
<http://a/new> a skos:Concept ; skos:prefLabel "pot"@en ; owl:deprecated false .
<http://a/tea> a skos:Concept ; skos:prefLabel "thé"@fr, "tee", "tea"@en, "char"@en, "Tee"@de .
<http://a/cup> a skos:Concept ; skos:prefLabel "tasse"@fr, "cup", "Tasse"@de .
<http://a/jug> a skos:Concept ; skos:prefLabel "Krug"@de, "broc"@fr .
<http://a/dumb> a skos:Concept ; skos:altLabel "unnamed"@en .
"""


def thesaurus(suffix):
    """The thesaurus in the syntax of a suffix."""
    from rdflib import Graph

    syntax = {".ttl": "turtle", ".rdf": "xml", ".nt": "nt"}[suffix]
    return Graph().parse(data=TURTLE, format="turtle").serialize(format=syntax)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.csv", "text,subjects_uris\nred tea,<http://a/tea>\n"),
        ("train.jsonl", ['{"text": "red tea", "subject": [{"uri": "http://a/tea"}]}']),
    ],
)
def test_documents_without_a_column_of_subjects_are_told(made, name, content):
    folder = made({"test.tsv": SHORT["test.tsv"], "vocabulary.tsv": VOCABULARY, name: content})
    dataset = load_dataset(folder)
    assert dataset.train_pairs().nnz == 0
    key = "subject_uris" if name.endswith("csv") else "subjects"
    assert dataset.found == (f"no pairs: no row of {name} has {key}",)


@pytest.mark.parametrize("name", ["train.jsonl", "train/a.json"])
def test_a_document_without_a_text_is_refused(made, name):
    text = '{"title": "red tea", "abstract": "A red tea.", "metadata": {"year": "1"}, "subjects": [{"uri": "http://a/tea"}]}'
    folder = made({"test.tsv": SHORT["test.tsv"], "vocabulary.tsv": VOCABULARY, name: text})
    said = rf"{name}, line 1: there is no key 'text' \(there are: title, abstract, metadata, subjects\)"
    with pytest.raises(DataError, match=said):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("document", "read"),
    [
        ('{"title": "red tea", "text": "A red tea."}', "red tea\tA red tea."),  # as in CSV
        ('{"title": "a", "text": "A red tea.", "metadata": {"title": "red tea"}}', "red tea\tA red tea."),
        ('{"metadata": {"title": "red tea"}}', "red tea"),
        ('{"metadata": {"title": 3}, "title": "", "text": "red tea"}', "red tea"),
        ('{"text": ""}', ""),
    ],
)
def test_a_title_is_in_the_metadata_or_beside_the_text(made, document, read):
    folder = made({"test.tsv": SHORT["test.tsv"], "vocabulary.tsv": VOCABULARY, "train.jsonl": document})
    assert [*load_dataset(folder).train] == [read]


@pytest.mark.parametrize("suffix", [".ttl", ".rdf", ".nt", ".ttl.gz", ".rdf.gz", ".nt.gz"])
def test_a_thesaurus_is_the_same_in_every_syntax(made, suffix):
    pytest.importorskip("rdflib")
    text = thesaurus(suffix.removesuffix(".gz"))
    folder = made({**SHORT, f"vocabulary{suffix}": gzip.compress(text.encode()) if suffix.endswith(".gz") else text})
    dataset = load_dataset(folder)
    assert dict(zip(dataset.labels.uids, dataset.labels.titles, strict=True)) == {
        "http://a/cup": "cup",  # without a language, as there is none in English
        "http://a/jug": "Krug",  # in any language, the first by its tag
        "http://a/new": "pot",
        "http://a/tea": "char",  # of two in one language, the first
    }
    name = f"vocabulary{suffix}"
    assert dataset.found == (
        f"2 subjects of {name} left out: deprecated, or without a label",
        f"1 label of {name} in another language than 'en', in which their concepts have none; "
        "?language=LANGUAGE chooses one",
    )
    french = load_dataset(f"{folder}?language=FR").labels
    assert [*french.titles] == ["tasse", "broc", "pot", "thé"]


#: A concept with labels of two regions and of no region of a language, and with other names of each.
REGIONS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://a/color> a skos:Concept ; skos:prefLabel "colour"@en-GB, "color"@en-us, "Farbe"@de ;
    skos:altLabel "hue"@en, "tint"@en-GB, "kleur"@nl, "shade" .
<http://a/tea> a skos:Concept ; skos:prefLabel "tea"@en, "cuppa"@en-GB, "Ente"@ent .
<http://a/pot> a skos:Concept ; skos:prefLabel "pot"@en, "Topf"@de .
"""


@pytest.mark.parametrize(
    ("language", "labels", "names"),
    [
        ("", ["colour", "pot", "tea"], ["hue", "shade", "tint"]),  # en-GB is English
        ("?language=en-gb", ["colour", "pot", "cuppa"], ["hue", "shade", "tint"]),  # else en
        ("?language=en-US", ["color", "pot", "tea"], ["hue", "shade"]),
        ("?language=en-GB-oxendict", ["colour", "pot", "cuppa"], ["hue", "shade", "tint"]),
    ],
)
def test_a_language_has_its_regions(made, language, labels, names):
    pytest.importorskip("rdflib")
    dataset = load_dataset(f"{made({**SHORT, 'vocabulary.ttl': REGIONS})}{language}")
    assert [*dataset.labels] == labels
    assert sorted(dataset.labels.alternatives[0]) == names
    assert not [note for note in dataset.notes if "language" in note]


def test_a_language_is_not_one_whose_name_begins_like_it(made):
    pytest.importorskip("rdflib")
    folder = made({**SHORT, "vocabulary.ttl": REGIONS})
    with pytest.raises(DataError, match="has no preferred label in the language 'e'"):
        load_dataset(f"{folder}?language=e")
    found = load_dataset(f"{folder}?language=ent").found
    assert [*load_dataset(f"{folder}?language=ent").labels][-1] == "Ente"
    assert found[0].startswith("2 labels of vocabulary.ttl in another language than 'ent'")


def test_the_order_of_triples_changes_no_label(made):
    pytest.importorskip("rdflib")
    lines = thesaurus(".nt").splitlines()
    labels = [
        [*load_dataset(made({**SHORT, "vocabulary.nt": order}, f"set{number}")).labels]
        for number, order in enumerate((lines, lines[::-1], sorted(lines)))
    ]
    assert labels[0] == labels[1] == labels[2]


def test_a_document_with_a_deprecated_subject_keeps_the_others(made):
    vocabulary = ["<http://a/old>", *VOCABULARY, "<http://a/older>\t", "<http://a/oldest>\t \t1.1"]
    subjects = "<http://a/old> <http://a/cup> <http://a/oldest> <http://a/unknown>"
    dataset = load_dataset(made({**SHORT, "vocabulary.tsv": vocabulary, "test.tsv": [f"green tea\t{subjects}"]}))
    assert [*dataset.labels] == ["tea", "a cup"]
    assert dataset.train_pairs().toarray().tolist() == [[1, 1]]
    assert dataset.test_pairs().toarray().tolist() == [[0, 1]]
    assert dataset.found == (
        "3 subjects of vocabulary.tsv left out: deprecated, or without a label",
        "1 subject of test.tsv left out: not in the vocabulary",
        "2 subjects of test.tsv left out: deprecated in the vocabulary, or without a label there",
    )


def test_a_vocabulary_in_which_no_concept_has_a_label_is_refused(made):
    pytest.importorskip("rdflib")
    text = TURTLE.replace("skos:Concept ", "skos:Collection ")
    with pytest.raises(DataError, match=r"vocabulary\.ttl has no skos:Concept with a skos:prefLabel"):
        load_dataset(made({**SHORT, "vocabulary.ttl": text}))


#: The subjects of one text, red tea: each gives both labels.
SUBJECTS = {
    "a.key": ["<http://a/tea>\ttea", "", "<http://a/cup>\ta cup"],
    "a.tsv": ["<http://a/tea>", "http://a/cup\ta cup"],
    "a.tsv.gz": gzip.compress(b"tea\n<http://a/cup>\tanother name of it\n"),
    "a.key.gz": gzip.compress("\ufefftea\r\na cup\r\n".encode()),
    "b.key": ["tea", "<http://a/cup>"],
    "b.tsv": ["tea", "\ta cup\t"],
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_line_of_subjects_is_a_uri_or_a_label_in_every_file(made, name):
    text = {"a.txt": "red tea\nA red tea.\n", "b.txt.gz": gzip.compress(b"red tea\nA red tea.\n")}
    document = next(path for path in text if path[0] == name[0])
    files = {f"train/{document}": text[document], f"train/{name}": SUBJECTS[name], "vocabulary.tsv": VOCABULARY}
    dataset = load_dataset(made({**files, "test.tsv": SHORT["test.tsv"]}))
    assert ([*dataset.train.titles], [*dataset.train.contents]) == (["red tea"], ["A red tea."])
    assert [*dataset.train.uids] == [name[0]]
    assert dataset.train_pairs().toarray().tolist() == [[1, 1]]
    assert dataset.found == ()


def test_texts_and_json_documents_of_a_folder_are_read_together(made):
    whole = '{"text": "green tea",\n "metadata": {"title": "Tea"},\n "subjects": [{"uri": "http://a/cup"}, %s]}'
    files = {
        "vocabulary.tsv": VOCABULARY,
        "train/1.txt": "red tea",
        "train/1.key": ["tea"],
        "train/2.json": whole % '{"label": "tea"}',
        "train/3.json.gz": gzip.compress((whole % '{"uri": "<http://a/tea>"}').encode()),
        "train/4.json": '{"document_id": "four", "text": "a pot"}',
        "train/5.txt": "of no subject",
        "train/6.key": ["tea"],
        "test.tsv": SHORT["test.tsv"],
    }
    dataset = load_dataset(made(files))
    assert [*dataset.train.uids] == ["1", "2", "3", "four", "5"]
    assert [*dataset.train] == ["red tea", "Tea\tgreen tea", "Tea\tgreen tea", "a pot", "of no subject"]
    assert dataset.train_pairs().toarray().tolist() == [[1, 0], [1, 1], [1, 1], [0, 0], [0, 0]]
    assert dataset.found == ("1 file of subjects in train left out: without a text",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", r"a\.json, line 1: is not JSON"),
        ("a.json", "[]", r"a\.json, line 1: is not a JSON object"),
        ("a.json", '{"text": "x", "subjects": [7]}', r"a\.json, line 1: subjects is not a list of objects"),
        ("a.json", b"\xff", r"cannot read .*a\.json: .* \(full texts are in UTF-8\)"),
        ("a.json", '{"text": "x", "document_id": "b"}', r"b\.txt, line 1: duplicate uid 'b', first in a\.json, line 1"),
        ("a.txt.gz", "plain", r"a\.txt\.gz is damaged or not a gzip file"),
        ("a.pdf", "", r"train has no \.txt or \.json file"),
    ],
)
def test_a_broken_document_is_one_error_that_names_its_file(made, name, content, message):
    beside = {} if name == "a.pdf" else {"train/b.txt": "one"}
    folder = made({**beside, f"train/{name}": content, "vocabulary.tsv": VOCABULARY, "test.tsv": SHORT["test.tsv"]})
    with pytest.raises(DataError, match=message):
        load_dataset(folder)


def test_a_text_that_is_too_large_is_refused(made, monkeypatch):
    monkeypatch.setattr("xmcbench.data.text_files.DOCUMENT", 5)
    folder = made({"train/a.txt": "red tea", "vocabulary.tsv": VOCABULARY, "test.tsv": SHORT["test.tsv"]})
    with pytest.raises(DataError, match=r"cannot read .*a\.txt: it takes more than the limit"):
        load_dataset(folder)
    monkeypatch.setenv("XMCBENCH_MAX_UNPACKED", "1")
    assert [*load_dataset(folder).train] == ["red tea"]


def test_json_lines_may_name_subjects_by_uri_and_by_label(made):
    subjects = (
        '[{"uri": "http://a/tea"}, {"label": "a cup"}, {"uri": "http://a/gone", "label": "a cup"}, {"label": "x"}]'
    )
    lines = [f'{{"text": "red tea", "subjects": {subjects}}}', '{"text": "a pot", "subjects": [{"label": "tea"}]}']
    dataset = load_dataset(made({"vocabulary.tsv": VOCABULARY, "train.jsonl": lines, "test.tsv": SHORT["test.tsv"]}))
    assert dataset.train_pairs().toarray().tolist() == [[1, 1], [1, 0]]
    assert dataset.found == ("2 subjects of train.jsonl left out: not in the vocabulary",)


LABEL = "<http://www.w3.org/2004/02/skos/core#prefLabel>"
RDF = """<?xml version="1.0" encoding="{encoding}"?>{dtd}
<rdf:RDF xmlns:skos="http://www.w3.org/2004/02/skos/core#"
xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">{before}
<skos:Concept rdf:about="http://a/1"><skos:prefLabel>{label}</skos:prefLabel></skos:Concept></rdf:RDF>"""
LIMIT = 64 << 10
BLANK = "\n" * LIMIT


def rdf(label="tea", before="", dtd="", encoding="UTF-8"):
    return RDF.format(label=label, before=before, dtd=dtd, encoding=encoding)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("vocabulary.rdf", rdf("&e;", dtd='\n<!DOCTYPE x [<!ENTITY e "tea">]>'), "line 2: has a DTD"),
        ("vocabulary.rdf", rdf("tea", dtd='\n<!DOCTYPE x SYSTEM "file:///etc/passwd">'), "line 2: has a DTD"),
        ("vocabulary.rdf", rdf("\n" * (LIMIT + 1)), "has a literal of more than 64 KiB"),
        ("vocabulary.rdf", rdf(before=f"<skos:n rdf:parseType='Literal'>{'<a/>' * 1025}</skos:n>"), "has a literal"),
        ("vocabulary.nt", f'#\n<http://a/1> {LABEL} "{"x" * LIMIT}" .\n', "line 2: has a literal of more than 64 KiB"),
        ("vocabulary.nt", "#" * (LIMIT + 1), "line 1: has a literal"),
        ("vocabulary.ttl", f'#"""\n<http://a/1> {LABEL} """{BLANK}""" .', "line 2: has a literal"),
        ("vocabulary.ttl", f"<http://a/'> {LABEL} '''{BLANK}", "line 1: has a literal"),
        ("vocabulary.ttl", f'<http://a/1> {LABEL} """{BLANK}"', "line 1: has a literal"),
        ("vocabulary.ttl", f'<http://a/1> {LABEL} "{"x" * LIMIT}" .', "line 1: has a literal"),
    ],
)
def test_what_has_no_bound_is_refused_before_it_is_parsed(tmp_path, monkeypatch, name, content, problem):
    pytest.importorskip("rdflib")
    monkeypatch.setattr("rdflib.Graph.parse", None)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=problem):
        [*read_vocabulary(tmp_path / name, "en")]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_a_dtd_is_found_in_every_encoding(encoding):
    content = rdf(dtd="<!DOCTYPE x>", encoding=encoding).encode(encoding)
    with pytest.raises(DataError, match="has a DTD"):
        check_literals(Path("x"), content, "xml")


def test_an_encoding_that_is_not_that_of_the_file_hides_no_dtd():
    with pytest.raises(DataError, match="is not SKOS in the syntax of its suffix"):
        check_literals(Path("x"), rdf(dtd="<!DOCTYPE x>", encoding="UTF-16").encode(), "xml")


@pytest.mark.parametrize(
    ("syntax", "content"),
    [
        ("xml", rdf(before=f"<!--{'c' * LIMIT}-->" + "<skos:note>two words</skos:note>\n" * 9000)),
        ("xml", rdf(before=f"<skos:n rdf:parseType='Collection'>{'<skos:Concept/>' * 9000}</skos:n>")),
        ("xml", rdf(before="<skos:n rdf:parseType='Literal'><a>b</a></skos:n>" * 9000)),
        ("nt", f'<http://a/1> {LABEL} "{"x" * 60000}" .\r' * 3),
        ("turtle", f"# it's {'c' * LIMIT}\n" + f'<http://a/#"{"x" * LIMIT}> {LABEL} "a\\"b", "", """c"d""" .\n' * 3),
    ],
)
def test_long_files_of_short_literals_are_not_refused(syntax, content):
    check_literals(Path("x"), content.encode(), syntax)


def test_a_failed_allocation_is_not_taken_for_another_syntax(tmp_path, monkeypatch):
    pytest.importorskip("rdflib")

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("rdflib.Graph.parse", fail)
    (tmp_path / "vocabulary.nt").write_text("")
    with pytest.raises(MemoryError):
        [*read_vocabulary(tmp_path / "vocabulary.nt", "en")]
