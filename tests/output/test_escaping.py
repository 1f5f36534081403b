"""Inert text for every target, and pages that let a browser load and run nothing else."""

import base64
import csv
import hashlib
import io
import re
import xml.etree.ElementTree as ET

import pytest

from xmcbench import XmcbenchError
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.output import document, escaping

ESC, BIDI = "\x1b[31m", "\u202e"
HOSTILE = f"<img src=x onerror=alert(1)> [a](javascript:x) {ESC}red{BIDI}gnp | \\input{{x}} $^_~ &lt; =1"


def test_what_would_act_is_spelled_out():
    assert escaping.visible("a\x1b[2Jb\u202ec\u200bd\ufeffe\x00f\ud800") == (
        r"a\x1b[2Jb\u202ec\u200bd\ufeffe\x00f\ud800"
    )
    assert escaping.visible("naïve 日本 ± 👩") == "naïve 日本 ± 👩"
    assert escaping.visible("a\tb\nc\u2028d") == "a b c d"
    assert escaping.terminal("a\nb\x07") == "a\nb\\x07"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x202A, 0x202E, 0x2066, 0x2069, 0x200E, 0xD800])
@pytest.mark.parametrize(
    "target", ["visible", "terminal", "markdown", "markdown_line", "latex", "latex_line", "svg", "html", "csv", "tsv"]
)
def test_no_control_character_reaches_any_target(code, target):
    made = getattr(escaping, target)(f"a{chr(code)}b")
    assert chr(code) not in made or (target, code) == ("terminal", 10)


def test_markdown_shows_the_text_as_it_is():
    made = escaping.markdown(HOSTILE)
    for sign in "<>[]|*`":
        assert not re.search(rf"(?<!\\){re.escape(sign)}", made), sign
    assert "&amp;lt;" in made
    assert escaping.markdown("AT&T and a_b") == "AT&T and a_b"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("# a", r"\# a"),
        ("###### a", r"\###### a"),
        ("#a", "#a"),
        ("- a", r"\- a"),
        ("+ a", r"\+ a"),
        ("-0.5", "-0.5"),
        ("1. a", r"1\. a"),
        ("12) a", r"12\) a"),
        ("1.5 a", "1.5 a"),
        ("===", r"\==="),
        ("---", r"\---"),
        ("  # a", r"  \# a"),
        ("a # b - c 1. d", "a # b - c 1. d"),
        ("$x$ and 5 $", r"\$x\$ and 5 \$"),
        ("https://x.org/a", "https://x.org/a"),
    ],
)
def test_markdown_has_no_block_or_formula_of_the_text(text, made):
    assert escaping.markdown_line(text) == made


def test_latex_has_no_command_of_the_text():
    assert escaping.latex("run --runs a-b ---") == "run -{}-runs a-b -{}-{}-"
    made = escaping.latex("\\input{x} 5% $a_b^2$ # & ~")
    assert escaping.latex("≈") == r"$\approx$"
    assert made == r"\textbackslash{}input\{x\} 5\% \$a\_b\textasciicircum{}2\$ \# \& \textasciitilde{}"


@pytest.mark.parametrize(("text", "made"), [("[a]", "{}[a]"), ("*", "{}*"), ("a[*]", "a[*]"), ("", ""), ("&", r"\&")])
def test_no_text_is_an_option_of_the_line_before(text, made):
    assert escaping.latex_line(text) == made


def test_svg_is_well_formed():
    root = ET.fromstring(f"<text>{escaping.svg(HOSTILE + chr(0) + chr(0xFFFF))}</text>")
    assert root.text.startswith("<img src=x")


def test_html_is_text_in_elements_and_attributes():
    root = ET.fromstring(
        f"<p title='{escaping.html(HOSTILE)}' id=\"{escaping.html(HOSTILE)}\">{escaping.html(HOSTILE)}</p>"
    )
    assert not [*root]
    assert root.text == root.get("title") == root.get("id") == escaping.visible(HOSTILE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-x", "'-x"),
        ("+x", "'+x"),
        ("-1.5", "-1.5"),
        ("+2", "+2"),
        ("a", "a"),
        ('"=1+1"', '\'"=1+1"'),
        (' "-x', "' \"-x"),
        ("\uff1d1", "'\uff1d1"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_csv_and_tsv_hold_no_formula(text, shown):
    assert escaping.csv(text) == escaping.tsv(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m\x07\x9b", r"\x1b[31m\x07\x9b"),
        ("a\u202eb\u2067c\u200fd\u061c", r"a\u202eb\u2067c\u200fd\u061c"),
        ("a\tb\nc\u2028d", "a b c d"),
        (
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("\U0001f469\u200d\U0001f52c co\xadop", "\U0001f469\u200d\U0001f52c co\xadop"),
    ],
)
def test_the_text_of_a_dataset_keeps_its_letters_in_tsv(text, shown):
    """Persian needs its joiners, and so do emoji."""
    assert escaping.tsv(text) == shown


@pytest.mark.parametrize(
    "alike",
    ["TF-IDF ", "TF  IDF", "tf idf", "\u0422F-IDF", "TF\u2010IDF", "\uff34\uff26-IDF", "T\u200bF-IDF", "TF-\u0399DF"],
)
def test_names_that_look_alike_have_one_skeleton(alike):
    assert escaping.skeleton(alike) == escaping.skeleton("TF-IDF")


def test_other_names_have_other_skeletons():
    names = ["TF-IDF", "BM25", "GloVe", "XR-Linear", "SentBERT", "MPNet", "SimCSE", "ICT", "MACLR", "Astec", "ZestXML"]
    assert len({escaping.skeleton(name) for name in names}) == len(names)


def test_a_message_is_one_inert_line():
    error = XmcbenchError(f"no {ESC}\nfile", f"see {BIDI}")
    assert str(error) == r"no \x1b[31m file (see \u202e)"


def test_every_name_of_a_record_is_inert_in_every_format(record, altered):
    machine = (("environment", "hardware", "processor"), HOSTILE)
    variant = HOSTILE.replace("=", "")  # no changed parameter, which would keep the row from charts
    made = altered(record(), machine, (("method", "title"), HOSTILE), (("method", "variant"), variant))
    note = {HOSTILE: {"losses": [HOSTILE], "curve": [[1, 0.5], [2, 0.25], [3, 0.2]]}}
    made = altered(made, (("notes",), note))
    failed = altered(record(seed=1, status="failed"), machine, (("reason",), HOSTILE), (("method", "title"), HOSTILE))
    others = [altered(record(name), machine, (("method", "title"), f"{name} {HOSTILE}")) for name in ("bm25", "knn")]
    elsewhere = [altered(other, (("cell", "dataset"), "Other")) for other in (made, *others)]
    drawings = set()
    for layout in ("markdown", "latex", "csv", "json", "html"):
        for name, content in files(pages([made, failed, *others, *elsewhere], ()), layout, ()).items():
            assert "\x1b" not in content, name
            assert BIDI not in content, name
            if name.endswith(".svg"):
                tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(content).iter()}
                assert tags <= {"svg", "title", "desc", "style", "rect", "text", "path"}, name
                drawings.add(name.removeprefix("figures/").rpartition("-")[0])
            elif name.endswith(".md"):
                assert "<img" not in content.replace("\\<img", ""), name
                assert "](javascript" not in content.replace("\\](javascript", ""), name
            elif name.endswith(".html"):
                assert "<img" not in content, name
                assert 'href="javascript' not in content, name
                assert content.count("<script") == 1, name
            elif name.endswith(".tex"):
                assert "\\input" not in content, name
            elif name.endswith(".csv"):
                assert all(not cell.startswith("=") for line in csv.reader(io.StringIO(content)) for cell in line), name
    assert {"over-datasets-ez", "tiny-cost"} <= drawings
    assert any("training" in name for name in drawings)


@pytest.mark.parametrize("site", ["", "site"])
def test_a_page_allows_its_own_style_and_script_only(site):
    page = document.page("t", ["<main></main>"], style="p { color: red }\n", site=site, mark="made by -- x")
    (policy,) = re.findall('<meta http-equiv="Content-Security-Policy" content="(.*)">', page)
    styles = re.findall("(?s)<style>(.*?)</style>", page)
    if site:
        assert styles == []
        own = ["style-src 'self' file:", "script-src 'self' file:"]
        links = ('<link rel="stylesheet" href="site.css">', '<script defer src="site.js"></script>')
        assert all(page.index(policy) < page.index(link) for link in links)
    else:
        assert "<script" not in page
        (style,) = styles
        assert style.endswith("p { color: red }\n")
        own = [f"style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"]
        assert page.index(policy) < page.index("<style>")
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        *own,
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert 'style="' not in page
