"""Methods over several datasets: complete blocks only, nothing averaged but ranks."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from xmcbench.errors import StorageError, UsageError
from xmcbench.leaderboard import overall
from xmcbench.leaderboard.blocks import Heading
from xmcbench.leaderboard.files import differences, files, write
from xmcbench.leaderboard.groups import for_tuning
from xmcbench.leaderboard.pages import pages
from xmcbench.metrics.friedman import FEWEST_BLOCKS
from xmcbench.records import Staleness, Store
from xmcbench.setting import Setting

BOARD = Path(__file__).parents[2] / "leaderboards"
EZ = Setting.of("ez")


@pytest.fixture
def results(record, altered):
    """Records of methods on the datasets A, B, C; ``None`` where there is none."""

    def make(**values):
        return [
            altered(record(method=method, value=value), (("cell", "dataset"), name))
            for method, row in values.items()
            for name, value in zip("ABC", row, strict=True)
            if value is not None
        ]

    return make


def test_a_method_that_lacks_a_dataset_leaves_the_ranking(results):
    made = overall.overall(
        results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4), three=(0.1, 0.05, 0.1), best=(0.99, 0.9, None)), EZ, "P@1"
    )
    assert [(method.name, round(method.rank, 2)) for method in made.methods] == [
        ("ONE", 1.33),
        ("TWO", 1.67),
        ("THREE", 3.0),
    ]
    assert [(method.name, method.values) for method in made.unranked] == [("BEST", {"A": 0.99, "B": 0.9})]
    assert overall.as_json(made)["left_out"] == {"BEST": ["C"]}
    assert "not ranked" in overall.caption(made)
    assert made.test.p == pytest.approx(0.0970, abs=0.0001)
    assert made.methods[0].wins == pytest.approx(5 / 6)
    assert made.methods[0].values == {"A": 0.9, "B": 0.1, "C": 0.5}
    chosen = overall.overall(results(one=(0.9, 0.1, 0.5), best=(0.99, 0.9, None)), EZ, "P@1", ["A", "B"])
    assert [method.name for method in chosen.methods] == ["BEST", "ONE"]
    assert chosen.test is None


def test_names_are_short_where_only_one_row_is_called_so(results, altered):
    def with_variant(variant, **values):
        made = results(**values)
        changed = [altered(one, (("method", "variant"), variant)) for one in made]
        return [altered(one, (("cell", "parameters"), {"variant": variant})) for one in changed]

    made = overall.overall(
        [
            *with_variant("small, MiniLM, 60 steps", ict=(0.5, 0.5, 0.5)),
            *with_variant("small, MiniLM, 0 steps", ict=(0.4, 0.4, None)),
            *with_variant("hour, MiniLM, 900 steps", ict=(0.3, None, None)),
            *with_variant("small, 10 epochs", ngame=(0.2, 0.2, 0.2)),
            *with_variant("small, 20 epochs", ngame=(0.1, 0.1, 0.1)),
        ],
        EZ,
        "P@1",
    )
    assert [method.name for method in made.methods] == [
        "ICT (small)",
        "NGAME (small, 10 epochs)",
        "NGAME (small, 20 epochs)",
    ]
    assert [method.name for method in made.unranked] == ["ICT (small, MiniLM, 0 steps)", "ICT (hour)"]


def test_changed_parameters_that_lack_a_dataset_are_not_listed(results, altered):
    rows = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4), few=(0.7, None, None))
    changed = altered(rows[-1], (("cell", "parameters"), {"depth": 3}))
    presets = {"few": {"": {"depth": 2}}}
    made = overall.overall([*rows[:-1], changed], EZ, "P@1", staleness=Staleness(presets=presets))
    assert (made.unranked, made.unlisted) == ((), 1)
    assert overall.caption(made).endswith(" 1 row with changed parameters that lacks a dataset is not listed.")
    assert overall.as_json(made)["unlisted"] == 1
    whole = [altered(one, (("cell", "parameters"), {"depth": 3})) for one in results(few=(0.7, 0.7, 0.7))]
    made = overall.overall([*rows[:-1], *whole], EZ, "P@1", staleness=Staleness(presets=presets))
    assert "FEW" in [method.name.split(" (")[0] for method in made.methods]
    assert "not listed" not in overall.caption(made)


def test_a_changed_parameter_that_is_described_is_seen_in_the_name(results, altered):
    rows = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    rows = [altered(row, (("method", "variant"), "quick, x + y"), (("cell", "parameters"), {"d": 3})) for row in rows]
    presets = {name: {"": {}, "quick": {"d": value}} for name, value in (("one", 2), ("two", 3))}
    made = overall.overall(rows, EZ, "P@1", staleness=Staleness(presets=presets))
    assert [method.name for method in made.methods] == ["ONE (quick, x + y)", "TWO (quick)"]


def test_a_method_that_lacks_a_dataset_stands_below_the_others(results, record, altered):
    """With its figures and its notes, those with the most results first."""
    some = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4), few=(0.7, None, None), most=(None, 0.95, 0.9))
    marked = altered(record("same", supervision="unused", value=0.3), (("cell", "dataset"), "B"))
    made = overall.overall([*some, marked], EZ, "P@1", staleness=Staleness({"few": "0" * 64}))
    table = overall.table(made)
    assert [(line.name, [cell.text for cell in line.cells[-3:]]) for line in table.lines[2:]] == [
        ("MOST", ["", "95.00", "90.00"]),
        ("FEW", ["70.00", "", ""]),
        ("SAME", ["", "30.00", ""]),
    ]
    assert all(cell.text == "" for line in table.lines[2:] for cell in line.cells[:3])
    assert [line.name for line in table.lines if line.notes] == ["FEW"]
    assert len(overall.chart(made).spots) == 2
    assert "not ranked" not in overall.caption(overall.overall(some[:6], EZ, "P@1"))


def test_intervals_need_many_datasets_and_ranks_stand_for_them(record, altered):
    """With few, a bootstrap interval would be far too short; ranks are shown instead, in the order of the datasets."""

    def make(datasets):
        records = [
            altered(record(method=method, value=value), (("cell", "dataset"), f"{number:02}"))
            for number in range(datasets)
            for method, value in (("one", 0.9 if number else 0.1), ("two", 0.5))
        ]
        return overall.overall(records, EZ, "P@1")

    few, many = make(3), make(FEWEST_BLOCKS)
    shown = overall.table(few)
    assert shown.columns[1].label == "ranks"
    assert [line.cells[1].text for line in shown.lines] == ["2, 1, 1", "1, 2, 2"]
    assert "interval" not in shown.caption
    assert overall.as_json(few)["methods"][0]["interval"] is None
    assert overall.as_json(few)["methods"][0]["ranks"] == {"00": 2, "01": 1, "02": 1}
    assert overall.table(many).columns[1].label == "95% interval"
    assert overall.table(many).lines[0].cells[1].text == "1.00 to 1.30"
    assert "Intervals are bootstrap intervals over the datasets." in overall.caption(many)
    assert overall.as_json(many)["methods"][0]["interval"] == pytest.approx([1.0, 1.3])


def test_seeds_are_averaged_within_a_dataset(results, record, altered):
    records = results(one=(0.5, 0.5, 0.5), two=(0.4, 0.4, 0.4))
    records.append(altered(record(method="one", seed=1, value=0.1), (("cell", "dataset"), "A")))
    made = overall.overall(records, EZ, "P@1")
    assert {method.name: method.values["A"] for method in made.methods} == {"ONE": pytest.approx(0.3), "TWO": 0.4}


def test_a_method_that_ignores_pairs_is_ranked_in_every_setting(record, altered):
    """By its zero-shot result on a dataset where it has no other, as in the tables; a note says so."""
    few = Setting.of("fs", 0.01)

    def on(dataset, method, value, setting=few, supervision="unused"):
        made = record(method=method, value=value, setting=setting, supervision=supervision)
        return altered(made, (("cell", "dataset"), dataset))

    looks = [on(name, "looks", 0.3, supervision="optional") for name in "AB"]
    looks += [on(name, "other", 0.2, supervision="optional", setting=EZ) for name in "AB"]
    ignores = [on("A", "ignores", 0.5), on("A", "ignores", 0.9, EZ), on("B", "ignores", 0.6, EZ)]
    made = overall.overall([*looks, *ignores, on("C", "ignores", 0.7, EZ)], few, "P@1")
    assert made.datasets == ("A", "B")
    assert [(method.name, method.values) for method in made.methods] == [
        ("IGNORES", {"A": 0.5, "B": 0.6}),
        ("LOOKS", {"A": 0.3, "B": 0.3}),
    ]
    assert [method.marks for method in made.methods] == [("measured without pairs, which this method ignores",), ()]
    page = next(page for page in pages([*looks, *ignores], ()) if page.name == "over-datasets")
    assert [block.key for block in page.blocks if isinstance(block, Heading) and block.key] == ["ez", few.slug]


def test_what_cannot_be_ranked_is_refused(results):
    with pytest.raises(UsageError, match="needs two datasets"):
        overall.overall(results(one=(0.5, None, None), two=(0.5, None, None)), EZ, "P@1")
    with pytest.raises(UsageError, match="fewer than two methods"):
        overall.overall(results(one=(0.5, 0.5, 0.5), two=(0.5, None, None)), EZ, "P@1")
    with pytest.raises(UsageError, match="D has no result"):
        overall.overall(results(one=(0.5, 0.5, 0.5)), EZ, "P@1", ["A", "D"])
    with pytest.raises(UsageError, match="needs two datasets"):
        overall.overall(results(one=(0.5, 0.5, 0.5), two=(0.4, 0.4, 0.4)), EZ, "P@1", ["A", "A"])


def test_results_of_different_data_under_one_name_are_refused(results, record, altered):
    """They would be averaged as if they were seeds."""
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    other = (("cell", "dataset_sha256"), "f" * 64)
    records.append(altered(record(method="one", value=0.1), (("cell", "dataset"), "A"), other))
    with pytest.raises(StorageError, match="differ in their data"):
        overall.overall(records, EZ, "P@1")
    assert overall.overall(records, EZ, "P@1", ["B", "C"]).methods


def test_the_names_of_datasets_for_tuning():
    named = {"A-dev", "docs-dev-0.1", "A-dev-0.25+limit10", "docs-dev-1e-05"}
    assert {name for name in (*named, "A", "development", "dev-0.1", "A-dev-two") if for_tuning(name)} == named


def test_datasets_for_tuning_do_not_count(results, altered):
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    records = [
        altered(record, (("cell", "dataset"), "A-dev")) if record.cell.dataset == "C" else record for record in records
    ]
    assert overall.overall(records, EZ, "P@1").datasets == ("A", "B")


def test_a_sample_of_a_dataset_is_no_dataset_of_its_own(results, altered):
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    records += [altered(record, (("cell", "dataset"), "A+limit50")) for record in records if record.cell.dataset == "A"]
    assert overall.overall(records, EZ, "P@1").datasets == ("A", "B", "C")
    assert overall.overall(records, EZ, "P@1", ["A+limit50", "B"]).datasets == ("A+limit50", "B")


def ranking(records, ranked=None):
    """The page of rankings in Markdown, and its figures."""
    made = files(pages(records, (), ranked=ranked), "markdown", ())
    return {name: text for name, text in made.items() if "over-datasets" in name and name != "README.md"}


def test_a_record_of_a_new_dataset_changes_no_listed_ranking(results, record, altered):
    """Without a list, a method on a dataset that no other has run on emptied the ranking."""
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    others = [
        altered(record(method=method, setting=setting), (("cell", "dataset"), "New"))
        for method, setting in (("one", EZ), ("new", EZ), ("new", Setting.of("full")))
    ]
    ranked = {"ez": ["A", "B", "C"]}
    before = ranking(records, ranked)
    assert "over A, B, C" in before["over-datasets.md"]
    assert ranking([*records, *others], ranked) == before
    assert ranking([*records, others[1]]) == {}
    assert ranking([*records, *others], {"ez": ["A", "B"]}).keys() == before.keys()


def test_the_list_of_the_board(record, altered):
    """A record of another dataset leaves the rankings of the committed records as they are."""
    records, ranked = Store(BOARD).records(), overall.read_list(BOARD)
    assert "ez" in ranked
    before = ranking(records, ranked)
    assert before["over-datasets.md"].partition("## How methods")[0].count("\n## ") == len(ranked)
    new = [altered(record(setting=Setting.of("ez")), (("cell", "dataset"), "New"))]
    assert ranking([*records, *new], ranked) == before


def test_a_list_that_does_not_fit_is_refused(results, tmp_path, inside):
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4))
    for ranked, said in (
        ({"ez": ["A", "D"]}, "overall.toml: D has no result in the setting"),
        ({"ez": ["A"]}, "overall.toml: a ranking needs two datasets"),
        ({"full": ["A", "B"]}, "overall.toml names 'full', a setting without results .those with: ez"),
    ):
        with pytest.raises(StorageError, match=said):
            pages(records, (), ranked=ranked)
    assert overall.read_list(tmp_path) == {}
    for text in ("ez = ", "ez = 'A'", "ez = [1]", "[ez]\nA = 1"):
        (tmp_path / "overall.toml").write_text(text)
        with pytest.raises(StorageError, match="overall.toml is not a list of datasets"):
            overall.read_list(tmp_path)


def test_commands_take_the_datasets_of_the_list(inside, results):
    store = Store(Path("runs"))
    for record in results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4)):
        store.write(record)
    where = ("rank", "--setting", "ez", "--json")
    assert json.loads(inside(*where).stdout)["datasets"] == ["A", "B", "C"]
    (store.root / "overall.toml").write_text('ez = ["b", "A"]\n')  # names are those of datasets, in any case
    assert json.loads(inside(*where).stdout)["datasets"] == ["B", "A"]
    assert json.loads(inside(*where, "--dataset", "A,C").stdout)["datasets"] == ["A", "C"]
    ended = inside("leaderboard", "--runs", "runs")
    assert ended.returncode == 0, ended.stderr
    assert "over B, A;" in (store.root / "over-datasets.md").read_text()


def test_the_chart_and_the_page(results, check_boxes):
    records = results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4), three=(0.1, 0.05, 0.1), four=(0.05, 0.01, 0.0))
    made = overall.overall(records, EZ, "P@1")
    drawing = overall.chart(made).draw()
    check_boxes(drawing)
    root = ET.fromstring(drawing)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [name for name in texts if name.isupper()] == ["ONE", "TWO", "THREE", "FOUR"]
    assert root.find("{http://www.w3.org/2000/svg}desc").text == (
        "average rank, 1 is best: ONE 1.33, TWO 1.67, THREE 3.00, FOUR 4.00."
    )
    first, *_, last = overall.chart(made).spots
    assert (first.low, first.high) == pytest.approx((1, 4 / 3 + made.difference / 2))
    assert (last.low, last.high) == pytest.approx((4 - made.difference / 2, 4))
    assert "critical difference 2.71" in overall.chart(made).foot
    content = files(pages(records, ()), "markdown", ())
    page = content["over-datasets.md"]
    assert "1.33" in page
    assert "figures/over-datasets-ez-p1.svg" in page
    assert "over-datasets.md" in content["README.md"]
    points = files(pages(records, ()), "csv", ())["figures/over-datasets-ez-p1.csv"]
    lines = [*csv.DictReader(io.StringIO(points))]
    assert [(line["name"], line["value"][:4]) for line in lines[:2]] == [("ONE", "1.33"), ("TWO", "1.66")]
    # With one dataset there is no such page.
    assert "over-datasets.md" not in files(pages(results(one=(0.9, None, None)), ()), "markdown", ())


@pytest.mark.parametrize("layout", ["markdown", "csv"])
def test_a_board_can_grow_by_a_dataset(results, tmp_path, layout):
    """Files of the smaller board are known as generated, whatever datasets they are about."""
    write(tmp_path, files(pages(results(one=(0.9, 0.1, None), two=(0.8, 0.2, None)), ()), layout, ()))
    grown = files(pages(results(one=(0.9, 0.1, 0.5), two=(0.8, 0.2, 0.4)), ()), layout, ())
    write(tmp_path, grown)
    assert differences(tmp_path, grown) == []


def test_a_table_of_ones_own_is_not_replaced(results, tmp_path):
    made = files(pages(results(one=(0.9, 0.1, None), two=(0.8, 0.2, None)), ()), "csv", ())
    own = tmp_path / "over-datasets" / next(Path(name).name for name in made if name.startswith("over-datasets/"))
    own.parent.mkdir()
    for text in ("Method,source,remarks\n", "Method,place,notes\n", "source,notes\n", ""):
        own.write_text(text)
        with pytest.raises(UsageError, match="was not generated by xmcbench"):
            write(tmp_path, made)
        assert own.read_text() == text


def test_the_command(inside, tmp_path):
    svg = tmp_path / "d.svg"
    ended = inside("rank", "--setting", "ez", "--runs", BOARD, "--svg", svg, "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert "LF-Debian-20K-dev" not in document["datasets"]
    assert document["friedman"]["p"] > 0
    assert ET.fromstring(svg.read_text()).tag.endswith("svg")
    ended = inside("rank", "--setting", "ez", "--runs", BOARD, "--svg", svg)
    assert (ended.returncode, "already exists" in ended.stderr) == (2, True)
    ended = inside("rank", "--setting", "ez", "--runs", BOARD, "--dataset", "lf-debian-20k,lf-yso-25k")
    assert re.search(r"(?m)^ICT \(hour[^\n]* +37.18 *$", ended.stdout)
    for words, said in (
        (("--dataset", "lf-debian-20k"), "needs two"),
        (("--dataset", "lf-debian-20k,LF-Debian-20K"), "needs two"),
        (("--metric", "X"), "unknown metric"),
        (("--runs", "nowhere"), "no runs folder"),
    ):
        ended = inside("rank", "--setting", "ez", "--runs", BOARD, *words)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


def test_commands_say_which_datasets_they_leave_out_by_their_names(inside, record, altered):
    store = Store(Path("runs"))
    for dataset in ("law", "software-dev", "law+limit20"):
        for method in ("one", "two"):
            store.write(altered(record(method), (("cell", "dataset"), dataset)))
    left_out = [
        "left out: law+limit20, by its name a sample of a dataset (--dataset includes it)",
        "left out: software-dev, by its name a dataset for tuning (--dataset includes it)",
    ]
    ranked = inside("rank", "--setting", "ez", code=2).stderr
    assert ranked.splitlines()[:2] == left_out
    assert "needs two datasets" in ranked
    assert "(datasets with results: law)" in ranked
    table = ("export", "table", "--setting", "ez", "--force", "--out", "t.tex")
    assert inside(*table, code=0).stderr.splitlines()[:2] == left_out
    for words in (("rank", "--setting", "ez"), table):
        assert "left out" not in inside(*words, "--dataset", "law,software-dev", code=0).stderr
    for path in Path("runs/records/law").rglob("*.json"):
        path.unlink()
    assert "no result that counts" in inside(*table, code=2).stderr


def test_the_command_prints_the_notes_of_rows(inside, record, altered):
    """Below the table, as a run does."""
    few = Setting.of("fs", 0.01)
    store = Store(Path("runs"))
    for dataset in "AB":
        for method, setting, supervision in (("tfidf", few, "optional"), ("old", EZ, "unused"), ("new", few, "unused")):
            made = record(method=method, setting=setting, supervision=supervision)
            store.write(altered(made, (("cell", "dataset"), dataset)))
    ended = inside("rank", "--setting", "fs", "--ratio", "0.01")
    assert ended.returncode == 0, ended.stderr
    assert "note: whether results of new, old are stale is not known (name the file" in ended.stderr
    assert ended.stdout.split("\n\n")[-1].splitlines() == [
        "OLD: measured without pairs, which this method ignores",
        "TFIDF: stale: the method's code has changed since this result was made",
    ]
