import re

import pytest

from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.setting import Setting

NAMES = ("adaptive_clustering", "label_regularization", "pseudo_encoder", "pseudo_tfidf")


def a_training(*losses, at=(1, 2, 3), value=1.0):
    return {"losses": [*losses], "curve": [[step, *[value / step for _ in losses]] for step in at], "steps": at[-1]}


@pytest.fixture
def row(record, altered):
    """A record of a method with components, named as the runner would."""

    def make(components, *arguments, budget="20 steps of 32", **more):
        switches = dict(zip(NAMES, (letter == "x" for letter in components), strict=True))
        made = record("maclr", *arguments, **switches, **more)
        off = "".join(f", {name}=False" for name, on in switches.items() if not on)
        variant = f"quick, {more.get('backbone', 'mini')}, {budget}{off}"
        return altered(made, (("method", "title"), "MACLR"), (("method", "variant"), variant))

    return make


def table_heads(records):
    """(heading, the first cells of its rows) of each measured table."""
    page = files(pages(records))["ablation.md"]
    found = []
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        lines = section.splitlines()
        rows = [line.split("|")[1:7] for line in lines if re.match(r"\| [-\d] ", line)]
        found.append((lines[0], [[cell.strip() for cell in row] for row in rows]))
    return found


def test_rows_are_numbered_and_ordered_as_the_printed_ones(row, record):
    made = [*(row(components) for components in ("x-x-", "xxxx", "----", "xx-x")), record("other")]
    ((heading, rows),) = table_heads(made)
    assert heading == "MACLR (quick, mini, 20 steps of 32)"
    assert rows == [
        ["1", "no", "no", "no", "no", "**50.00** <sub>±3.0</sub>"],
        ["6", "yes", "yes", "no", "yes", "**50.00** <sub>±3.0</sub>"],
        ["7", "yes", "yes", "yes", "yes", "**50.00** <sub>±3.0</sub>"],
        ["-", "yes", "no", "yes", "no", "**50.00** <sub>±3.0</sub>"],
    ]
    page = files(pages(made))["ablation.md"]
    assert (
        "Tiny, zero-shot (no pairs). MACLR (quick, mini, 20 steps of 32) with its components (MAC, LR, E, TF-" in page
    )
    assert "adaptive_clustering" not in page
    assert "OTHER" not in page


def test_the_printed_ablation_is_cited_on_a_board_of_ones_own_too(row):
    """It has none of the paper's datasets, so no row of the paper but those of the ablation."""
    board = files(pages([row("x-x-"), row("xxxx")], measured_only=True))
    assert "\n## Sources\n\n[1] " in board["ablation.md"]
    assert "[2] " not in board["ablation.md"]
    assert "## Sources" not in board["README.md"]
    assert "## Sources" not in board["tiny.md"]


def test_a_heading_names_what_all_rows_have_in_common(row):
    """Not the budget of one of them: rows without Stage II embed fewer texts."""
    made = [
        row("xxxx", budget="20 steps of 32, 5 on pseudo pairs, 4K texts"),
        row("xx--", budget="20 steps of 32, 3K texts"),
    ]
    assert table_heads(made)[0][0] == "MACLR (quick, mini, 20 steps of 32)"


def test_rows_with_a_component_off_stand_on_no_other_page(row, record):
    made = [row("xxxx", value=0.4), row("xx--", value=0.6), record("other"), row("x---", setting=Setting.of("full"))]
    board = files(pages(made))
    zero_shot, full = board["tiny-ez.md"], board["tiny-full.md"]
    tables = re.findall(r"^\| (MACLR|OTHER) \|.*? \| (\S*50.00\S*|\S*40.00\S*) <", zero_shot, re.MULTILINE)
    assert tables[:2] == [("OTHER", "**50.00**"), ("MACLR", "40.00")]
    assert "pseudo" not in zero_shot + full
    told = "\n\nRows of MACLR without a component: [ablation](ablation.md).\n"
    assert told in zero_shot
    assert told in full
    assert "|" not in full


def test_a_table_for_each_variant_and_setting(row):
    made = [row(switched, backbone=backbone) for switched in ("xxxx", "xx--") for backbone in ("bert", "mini")]
    made += [row(switched, 0, 0.9, steps=3000, budget="3000 steps of 32") for switched in ("xxxx", "----")]
    made += [row("x---", setting=Setting.of("full"))]
    page = files(pages(made))["ablation.md"]
    assert [heading for heading, _ in table_heads(made)] == [
        "MACLR (quick, bert, 20 steps of 32)",
        "MACLR (quick, mini, 20 steps of 32)",
        "MACLR (quick, mini, 3000 steps of 32)",
        "MACLR (quick, mini, 20 steps of 32)",
    ]
    assert page.count("## Tiny, zero-shot (no pairs), measured") == 1
    assert page.index("## Tiny, zero-shot") < page.index("## Tiny, full")
    # Ranks are those of one variant: a larger budget leaves the smaller one its best.
    assert page.count("**50.00**") == page.count("**90.00**") + 16 == 4 * 8


def test_a_variant_with_all_components_alone_is_not_an_ablation(row):
    assert "measured" not in files(pages([row("xxxx")]))["ablation.md"]
    assert len(table_heads([row("xxxx"), row("xxx-")])) == 1


def test_variants_of_one_name_are_told_apart(row):
    """A preset may have been changed between two runs."""
    made = [row(switched, batch=batch) for switched in ("xxxx", "----") for batch in (32, 48, 64, 96)]
    assert [heading for heading, _ in table_heads(made)] == [
        f"MACLR (quick, mini, 20 steps of 32), batch={batch}" for batch in (32, 48, 64, 96)
    ]
    assert sum(name.startswith("ablation/tiny") for name in files(pages(made), "csv")) == 4


def test_what_failed_is_named(row):
    page = files(pages([row("xxxx", status="failed"), row("----", status="failed")]))["ablation.md"]
    assert page.count("seed 0: failed: ValueError: no") == 2


def test_seeds_have_a_spread(row):
    page = files(pages([row(switched, seed, 0.2 + seed / 10) for switched in ("xxxx", "----") for seed in (0, 1)]))
    assert page["ablation.md"].count("2 (7.07)") == 2
    assert "| Row " in page["ablation.md"]


def test_rows_are_compared_on_the_seeds_that_all_of_them_have(row):
    made = [*(row("xxxx", seed, 0.2 + seed / 10) for seed in (0, 1)), row("----", 0, 0.3)]
    page = files(pages(made))["ablation.md"]
    assert "Seeds that not every row has (1) are left out." in page
    assert "| **30.00** <sub>±3.0</sub> |" in page
    assert "| 20.00 <sub>±3.0</sub> |" in page
    page = files(pages([*made, row("----", 1, 0.3)]))["ablation.md"]
    assert "left out" not in page
    assert "25.00" in page
    assert "25.00" in files(pages([row("xxxx", 1, 0.25), row("----", 0, 0.3)]))["ablation.md"]


def test_the_printed_ablation_is_ranked_too():
    page = files(pages([]))["ablation.md"]
    assert "***18.13***" in page
    assert "*17.01*" in page
    assert "***yes***" not in page


def test_losses_stand_below_the_table_and_rows_that_share_a_training_share_a_line(row):
    made = [
        row("xx--", notes={"stage I": a_training("cluster", "label")}),
        row("xxx-", notes={"stage I": a_training("cluster", "label"), "stage II": a_training("pseudo pairs")}),
        row("-x--", notes={"stage I": a_training("cluster", "label", value=2.0)}),
    ]
    board = files(pages(made))
    drawings = [name for name in board if name.startswith("figures/ablation-tiny-ez-maclr-") and name.endswith(".svg")]
    stages = sorted(name.partition("-stage-")[2] for name in drawings)
    assert stages == ["i-cluster.svg"]  # that with the most lines
    first = board[sorted(drawings)[0]].replace("\N{NO-BREAK SPACE}", " ")
    assert ">3 (LR)<" in first
    assert ">4 (MAC, LR); 5 (MAC, LR, E)<" in first
    assert board["ablation.md"].rindex("| Row ") < board["ablation.md"].index("-stage-i-cluster.svg)")
    # Zero-shot rows with a component off are not drawn again on the page of the dataset.
    assert "Loss (" not in board["tiny.md"]
