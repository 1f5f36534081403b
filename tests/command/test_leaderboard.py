"""`xmcbench leaderboard` as a user meets it: pages, the check, and records sent by others."""

import json
import re
import shutil
from urllib.parse import quote

import numpy as np
import pytest

from xmcbench import TopK
from xmcbench.command.leaderboard import report_outdated
from xmcbench.metrics import VERSION
from xmcbench.records import Store
from xmcbench.records.packing import pack
from xmcbench.storage.atomic import write_json
from xmcbench.storage.canonical import sha256_file, sha256_json


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of the one run of this module."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def runs(inside, tiny, tmp_path, run_folder):
    """A runs folder with two methods at zero shot and at half of the labels; ``tiny`` is the dataset it is about."""
    if not (run_folder / "sent").exists():
        for words in (("--setting", "ez"), ("--setting", "fs", "--ratio", "0.5")):
            ended = inside("run", "--dataset", tiny, *words, "--methods", "tfidf,bm25", "--runs", "sent")
            assert ended.returncode == 0, ended.stderr
        shutil.copytree(tmp_path / "sent", run_folder / "sent")
        shutil.copytree(tiny, run_folder / "tiny")
        return tmp_path / "sent"
    shutil.rmtree(tiny)
    shutil.copytree(run_folder / "tiny", tiny)
    return shutil.copytree(run_folder / "sent", tmp_path / "sent")


def files_of(root, kind):
    return sorted(path for path in (root / kind).rglob("*") if path.is_file())


def one_of(runs):
    return sorted((runs / "records").rglob("tfidf*.json"))[0]


def test_what_is_removed_comes_back_byte_for_byte(inside, runs):
    assert inside("leaderboard", "--out", "sent").returncode == 0
    generated = [*runs.glob("*.md"), *(runs / "figures").glob("*")]
    assert {path.suffix for path in generated} >= {".md"}
    before = {path: path.read_bytes() for path in generated}
    assert inside("leaderboard", "--out", "sent", "--check").returncode == 0
    for path in generated:
        path.unlink()
    ended = inside("leaderboard", "--out", "sent", "--check")
    assert (ended.returncode, ended.stderr.count("is missing")) == (1, len(before))
    inside("leaderboard", "--out", "sent")
    assert {path: path.read_bytes() for path in before} == before
    (runs / "tiny.md").write_text("changed")
    ended = inside("leaderboard", "--out", "sent", "--check")
    assert (ended.returncode, "tiny.md is out of date" in ended.stderr) == (1, True)


def test_a_long_list_of_outdated_files_is_cut(capsys):
    assert report_outdated([f"{number}: is missing" for number in range(25)], 30) == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        *(f"xmcbench: {number}: is missing" for number in range(20)),
        "xmcbench: and 5 more",
    ]
    assert said.out == "out of date: 25 files (run the same command without --check)\n"


def test_pages_do_not_depend_on_how_the_runs_folder_is_spelled(inside, runs, tmp_path):
    """Nor on the folder that the command was called in."""
    assert inside("leaderboard", "--runs", "sent", "--out", "pages").returncode == 0
    for spelled in (f"../{tmp_path.name}/sent", "./sent/", runs):
        ended = inside("leaderboard", "--runs", spelled, "--out", "pages", "--check")
        assert ended.returncode == 0, ended.stderr
    (tmp_path / "pages" / "tiny.md").write_text("changed")
    ended = inside("leaderboard", "--runs", "sent", "--out", "pages", "--check")
    assert ended.stdout == "out of date: 1 file (run the same command without --check)\n"
    runs.rename(tmp_path / "leaderboards")  # the default of `reproduce`
    assert inside("leaderboard", "--runs", tmp_path / "leaderboards", "--out", "more").returncode == 0
    assert " --runs " not in (tmp_path / "more" / "tiny.md").read_text()


def test_pages_of_other_records_leave_the_board_alone(inside, runs, tmp_path):
    """In a clone, ./leaderboards is the board of the project."""
    board = shutil.copytree(runs, tmp_path / "leaderboards")
    assert inside("leaderboard").returncode == 0
    before = {path: path.read_bytes() for path in board.rglob("*") if path.is_file()}
    assert inside("leaderboard", "--runs", "sent").returncode == 0
    assert inside("leaderboard", "--runs", "sent", "--format", "csv").returncode == 0
    assert {path: path.read_bytes() for path in board.rglob("*") if path.is_file()} == before
    assert (runs / "tiny.md").is_file()
    assert list((runs / "csv").rglob("*.csv"))


def test_a_remark_is_part_of_its_page(inside, runs):
    inside("leaderboard", "--out", "sent")
    (runs / "remarks").mkdir()
    remark = runs / "remarks" / "tiny.md"
    remark.write_text("Written by *hand*.\n")
    ended = inside("leaderboard", "--out", "sent", "--check")
    assert (ended.returncode, ended.stderr.count("is out of date")) == (1, 1), ended.stderr
    assert inside("leaderboard", "--out", "sent").returncode == 0
    assert "\n## Remarks\n\nWritten by *hand*.\n\n" in (runs / "tiny.md").read_text()
    assert remark.read_text() == "Written by *hand*.\n"
    assert inside("leaderboard", "--out", "sent", "--check").returncode == 0
    remark.rename(remark.with_name("tyni.md"))
    ended = inside("leaderboard", "--out", "sent", "--check")
    assert ended.returncode == 1
    assert "tyni.md has no page" in ended.stderr


def test_published_datasets_are_on_a_board_of_ones_own_if_asked_for(inside, runs, tmp_path):
    assert inside("leaderboard", "--runs", "sent", "--out", "pages").returncode == 0
    assert not (tmp_path / "pages" / "lf-amazon-131k.md").exists()
    assert not (tmp_path / "pages" / "ablation.md").exists()
    assert "Sources" not in (tmp_path / "pages" / "README.md").read_text()
    assert inside("leaderboard", "--runs", "sent", "--out", "pages", "--published").returncode == 0
    assert "*MACLR*" in (tmp_path / "pages" / "lf-amazon-131k.md").read_text()
    assert "TF-IDF" in (tmp_path / "pages" / "tiny.md").read_text()
    assert " --runs sent" in (tmp_path / "pages" / "tiny-ez.md").read_text()
    assert inside("leaderboard", "--runs", "sent", "--out", "tex", "--format", "latex").returncode == 0
    table = (tmp_path / "tex" / "tiny" / "ez.tex").read_text()
    assert r"\toprule" in table
    assert r"$\approx$: statistically tied" in table
    for path in (tmp_path / "tex").rglob("*.tex"):  # pdfTeX refuses most characters beyond Latin-1
        "".join(line for line in path.read_text().splitlines() if line[0] != "%").encode("latin-1")


@pytest.mark.parametrize("layout", ["latex", "csv"])
def test_tables_of_a_dataset_that_is_gone_are_removed(inside, runs, tmp_path, layout):
    words = ("leaderboard", "--runs", "sent", "--out", "pages", "--format", layout)
    assert inside(*words).returncode == 0
    older = shutil.copytree(tmp_path / "pages" / "tiny", tmp_path / "pages" / "older")
    for path in older.iterdir():
        path.write_text(path.read_text().replace("as tiny/", "as older/"))
    mine = older / f"mine.{'tex' if layout == 'latex' else 'csv'}"
    mine.write_text("a,b\n1,2\n")
    paper = tmp_path / "pages" / "paper"  # a copy of the user's, in a folder that is not of a dataset
    paper.mkdir()
    shutil.copy(next((tmp_path / "pages" / "tiny").glob("ez.*")), paper)
    ended = inside(*words, "--check")
    obsolete = len([*older.iterdir()]) - 1
    assert (ended.returncode, ended.stderr.count("generated but obsolete")) == (1, obsolete), ended.stderr
    assert obsolete >= 2
    ended = inside(*words)
    assert (ended.returncode, ended.stderr.count("removed: pages/older/")) == (0, obsolete), ended.stderr
    assert ([*older.iterdir()], len([*paper.iterdir()])) == ([mine], 1)
    assert inside(*words, "--check").returncode == 0


def test_results_are_listed(inside, runs):
    results = json.loads(inside("ls", "results", "--runs", "sent", "--json").stdout)
    assert {result["method"] for result in results} == {"BM25", "TF-IDF"}
    assert all(result["status"] == "ok" for result in results)
    assert all(result["other_packages"] == {} for result in results)


def test_results_of_other_packages_are_named_and_not_stale(inside, runs, altered):
    store = Store(runs)
    for record in store.records():
        store.write(altered(record, (("environment", "packages"), {**record.environment.packages, "numpy": "0.1"})))
    results = json.loads(inside("ls", "results", "--runs", "sent", "--json").stdout)
    assert {(result["status"], result["other_packages"]["numpy"]) for result in results} == {("ok", "0.1")}
    assert "numpy=0.1" in inside("ls", "results", "--runs", "sent").stdout


def test_wrong_requests(inside, runs):
    for words, reason in (
        (
            ("--out", "nowhere"),
            "there are no records in nowhere (give the folder that `xmcbench run` wrote: --runs DIR)",
        ),
        (("add",), "needs a runs folder"),
        (("add", "nowhere"), "there are no records in nowhere"),
        (("--format", "word"), "invalid choice"),
        (("sent",), "invalid choice"),
        (("--runs", "sent", "--check", "--refresh"), "--check changes nothing, and --refresh runs cells"),
        (("--runs", "sent", "--time-limit", "5"), "--time-limit can only be used with --refresh"),
        (("--runs", "sent", "--check", "--memory-limit", "5"), "--memory-limit can only be used with --refresh"),
        (("add", "sent", "--time-limit", "5"), "leaderboard add does not take --time-limit"),
        (("add", "sent", "--refresh"), "leaderboard add does not take --refresh"),
        (("add", "sent", "--published"), "leaderboard add does not take --published"),
        (("add", "sent", "--format", "html"), "leaderboard add does not take --format"),
        (("add", "sent", "--out", "a", "--runs", "b"), "--out and --runs are the same folder"),
    ):
        ended = inside("leaderboard", *words)
        assert (ended.returncode, reason in ended.stderr) == (2, True), ended.stderr


def test_good_records_are_added_and_stand_on_the_pages(inside, tiny, runs, tmp_path):
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("added: ") == 4
    records = {path.relative_to(tmp_path / "board").as_posix() for path in files_of(tmp_path / "board", "records")}
    assert records == {"records/tiny/ez.jsonl", "records/tiny/fs-label-0.5.jsonl"}
    assert [path.name for path in files_of(tmp_path / "board", "ranks")] == ["ez.zip", "fs-label-0.5.zip"]
    assert Store(tmp_path / "board").records() == Store(runs).records()
    assert inside("leaderboard", "--out", "board").returncode == 0
    # What was added can be audited where it is, and compared.
    assert inside("leaderboard", "add", "board", "--out", "board", "--dataset", tiny).returncode == 0
    compared = inside("compare", "tfidf", "bm25", "--setting", "ez", "--runs", "board", "--dataset", tiny)
    assert compared.returncode == 0, compared.stderr


def test_what_runs_write_to_a_board_is_packed_with_the_pages(inside, tiny, runs, tmp_path):
    adding = ("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert inside(*adding).returncode == 0
    assert "packed" not in inside("leaderboard", "--out", "board").stderr
    running = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf,bm25", "--runs", "board")
    assert "2 of 2 cells cached" in inside(*running).stderr
    assert inside(*running, "--set", "bm25.k1=2").returncode == 0
    (path,) = files_of(tmp_path / "board", "records")[:1]
    checked = inside("leaderboard", "--out", "board", "--check")
    assert (checked.returncode, f"{path.relative_to(tmp_path)}: not packed" in checked.stderr) == (1, True)
    records = Store(tmp_path / "board").records()
    assert inside("leaderboard", "--out", "board").stderr.count("packed: 1 record that runs wrote\n") == 1
    assert [path.name for path in files_of(tmp_path / "board", "records")] == ["ez.jsonl", "fs-label-0.5.jsonl"]
    assert [path.name for path in files_of(tmp_path / "board", "ranks")] == ["ez.zip", "fs-label-0.5.zip"]
    assert (Store(tmp_path / "board").records(), len(records)) == (records, 5)
    assert inside("leaderboard", "--out", "board", "--check").returncode == 0


def test_a_site_links_to_the_packed_records_that_are_around_it(inside, runs, tmp_path):
    def links(out):
        assert inside("leaderboard", "--runs", "sent", "--format", "html", "--out", out).returncode == 0
        page = (tmp_path / out / "tiny-ez.html").read_text()
        found = {*re.findall('<a href="([^"]*)" download>', page)}
        assert all((tmp_path / out / link).is_file() for link in found)
        return found

    assert links("sent/site") == set()
    pack(Store(runs))
    assert links("sent/site") == {"../records/tiny/ez.jsonl"}
    assert links("elsewhere") == set()
    shutil.copytree(runs / "records", tmp_path / "elsewhere" / "records")
    assert links("elsewhere") == {"records/tiny/ez.jsonl"}
    assert links("elsewhere/site") == {"../records/tiny/ez.jsonl"}
    path = tmp_path / "elsewhere" / "records" / "tiny" / "ez.jsonl"
    path.write_text(path.read_text().partition("\n")[0])  # as those of another board
    assert links("elsewhere") == links("elsewhere/site") == set()


def test_commands_read_packed_records(inside, tiny, runs, tmp_path):
    """The same ones as they read from files of their own, and ``clean`` removes none."""
    shutil.copytree(runs, tmp_path / "packed")
    pack(Store(tmp_path / "packed"))
    for words in (
        ("ls", "results", "--json"),
        ("compare", "tfidf", "bm25", "--setting", "ez", "--dataset", tiny),
        ("explain", "tfidf", "bm25", "--setting", "ez", "--dataset", tiny),
        ("rank", "--setting", "ez", "--dataset", tiny),
    ):
        loose, packed = (inside(*words, "--runs", root) for root in ("sent", "packed"))
        assert (packed.returncode, packed.stdout) == (loose.returncode, loose.stdout.replace("sent", "packed")), words
    assert inside("leaderboard", "--runs", "packed", "--out", "pages").returncode == 0
    before = files_of(tmp_path / "packed", "records") + files_of(tmp_path / "packed", "ranks")
    assert inside("clean", "--runs", "packed", "--older-than", "0", "--remove").returncode == 0
    assert files_of(tmp_path / "packed", "records") + files_of(tmp_path / "packed", "ranks") == before
    assert not files_of(tmp_path / "packed", "predictions")


def test_what_a_record_calls_its_dataset_is_a_name_or_named_by_the_user(inside, tiny, runs, tmp_path, monkeypatch):
    """A place could be a file of the user, or one of the hub, which would be read before anything is refused."""
    secret = tmp_path / "secret.txt"
    secret.write_text("one document\n")
    path = one_of(runs)
    name = f"lf-debian-2k?documents={quote(str(secret), safe='')}"

    def rename_dataset(record, _):
        record["cell"]["dataset"] = name
        record["key"] = sha256_json(record["cell"])

    forge(rename_dataset)(path)
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny, "--check")
    assert ended.returncode == 1
    assert "there is no dataset lf-debian-2k?documents=" in ended.stderr
    assert "(name its place: --dataset PLACE)" in ended.stderr


def test_records_are_added_to_the_board_that_is_named(inside, tiny, runs, tmp_path):
    ended = inside("leaderboard", "add", "sent", "--dataset", tiny, "--runs", "own")
    assert ended.returncode == 0, ended.stderr
    assert len(Store(tmp_path / "own").records()) == len(Store(runs).records())
    assert not (tmp_path / "leaderboards").exists()


def test_another_record_of_a_cell_is_replaced_on_demand_alone(inside, tiny, runs, tmp_path, altered):
    adding = ("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert inside(*adding).returncode == 0
    again = inside(*adding)  # the same record may come twice
    assert (again.returncode, again.stdout.count("already there: "), "added" in again.stdout) == (0, 4, False)
    assert inside(*adding, "--check").stdout == again.stdout
    path = one_of(runs)
    forge(lambda record, _: record["measured"].update(started="2001-02-03T04:05:06+00:00"))(path)
    board = Store(tmp_path / "board")
    before = board.records()
    ended = inside(*adding)  # the cell was run again, with the same result
    assert (ended.returncode, ended.stdout, board.records()) == (0, again.stdout, before), ended.stderr
    (there,) = [record for record in before if record.cell == dict(Store(runs).entries())[path].cell]
    board.write(altered(there, (("predictions", "sha256"), "0" * 64)))
    before = board.records()
    ended = inside(*adding)
    assert (ended.returncode, ended.stdout.count("already there: ")) == (1, 3)
    assert f"refused: {path.relative_to(tmp_path)}" in ended.stderr
    assert "another record of this cell, with other predictions" in ended.stderr
    assert board.records() == before
    assert f"added: board/records/tiny/ez.jsonl/{path.stem}\n" in inside(*adding, "--force").stdout
    assert board.records() == Store(runs).records() != before


def test_of_two_records_of_a_cell_that_are_sent_at_once_the_second_is_refused(inside, tiny, runs, tmp_path):
    again = shutil.copytree(runs, tmp_path / "again")
    path = one_of(again)
    forge(lambda record, _: record["measured"].update(started="2001-02-03T04:05:06+00:00"))(path)
    ended = inside("leaderboard", "add", "sent", "again", "--out", "board", "--dataset", tiny)
    assert (ended.returncode, ended.stdout.count("added: ")) == (1, 4)
    place = path.relative_to(again)
    said = f"refused: again/{place}: sent/{place} is a record of the same cell (send only one of them)"
    assert (ended.stderr.count("is a record of the same cell"), said in ended.stderr) == (4, True), ended.stderr
    assert Store(tmp_path / "board").records() == Store(runs).records()


def test_a_stale_cell_is_run_again_on_the_data_that_are_named(inside, tiny, runs, tmp_path, altered):
    """They are not found by their name."""
    store = Store(runs)
    first, *others = store.records()
    store.write(altered(first, (("method", "source_sha256"), "0" * 64)))
    elsewhere = shutil.copytree(tiny, tmp_path / "elsewhere" / "tiny")
    shutil.rmtree(tiny)
    ended = inside("leaderboard", "--runs", "sent", "--out", "pages", "--dataset", elsewhere, "--refresh")
    assert (ended.returncode, ended.stderr.count(": ok, ")) == (0, 1), ended.stderr
    again, *rest = store.records()
    assert (again.method, rest) == (first.method, others)


def test_a_cell_that_failed_on_the_board_gives_way(inside, tiny, runs, tmp_path):
    ended = inside(
        "run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--time-limit", "0.01", "--runs", "board"
    )
    (failed,) = Store(tmp_path / "board").records()
    assert (ended.returncode, failed.status) == (1, "timeout")
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert (ended.returncode, ended.stdout.count("added: ")) == (0, 4), ended.stderr


def test_a_cell_that_a_run_has_on_the_board_is_left_to_it(inside, tiny, runs, tmp_path):
    board = Store(tmp_path / "board")
    record = Store(runs).find(Store(runs).records()[0].cell)
    with board.claim(record.cell) as claim:
        assert claim.held
        ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert (ended.returncode, "a run holds this cell (wait until it has ended)" in ended.stderr) == (1, True), (
        ended.stderr
    )
    assert not board.predictions_path(record.cell).exists()


def test_the_card_of_a_named_folder_decides_the_filter(inside, tiny, tmp_path):
    """The folder is not found by its name in the records."""
    (tiny / "filter_labels_test.txt").write_text("0 1\n")
    words = ("--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--runs", "own")
    assert inside("run", *words).returncode == 0
    (tiny / "card.toml").write_text('name = "tiny"\nslug = "tiny"\nfilter = "file"\n')
    ended = inside("leaderboard", "--runs", "own", "--out", "board", "--dataset", tiny)
    assert ended.returncode == 0, ended.stderr
    assert [record.protocol.filter for record in Store(tmp_path / "own").records()] == ["file"]


def test_a_digit_changed_by_hand_is_named_by_check_and_by_add(inside, tiny, runs):
    inside("leaderboard", "--out", "sent")
    path = one_of(runs)
    value = json.loads(path.read_text())["metrics"]["none"]["values"]["R@100"]
    digits = f'"R@100": {value}'
    changed = digits[:-1] + ("1" if digits[-1] != "1" else "2")
    assert digits in path.read_text()
    path.write_text(path.read_text().replace(digits, changed, 1))
    for words in (("--out", "sent", "--check"), ("add", "sent", "--out", "board", "--dataset", tiny)):
        ended = inside("leaderboard", *words)
        assert ended.returncode == 1
        assert ended.stderr.count(path.name) == 1
        assert "checksum mismatch" in ended.stderr


def forge(change):
    """A change of a record, sealed again as somebody would who knows how."""

    def forge(path):
        record = json.loads(path.read_text())
        change(record, path)
        content = {name: value for name, value in record.items() if name != "sha256"}
        write_json(path, {**content, "sha256": sha256_json(content)})

    return forge


def _higher(record, _):
    values = record["metrics"]["none"]["views"]["head"]["values"]
    values["P@1"] = values["nDCG@1"] = 0.875


def _better_predictions(record, path):
    """The test pairs themselves as predictions, with their own hash in the record."""
    rows = np.arange(100, 130)
    indices = np.full((30, record["predictions"]["depth"]), -1, np.int32)
    indices[:, :2] = np.sort(np.stack([rows % 10, (rows + 3) % 10], axis=1), axis=1)
    scores = np.where(indices < 0, -np.inf, 1).astype(np.float32)
    file = path.parents[3] / record["predictions"]["file"]
    TopK(indices, scores).save(file)
    record["predictions"]["sha256"] = sha256_file(file)


def _name_elsewhere(record, path):
    record["cell"]["method"] = "../../../../elsewhere"
    record["key"] = sha256_json(record["cell"])


def _of_another_name(record, path):
    record["cell"]["dataset"] = "TINY"
    record["key"] = sha256_json(record["cell"])


def _another_method(record, path):
    record["cell"]["method"] = "mine"
    record["key"] = sha256_json(record["cell"])


def _of_another_filter(record, _):
    record["protocol"]["filter"] = "self"
    record["metrics"]["self"] = record["metrics"]["none"]


def _another_subset(record, path):
    record["cell"]["subset_sha256"] = "0" * 64
    record["key"] = sha256_json(record["cell"])
    root, before = path.parents[3], record["predictions"]["file"]
    record["predictions"]["file"] = f"{before.rpartition('-')[0]}-{record['key'][:12]}.npz"
    (root / before).rename(root / record["predictions"]["file"])


def _shallow(record, _):
    record["predictions"]["depth"] -= 1


def _under_a_name(value, given):
    """A value of a parameter, which the row would show, under the name of another one."""

    def forge(record, _):
        name, parameter = given
        record["cell"]["parameters"][name] = value
        record["method"]["names"] = {name: parameter}
        record["key"] = sha256_json(record["cell"])

    return forge


FORGERIES = {
    "a number that names another": (
        forge(_under_a_name(3, ("ngrams", "2"))),
        "its cell has 3 for ngrams, which '2' cannot name",
    ),
    "a choice that names another": (
        forge(_under_a_name("scratch", ("vectorizer", "sklearn"))),
        "its cell has 'scratch' for vectorizer, which 'sklearn' cannot name",
    ),
    "no measurements": (forge(lambda record, _: record.pop("measured")), "missing required field `measured`"),
    "a name that is a path": (forge(_name_elsewhere), "is not a valid file name"),
    "a dataset of another name": (forge(_of_another_name), "its dataset is TINY, but this one is tiny"),
    "a title": (forge(lambda record, _: record["method"].update(title="MACLR")), "its method's title is 'MACLR'"),
    "a budget": (forge(lambda record, _: record["method"].update(variant="paper, 9 steps")), "its variant is 'paper"),
    "chance left out": (
        forge(lambda record, _: record["method"].update(deterministic=False)),
        "its method's deterministic is False",
    ),
    "the title of another": (forge(_another_method), "looks like that of tfidf"),
    "a time": (
        forge(lambda record, _: record["measured"].update(predict_ms_per_instance=-5.0)),
        "$.measured.predict_ms_per_instance",
    ),
    "a path": (
        forge(lambda record, _: record["predictions"].update(file="/etc/passwd")),
        "its predictions are /etc/passwd, and should be predictions/tiny/",
    ),
    "a figure": (forge(_higher), "its metrics.none.views.head.values.P@1 is 0.875"),
    "other predictions": (forge(_better_predictions), "but its predictions give"),
    "counts": (
        forge(lambda record, _: record["counts"].update(test=29)),
        "its counts.test is 29, but its predictions give 30",
    ),
    "a filter": (forge(_of_another_filter), "its metrics.self is "),
    "propensities": (
        forge(lambda record, _: record["protocol"].update(propensity=[0.6, 2.6])),
        "its protocol.propensity[0] is 0.6, but its predictions give 0.55",
    ),
    "protocol": (
        forge(lambda record, _: record["protocol"].update(version=VERSION - 1)),
        f"metric protocol {VERSION - 1}, not {VERSION}",
    ),
    "a subset": (forge(_another_subset), "its subset is not the one that its setting and seed select"),
    "ranks of others": (
        forge(lambda record, _: record["ranks"].update(sha256="0" * 64)),
        f"its ranks.sha256 is {'0' * 64}, but",
    ),
    "no predictions": (lambda path: shutil.rmtree(path.parents[3] / "predictions"), "are missing"),
    "damaged predictions": (
        lambda path: (path.parents[3] / json.loads(path.read_text())["predictions"]["file"]).write_bytes(b"x"),
        "is not a prediction file",
    ),
    "a depth that cuts what the filter leaves": (forge(_shallow), "predictions have the shapes"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_does_not_follow_is_refused_and_named(inside, runs, tmp_path, monkeypatch, forgery):
    forge, reason = FORGERIES[forgery]
    path = one_of(runs)
    forge(path)
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path))  # tiny by name, in any case
    ended = inside("leaderboard", "add", "sent", "--out", "board")
    assert ended.returncode == 1
    refusals = [line for line in ended.stderr.splitlines() if path.name in line]
    assert len(refusals) == 1
    assert refusals[0].startswith("xmcbench: refused: ")
    assert reason in refusals[0]
    assert not (tmp_path / "board" / path.relative_to(runs)).exists()


def test_two_places_of_one_dataset_are_refused(inside, tiny, runs, tmp_path):
    """The second replaced the first, whose records were then of other data."""
    other = shutil.copytree(tiny, tmp_path / "other" / "tiny")
    places = ("--dataset", tiny, "--dataset", other)
    for words in (("leaderboard", "add", "sent", "--out", "board"), ("confirm", "--full", "--runs", "sent")):
        ended = inside(*words, *places)
        assert ended.returncode == 2
        assert f"{tiny} and {other} are two datasets with the name tiny (choose one of them)" in ended.stderr
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny, "--dataset", "tiny")
    assert ended.returncode == 0, ended.stderr


def test_a_record_of_other_data_is_refused(inside, tiny, runs):
    other = tiny.parent / "other" / "tiny"
    shutil.copytree(tiny, other)
    (other / "filter_labels_test.txt").write_text("0 1\n")
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", other)
    assert ended.returncode == 1
    assert ended.stderr.count("tiny is not the version of the cell") == 4


def test_results_on_an_earlier_version_of_the_data_are_left_out_and_named(inside, tiny, runs):
    """They kept every page from being made, those of other datasets too."""
    other = shutil.copytree(tiny, tiny.parent / "other")
    assert inside("run", "--dataset", other, "--setting", "ez", "--methods", "bm25", "--runs", "sent").returncode == 0
    (tiny / "filter_labels_test.txt").write_text("0 1\n")
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--runs", "sent").returncode == 0
    versions = {record.cell.dataset_sha256 for record in Store(runs).records() if record.cell.dataset == "tiny"}
    assert len(versions) == 2
    ended = inside("leaderboard", "--runs", "sent")
    assert ended.returncode == 0, ended.stderr
    assert "left out: 4 results on other data of the same name, tiny (data " in ended.stderr
    page = (runs / "tiny.md").read_text()
    assert ("BM25" in page, "TF-IDF" in page) == (True, False)
    assert (runs / "other.md").is_file()
    assert inside("leaderboard", "--runs", "sent", "--check").returncode == 0
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--runs", "more").returncode == 0
    ended = inside("leaderboard", "add", "more", "--out", "sent", "--dataset", tiny)
    assert ended.returncode == 0, ended.stderr


def test_a_cell_without_a_result_is_left_out(inside, tiny, plugin, tmp_path):
    file = plugin(
        """
        from xmcbench import Method

        class Raises(Method):
            def fit(self, raw_X, raw_Y, pairs=None):
                raise ValueError("no")
            def predict(self, raw_X, k=100): ...
        """,
        "raises.py",
    )
    words = ("--methods", "raises,tfidf", "--plugin", file, "--runs", "sent")
    inside("run", "--dataset", tiny, "--setting", "ez", *words)
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert ended.returncode == 0, ended.stderr
    assert "failed: ValueError: no" in ended.stdout
    assert [record.cell.method for record in Store(tmp_path / "board").records()] == ["tfidf"]


def test_what_cannot_be_shown_or_looks_like_another_is_refused_and_the_rest_goes_in(inside, tiny, runs, tmp_path):
    """Plug-in methods, whose titles are free; --check says the same and changes nothing."""
    paths = sorted((runs / "records").rglob("*.json"))
    good, *others = paths
    titles = {
        "TF-IDF\u00a0": "its title is",
        "\u0422F-IDF": "looks like that of tfidf",
        "BM25 (fast)": "looks like that of bm25",
    }
    for number, (path, title) in enumerate(zip(others, titles, strict=True)):

        def change(record, path, title=title, number=number):
            record["cell"]["method"] = f"mine-{number}"
            record["method"]["title"] = title
            record["key"] = sha256_json(record["cell"])
            root, before = path.parents[3], record["predictions"]["file"]
            folder = before.rpartition("/")[0]
            name = f"{folder}/mine-{number}-s0-{record['key'][:12]}.npz"
            record["predictions"]["file"] = name
            record["ranks"]["file"] = name.replace("predictions", "ranks")
            (root / before).rename(root / name)

        forge(change)(path)
    words = ("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    checked = inside(*words, "--check")
    assert checked.returncode == 1
    assert not (tmp_path / "board").exists()
    added = inside(*words)
    assert added.returncode == 1
    assert added.stderr == checked.stderr
    for reason in titles.values():
        assert reason in added.stderr
    assert added.stdout.replace("added: ", "") == checked.stdout.replace("would be added: ", "")
    assert [f"{record.cell.path.name}.json" for record in Store(tmp_path / "board").records()] == [good.name]
    before = {path: path.read_bytes() for path in (tmp_path / "board").rglob("*") if path.is_file()}
    assert inside(*words, "--check").returncode == 1
    assert {path: path.read_bytes() for path in (tmp_path / "board").rglob("*") if path.is_file()} == before


def test_one_record_that_no_page_can_hold_does_not_keep_the_others_out(inside, tiny, runs, tmp_path, monkeypatch):
    """A fault of the code of a page that nobody knows yet."""
    from xmcbench import submissions
    from xmcbench.leaderboard.pages import pages

    bad, *good = sorted((runs / "records").rglob("*.json"))
    key = json.loads(bad.read_text())["key"]

    def fails(records, *others, **named):
        if any(record.key == key for record in records):
            raise ZeroDivisionError("nobody thought of it")
        return pages(records, *others, **named)

    monkeypatch.setattr(submissions, "pages", fails)
    ended = inside("leaderboard", "add", "sent", "--out", "board", "--dataset", tiny)
    assert (ended.returncode, ended.stdout.count("added: ")) == (1, len(good))
    (line,) = ended.stderr.splitlines()
    assert f"refused: sent/{bad.relative_to(runs)}" in line
    assert "it cannot be shown: ZeroDivisionError: nobody thought of it" in line
