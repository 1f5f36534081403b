"""The site of the committed records in a browser: nothing else is loaded, everything can be read and reached.

Run by `tox -e site`. Elsewhere these tests are skipped, unless playwright, axe-core-python and Chromium are there.
"""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from xmcbench.analysis.explain import explain
from xmcbench.analysis.explanation_page import write_page
from xmcbench.comparison import compare
from xmcbench.leaderboard.blocks import Differences, Page
from xmcbench.leaderboard.examples import Examples
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.overall import read_list
from xmcbench.leaderboard.pages import pages, read_remarks
from xmcbench.metrics.flips import Verdict
from xmcbench.output import escaping
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.scoring import StoredScores

axe = pytest.importorskip("axe_core_python.sync_playwright")

BOARD = Path(__file__).parents[2] / "leaderboards"
#: The pages of the board: the Markdown files that it has.
PAGES = sorted(path.stem.replace("README", "index") + ".html" for path in BOARD.glob("*.md"))


def make_files():
    store = Store(BOARD)
    remarks, scores = read_remarks(BOARD / "remarks"), StoredScores(store)
    board = pages(
        store.records(),
        remarks=remarks,
        staleness=Registry([]).staleness(BOARD),
        ranked=read_list(BOARD),
        scores=scores,
        examples=Examples.of(store),
    )
    return files(board, "html", records="../records")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site in a folder: the folder, and its pages by name."""
    folder = tmp_path_factory.mktemp("site")
    for name, content in make_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def opened(browser, site):
    """Open a page of the site; what it requests beside its two files and what goes wrong is in ``noise`` at the end."""
    contexts, noise = [], []

    def open_page(name, width=1280, scheme="light", scripts=True, address=""):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=scripts, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        url = (site / name).as_uri()
        page.on("console", lambda message: noise.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: noise.append(str(error)))
        own = {url, *((site / file).as_uri() for file in ("site.css", "site.js"))}
        page.on("request", lambda request: noise.append(request.url) if request.url.split("#")[0] not in own else None)
        page.goto(url + address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert noise == []


def test_the_site_is_small_and_the_same_when_built_again(site):
    assert sorted(path.name for path in site.glob("*.html")) == PAGES
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert size < 3_000_000
    for name, content in make_files().items():
        assert (site / name).read_bytes() == content.encode(), name


def test_every_link_leads_somewhere(site, opened):
    for name in PAGES:
        page = opened(name)
        links = page.eval_on_selector_all("a[href]", "all => all.map(element => element.getAttribute('href'))")
        ids = set(page.eval_on_selector_all("[id]", "all => all.map(element => element.id)"))
        assert len(ids) == page.locator("[id]").count(), f"{name}: an id occurs twice"
        for link in links:
            target, _, anchor = link.partition("#")
            if target.startswith(("https://", "http://")):
                continue
            assert not target or (site / target).is_file() or (BOARD / target.removeprefix("../")).is_file(), (
                f"{name}: {link}"
            )
            assert target or "=" in anchor or anchor in ids, f"{name}: {link}"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_violation(opened, name, width, scheme):
    page = opened(name, width, scheme)
    # Without this, it describes every cell of a large table that is as it should be, which takes minutes.
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]})["violations"]
    assert [
        (violation["id"], violation["nodes"][0]["html"][:300], len(violation["nodes"])) for violation in found
    ] == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_without_a_script_everything_is_there(site, opened):
    for name in PAGES:
        page = opened(name, scripts=False)
        assert page.locator(".controls:visible").count() == 0
        rows = page.locator("main tbody tr")
        assert all(row.is_visible() for row in rows.all()[:5])
        assert page.locator("main table:visible").count() == page.locator("main table").count() > 0


def test_sorting_and_filters_are_in_the_address(opened):
    page = opened("lf-debian-20k-ez.html")
    table = page.locator("main table").first
    head = table.locator("thead th", has_text="R@100")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    figures = [float(text.split()[0].rstrip("abcdefgh")) for text in column(table, "R@100")]
    assert figures == sorted(figures, reverse=True)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    everything = page.locator("main tbody tr:visible").count()
    page.get_by_label("Search").fill("minilm ict")
    names = table.locator("tbody tr:visible th").all_inner_texts()
    assert {name.rstrip("abcdefgh") for name in names} == {"ICT"}
    assert 0 < page.locator("main tbody tr:visible").count() < everything
    assert page.locator(".controls .status").inner_text() == f"{count_records(page)} rows shown"
    page.get_by_label("Search").fill("")
    page.get_by_label("Methods").select_option("pre-trained")
    page.get_by_label("Sort by").select_option("P@5")
    shown = table.locator("tbody tr:visible th").all_inner_texts()
    assert any(text.startswith("MACLR") for text in shown)
    assert not any(text.startswith(("TF-IDF", "BM25")) for text in shown)
    address = page.url.partition("#")[2]
    again = opened("lf-debian-20k-ez.html", address=f"#{address}")
    same = again.locator("main table").first.locator("tbody tr:visible th").all_inner_texts()
    assert same == shown
    assert again.get_by_label("Sort by").input_value() == "P@5"
    again.get_by_role("button", name="Show all").click()
    assert again.locator("main tbody tr:visible").count() == everything
    link = page.locator("nav a", has_text="LF-YSO-25K")
    assert "kind=pre-trained" in link.get_attribute("href")


def test_a_row_is_found_in_every_table_and_counted_once(opened):
    """The encoder of a row is a fact of the first table only; its figures are in many."""
    name = "lf-debian-2k-fs-label-0.01.html"
    page = opened(name)
    everything = page.locator(".controls .status").inner_text()
    assert everything == f"{count_records(page)} rows shown"
    page.get_by_label("Search").fill("minilm")
    tables = [
        records_in(table.locator("tbody tr:visible")) for table in page.locator("main table:has(tr[data-kinds])").all()
    ]
    assert tables[0] == tables[1] != set()
    assert all(found & tables[0] for found in tables)
    assert page.locator(".controls .status").inner_text() == f"{count_records(page)} rows shown" != everything
    # The key of a record is no fact of the row: two digits of it would be found by chance.
    key = page.locator("tr[id]:visible").first.get_attribute("id").removeprefix("record-")
    page.get_by_label("Search").fill(key)
    assert page.locator("main table").first.locator("tbody tr:visible").count() == 0
    assert page.locator(".controls .status").inner_text() == "1 row shown"
    page.get_by_label("Search").fill("zzzz")
    assert page.locator(".controls .status").inner_text() == "0 rows shown"


def test_a_note_leaves_what_is_chosen_as_it_is(opened):
    page = opened("lf-debian-20k-full.html", address="#table-full-a")
    page.get_by_label("Methods").select_option("zero-shot")
    shown = page.locator("main tbody tr:visible").count()
    page.locator("main sup a:visible").first.click()
    assert "=" not in page.url.partition("#")[2] != ""
    page.get_by_label("Sort by").select_option("P@5")
    assert page.get_by_label("Methods").input_value() == "zero-shot"
    assert page.locator("main tbody tr:visible").count() == shown
    assert page.url.partition("#")[2] == "kind=zero-shot&metric=P%405"


def test_a_metric_can_be_left_out_of_all_tables(opened):
    page = opened("lf-debian-20k-full.html")
    heads = page.locator("main thead th:visible")
    before = heads.all_inner_texts()
    page.locator(".controls summary").click()
    for box in page.locator(".controls [type=checkbox]").all():
        name = box.get_attribute("value")
        box.uncheck()
        left = [head for head in before if head.split()[-1] != name]
        assert heads.all_inner_texts() == left != before, name
        assert page.locator("main tbody tr").first.locator("th:visible, td:visible").count() < len(before)
        box.check()
        assert heads.all_inner_texts() == before
    page.get_by_label("P@3", exact=True).uncheck()
    page.get_by_label("PSP@1", exact=True).uncheck()
    again = opened("lf-debian-20k-full.html", address=page.url[page.url.index("#") :])
    shown = again.locator("main thead th:visible").all_inner_texts()
    assert shown == heads.all_inner_texts() != before
    again.locator(".controls summary").click()
    assert not again.get_by_label("P@3", exact=True).is_checked()
    again.get_by_role("button", name="Show all").click()
    assert again.locator("main thead th:visible").all_inner_texts() == before


def test_a_table_is_saved_as_it_is_shown(opened):
    page = opened("lf-debian-20k-ez.html", address="#search=minilm+ict&metric=R@100&without=P@3,P@5,R@1,R@3,R@5")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download CSV").first.click()
    assert saved.value.suggested_filename == "table-ez.csv"
    head, *lines = csv.reader(Path(saved.value.path()).read_text().splitlines())
    facts = ["Method", "preset", "encoder or parts", "training"]
    assert head == [*facts, "P@1", "P@1 \u00b1", "R@10", "R@10 \u00b1", "R@100", "R@100 \u00b1", "seeds (sd of P@1)"]
    table = page.locator("main table").first
    assert [line[0] for line in lines] == [
        name.rstrip("abcdefgh") for name in table.locator("tbody tr:visible th").all_inner_texts()
    ]
    figures = [float(line[head.index("R@100")]) for line in lines]
    assert figures == sorted(figures, reverse=True)
    assert all(float(line[head.index("P@1 \u00b1")]) > 0 for line in lines)
    first = table.locator("tbody tr:visible th").first
    for text in ('=1+1, "x"', '"=1+1', '" =1+1', "\uff1d1+1", "\uff0b1", "-1.5", "+1"):
        first.evaluate("(cell, text) => { cell.textContent = text; }", text)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download CSV").first.click()
        lines = csv.reader(Path(saved.value.path()).read_text().splitlines())
        assert escaping.csv(text) in [line[0] for line in lines]


def test_a_row_leads_to_its_command_and_its_record(opened, site):
    """From a page of a setting, and from that of its dataset; the file of its records is beside the site."""
    for name in ("lf-debian-20k-ez", "lf-debian-20k"):
        link = opened(f"{name}.html").locator("main table").first.get_by_role("link", name="Hybrid")
        target, _, anchor = link.get_attribute("href").partition("#")
        assert target == ("" if name.endswith("-ez") else "lf-debian-20k-ez.html")
        row = opened("lf-debian-20k-ez.html", address=f"#{anchor}").locator("tr:target")
        assert row.locator("th").inner_text().startswith("Hybrid (small")
        key = anchor.removeprefix("record-")
        assert f"xmcbench reproduce {key}" in row.inner_text()
        records = row.locator("a[download]")
        assert records.inner_text().split(", ")[0] == key
        assert records.get_attribute("href") == "../records/lf-debian-20k/ez.jsonl"
        assert f'"key":"{key}' in (BOARD / "records/lf-debian-20k/ez.jsonl").read_text()


def test_two_rows_can_be_compared(opened):
    """With the figures of `compare`, and the same for both orders but for the sign."""
    page = opened("lf-debian-20k-full.html")
    page.locator(".compare summary").click()
    first, second = page.locator(".compare select").all()
    shown = page.locator(".compare [role=status]")
    found = {}
    for one, other in (("kNN", "ZestXML"), ("ZestXML", "kNN")):
        first.select_option(label=one)
        second.select_option(label=other)
        lines = [line.split("\t") for line in shown.inner_text().splitlines() if "@" in line]
        found[one] = {metric: (float(delta.replace("\u2212", "-")), p) for metric, delta, _, p in lines}
    compared = compare("knn", "zestxml", runs=BOARD, dataset="lf-debian-20k", setting="full")
    for metric, (delta, p) in found["kNN"].items():
        assert delta == pytest.approx(100 * compared.differences[metric].delta, abs=0.011)
        assert found["ZestXML"][metric] == (-delta, p)
    second.select_option(label="ZestXML")
    assert shown.inner_text() == ""


def test_a_difference_is_not_the_middle_of_its_interval(browser, tmp_path):
    found = Differences(("a", "b"), ("P@1",), lambda *_: [(0.05, Verdict(-0.26, 0.3, 0.0))])
    for name, content in files([Page("tiny", "Tiny", (found,))], "html").items():
        (tmp_path / name).write_text(content)
    page = browser.new_page()
    page.goto((tmp_path / "tiny.html").as_uri())
    page.locator(".compare summary").click()
    first, second = page.locator(".compare select").all()
    for one, other, texts in (
        ("a", "b", ["+5.00", "\u221226.00 to +30.00"]),
        ("b", "a", ["\u22125.00", "\u221230.00 to +26.00"]),
    ):
        first.select_option(label=one)
        second.select_option(label=other)
        assert page.locator(".compare [role=status] td").all_inner_texts() == [*texts, "< 0.0001"]
    page.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_of_results_begins_with_its_table(opened, width):
    for name in PAGES:
        top = opened(name, width).locator("main table").first.evaluate("table => table.getBoundingClientRect().top")
        assert top < 700, name


def test_names_and_heads_stay_in_view(opened):
    page = opened("lf-debian-20k-full.html", 400)
    box = page.locator("main .wide").first
    box.evaluate("box => { box.scrollLeft = 300; box.scrollTop = 200; }")
    left, top = box.evaluate("box => { const place = box.getBoundingClientRect(); return [place.left, place.top]; }")
    name = box.locator("tbody th").nth(8).evaluate("cell => cell.getBoundingClientRect().left")
    head = box.locator("thead th:visible").nth(3).evaluate("cell => cell.getBoundingClientRect().top")
    assert name == pytest.approx(left, abs=1)
    assert head == pytest.approx(top, abs=1)


@pytest.mark.parametrize("name", PAGES)
def test_every_choice_changes_what_is_shown(opened, name):
    """On pages of published rows, "Methods" filtered nothing."""
    page = opened(name)
    everything = page.locator("main").inner_text()
    for choice in page.locator(".controls select").all():
        values = choice.locator("option").evaluate_all("all => all.map(option => option.value)")
        assert len(values) > 1
        shown = set()
        for value in values[1:]:
            choice.select_option(value)
            shown.add(page.locator("main").inner_text())
        choice.select_option("")
        shown.add(everything)
        label = choice.get_attribute("name")
        assert len(shown) > 1, f"{name}: {label}"
        assert label == "metric" or len(shown) == len(values), f"{name}: {label}"


def test_a_choice_that_a_page_does_not_offer_changes_nothing(opened):
    name = "lf-wikipedia-500k.html"
    everything = opened(name).locator("main tbody tr:visible").count()
    page = opened(name, address="#kind=from+scratch&setting=nowhere&metric=X@1")
    assert page.get_by_label("Methods").count() == 0
    assert page.locator("main tbody tr:visible").count() == everything > 0
    assert "kind=from+scratch" in page.locator("nav a", has_text="LF-Debian-20K").first.get_attribute("href")


def test_a_browser_runs_nothing_but_what_the_page_came_with(browser, site, tmp_path):
    """Whatever else gets into the HTML: the policy allows no script and no style inside it, and none from elsewhere."""
    for name in ("site.css", "site.js"):
        (tmp_path / name).write_bytes((site / name).read_bytes())
    content = (site / "index.html").read_text()
    foreign = "<script>document.title = 'changed'</script><style>main { display: none }</style>"
    foreign += "<img src='x.png' onerror=\"document.title = 'changed'\"><p style='color: red'>end</p>"
    foreign += "<script src='https://example.org/x.js'></script>"
    changed = tmp_path / "changed.html"
    changed.write_text(content.replace("</main>", f"{foreign}</main>"))
    context = browser.new_context()
    page = context.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    page.goto(changed.as_uri())
    assert page.title() != "changed"
    assert page.locator("main").is_visible()
    assert page.locator("thead button").count() > 0  # its own script has run
    for kind in ("script", "style", "image", "style attribute"):
        assert any(
            "Content Security Policy" in message and kind.split()[0] in message.lower() for message in refused
        ), kind
    assert sum("https://example.org/x.js" in message for message in refused) == 1
    assert len(refused) >= 5
    context.close()


def count_records(page):
    """Return how many rows are shown, each once, however many tables it is in."""
    return len(records_in(page.locator("main tr[data-kinds]:visible")))


def records_in(rows):
    """Return the ids of the lines about records that rows are or lead to."""
    return {*rows.evaluate_all("all => all.map(row => row.id || row.querySelector('th a').hash.slice(1))")}


def column(table, name):
    heads = [head.strip() for head in table.locator("thead th button").all_inner_texts()]
    return [cells.locator("td").nth(heads.index(name) - 1).inner_text() for cells in table.locator("tbody tr").all()]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_the_keyboard_reaches_everything(opened, name, width):
    """Links, buttons and choices, and what scrolls by itself."""
    page = opened(name, width)
    scrolling = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(element =>
               element.scrollWidth > element.clientWidth && getComputedStyle(element).overflowX === 'auto'
               && element.tabIndex < 0).map(element => element.outerHTML.slice(0, 200))"""
    )
    assert scrolling == []
    expected = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, select, [tabindex="0"]')]
               .filter(element => element.checkVisibility()).length"""
    )
    reached = set()
    for _ in range(expected):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert len(reached) == expected


def test_the_time_that_the_largest_page_takes_is_printed(opened, site):
    largest = max(PAGES, key=lambda name: (site / name).stat().st_size)
    page = opened(largest)
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    print(f"{largest}: {timing:.0f} ms")
    assert timing > 0


@pytest.mark.parametrize(("width", "scheme", "columns"), [(1280, "light", 2), (400, "dark", 1)])
def test_an_explanation_can_be_read(browser, tmp_path, width, scheme, columns):
    """The page of `xmcbench explain`: rankings stand side by side, and below each other on a phone."""
    rows = compare("bm25", "tfidf:", dataset="lf-debian-20k", setting="ez", runs=BOARD)
    found = explain(rows, instances=2)
    ranking = ("a label with a name of ten words that is long",) * 5
    better = tuple(replace(moved, rankings=(ranking, ranking)) for moved in found.better)
    write_page(replace(found, better=better), tmp_path / "page.html")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert axe.Axe().run(page, options={"resultTypes": ["violations"]})["violations"] == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    lists = page.eval_on_selector_all(".pair ol", "all => all.map(list => list.getBoundingClientRect().left)")
    assert len(lists) == 4
    assert len({*lists[:2]}) == columns
    context.close()
