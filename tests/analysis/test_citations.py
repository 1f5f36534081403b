"""`xmcbench cite`: the entries that come with xmcbench agree with the rest of it, and what was used is cited."""

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from xmcbench import __version__
from xmcbench.analysis.citations import cite, read_references
from xmcbench.data import known_datasets
from xmcbench.errors import DataError
from xmcbench.leaderboard.published import sources
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store

ROOT = Path(__file__).parents[2]
REFERENCES = read_references(ROOT / "leaderboards" / "published" / "references.bib")
#: Methods of no publication.
UNCITED = {"knn"}
HYBRID = {"parts": "tfidf,ict:small"}

OWN = """
    from xmcbench import Method

    class Own(Method):
        def fit(self, raw_X, raw_Y, pairs=None): ...
"""


def field(reference, name):
    return re.search(rf"^  {name} = {{(.*)}},$", reference.bibtex, re.MULTILINE)[1]


def keys(ended):
    assert ended.returncode == 0, ended.stderr
    return re.findall(r"^@\w+{(.*),$", ended.stdout, re.MULTILINE)


def test_every_method_and_every_dataset_is_cited():
    methods, datasets = {entry.name for entry in Registry()}, {listing.slug for listing in known_datasets()}
    assert {*cite([*methods, *datasets]).missing} == UNCITED
    assert {name for reference in REFERENCES for name in reference.names} <= {"xmcbench", *methods, *datasets}


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.key)
def test_an_entry_is_whole(reference):
    assert reference.names
    assert reference.bibtex.count("{") == reference.bibtex.count("}")
    assert all(field(reference, name) for name in ("title", "author", "year"))
    assert "keywords" not in reference.bibtex


def test_xmcbench_is_cited_as_its_citation_file_says():
    (itself,) = [reference for reference in REFERENCES if reference.key == "xmcbench"]
    said = dict(re.findall(r"^(\S+): \"?(.*?)\"?$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    (author,) = re.findall(r'^  - name: "(.*)"$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert field(itself, "title") == said["title"]
    assert field(itself, "author") == f"{{{author}}}"
    assert field(itself, "year") == said["date-released"][:4]
    assert field(itself, "note") == f"Version {said['version']}" == f"Version {__version__}"


def test_publications_with_figures_are_cited_as_there():
    entries = {reference.key: reference.bibtex for reference in REFERENCES}
    shared = [source for source in sources() if source.key in entries]
    assert shared
    for source in shared:
        assert entries[source.key] == source.bibtex


@pytest.mark.skipif(shutil.which("bibtex") is None, reason="no bibtex: apt-get install texlive-binaries")
def test_bibtex_takes_every_entry(tmp_path):
    every = cite([*(entry.name for entry in Registry()), *(listing.slug for listing in known_datasets())])
    (tmp_path / "all.bib").write_text(str(every))
    (tmp_path / "paper.aux").write_text("\\citation{*}\n\\bibstyle{plain}\n\\bibdata{all}\n")
    ended = subprocess.run(["bibtex", "paper"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, "arning" in ended.stdout) == (0, False), ended.stdout
    assert (tmp_path / "paper.bbl").read_text().count("\\bibitem") == len(every.references) > len(REFERENCES)


def test_a_card_is_cited_without_commands_of_latex(tmp_path, monkeypatch):
    (tmp_path / "odd").mkdir()
    card = (
        'name = "Odd_1"\nslug = "odd"\nsource = "100% of {it}"\nrelease = "2"\nhomepage = "https://example.org/a }b"\n'
    )
    (tmp_path / "odd" / "card.toml").write_text(card)
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path))
    _, entry = cite(["odd"]).references
    assert field(entry, "title") == r"{Odd\_1}"
    assert field(entry, "note") == r"100\% of \{it\}; 2"
    assert field(entry, "howpublished") == r"\url{https://example.org/a%20%7Db}"


def test_the_source_of_a_dataset_is_cited_in_any_case(tmp_path, monkeypatch):
    (tmp_path / "half").mkdir()
    derived = '[derive]\nfrom = "ZestXML"\nlabels = 2\nseed = 0\n'
    (tmp_path / "half" / "card.toml").write_text(f'name = "Half"\nslug = "half"\n{derived}')
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path))
    assert [reference.key for reference in cite(["half"]).references] == ["xmcbench", "gupta2021generalized"]


def test_references_of_plugins(tmp_path):
    """Windows' line ends are read, and two works under one key are refused."""
    entry = "@article{{key,\r\n  title = {{{title}}},\r\n  keywords = {{{name}}},\r\n}}\r\n"
    for name, title in (("one", "First"), ("two", "First"), ("three", "Another")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "references.bib").write_bytes(entry.format(name=name, title=title).encode())
    one, two, three = (tmp_path / name / "method.py" for name in ("one", "two", "three"))
    cited = cite(["one", "two"], [one, two])
    assert cited.missing == ()
    assert [(reference.key, reference.names) for reference in cited.references[1:]] == [("key", {"one", "two"})]
    with pytest.raises(DataError, match="two references have the key key"):
        cite(["one", "three"], [one, three])


def test_without_results_xmcbench_alone_is_cited(inside):
    assert keys(inside("cite")) == ["xmcbench"]


def test_names_are_cited_once_each_and_derived_datasets_by_their_source(inside):
    ended = inside("cite", "lf-amazon-1m", "zestxml", "LF-AmazonTitles-131K", "lf-debian-2k", "knn")
    assert keys(ended) == ["xmcbench", "gupta2021generalized", "bhatia2016extreme", "lf-debian-20k"]
    assert "% lf-amazon-1m, zestxml\n@inproceedings{gupta2021generalized" in ended.stdout
    assert "\\url{https://www.debian.org/distrib/packages}" in ended.stdout
    assert ended.stderr == "xmcbench: note: no reference is known for knn\n"


def test_all_that_records_use_is_cited(inside, record, tmp_path):
    store = Store(tmp_path / "runs")
    for made in (record("bm25"), record("hybrid", **HYBRID), record("absent")):
        cell = msgspec.structs.replace(made.cell, dataset="LF-Debian-2K")
        store.write(msgspec.structs.replace(made, cell=cell, key=cell.key))
    ended = inside("cite")
    found = ["xmcbench", "lu2024bm25s", "cormack2009reciprocal", "lee2019latent", "rajaraman2011mining"]
    assert keys(ended) == keys(inside("cite", "--runs", "runs")) == [*found, "lf-debian-20k"]
    assert ended.stderr == "xmcbench: note: no reference is known for absent\n"


def test_a_dataset_with_a_slug_of_its_own_and_parts_of_datasets_are_cited(inside, record, tmp_path, monkeypatch):
    (tmp_path / "cards" / "odd").mkdir(parents=True)
    (tmp_path / "cards" / "odd" / "card.toml").write_text(
        'name = "My odd_1 set"\nslug = "odd"\nhomepage = "https://example.org"\n'
    )
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "cards"))
    store = Store(tmp_path / "runs")
    for name in (
        "My odd_1 set",
        "LF-Debian-2K-dev-0.1",
        "LF-WordNet-dev-0.2+limit50",
        "LF-ManSeeAlso+limit9",
        "own+limit5",
    ):
        made = record("knn")
        cell = msgspec.structs.replace(made.cell, dataset=name)
        store.write(msgspec.structs.replace(made, cell=cell, key=cell.key))
    ended = inside("cite")
    assert {"odd", "lf-debian-20k", "lf-wordnet", "lf-manseealso"} < {*keys(ended)}
    assert ended.stderr == "xmcbench: note: no reference is known for knn, own-limit5\n"


@pytest.mark.parametrize("name", ["what?me", "what?me+limit5", "a?text=b", "?"])
def test_a_name_with_a_question_mark_is_no_place(inside, record, tmp_path, name):
    """As of the file ``what?me.csv``: its result kept all others from being cited."""
    store = Store(tmp_path / "runs")
    for dataset in (name, "LF-Debian-2K"):
        made = record("bm25")
        cell = msgspec.structs.replace(made.cell, dataset=dataset)
        store.write(msgspec.structs.replace(made, cell=cell, key=cell.key))
    assert "lf-debian-20k" in keys(inside("cite"))


def test_references_beside_a_plugin_count(inside, plugin, tmp_path):
    plugin(OWN)
    (tmp_path / "references.bib").write_text(
        '@article{me,\n title = "Own, {A} method",\n keywords = {own, other},\n}\n'
    )
    ended = inside("cite", "own", "--plugin", "plugin.py")
    assert keys(ended) == ["xmcbench", "me"]
    assert ended.stdout.endswith('% own\n@article{me,\n title = "Own, {A} method",\n}\n')


def test_what_cannot_be_cited_is_refused(inside, plugin, tmp_path):
    plugin(OWN)
    for words, said in (
        (("cite", "maclrr"), "unknown method or dataset 'maclrr' (did you mean 'maclr'?)"),
        (("cite", "maclr", "--runs", "runs"), "use one of them"),
        (("cite", "--runs", "nowhere"), "no runs folder at nowhere"),
    ):
        ended = inside(*words)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    (tmp_path / "references.bib").write_text("@article{,\n}\n")
    ended = inside("cite", "own", "--plugin", "plugin.py")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "references.bib: '@article{,' is not the beginning of an entry (write @TYPE{KEY,)" in ended.stderr
