"""The claims of a publication, tested on measured rows: which rows are compared, and what is shown of them."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from xmcbench.errors import DataError
from xmcbench.leaderboard.files import files
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.published import read_source, sources
from xmcbench.metrics import METRICS
from xmcbench.metrics.evaluation import Scores
from xmcbench.records import Staleness
from xmcbench.setting import Setting

FEW = Setting.of("fs", 0.01)
SWITCHES = ("adaptive_clustering", "label_regularization", "pseudo_encoder", "pseudo_tfidf")


@pytest.fixture
def row(record, altered):
    """A record of a method of the paper, by its title and variant; ``components``: those of MACLR that are on."""

    def make(title, variant="", value=0.5, seed=0, setting=None, components="xxxx", deterministic=False, **parameters):
        if title == "MACLR":
            parameters |= {name: letter == "x" for name, letter in zip(SWITCHES, components, strict=True)}
            off = [f"{name}=False" for name, letter in zip(SWITCHES, components, strict=True) if letter != "x"]
            variant = ", ".join([variant, *off])
        made = record(title.lower(), seed, value, setting=setting, deterministic=deterministic, **parameters)
        return altered(made, (("method", "title"), title), (("method", "variant"), variant))

    return make


@pytest.fixture
def with_claim(tmp_path):
    """The paper's source with another claim."""
    folder = Path(__file__).parents[2] / "leaderboards" / "published"
    for path in folder.glob("maclr_naacl22*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def make(claim):
        path = tmp_path / "source.toml"
        path.write_text((folder / "maclr_naacl22.toml").read_text() + f'\n[[claims]]\nclaim = "It is so"\n{claim}\n')
        return read_source(path)

    return make


def text(records, **options):
    """The page in Markdown; empty if there is none. Without the paper's pages, which would take most of the time."""
    board = pages(records, measured_only=True, **options)
    return files([page for page in board if page.name == "claims"]).get("claims.md", "")


def table(records, claim=None, **options):
    """The figures of one dataset: claim -> {"P@1 published": cell, "P@1 small": cell}, or those of one claim."""
    found, preset = {}, ""
    for line in text(records, **options).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            preset = line.split()[-1]
        elif line.startswith("| Claim"):
            metric = cells[1].split()[0]
        elif line.startswith("|") and not line.startswith("| :"):
            name, published, ours = cells
            found.setdefault(name, {}).update({f"{metric} published": published, f"{metric} {preset}": ours})
    return found[claim] if claim else found


def test_differences_are_taken_seed_by_seed(row):
    ours = [row("MACLR", "small", value, seed) for seed, value in enumerate((0.5, 0.4, 0.6))]
    theirs = [row("ICT", "small", value, seed) for seed, value in enumerate((0.4, 0.45, 0.5))]
    found = table([*ours, *theirs], "MACLR is above ICT")
    assert found["P@1 small"] == found["R@100 small"] == "+5.00"
    assert table([*ours[:2], *theirs[1:]], "MACLR is above ICT")["P@1 small"] == "-5.00"
    assert not text([*ours, row("ICT", "small", 0.4, 7)])
    least = [row("ICT", "small", 0.50001)]
    assert table([row("MACLR", "small", 0.5), *least], "MACLR is above ICT")["P@1 small"] == "+0.00"


def test_published_differences_are_a_range_over_the_paper_s_datasets(row):
    """18.13 - 13.82 on LF-Amazon-131K, 16.31 - 10.76, 28.44 - 17.74, 9.58 - 8.66 on LF-Amazon-1M."""
    found = table([row("MACLR", "small"), row("ICT", "small")], "MACLR is above ICT")
    assert found["P@1 published"] == "+0.92 to +10.70"
    assert found["R@100 published"] == "+6.81 to +19.01"
    rows = [row("MACLR", "small", components=components) for components in ("xx--", "----")]
    found = table([*rows, row("ICT", "small")], "Stage I is better than ICT (rows 4, 1)")
    assert found["P@1 published"] == "+2.55"
    assert found["P@1 small"] == "+0.00"


def test_a_deterministic_row_without_presets_is_compared_with_every_seed_and_preset(row):
    ours = [row("MACLR", preset, 0.5 + seed / 10, seed) for preset in ("small", "scratch") for seed in (0, 1)]
    others = [
        row("TF-IDF", "", 0.4, deterministic=True),
        row("TF-IDF", "pecos", 0.9, deterministic=True),
        row("Astec", "15 epochs", 0.2),
    ]
    records = [*ours, *others, row("ICT", "small"), row("ICT", "scratch")]
    found = table(records)
    assert found["MACLR is above TF-IDF"] == {
        "P@1 published": "+1.90 to +8.14",
        "P@1 scratch": "+15.00",
        "P@1 small": "+15.00",
        "R@100 published": "+3.44 to +11.93",
        "R@100 scratch": "+15.00",
        "R@100 small": "+15.00",
    }
    assert set(found) == {"MACLR is above TF-IDF", "MACLR is above ICT"}
    records += [row("SentBERT", "small", 0.1, seed) for seed in (1, 2)]
    assert table(records, "TF-IDF is above SentBERT")["P@1 small"] == "+30.00"


def test_a_method_that_uses_the_pairs_of_its_seed_is_compared_with_that_seed(row, altered):
    claim = "At 1% of the labels, MACLR is above ZestXML"
    ours = [row("MACLR", "small", 0.5 + seed / 10, seed, FEW) for seed in (0, 1)]
    other = altered(row("ZestXML", "", 0.4, 0, FEW, deterministic=True), (("method", "supervision"), "required"))
    assert other.subset is not None
    shared = row("ICT", "small")
    assert table([*ours, other, shared], claim)["P@1 small"] == "+10.00"
    unaware = altered(other, (("method", "supervision"), "unused"))
    assert table([*ours, unaware, shared], claim)["P@1 small"] == "+15.00"


def test_a_preset_of_one_method_is_compared_with_rows_without_presets(row):
    """A preset of a single method is no column where two methods have one in common: TF-IDF's own, for example."""
    claim = "TF-IDF is above SentBERT"
    lexical, dense = row("TF-IDF", value=0.2), row("SentBERT", "small", 0.3)
    assert table([lexical, dense], claim)["P@1 small"] == "-10.00"
    assert not text([dense])
    ours = [row("MACLR", "small", 0.5), row("ICT", "small", 0.4), row("TF-IDF", "pecos", 0.1)]
    assert {*table([lexical, dense, *ours], claim)} == {
        f"{metric} {column}" for metric in ("P@1", "R@100") for column in ("published", "small")
    }


def test_only_rows_that_a_preset_gives_unchanged_are_compared(row):
    changed = [row("MACLR", "small, steps=3", 0.9, steps=3), row("ICT", "small, steps=0", 0.1, steps=0)]
    whole = [row("MACLR", "small", 0.5, steps=20), row("ICT", "small", 0.4, steps=60)]
    assert table([*changed, *whole], "MACLR is above ICT")["P@1 small"] == "+10.00"
    ablated = [
        *(row("MACLR", "small, steps=3", 0.9, seed, components="x---", steps=3) for seed in (0, 1)),
        *(row("MACLR", "scratch", 0.8, seed, components="x---", steps=7) for seed in (0, 1)),
        row("MACLR", "small", 0.3, components="x---", steps=20),
        row("MACLR", "small", 0.2, components="----", steps=20),
    ]
    found = table([*ablated, *whole], "Clusters help ICT (rows 2, 1)")
    assert found["P@1 small"] == "+10.00"


def test_a_described_parameter_that_was_changed_counts_as_changed(row):
    """The variant of a row with another budget has no equals sign: only the preset tells."""
    ours = [row("MACLR", "small, 20 steps of 32", 0.5, seed, steps=20) for seed in (0, 1)]
    untrained = [row("ICT", "small, 0 steps of 32", 0.1, seed, steps=0) for seed in (0, 1, 2)]
    theirs = row("ICT", "small, 60 steps of 32", 0.4, steps=60)
    known = {"ict": {"": {"steps": 100_000}, "small": {"steps": 60}}}
    staleness = Staleness(presets=known)
    assert table([*ours, *untrained, theirs], "MACLR is above ICT", staleness=staleness)["P@1 small"] == "+10.00"
    assert not text([*ours, *untrained], staleness=staleness)
    rows = [row("MACLR", "small", components=components, steps=9) for components in ("x---", "----")]
    claim = "Clusters help ICT (rows 2, 1)"
    for steps, shown in ((9, True), (20, False)):
        switches = dict.fromkeys(SWITCHES, True)
        known = {"maclr": {"": {"steps": 100_000}, "small": switches | {"steps": steps}}}
        assert (claim in text([*rows, *ours, theirs], staleness=Staleness(presets=known))) == shown


def test_rows_of_the_ablation_by_two_versions_of_a_preset_are_not_compared(row):
    whole = [row("MACLR", "small", 0.5, steps=20), row("ICT", "small", 0.4, steps=60)]
    one = row("MACLR", "small", 0.3, components="x---", steps=20)
    assert "Clusters help ICT (rows 2, 1)" not in table(
        [*whole, one, row("MACLR", "small", components="----", steps=9)]
    )
    assert "Clusters help ICT (rows 2, 1)" in table([*whole, one, row("MACLR", "small", components="----", steps=20)])


def test_settings_and_presets_are_not_mixed(row):
    records = [
        row("MACLR", "small", 0.5),
        row("MACLR", "small", 0.6, setting=FEW),
        row("MACLR", "scratch", 0.3),
        row("SentBERT", "small", 0.4),
        row("TF-IDF", "pecos"),
        row("XR-Linear"),
    ]
    found = table(records)
    assert found["1% of the labels help MACLR"]["P@1 small"] == "+10.00"
    assert found["MACLR is above SentBERT"]["P@1 small"] == "+10.00"
    assert {head.split()[1] for line in found.values() for head in line} == {"published", "small"}


def test_of_two_rows_of_a_name_the_one_of_today_s_code_is_compared(row):
    """A preset may have changed. Without a fresh one, the row with more seeds counts, and a note says it is stale."""
    ict = [row("ICT", "small", 0.4, seed) for seed in (0, 1)]
    old = [row("MACLR", "small", 0.8, seed, steps=40, code="before") for seed in (0, 1)]
    new = row("MACLR", "small", 0.5, steps=20)
    staleness = Staleness({"maclr": new.method.source_sha256})
    found = table([*ict, *old, new], "MACLR is above ICT", staleness=staleness)
    assert found["P@1 small"] == "+10.00"
    page = text([*ict, *old, row("MACLR", "small", 0.5, steps=9, code="before")], staleness=staleness)
    assert re.search(r"MACLR is above ICT<sup>a</sup> .*\+40\.00 ", page)
    assert "<sup>a</sup> stale:" in page
    assert "mixed" not in page
    behind = Staleness({"ict": new.method.source_sha256})
    stale = [row("ICT", "small", 0.4, code="before"), row("MACLR", "small")]
    assert "MACLR is above ICT<sup>a</sup>" in text(stale, staleness=behind)


def test_a_column_for_each_dataset_but_those_for_tuning(row, altered):
    """A preset that more datasets have comes first."""
    made = [
        altered(row(title, preset), (("cell", "dataset"), name))
        for name, preset in (("Other", "small"), ("Other", "quick"), ("Third", "small"), ("Tiny-dev", "small"))
        for title in ("MACLR", "ICT")
    ]
    page = text(made)
    assert re.findall("^## Preset (.*)", page, re.MULTILINE) == ["small", "quick"]
    assert "| Claim | P@1 published | Other | Third |" in page
    assert "| Claim | R@100 published | Other |\n" in page
    assert "Tiny-dev" not in page


def test_a_difference_has_the_p_value_of_a_paired_test(row):
    """60 rows won and 40 lost of 1,000: by the normal approximation of the mean difference."""
    base = np.repeat([1.0, 0.0], 500)
    won = np.where(np.isin(np.arange(1000), [*range(40), *range(900, 960)]), 1 - base, base)
    many = np.where(np.arange(1000) < 900, 1.0, 0.0)

    def scores_of(values):
        def scores(record):
            column = dict.fromkeys(METRICS, values if record.method.title == "MACLR" else base)
            return Scores({name: float(own.mean()) for name, own in column.items()}, 1000, 0, column, {})

        return scores

    records = [row("MACLR", "small", 0.52), row("ICT", "small", 0.5)]
    left = won - base
    p = 2 * norm.sf(left.mean() / (left.std(ddof=1) / np.sqrt(1000)))
    # One run of methods that another seed changes is marked.
    assert table(records, "MACLR is above ICT", scores=scores_of(won))["P@1 small"] == f"+2.00 (p {p:.3f})¹"
    alike = [row("MACLR", "small", 0.52, deterministic=True), row("ICT", "small", 0.5, deterministic=True)]
    assert table(alike, "MACLR is above ICT", scores=scores_of(won))["P@1 small"] == f"+2.00 (p {p:.3f})"
    several = [row(*side, seed=seed) for side in (("MACLR", "small", 0.52), ("ICT", "small", 0.5)) for seed in (0, 1)]
    assert "¹" not in table(several, "MACLR is above ICT", scores=scores_of(won))["P@1 small"]
    assert "(p \\< 0.001)" in table(records, "MACLR is above ICT", scores=scores_of(many))["P@1 small"]


def test_every_claim_of_the_paper_is_so_in_print():
    (source,) = (source for source in sources() if source.claims)
    assert len(source.claims) == len({claim.text for claim in source.claims}) == 22
    for claim in source.claims:
        better, worse = source.figures(claim.better), source.figures(claim.worse)
        shared = better.keys() & worse.keys()
        assert shared, claim
        for dataset in shared:
            for metric in ("P@1", "R@100"):
                assert float(better[dataset][metric]) > float(worse[dataset][metric]), (claim.text, dataset, metric)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ('better = { method = "MACLR" }\nworse = { method = "Nobody" }', "not printed for the same dataset"),
        ('better = { row = "9" }\nworse = { row = "1" }', "not printed for the same dataset"),
        ('better = { method = "MACLR", row = "1" }\nworse = { method = "ICT" }', "must name a method or a row"),
        ('better = {}\nworse = { method = "ICT" }', "must name a method or a row"),
        ('better = { method = "MACLR", setting = "few" }\nworse = { method = "ICT" }', "setting"),
        ('better = { method = "MACLR" }', "worse"),
    ],
)
def test_a_claim_that_cannot_be_tested_is_refused(with_claim, claim, reason):
    with pytest.raises(DataError, match=reason):
        with_claim(claim)


def test_a_method_may_be_compared_with_a_row_of_the_ablation(with_claim, row):
    """18.13 - 13.82 on LF-Amazon-131K, the only dataset of the ablation."""
    source = with_claim('better = { method = "MACLR" }\nworse = { row = "1" }')
    records = [row("MACLR", "small", 0.5), row("MACLR", "small", 0.4, components="----"), row("ICT", "small")]
    found = table(records, "It is so", published=[source])
    assert (found["P@1 published"], found["P@1 small"]) == ("+4.31", "+10.00")
