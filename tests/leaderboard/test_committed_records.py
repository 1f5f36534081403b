"""The records of the leaderboard hold what they are said to hold: every figure follows from the ranks beside it."""

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from xmcbench import parameters
from xmcbench.command import request
from xmcbench.command.main import parser
from xmcbench.errors import StorageError
from xmcbench.leaderboard import consistency
from xmcbench.metrics import Scores
from xmcbench.plugins.description import Description
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store, read_record
from xmcbench.records.ranks import Ranks
from xmcbench.runner import figures as computed
from xmcbench.runner.rows import Request, resolve
from xmcbench.storage.canonical import canonical_json, sha256_json

BOARD = Path(__file__).parents[2] / "leaderboards"


def problems(root, wanted=lambda record: True, intervals=True):
    """Return a line for every figure in a folder that does not follow from ranks. Raises an error for missing files."""
    store, found, truths = Store(root), [], {}
    records = store.records()
    for error in store.left_out.values():
        raise error
    for record in records:
        if not wanted(record):
            continue
        place = f"{record.cell.path.as_posix()}.json"
        if record.ranks.file != store.relative(store.ranks_path(record.cell)):
            found.append(f"{place}: its ranks are {record.ranks.file}")
        if record.ranks.truth_sha256 not in truths:
            truths[record.ranks.truth_sha256] = store.truth(record)
        truth = truths[record.ranks.truth_sha256]
        figures = computed.figures(store.ranks(record, truth), truth, record.protocol.propensity)
        if {*figures} != {*record.metrics}:
            found.append(f"{place}: its filters are {', '.join(record.metrics)}")
            continue
        for name, said in record.metrics.items():
            parts = [(name, said, figures[name])]
            if {*said.views} != {*figures[name].views}:
                found.append(f"{place}: its groups under {name} are {', '.join(said.views)}")
            parts += [
                (f"{name} {view}", said.views[view], view_figures) for view, view_figures in figures[name].views.items()
            ]
            found += [f"{place}: {line}" for part in parts for line in _differences(*part, intervals)]
    return found


def _differences(name, said, follows, intervals):
    if (said.scored, said.unlabeled) != (follows.scored, follows.unlabeled):
        yield f"{name}: {said.scored} instances, but {follows.scored} follow"
    for metric, value in follows.values.items():
        if said.values.get(metric) != pytest.approx(value, rel=1e-9, abs=1e-9):
            yield f"{name}: {metric} is {said.values.get(metric)}, but {value} follows"
        if intervals and said.intervals.get(metric) != pytest.approx(follows.intervals[metric], rel=1e-9, abs=1e-9):
            yield f"{name}: the interval of {metric} is not that of its ranks"


@pytest.fixture
def without_intervals(monkeypatch):
    """Bootstrap samples take nearly all of the time."""
    monkeypatch.setattr(Scores, "intervals", lambda self: {})


def test_all_records_can_be_read_and_stand_on_one_board():
    store = Store(BOARD)
    records = store.records()
    assert records
    assert not store.left_out
    consistency.check(records)


@pytest.mark.usefixtures("without_intervals")
def test_every_figure_of_the_board_follows_from_its_ranks():
    assert problems(BOARD, intervals=False) == []


def test_pages_and_figures_are_few_and_small():
    sizes = {page.name: page.stat().st_size for page in BOARD.glob("*.md")}
    assert {name: size for name, size in sizes.items() if size > 60 * 1024} == {}
    assert len([*(BOARD / "figures").iterdir()]) <= 40


#: A figure in a remark: two decimals from 3 up. Differences follow "by"; "3.84K texts" are none.
FIGURE = re.compile(r"(?<![\d.+-])(?<!by )([3-9]|\d\d)(\.\d\d)(?![\d.KM]| points| of | below)")
REMARKED = ("P@1", "P@5", "R@10", "R@100", "PSP@1")


def figures_of_rows():
    """Return dataset -> the means over seeds of each row and of its groups of labels; of -dev, seeds' figures too."""
    groups, found = {}, {}
    for record in Store(BOARD).records():
        if record.ok:
            cell = record.cell
            row = (cell.dataset.lower(), cell.setting, cell.method, canonical_json(cell.parameters))
            groups.setdefault(row, []).append(record.metrics[record.protocol.filter])
    for (dataset, *_), seeds in groups.items():
        parts = [seeds, *([figures.views[view] for figures in seeds] for view in seeds[0].views)]
        if dataset.endswith("-dev"):
            parts += [[figures] for figures in seeds]
        means = (100 * fmean(part.values[name] for part in of) for of in parts for name in REMARKED)
        found.setdefault(dataset, set()).update(f"{mean:.2f}" for mean in means)
    return found


def test_figures_in_remarks_are_those_of_rows():
    """A figure of a row that ran again changes on the pages alone."""
    rows, wrong = figures_of_rows(), []
    for file in sorted((BOARD / "remarks").glob("*.md")):
        for paragraph in file.read_text(encoding="utf-8").split("\n\n"):
            named = {name for name in rows if name == file.stem or name in paragraph.lower()} or rows
            known = set().union(*(rows[name] for name in named))
            wrong += [f"{file.name}: {found[0]}" for found in FIGURE.finditer(paragraph) if found[0] not in known]
    assert wrong == []


def test_the_intervals_of_a_record_of_each_dataset_follow_from_its_ranks():
    chosen = {record.cell.dataset: record.key for record in Store(BOARD).records()}
    assert problems(BOARD, lambda record: record.key in chosen.values()) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_intervals_of_the_board_follow_from_its_ranks(pytestconfig):
    """Of one record in eight: of others whenever a record is added. With ``--faults full``, of all."""
    records = Store(BOARD).records()
    parts = 1 if pytestconfig.getoption("--faults") == "full" else 8
    assert problems(BOARD, lambda record: int(record.key[:4], 16) % parts == len(records) % parts) == []


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "runs"


@pytest.fixture
def runs(inside, tmp_path, runs_folder):
    """A runs folder with one record of the sample dataset."""
    if not runs_folder.exists():
        sample = Path(__file__).parents[1] / "sample"
        inside("run", "--dataset", sample, "--setting", "fs", "--ratio", "0.3", "--methods", "bm25", "--runs", "made")
        shutil.copytree(tmp_path / "made", runs_folder)
    return shutil.copytree(runs_folder, tmp_path / "runs")


def test_what_follows_is_found_to_follow(runs):
    assert problems(runs) == []
    assert len(Store(runs).records()) == 1


@pytest.mark.usefixtures("without_intervals")
def test_values_can_be_compared_alone(runs):
    assert problems(runs, intervals=False) == []


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("values", "R@5"), 0.5, "file: R@5 is 0.5, but"),
        (("views", "seen", "values", "PSP@3"), 0.5, "file seen: PSP@3 is 0.5, but"),
        (("views", "tail", "intervals", "P@1"), (0.0, 1.0), "file tail: the interval of P@1 is not that of its ranks"),
        (("views", "tail", "scored"), 1, "file tail: 1 instances, but"),
    ],
)
def test_a_figure_that_does_not_follow_is_named(runs, altered, place, value, problem):
    store = Store(runs)
    (record,) = store.records()
    store.write(altered(record, (("metrics", "file", *place), value)))
    (found,) = problems(runs)
    assert problem in found


def test_ranks_that_a_record_names_and_are_not_there_are_an_error(runs):
    store = Store(runs)
    (record,) = store.records()
    path = store.ranks_path(record.cell)
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageError, match="cannot read the ranks"):
        problems(runs)
    truth = store.truth(record)
    path.write_bytes(content)
    ranks = store.ranks(record, truth)
    worse = {name: found // 2 for name, found in ranks.by_filter.items()}
    Ranks(worse, ranks.seen).save(path)
    with pytest.raises(StorageError, match="checksum mismatch"):
        problems(runs)
    path.write_bytes(content)
    store.truth_path(record.cell.dataset, record.ranks.truth_sha256).unlink()
    with pytest.raises(StorageError, match="cannot read the true pairs"):
        problems(runs)


def test_a_record_under_another_name_is_an_error(runs):
    (path,) = (runs / "records").rglob("*.json")
    values = json.loads(path.read_text())
    values["cell"]["seed"] = 1
    values["key"] = sha256_json(values["cell"])
    content = {name: value for name, value in values.items() if name != "sha256"}
    path.write_text(json.dumps({**content, "sha256": sha256_json(content)}))
    assert read_record(path).cell.seed == 1
    with pytest.raises(StorageError, match="that belongs at"):
        problems(runs)


def chosen_by():
    """(method, preset, command) of every command that chose the values of a preset."""
    for entry in Registry():
        for preset, origin in entry.usable().choices.items():
            assert preset in entry.usable().presets
            yield from ((entry.name, preset, line) for line in origin.splitlines() if line.startswith("xmcbench "))


def test_values_of_presets_come_from_commands_whose_records_are_here(monkeypatch):
    """A record may lack a parameter that the method has had since, if the command leaves it at its default."""
    monkeypatch.setattr(Description, "missing", {})  # whatever is installed
    records, registry = Store(BOARD).records(), Registry()
    chosen = list(chosen_by())
    assert {(method, preset) for method, preset, _ in chosen} >= {("ict", "small"), ("glove", "quick")}
    for method, _, command in chosen:
        arguments = parser().parse_args(shlex.split(command)[1:])
        assert arguments.dataset.endswith("-dev")  # no test label of a dataset is looked at
        wanted = Request(
            arguments.dataset,
            request.only_setting(arguments),
            arguments.methods,
            arguments.preset,
            request.overrides(arguments.set),
            arguments.seed,
        )
        [(rows, _)] = resolve([wanted], registry)
        for row, seed in itertools.product(rows, wanted.seeds):
            assert row.entry.name == method
            default = parameters.resolve(row.method.parameters, method, {})
            made = [
                record
                for record in records
                if (record.cell.dataset.lower(), record.cell.setting) == (arguments.dataset, wanted.setting)
                and (record.cell.method, record.cell.seed, record.status) == (method, seed, "ok")
                and row.values == {**default, **record.cell.parameters}
            ]
            assert len(made) == 1, command
