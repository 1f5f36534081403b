"""The site: the tables of the Markdown pages, links between its own files, nothing from elsewhere.

What a browser makes of it is tested in tests/site.
"""

import json
import re
from html.parser import HTMLParser
from importlib.metadata import metadata

import pytest

from xmcbench import __version__
from xmcbench.leaderboard.blocks import Differences, Page
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.published import sources
from xmcbench.leaderboard.tables import Table
from xmcbench.metrics import protocol
from xmcbench.metrics.flips import Verdict
from xmcbench.setting import Setting

HOSTILE = "<script>alert(1)</script> | `x` \\input{x} \" ' \u202e [a](javascript:x) &lt;"


class Reader(HTMLParser):
    """Counts elements, and gathers attributes and the texts of the rows of tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.rows, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in ("meta", "link", "br", "rect", "path", "hr", "input"):
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag in ("path", "rect"):
            return
        assert self._open.pop() == tag, tag

    def handle_data(self, data):
        if {"td", "th"} & {*self._open} and not {"sup", "small"} & {*self._open}:
            self.rows[-1][-1] += data


@pytest.fixture
def board(record):
    return pages([record("tfidf"), record("bm25", value=0.2), record("tfidf", setting=Setting.of("full"))])


def test_its_tables_are_those_of_the_pages(board):
    made = files(board, "html")
    for page in board:
        content = made["index.html" if page.name == "README" else f"{page.name}.html"]
        tables = [block for block in page.blocks if isinstance(block, Table)]
        rows = [
            [text.strip() for text in row]
            for table in tables
            for row in (
                [table.head, *(column.text for column in table.columns)],
                *([line.shown, *(cell.text for cell in line.cells)] for line in table.lines),
            )
        ]
        # The number of a source follows the name of a published row.
        found = [[re.sub(r" \[\d+\]$", "", text.strip()) for text in row] for row in Reader(content).rows]
        assert found == rows, page.name


def test_every_table_has_a_caption_and_scoped_heads(board):
    for name, content in files(board, "html").items():
        if name.endswith(".html"):
            read = Reader(content)
            assert read.tags.count("caption") == read.tags.count("table") == read.tags.count("thead")
            scopes = [value for tag, key, value in read.attributes if (tag, key) == ("th", "scope")]
            assert len(scopes) == read.tags.count("th")
            assert {*scopes} <= {"col", "row"}
            ids = [value for _, key, value in read.attributes if key == "id"]
            assert len(ids) == len({*ids})


def test_it_needs_nothing_but_itself(board):
    made = files(board, "html")
    for name, content in made.items():
        if not name.endswith(".html"):
            continue
        read = Reader(content)
        assert not {"img", "iframe", "object"} & {*read.tags}
        links = [value for tag, key, value in read.attributes if (tag, key) == ("link", "href")]
        assert [link.partition(",")[0] for link in links] == ["data:image/svg+xml", "site.css"]
        loaded = [attribute for attribute in read.attributes if attribute[1] in ("src", "srcset", "onclick", "onload")]
        assert loaded == [("script", "src", "site.js")]
        assert "style" not in read.tags
        for tag, key, value in read.attributes:
            if (tag, key) == ("a", "href") and not value.startswith(("#", "https://", "http://")):
                assert value.partition("#")[0] in made, value
    assert not any(word in made[name] for name in ("site.css", "site.js") for word in ("url(", "@import", "fetch("))
    known = {source.homepage for source in sources()}
    known |= {line.partition(", ")[2] for line in metadata("xmcbench").get_all("Project-URL")}
    outside = re.findall(r'href="(https?://[^"]*)"', "".join(made.values()))
    assert {*outside} <= known


def test_a_page_names_its_versions_and_the_date_of_the_latest_result(record, altered):
    old, new = (
        altered(record(name), (("measured", "started"), f"{date}T23:00:00+00:00"))
        for name, date in (("a", "2026-01-09"), ("b", "2026-01-10"))
    )
    made = files(pages([new, old]), "html")
    for content in (content for name, content in made.items() if name.endswith(".html")):
        (foot,) = re.findall("<footer>(.*)</footer>", content)
        assert foot.startswith(f"xmcbench {__version__}, metric protocol {protocol.VERSION}, latest result 2026-01-10")
        assert foot.count("<a href=") == len(metadata("xmcbench").get_all("Project-URL"))


def test_a_row_leads_to_the_line_about_its_record(record):
    """Without a folder of records, the keys are there and no link."""
    records = [record("a"), record("a", seed=1), record("b", value=0.2)]
    keys = [made.key[:12] for made in records]
    made = files(pages(records), "html", records="../records")
    own, other = made["tiny-ez.html"], made["tiny.html"]
    for place, content in (("", own), ("tiny-ez.html", other)):
        for name, key in (("A", keys[0]), ("B", keys[2])):
            assert f'<th scope="row"><a href="{place}#record-{key}">{name}</a></th>' in content
    line = f'<a href="../records/tiny/ez.jsonl" download>{keys[0]}, {keys[1]}</a>'
    assert re.search(rf'<tr id="record-{keys[0]}".*{re.escape(line)}', own)
    without = files(pages(records), "html")["tiny-ez.html"]
    assert f"{keys[0]}, {keys[1]}" in without
    assert "download" not in without


def test_choices_that_change_nothing_are_not_there(record, altered):
    """A page with rows that are all alike, one with a single row, and metrics that do not change the order."""

    def choices(records):
        made = files(pages(records), "html")["tiny-ez.html"]
        found = dict(re.findall(r'<select name="(\w+)">(.*?)</select>', made))
        return found | ({"search": ""} if '<input type="search" name="search">' in made else {})

    made = files(pages([record("a"), record("b", value=0.4)]), "html")["tiny-ez.html"]
    boxes = re.findall('<input type="checkbox" value="([^"]+)" checked>', made)
    assert boxes[:5] == ["P@1", "P@3", "P@5", "R@1", "R@3"]
    assert len(boxes) == len({*boxes})
    assert {*choices([record("a"), record("b", value=0.4)])} == {"search"}
    assert {*choices([record("a")])} == set()
    wide = (("metrics", "self", "intervals", "R@100"), (0.8, 1.0))
    recalls = altered(
        record("c", value=0.3, supervision="required"), (("metrics", "self", "values", "R@100"), 0.9), wide
    )
    found = choices([record("a"), record("b", value=0.4), recalls])
    assert re.findall('value="([^"]+)"', found["kind"]) == ["zero-shot", "supervised"]
    assert re.findall('value="([^"]+)"', found["metric"]) == ["R@100"]


def test_pages_of_settings_are_linked_from_those_of_their_dataset(record):
    made = files(pages([record("a"), record("a", setting=Setting.of("full"))]), "html")
    links = re.compile(r'<nav aria-label="Settings"><ul>(.*?)</ul>')
    for name, current in (("tiny", ""), ("tiny-ez", "tiny-ez"), ("tiny-full", "tiny-full")):
        (listed,) = links.findall(made[f"{name}.html"])
        assert re.findall(r'<a href="(.*?).html"( aria-current="page")?>(.*?)</a>', listed) == [
            (own, ' aria-current="page"' * (own == current), title)
            for own, title in (("tiny-ez", "zero-shot (no pairs)"), ("tiny-full", "full (all training pairs)"))
        ]
        assert '<a href="tiny.html" aria-current="page">Tiny</a>' in made[f"{name}.html"]
    assert links.findall(made["index.html"]) == []


def test_a_remark_is_shown_as_it_is_and_leads_to_pages(record):
    remark = "See [the index](README.md#x) and [more](https://a.b/c.md). <b>no</b>\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    remark += "\n\n    code"
    made = files(pages([record()], remarks={"tiny": remark}), "html")["tiny.html"]
    assert '<a href="index.html#x">the index</a>' in made
    assert '<a href="https://a.b/c.md">more</a>' in made
    assert "&lt;b&gt;no&lt;/b&gt;" in made
    assert "<pre><code>code" in made
    assert "<td>2</td>" in made


def test_names_titles_notes_and_remarks_are_inert(record, altered):
    hostile = altered(record(), (("method", "title"), HOSTILE), (("method", "variant"), HOSTILE))
    failed = altered(record(seed=1, status="failed"), (("reason",), HOSTILE))
    note = {"name": HOSTILE, "source": HOSTILE, "sha256": "x", "card": {"license": HOSTILE, "training_sets": [HOSTILE]}}
    hostile = altered(hostile, (("notes",), {"model": note}))
    made = files(pages([hostile, failed], remarks={"tiny": HOSTILE}), "html")
    plain = files(pages([record("a"), record("b"), record("c", supervision="required")]), "html")
    for name, content in made.items():
        assert "\u202e" not in content, name
        if name.endswith(".html"):
            read = Reader(content)
            assert read.tags.count("script") == 1
            assert not [
                attribute
                for attribute in read.attributes
                if "javascript:" in (attribute[2] or "") and attribute[1] == "href"
            ]
            assert {key for _, key, _ in read.attributes} <= {key for _, key, _ in Reader(plain[name]).attributes}


def test_kinds_of_rows_are_those_of_their_records(record):
    model = {"name": "m", "source": "the package p", "sha256": "x", "parameters": 22_000_000, "width": 384}
    own = {**model, "source": "trained on the corpus, 500 steps"}
    records = [
        record("needs", supervision="required"),
        record("outside", notes={"parts": [{"model": model}]}),
        record("own", notes={"backbone": own}),
    ]
    made = files(pages(records), "html")["tiny-ez.html"]
    kinds = dict(re.findall(r'<tr data-kinds="([^"]*)"><th scope="row"><a [^>]*>([A-Z]+)', made))
    assert {name: kind for kind, name in kinds.items()} == {
        "NEEDS": "supervised scratch",
        "OUTSIDE": "zero-shot pre-trained",
        "OWN": "zero-shot scratch",
    }
    assert ["m", "the package p", "22,000,000", "384", "not recorded", "not recorded"] in Reader(made).rows
    command = f"xmcbench reproduce {records[1].key[:12]}"
    assert [row[-2] for row in Reader(made).rows if row[0] == "OUTSIDE" and "reproduce" in row[-2]] == [command]
    made = files(pages(records, runs="my runs"), "html")["tiny-ez.html"]
    rows = [row[-2] for row in Reader(made).rows if row[0] == "OUTSIDE" and "reproduce" in row[-2]]
    assert rows == [f"{command} --runs 'my runs'"]


def test_differences_are_kept_with_their_intervals():
    """The interval of a difference need not be symmetric: its middle was shown for the difference."""
    found = {(0, 1): (0.05, Verdict(-0.26, 0.3, 0.62341)), (0, 2): (0.2, Verdict(0.1, 0.3, 9e-5))}
    found[1, 2] = (0.15, Verdict(0.0, 0.25, 0.049))
    block = Differences(("a", "b", "c"), ("P@1",), lambda *rows: [found[rows]])
    made = files([Page("tiny", "Tiny", (block,))], "html")["tiny.html"]
    (data,) = re.findall('<script type="application/json">(.*?)</script>', made)
    assert json.loads(data) == {
        "metrics": ["P@1"],
        "pairs": [[[500, -2600, 3000, 6234]], [[2000, 1000, 3000, 0]], [[1500, 0, 2500, 490]]],
    }
