import random
import re

import msgspec
import pytest

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard.consistency import latest
from xmcbench.leaderboard.files import differences, files, write
from xmcbench.leaderboard.pages import pages, read_remarks
from xmcbench.leaderboard.tables import Table
from xmcbench.records import as_json
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
    page = files(pages([record for record in some if (record.cell.method, record.cell.seed) != ("a", 1)]))["tiny.md"]
    few = page[page.index("## Few-shot, 1% of the labels") :]
    said = "seen and unseen labels are those of the subset of seed 0 only"
    assert said in few[few.index("By label: seen, unseen") : few.index("By label: head")]
    assert said not in few[few.index("By label: head") : few.index("## Few-shot, 5%")]
    assert said not in files(pages(some))["tiny.md"]


def test_a_row_without_a_result_is_named_where_there_are_few_pairs_too(some, record):
    page = files(pages([*some, record("c", status="failed", setting=Setting.of("fs", 0.01, "label"))]))["tiny.md"]
    assert "C, seed 0: failed: ValueError: no" in page
    assert "seen and unseen labels are those of" not in page


def test_a_page_in_the_order_of_the_paper(some):
    page = files(pages(some))["tiny.md"]
    headings = re.findall(r"^##+ .*", page, re.MULTILINE)
    assert [heading for heading in headings if heading.startswith("## ")] == [
        *("## Charts", "## Zero-shot (no pairs)", "## Few-shot, 1% of the labels"),
        *("## Few-shot, 5% of the labels", "## Full (all training pairs)"),
    ]
    # At zero shot every label is unseen: no table says so.
    zero_shot = page[page.index("## Zero-shot") : page.index("## Few-shot, 1%")]
    assert "### By label: head, middle, tail" in zero_shot
    assert "seen, unseen" not in zero_shot
    assert page.count("### By label: seen, unseen") == 3


def test_a_caption_says_what_the_figures_are(some, record):
    page = files(pages(some))["tiny.md"]
    assert (
        "Tiny, few-shot, 1% of the labels: 12 known pairs of 5 labels. Percent ± half-width of the 95% bootstrap "
        "interval over 30 test instances (and over seeds, where there are several); filter self, metric protocol 2; "
        "row names contain preset, encoder and training budget."
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
            assert f"]({name})" in index
    assert "[Tiny](tiny.md): zero-shot; few-shot by label 1%, 5%; full" in index
    assert "[LF-Amazon-1M](lf-amazon-1m.md): published rows only" in index
    assert re.search(r"\| Tiny +\| +60 \| +30 \| +10 \| +120 \| +60 \| +2.00 \|", index)


def test_times_of_two_machines_are_two_tables(record):
    page = files(pages([record("a"), record("b", processor="Q")]))["tiny.md"]
    assert "time and memory on P, 2 cores" in page
    assert "time and memory on Q, 2 cores" in page


def test_what_has_no_result_is_named(record):
    page = files(pages([record("a", status="failed"), record("b")]))["tiny.md"]
    assert "A, seed 0: failed: ValueError: no" in page
    assert "| A " not in page


def test_every_link_leads_to_a_file(some):
    made = files(pages(some))
    for name, content in made.items():
        if name.endswith(".md"):
            targets = re.findall(r"\]\((?!https?:)([^)]+)\)", content)
            assert set(targets) <= set(made), name


def test_remarks_stand_behind_the_first_block_as_they_were_written(some):
    made = files(pages(some, remarks={"tiny": "By *hand*.\n\n### And so on", "README": "On the index."}))
    plain = files(pages(some))
    assert made["ablation.md"] == plain["ablation.md"]
    assert "\n## Remarks\n\nBy *hand*.\n\n### And so on\n\n## Charts\n" in made["tiny.md"]
    assert made["tiny.md"].index("| Tiny ") < made["tiny.md"].index("## Remarks")
    assert made["tiny.md"].replace("## Remarks\n\nBy *hand*.\n\n### And so on\n\n", "") == plain["tiny.md"]
    assert made["README.md"].index("](tiny.md)") < made["README.md"].index("## Remarks\n\nOn the index.\n\n## Datasets")
    ablation = files(pages(some, remarks={"ablation": "Above all."}))["ablation.md"]
    assert "# Ablation\n\n## Remarks\n\nAbove all.\n\n## LF-Amazon-131K, published" in ablation


def test_a_remark_on_no_page_is_named(some):
    with pytest.raises(StorageError, match=r"tiyn\.md has no page"):
        pages(some, remarks={"tiyn": "lost"})


def test_remarks_are_read_from_a_folder(tmp_path):
    assert read_remarks(tmp_path / "remarks") == {}
    (tmp_path / "tiny.md").write_text("Zeile ä\n\n  indented\n\n", encoding="utf-8")
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "other.txt").write_text("no remark")
    assert read_remarks(tmp_path) == {"tiny": "Zeile ä\n\n  indented"}
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
    gone = [name for name in made if name.startswith(("tiny.", "figures/tiny-"))]
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
    """In a footnote of the main table, and in the table of what rows are made of; old records do not hold the card."""
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
    page = next(page for page in pages(records) if page.name == "tiny")
    tables = {block.name: block for block in page.blocks if isinstance(block, Table)}
    assert {line.name: line.notes for line in tables["ez"].lines} == {
        "A": ("starts from m, which was trained on snli, ms_marco (according to its model card)",),
        "B": ("starts from m, which was trained on other data, which its card does not name",),
        "C": ("starts from m, which was trained on other data; the record does not say which",),
        "D": ("starts from m, which was trained on nli (according to its model card)",),
        "E": ("starts from m, which was trained on other data, which its card does not name",),
        "OWN": (),
    }
    assert not any(line.notes for line in tables["ez-ndcg-psp"].lines)
    made = {line.name: [cell.text for cell in line.cells][2:6] for line in tables["ez-rows"].lines}
    assert made == {
        "A": ["22,000,000", "384", "snli; ms_marco", "mit"],
        "B": ["22,000,000", "384", "not stated", "not stated"],
        "C": ["22,000,000", "384", "not recorded", "not recorded"],
        "D": ["22,000,000", "384", "nli", "not stated"],
        "E": ["22,000,000", "384", "not stated", "['mit']"],
        "OWN": ["22,000,000", "384", "", ""],
    }


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
    shown = files(made)["tiny.md"]
    written = [line for line in shown.splitlines() if "script" in line and not line.endswith(" falls")]
    assert len(written) > 5
    for line in written:
        assert "<script" not in line.replace("\\<script", "")
        assert "](javascript" not in line.replace("\\](javascript", "")
        assert "\u202e" not in line
    # A pipe of a name is no border of a column.
    rows = [line for line in shown.splitlines() if line.startswith("|") and "according to the model card" in line]
    (below,) = [
        line for line in shown.splitlines() if line.startswith("|") and "reproduce" in line and "script" in line
    ]
    assert below.replace("\\|", "").count("|") == rows[0].count("|")
    for name, content in files(made, "latex").items():
        assert "\\input{x}" not in content, name
        assert "\u202e" not in content
    assert "according to its model card" in files(made, "latex")["tiny/ez.tex"]


def test_a_table_leads_to_the_remark_on_a_method(record):
    """The table links to a paragraph that begins with the title of one of its methods."""
    full = Setting.of("full")
    records = [record(name, setting=setting) for name in ("xr", "x") for setting in (Setting.of("ez"), full)]
    records += [record("a|b", setting=full)]
    remark = "Of all, XR is slow.\n\nXR falls, since ...\n\nA|B: it rises."
    page = next(page for page in pages(records, remarks={"tiny": remark}) if page.name == "tiny")
    lines = [block for block in page.blocks if isinstance(block, str) and "(#remarks)" in block]
    assert lines == [
        "[The remarks](#remarks) explain the figures of XR.",
        "[The remarks](#remarks) explain the figures of A\\|B and XR.",
    ]
    shown = files([page], "html")["tiny.html"]
    assert shown.count('<a href="#remarks">The remarks</a>') == 2
    assert 'id="remarks"' in shown
    without = next(page for page in pages(records, remarks={"tiny": "Of all, XR is slow."}) if page.name == "tiny")
    assert not [block for block in without.blocks if isinstance(block, str) and "(#remarks)" in block]


def test_points_are_written_with_the_tables_as_csv(tmp_path, some):
    """Neither pages nor a site have files of points; obsolete ones are removed, and files of others stay."""
    assert not [name for layout in ("markdown", "html") for name in files(pages(some), layout) if name.endswith(".csv")]
    made = files(pages(some), "csv")
    assert "figures/tiny-label-p5.csv" in made
    write(tmp_path, made)
    (tmp_path / "figures" / "mine.csv").write_text("a,b\n1,2\n")
    (tmp_path / "figures" / "older-label-p5.csv").write_text(made["figures/tiny-label-p5.csv"])
    assert [line.split()[0].rpartition("/")[2] for line in differences(tmp_path, made)] == ["older-label-p5.csv"]
    write(tmp_path, made)
    assert differences(tmp_path, made) == []
    assert (tmp_path / "figures" / "mine.csv").exists()


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
    assert ([record.key for record in kept], left_out) == ([new.key, other.key], {"Tiny": 2})


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
    page = next(page for page in board if page.name == "tiny")
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
    page = next(page for page in board if page.name == "tiny")
    assert not [block for block in page.blocks if isinstance(block, Table) and block.name.startswith(few.slug)]
    assert "FAILED, seed 0: failed: ValueError: no" in files(board)["tiny.md"]
