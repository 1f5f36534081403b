import random
import re

import msgspec
import numpy as np
import pytest

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard.consistency import latest
from xmcbench.leaderboard.files import differences, files, write
from xmcbench.leaderboard.pages import pages, read_remarks
from xmcbench.leaderboard.tables import Table
from xmcbench.metrics import METRICS, Scores
from xmcbench.records import Staleness, as_json
from xmcbench.setting import Setting


@pytest.fixture
def some(record):
    """Records of two methods in three settings, with seeds."""
    settings = (Setting.of("ez"), Setting.of("fs", 0.05, "label"), Setting.of("fs", 0.01, "label"), Setting.of("full"))
    return [
        record(name, seed, value, setting=setting, views=("seen", "unseen", "head", "middle", "tail"))
        for setting in settings
        for name, value in (("a", 0.1), ("b", 0.2))
        for seed in (0, 1)
    ]


def test_pages_do_not_depend_on_the_order_of_records(some):
    shuffled = some.copy()
    random.Random(0).shuffle(shuffled)
    for layout in ("markdown", "latex", "csv", "json"):
        assert files(pages(some), layout) == files(pages(shuffled), layout)


def test_a_row_with_fewer_subsets_says_so_where_they_decide_the_labels(some):
    kept = [record for record in some if (record.cell.method, record.cell.seed) != ("a", 1)]
    few = files(pages(kept))["tiny-fs-label-0.01.md"]
    said = "seen and unseen labels are those of the subset of seed 0 only"
    assert said in few[few.index("By label: seen, unseen") : few.index("By label: head")]
    assert said not in few[few.index("By label: head") :]
    assert said not in files(pages(some))["tiny-fs-label-0.01.md"]


def test_a_row_without_a_result_is_named_where_there_are_few_pairs_too(some, record):
    made = files(pages([*some, record("c", status="failed", setting=Setting.of("fs", 0.01, "label"))]))
    page = made["tiny-fs-label-0.01.md"]
    assert "C, seed 0: failed: ValueError: no" in page
    assert "seen and unseen labels are those of" not in page


def test_a_page_begins_with_its_table_and_lists_its_settings_in_the_order_of_the_paper(some):
    made = files(pages(some))
    page = made["tiny.md"].split("\n", 1)[1]
    assert page.startswith("\n# Tiny\n\n| Method | P@1 | P@5 | R@10 | R@100 | seeds (sd of P@1) |\n")
    assert re.findall(r"^\* \[(.*)\]\((.*)\)", page, re.MULTILINE) == [
        ("Tiny, zero-shot (no pairs)", "tiny-ez.md"),
        ("Tiny, few-shot, 1% of the labels", "tiny-fs-label-0.01.md"),
        ("Tiny, few-shot, 5% of the labels", "tiny-fs-label-0.05.md"),
        ("Tiny, full (all training pairs)", "tiny-full.md"),
    ]
    assert re.findall(r"^## .*", page, re.MULTILINE) == ["## Charts", "## Instances, labels and pairs"]
    # At zero shot every label is unseen: no table says so.
    groups = ["## By label: seen, unseen", "## By label: head, middle, tail"]
    for name, expected in (("ez", groups[1:]), ("full", groups)):
        headings = re.findall(r"^## .*", made[f"tiny-{name}.md"], re.MULTILINE)
        assert headings == [
            "## nDCG and propensity-scored precision",
            *expected,
            "## Time and memory",
            "## Rows and records",
        ]


def test_rows_with_other_parameters_have_a_table_of_their_own(record, altered):
    changed = altered(
        record("a", value=0.9), (("method", "variant"), "rate=0.1"), (("cell", "parameters"), {"rate": 0.1})
    )
    made = files(pages([record("a", value=0.5), record("b", value=0.4), changed]))
    first, _, other = made["tiny-ez.md"].partition("## Rows with other parameters")
    assert ("| A | **50.00**" in first, "90.00" in first) == (True, False)
    assert re.search(r"\| A \| rate=0.1 \| 90.00 ", other)
    # Where no row is that of a preset, none is left out.
    assert "| A | rate=0.1 | 90.00" in files(pages([changed]))["tiny-ez.md"].partition("## nDCG")[0]


def test_another_budget_than_that_of_the_preset_is_another_parameter(record, altered):
    """The name of the row tells the budget, so it has no equals sign; only today's preset tells."""

    def row(steps, value):
        variant = (("method", "variant"), f"small, {steps} steps of 32")
        return altered(record("ict", value=value), variant, (("cell", "parameters"), {"steps": steps}))

    staleness = Staleness(presets={"ict": {"": {"steps": 100}, "small": {"steps": 60}}})
    page = files(pages([row(60, 0.5), row(400, 0.9)], staleness=staleness))["tiny-ez.md"]
    first, _, other = page.partition("## Rows with other parameters")
    assert ("60 steps" in first, "400 steps" in first, "400 steps" in other) == (True, False, True)
    # Where no row has the budget of the preset, none is left out.
    alone = files(pages([row(400, 0.9)], staleness=staleness))["tiny-ez.md"]
    assert "400 steps" in alone.partition("## nDCG")[0]


def test_rows_that_a_paired_test_does_not_separate_are_marked(record):
    """By the evaluations that the caller has; without one of them nothing is marked."""
    best = np.repeat([1.0, 0.0], 500)
    near = np.where(np.isin(np.arange(1000), [*range(40), *range(900, 938)]), 1 - best, best)  # 40 lost, 38 won
    hits = {"a": best, "b": near, "c": best * (np.arange(1000) % 2)}

    def scores(found):
        column = dict.fromkeys(METRICS, hits[found.cell.method])
        return Scores({name: float(own.mean()) for name, own in column.items()}, 1000, 0, column, {})

    made = [record(name, value=float(own.mean())) for name, own in hits.items()]
    page = files(pages(made, scores=scores))["tiny.md"]
    assert {line[2] for line in re.findall(r"^\| [BC] \|.*", page, re.MULTILINE) if "≈" in line} == {"B"}
    assert "≈: statistically tied with it" in page
    missing = files(pages(made, scores=lambda found: None if found.cell.method == "a" else scores(found)))["tiny.md"]
    assert not [line for line in missing.splitlines() if line.startswith("|") and "≈" in line]
    untested = "Bold: best of its column. Ties are not tested: the ranks of a row are missing."
    assert "≈" not in missing
    assert untested in missing
    assert untested in files(pages(made))["tiny.md"]


def test_a_dataset_for_tuning_has_a_table_for_each_choice(record, altered):
    names = [("a", ""), ("a", "rate=0.1"), ("b", ""), ("c", "")]
    made = [
        altered(
            record(method, value=0.1 * number),
            (("method", "variant"), variant),
            (("cell", "dataset"), "Tiny-dev"),
            (("cell", "parameters"), {"x": number}),
        )
        for number, (method, variant) in enumerate(names, 1)
    ]
    board = files(pages(made))
    page = board["tiny-dev.md"]
    assert "# Tiny-dev: how the defaults were chosen\n\n## Zero-shot (no pairs)\n" in page
    assert re.findall(r"^### (.*)", page, re.MULTILINE) == ["A", "Methods with one row"]
    assert "tiny-dev-ez.md" not in board
    assert "| A | rate=0.1 | **20.00**" in page
    assert "Tiny-dev" not in board["README.md"].partition("* [")[0]


def test_tables_of_a_dataset_for_tuning_replace_none_of_each_other(record, altered):
    """In file names, titles of other scripts are equal, and long ones are cut."""
    titles = ["Ärger", "日本", "Single", "One row", "One-row-2", "One-row", "A" * 60, "A" * 70, *"x0"]
    made = [
        altered(
            record(f"m{place}", value=0.1, k=k),
            (("method", "title"), title),
            (("cell", "dataset"), "Tiny-dev"),
        )
        for place, title in enumerate(titles)
        for k in range(1 if title == "0" else 2)
    ]
    (page,) = (page for page in pages(made, ()) if page.name == "tiny-dev")
    tables = [block for block in page.blocks if isinstance(block, Table)]
    assert len(tables) == len(titles) + 1
    assert len([name for name in files(pages(made, ()), "csv") if name.startswith("tiny-dev/")]) == len(tables)


def test_a_dataset_for_tuning_without_any_result_has_a_page(record, altered):
    made = [altered(record("a", status="failed"), (("cell", "dataset"), "Tiny-dev"))]
    assert "A, seed 0: failed" in files(pages(made))["tiny-dev.md"]


def test_an_index_without_a_best_row_has_no_table_of_them(record, altered):
    made = [altered(record("a"), (("cell", "dataset"), "Tiny-dev"))]
    assert files(pages(made, ()))["README.md"].partition("# Leaderboards\n\n")[2].startswith("* [Tiny-dev]")
    assert "leaderboards/best.csv" not in files(pages(made, ()), "csv")


def test_of_a_preset_that_has_changed_the_row_of_today_is_in_the_main_table(record, altered):
    made = [record("a", value=0.9, rate=1), record("a", value=0.5, rate=2), record("b", value=0.4)]
    made = [altered(record, (("method", "variant"), "")) for record in made]
    board = files(pages(made, staleness=Staleness(presets={"a": {"": {"rate": 2}}})))
    first, _, other = board["tiny-ez.md"].partition("## Rows with other parameters")
    assert "| A | rate=2 | **50.00**" in first
    assert "| A | rate=1 | 90.00" in other
    assert "90.00" not in first
    assert "| A (rate=2), 50.0 |" in board["README.md"]


def test_two_methods_of_one_title_are_both_in_the_main_table(record, altered):
    made = [record("a", value=0.5), altered(record("b", value=0.4), (("method", "title"), "A"))]
    page = files(pages(made))["tiny-ez.md"]
    assert "## Rows with other parameters" not in page
    assert ("| A | method=a | **50.00**" in page, "| A | method=b | 40.00" in page) == (True, True)


def test_the_index_names_the_parameters_of_a_best_row_that_no_preset_has(record, altered):
    made = altered(record("a", parts="x"), (("method", "variant"), "small, x + y"))
    known = {"a": {"": {"parts": "z"}, "small": {"parts": "z"}}}
    index = files(pages([made], staleness=Staleness(presets=known)))["README.md"]
    assert "| A (small, x + y), 50.0 |" in index


def test_the_index_begins_with_the_best_methods(some):
    lines = files(pages(some))["README.md"].splitlines()
    assert lines[4].startswith("| Dataset | setting | best P@1 | best R@100 | methods |")
    assert "| Tiny | zero-shot (no pairs) | B, 20.0 | B, 20.0 | 2 |" in lines


def test_a_caption_says_what_the_figures_are(some, record):
    page = files(pages(some))["tiny-fs-label-0.01.md"]
    assert (
        "Tiny, few-shot, 1% of the labels: 12 known pairs of 5 labels. Percent ± half-width of the 95% "
        "interval over 30 test instances (and over seeds, where there are several); filter self, metric protocol 3. "
        "Bold: best of its column."
    ) in page
    assert "interval over 30 test instances; filter self" in files(pages([record()]))["tiny.md"]


def test_a_caption_says_when_known_pairs_are_a_mean(record):
    half = [record(setting=Setting.of("fs", 0.5), seed=seed) for seed in (0, 1)]
    assert "12 known pairs of 5 labels. Percent" in files(pages(half))["tiny.md"]
    more = msgspec.structs.replace(half[1], subset=msgspec.structs.replace(half[1].subset, pairs=15))
    assert "14 known pairs of 5 labels, mean over seeds. Percent" in files(pages([half[0], more]))["tiny.md"]
    wide = msgspec.structs.replace(half[1], subset=msgspec.structs.replace(half[1].subset, labels=9))
    assert "12 known pairs of 7 labels, mean over seeds. Percent" in files(pages([half[0], wide]))["tiny.md"]


def test_the_index_names_every_page_and_every_dataset(some):
    made = files(pages(some))
    index = made["README.md"]
    for name in made:
        if name.endswith(".md") and name != "README.md":
            assert f"]({name})" in (made["tiny.md"] if name.startswith("tiny-") else index)
    assert "[Tiny](tiny.md): zero-shot; few-shot by label 1%, 5%; full" in index
    assert "[LF-Amazon-1M](lf-amazon-1m.md): published rows only" in index
    assert re.search(r"\| Tiny \| 60 \| 30 \| 10 \| 120 \| 60 \| 2.00 \|", index)


def test_times_of_two_machines_are_two_tables(record):
    page = files(pages([record("a"), record("b", processor="Q")]))["tiny-ez.md"]
    assert "time and memory on P, 2 cores" in page
    assert "time and memory on Q, 2 cores" in page


def test_what_has_no_result_is_named(record):
    page = files(pages([record("a", status="failed"), record("b")]))["tiny-ez.md"]
    assert "A, seed 0: failed: ValueError: no" in page
    assert "| A " not in page


def test_every_link_leads_to_a_file(some):
    made = files(pages(some))
    for name, content in made.items():
        if name.endswith(".md"):
            targets = re.findall(r"\]\((?!https?:)([^)]+)\)", content)
            assert set(targets) <= set(made), name


def test_remarks_stand_behind_charts_as_they_were_written(some):
    made = files(pages(some, remarks={"tiny": "By *hand*.\n\n### And so on", "README": "The answer.\n\nOn the index."}))
    plain = files(pages(some))
    assert made["ablation.md"] == plain["ablation.md"]
    assert "\n## Remarks\n\nBy *hand*.\n\n### And so on\n\n## Instances, labels and pairs\n" in made["tiny.md"]
    assert made["tiny.md"].index("## Charts") < made["tiny.md"].index("## Remarks")
    assert made["tiny.md"].replace("## Remarks\n\nBy *hand*.\n\n### And so on\n\n", "") == plain["tiny.md"]
    assert made["README.md"].index("](tiny.md)") < made["README.md"].index("## Remarks\n\nOn the index.\n\n## Datasets")
    assert made["README.md"].index("# Leaderboards\n\nThe answer.\n\n| Dataset |") < made["README.md"].index(
        "](tiny.md)"
    )
    assert "Remarks" not in files(pages(some, remarks={"README": "The answer."}))["README.md"]
    ablation = files(pages(some, remarks={"ablation": "Above all."}))["ablation.md"]
    assert "\n\n## Remarks\n\nAbove all.\n\n## Sources\n" in ablation


def test_a_remark_on_no_page_is_named(some):
    with pytest.raises(StorageError, match=r"tiyn\.md has no page"):
        pages(some, remarks={"tiyn": "lost"})


def test_remarks_are_read_from_a_folder(tmp_path):
    assert read_remarks(tmp_path / "remarks") == {}
    (tmp_path / "tiny.md").write_text("Zeile ä\n\n  indented\n\n", encoding="utf-8")
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "windows.md").write_bytes(b"Lead.\r\n\r\nRest.\r\n")
    (tmp_path / "other.txt").write_text("no remark")
    assert read_remarks(tmp_path) == {"tiny": "Zeile ä\n\n  indented", "windows": "Lead.\n\nRest."}
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match=r"bad\.md"):
        read_remarks(tmp_path)


def test_a_table_a_file_for_papers(some):
    made = files(pages(some), "latex")
    text = made["tiny/fs-label-0.01.tex"]
    assert text.startswith("% generated by `xmcbench leaderboard` as tiny/fs-label-0.01.tex; do not edit\n% needs")
    assert r"\toprule" in text
    assert {"tiny/ez.tex", "tiny/ez-ndcg-psp.tex", "tiny/ez-head.tex", "tiny/full-seen.tex"} <= set(made)
    assert "tiny/ez-efficiency.tex" in made
    assert "ablation/published.tex" in made
    tables = {name for name in files(pages(some), "csv") if not name.startswith("figures/")}
    assert tables == {name.replace(".tex", ".csv") for name in made}


def test_write_and_differences(tmp_path, some, record):
    (tmp_path / "notes.md").write_text("by hand\n")
    made = files(pages(some))
    assert len(differences(tmp_path, made)) == len(made)
    write(tmp_path, made)
    assert differences(tmp_path, made) == []
    for name in ("tiny.md", "figures/tiny-label-p5.svg"):
        path = tmp_path / name
        content = path.read_text()
        path.write_text(content.replace("0", "1", 1))
        assert differences(tmp_path, made) == [f"{path} is out of date"]
        path.unlink()
        assert differences(tmp_path, made) == [f"{path} is missing"]
        path.write_text(content)
    # The figures of a dataset that is gone are removed with its page.
    fewer = files(pages([]))
    gone = [name for name in made if name.startswith(("tiny.", "tiny-", "figures/tiny-"))]
    assert len(gone) > 2
    found = [line.split()[0].removeprefix(f"{tmp_path}/") for line in differences(tmp_path, fewer)]
    assert sorted(found) == sorted([*gone, "README.md"])
    write(tmp_path, fewer)
    assert sorted(path.name for path in tmp_path.glob("*.md")) == sorted([*fewer, "notes.md"])
    assert list((tmp_path / "figures").iterdir()) == []


def test_a_layout_removes_its_own_files_only(tmp_path, some):
    board, latex, table = (files(pages(some), layout) for layout in ("markdown", "latex", "json"))
    figures = {"tiny-label-p5.svg": board["figures/tiny-label-p5.svg"]}
    for made in (board, latex, table, figures):
        write(tmp_path, made)
    for made in (board, latex, table, figures):
        assert differences(tmp_path, made) == []


def test_a_row_says_what_its_model_was_trained_on(record):
    """In the table of models, each once; old records do not hold the card."""
    model = {"name": "m", "source": "the hub", "sha256": "x", "parameters": 22_000_000, "width": 384}
    cards = {
        "a": {"training_sets": ["snli", "ms_marco"], "license": "mit"},
        "b": {},
        "c": None,
        "d": {"training_sets": "nli"},
        "e": {"training_sets": 5, "license": ["mit"]},
    }
    records = [record(name, notes={"backbone": {**model, "card": card}}) for name, card in cards.items()]
    records.append(record("own", notes={"backbone": {**model, "source": "trained on the corpus, 5 steps"}}))
    page = next(page for page in pages(records) if page.name == "tiny-ez")
    (table,) = (block for block in page.blocks if isinstance(block, Table) and block.name == "ez-models")
    assert sorted([line.name, *(cell.text for cell in line.cells)] for line in table.lines) == [
        ["m", "the hub", "22,000,000", "384", "nli", "not stated"],
        ["m", "the hub", "22,000,000", "384", "not recorded", "not recorded"],
        ["m", "the hub", "22,000,000", "384", "not stated", "['mit']"],
        ["m", "the hub", "22,000,000", "384", "not stated", "not stated"],
        ["m", "the hub", "22,000,000", "384", "snli; ms_marco", "mit"],
        ["m", "trained on the corpus, 5 steps", "22,000,000", "384", "", ""],
    ]


def test_a_row_with_a_model_that_is_newer_than_the_test_data_is_marked(record):
    """Only where both cards have a day: nothing is claimed of others."""
    dates = {"newer": "2026-11-22", "same": "2026-11-21", "older": "2021-08-30", "silent": "", "vague": "next year"}
    records = [
        record(name, notes={"model": {"name": "m", "source": "the hub", "sha256": "x", "card": {"date": date}}})
        for name, date in dates.items()
    ]
    own = {"name": "m", "source": "trained on the corpus, 5 steps", "sha256": "x", "card": {"date": "2026-12-01"}}
    records += [record("own", notes={"model": own}), record("bare")]
    note = "m is of 2026-11-22, the test data of 2026-11-21: it may have learned from them"
    for day, marked in (("2026-11-21", {"newer": (note,)}), ("", {})):
        board = pages(records, dates={records[0].cell.dataset: day})
        page = next(page for page in board if page.name == "tiny-ez")
        table = next(block for block in page.blocks if isinstance(block, Table))
        assert {line.shown.casefold(): line.notes for line in table.lines if line.notes} == marked


def test_what_a_card_declares_is_inert(record, altered):
    """In the footnotes and columns of Markdown and LaTeX, and in the link to a remark; HTML is in test_site."""
    hostile = "<script>x</script> | `x` \\input{x} \" ' \u202e [a](javascript:x)"
    model = {
        "name": hostile,
        "source": hostile,
        "sha256": "x",
        "card": {"training_sets": [hostile], "license": hostile},
    }
    one = altered(record(notes={"model": model}), (("method", "title"), hostile))
    made = pages([one], remarks={"tiny": f"{hostile} falls"})
    shown = files(made)["tiny.md"] + files(made)["tiny-ez.md"]
    written = [line for line in shown.splitlines() if "script" in line and not line.endswith(" falls")]
    assert len(written) > 5
    for line in written:
        assert "<script" not in line.replace("\\<script", "")
        assert "](javascript" not in line.replace("\\](javascript", "")
        assert "\u202e" not in line
    # A pipe of a name is no border of a column.
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    rows = [line for line in lines if "outside training data" in line]
    below = lines[lines.index(rows[0]) + 2]
    assert "script" in below
    assert below.replace("\\|", "").count("|") == rows[0].count("|")
    for name, content in files(made, "latex").items():
        assert "\\input{x}" not in content, name
        assert "\u202e" not in content
    assert "according to its card" in files(made, "latex")["tiny/ez-models.tex"]


def test_a_table_leads_to_the_remark_on_a_method(record):
    """The table links to a paragraph that begins with the title of one of its methods."""
    full = Setting.of("full")
    records = [record(name, setting=setting) for name in ("xr", "x") for setting in (Setting.of("ez"), full)]
    records += [record("a|b", setting=full)]
    remark = "Of all, XR is slow.\n\nXR falls, since ...\n\nA|B: it rises."
    board = pages(records, remarks={"tiny": remark})
    lines = [block for page in board for block in page.blocks if isinstance(block, str) and "#remarks)" in block]
    assert lines == [
        "[The remarks](tiny.md#remarks) explain the figures of XR.",
        "[The remarks](tiny.md#remarks) explain the figures of A\\|B and XR.",
    ]
    site = files(board, "html")
    assert '<a href="tiny.html#remarks">The remarks</a>' in site["tiny-full.html"]
    assert 'id="remarks"' in site["tiny.html"]
    without = pages(records, remarks={"tiny": "Of all, XR is slow."})
    assert not [block for page in without for block in page.blocks if isinstance(block, str) and "#remarks)" in block]


def test_points_are_written_with_the_tables_as_csv(tmp_path, some):
    """Neither pages nor a site have files of points; obsolete ones are removed, and files of others stay."""
    assert not [name for layout in ("markdown", "html") for name in files(pages(some), layout) if name.endswith(".csv")]
    made = files(pages(some), "csv")
    assert "figures/tiny-label-p5.csv" in made
    write(tmp_path, made)
    (tmp_path / "figures" / "mine.csv").write_text("a,b\n1,2\n")
    notes = tmp_path / "notes" / "mine.csv"
    notes.parent.mkdir()
    notes.write_text(made["figures/tiny-label-p5.csv"])
    (tmp_path / "figures" / "older-label-p5.csv").write_text(made["figures/tiny-label-p5.csv"])
    assert [line.split()[0].rpartition("/")[2] for line in differences(tmp_path, made)] == ["older-label-p5.csv"]
    write(tmp_path, made)
    assert differences(tmp_path, made) == []
    assert (tmp_path / "figures" / "mine.csv").exists()
    assert notes.exists()


FIGURES = ("metrics", "self")


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("cell", "dataset_sha256"), "0" * 64, "differ in their data"),
        (("counts", "test"), 31, "differ in their counts"),
        (("protocol", "propensity"), (0.6, 2.6), "differ in their propensities"),
        (("cell", "subset_sha256"), "f" * 64, "differ in their subset"),
        ((*FIGURES, "values", "P@1"), 0.21, r"P@1 = nDCG@1"),
        ((*FIGURES, "values", "R@10"), 0.05, r"R@k never falls"),
        ((*FIGURES, "intervals", "R@10"), (0.3, 0.2), "R@10 is .*, its interval"),
        ((*FIGURES, "intervals", "R@10"), (0.3, 0.9), "R@10 is .*, its interval"),
        ((*FIGURES, "scored"), 29, "differ in their instances"),
        ((*FIGURES, "views", "tail", "values", "P@3"), 2.0, "in \\[0, 1\\]"),
    ],
)
def test_records_that_cannot_stand_on_one_board_are_named(some, altered, place, value, reason):
    index = next(index for index, record in enumerate(some) if record.cell.setting.ratio == 0.05)
    some[index] = altered(some[index], (place, value))
    with pytest.raises(StorageError, match=reason) as refused:
        pages(some)
    assert "tiny/" in str(refused.value)


def test_the_latest_version_of_the_data_is_that_of_the_last_result(record, altered):
    """A run that failed on new data hides nothing, and each dataset has a latest version of its own."""

    def at(day, version, dataset="Tiny", status="ok"):
        changes = {"cell": {"dataset": dataset, "dataset_sha256": version * 64}, "measured": {"started": day}}
        places = [((part, name), value) for part, values in changes.items() for name, value in values.items()]
        return altered(record(status=status), *places)

    old, new, failed = at("2026-01-01", "1"), at("2026-01-02", "2"), at("2026-01-03", "3", status="failed")
    other = at("2026-01-01", "4", dataset="Other")
    kept, left_out = latest([new, old, failed, other])
    assert (kept, left_out) == ([new, other], [old, failed])
    kept, left_out = latest([new, old, failed, other], {"Tiny": "1" * 64, "Other": "5" * 64})
    assert (kept, left_out) == ([old, other], [new, failed]), "of the data that are given, if they have a result"


def test_two_default_filters_cannot_stand_on_one_board(some, altered):
    values = as_json(some[0])
    changed = altered(some[0], (("protocol", "filter"), "none"), (("metrics",), {"none": values["metrics"]["self"]}))
    with pytest.raises(StorageError, match="differ in their default filter"):
        pages([changed, *some[1:]])


@pytest.mark.parametrize("name", ["TINY", "Ablation", "readme", "Index"])
def test_no_page_replaces_another(some, record, altered, name):
    other = altered(record(), (("cell", "dataset"), name))
    with pytest.raises(StorageError, match="would replace that of"):
        pages([*some, other])


def test_a_file_that_was_written_by_hand_is_not_replaced(tmp_path, some):
    """No file is written where one is in the way; a generated file, also one with other content, gives way."""
    made = files(pages(some))
    chart = next(name for name in made if name.endswith(".svg"))
    write(tmp_path, made)
    for name in ("README.md", chart):
        (tmp_path / name).write_text("by hand\n")
        other = next(path for path in made if path not in (name, chart))
        (tmp_path / other).write_text(made[other] + " ")
        with pytest.raises(UsageError, match=f"{name} already exists and was not generated"):
            write(tmp_path, made)
        assert (tmp_path / name).read_text() == "by hand\n"
        assert (tmp_path / other).read_text() == made[other] + " "
        write(tmp_path, made, force=True)
        assert differences(tmp_path, made) == []


@pytest.mark.parametrize("layout", ["markdown", "html", "latex", "json"])
def test_only_files_that_were_generated_under_their_name_are_removed(tmp_path, some, layout):
    """A text that speaks of the command, a copy that was edited, and what an editor leaves are the user's."""
    made = files(pages(some), layout)
    write(tmp_path, made)
    page = max((name for name in made if "tiny" in name and not name.endswith((".svg", ".csv"))), key=len)
    suffix = page.rpartition(".")[2]
    place = (tmp_path / page).parent
    (place / f"copy.{suffix}").write_text(made[page] + "edited\n")
    (place / f"notes.{suffix}").write_text("All tables are generated by `xmcbench leaderboard`, discussed by hand.\n")
    (place / f".#notes.{suffix}").symlink_to("nowhere")
    (place / f"folder.{suffix}").mkdir()
    if layout == "markdown":
        ranks = tmp_path / "figures" / "ranks.svg"
        ranks.write_text(re.sub("<!-- generated .* -->\n", "", made["figures/tiny-label-p5.svg"]))  # as rank --svg
        ranks.with_suffix(".csv").write_text("a,b\n")
    before = sorted(path for path in tmp_path.rglob("*"))
    assert differences(tmp_path, made) == []
    assert write(tmp_path, made) == []
    assert sorted(path for path in tmp_path.rglob("*")) == before
    # What was generated and belongs to no record anymore goes, and is named.
    rest = {name: content for name, content in made.items() if name != page}
    assert write(tmp_path, rest) == [tmp_path / page]
    assert sorted(path for path in tmp_path.rglob("*")) == [path for path in before if path != tmp_path / page]


def test_a_text_about_the_command_is_not_overwritten(tmp_path, some):
    text = "# Repo\n\nTables are generated by `xmcbench leaderboard`.\n"
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(UsageError, match=r"README\.md already exists and was not generated"):
        write(tmp_path, files(pages(some)))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", text)]


def test_methods_that_ignore_pairs_are_in_every_table(record):
    """Measured without pairs only; a result of their own in the setting takes the place of that."""
    few = Setting.of("fs", 0.01)
    board = pages(
        [
            record("ignores", value=0.6, supervision="unused"),
            record("both", value=0.4, supervision="unused"),
            record("both", value=0.4, supervision="unused", setting=few),
            record("looks", value=0.5),
            record("looks", value=0.3, setting=few),
        ]
    )
    page = next(page for page in board if page.name == f"tiny-{few.slug}")
    table = next(block for block in page.blocks if isinstance(block, Table) and block.name == few.slug)
    assert [(line.name, line.notes) for line in table.lines] == [
        ("IGNORES", ("measured without pairs, which this method ignores",)),
        ("BOTH", ()),
        ("LOOKS", ()),
    ]
    costs = next(block for block in page.blocks if isinstance(block, Table) and block.name == f"{few.slug}-efficiency")
    assert [line.name for line in costs.lines] == ["BOTH", "LOOKS"]
    # Nothing is borrowed where nothing was measured.
    board = pages([record("ignores", supervision="unused"), record("failed", status="failed", setting=few)])
    page = next(page for page in board if page.name == f"tiny-{few.slug}")
    assert not [block for block in page.blocks if isinstance(block, Table)]
    assert "FAILED, seed 0: failed: ValueError: no" in files(board)[f"tiny-{few.slug}.md"]
