"""Every published figure stands on a page, digit by digit, and gives the averages that the paper's text names."""

import csv
import json
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import pytest

from xmcbench.data import known_datasets
from xmcbench.errors import DataError
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.published import MAIN, PublishedRow, read_source, sources
from xmcbench.leaderboard.tables import BEST, metric_table
from xmcbench.setting import Setting

FOLDER = Path(__file__).parents[2] / "leaderboards" / "published"


def lines(name):
    with (FOLDER / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def printed():
    return lines("maclr_naacl22.csv")


@pytest.fixture(scope="module")
def board():
    return files(pages([]))


def section(page, heading):
    return page.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]


def cells(line):
    """The cells of a Markdown row without what makes them bold, italic or marked."""
    for mark in ("*", "<u>", "</u>"):
        line = line.replace(mark, "")
    return [cell.split("<sup>")[0].strip() for cell in line.strip("|").split("|")]


def test_all_116_rows_stand_on_their_pages_as_printed(printed, board):
    assert len(printed) == 116
    for row in printed:
        setting = Setting.of(row["setting"], float(row["ratio"]) or None, row["sample_by"] or None)
        page = section(board[f"{row['dataset'].lower()}.md"], setting.title.capitalize())
        found = [cells(line) for line in page.splitlines() if line.startswith(f"| *{row['method']}*")]
        assert [line[1:] for line in found] == [[row[metric] for metric in MAIN]], row


def test_all_7_ablation_rows_stand_on_their_page_as_printed(board):
    page = board["ablation.md"].splitlines()
    rows = lines("maclr_naacl22_ablation.csv")
    assert len(rows) == 7
    for row in rows:
        (line,) = [cells(line) for line in page if line.startswith(f"| *{row['index']}*")]
        assert line[1:] == [row[name] for name in row if name != "index"]


def test_rows_of_a_source_that_prints_some_metrics_stand_as_printed(board):
    rows = lines("renee_mlsys23.csv")
    assert len(rows) == 10
    for row in rows:
        page = section(board[f"{row['dataset'].lower()}.md"], "Full (all training pairs)")
        found = [cells(line) for line in page.splitlines() if line.startswith(f"| *{row['method']}* [[2]]")]
        assert [line[1:] for line in found] == [[row[metric] for metric in ("P@1", "P@3", "P@5")]], row
    assert "| *Renee* [[2]](https://github.com/microsoft/renee) | ***48.05***" in board["lf-amazon-131k.md"]


def test_sources_are_ranked_apart_and_what_one_does_not_print_is_blank():
    setting = Setting.of("full")

    def row(method, **figures):
        return PublishedRow(
            method, "t", "D", setting, {name.replace("_", "@"): text for name, text in figures.items()}, {}
        )

    printed = [
        (1, row("A", P_1="50.0", R_100="90.0")),
        (1, row("B", P_1="40.0", R_100="95.0")),
        (2, row("C", P_1="45.0")),
        (2, row("D", P_1="30.0")),
        (3, row("E", P_1="60.0")),
    ]
    table = metric_table((), ("P@1", "P@3", "R@100"), published=printed)
    assert [column.text for column in table.columns] == ["P@1", "R@100"]
    assert {line.name: [(cell.text, cell.rank) for cell in line.cells] for line in table.lines} == {
        "E": [("60.0", ""), ("", "")],
        "A": [("50.0", BEST), ("90.0", "")],
        "C": [("45.0", BEST), ("", "")],
        "B": [("40.0", ""), ("95.0", BEST)],
        "D": [("30.0", ""), ("", "")],
    }


@pytest.mark.parametrize(("method", "p_1", "r_100"), [("TF-IDF", "5.3", "9.1"), ("MPNet", "3.5", "10.9")])
def test_the_averages_of_section_5_2_follow(printed, method, p_1, r_100):
    """Cut after one digit, as the paper does: it prints gains in R@100 of 9.15 and 10.9925 as 9.1 and 10.9."""
    zero_shot = {(row["dataset"], row["method"]): row for row in printed if row["setting"] == "ez"}
    datasets = {dataset for dataset, _ in zero_shot}

    def gain(metric):
        gains = [Decimal(zero_shot[x, "MACLR"][metric]) - Decimal(zero_shot[x, method][metric]) for x in datasets]
        return str((sum(gains) / len(gains)).quantize(Decimal("0.1"), ROUND_DOWN))

    assert len(datasets) == 4
    assert (gain("P@1"), gain("R@100")) == (p_1, r_100)


def test_errata_are_footnotes(board):
    page = board["lf-amazon-1m.md"]
    zero_shot, few = section(page, "Zero-shot (no pairs)"), section(page, "Few-shot, 1% of the labels")
    assert "P@3<sup>a</sup>" not in zero_shot
    assert "*43.79*<sup>a</sup>" in zero_shot
    assert "probably R@20" in zero_shot
    assert "P@3<sup>a</sup>" in few
    assert "*0.59*<sup>b</sup>" in few
    assert "*10.34*" in few
    assert "headed P@5 and P@10" in few


def test_statistics_are_those_of_the_cards():
    cards = {dataset.card.name: dataset.card.counts for dataset in known_datasets() if dataset.card}
    (source,) = (source for source in sources() if source.statistics)
    assert len(source.statistics) == 4
    for line in source.statistics:
        counts = cards[line["dataset"]]
        assert [int(line[name]) for name in ("N_train", "N_test", "N_label")] == [
            counts[name] for name in ("train", "test", "labels")
        ]


def test_published_rows_stand_beside_measured_ones_and_are_ranked_apart(record, altered):
    both = (record(value=0.1), record("bm25", value=0.05))
    made, other = (altered(record, (("cell", "dataset"), "LF-Amazon-131K")) for record in both)
    page = files(pages([made, other]))["lf-amazon-131k-ez.md"]
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
    assert rows[0].startswith("| TFIDF ")
    assert "**10.00** <sub>±3.0</sub>" in rows[0]
    assert rows[2].startswith("| *MACLR* [[1]]")
    assert "***18.13***" in rows[2]
    document = json.loads(files(pages([made, other]), "json")["lf-amazon-131k-ez.json"])
    assert {row["source"] for table in document["tables"] for row in table["rows"]} == {0, 1}


def test_a_damaged_source_is_named(tmp_path):
    (tmp_path / "x.toml").write_text('key = "x"\n')
    with pytest.raises(DataError, match=r"x\.toml"):
        read_source(tmp_path / "x.toml")
