"""RDF that is small, and takes its parser hours."""

from pathlib import Path

import pytest

from xmcbench.data.sources.vocabulary import check_literals, read_vocabulary
from xmcbench.errors import DataError

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
