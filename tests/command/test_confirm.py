"""`xmcbench confirm` and `--refresh`: what becomes of results whose code has changed."""

import gzip
import json
import shutil

import pytest

from xmcbench.records import Store

METHODS = """
    import numpy as np
    from xmcbench import Method, TopK

    class Base(Method):
        title = "Base"

        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            {name} = np.random.RandomState({seed}).rand(len(raw_X), self.labels)
            return TopK.from_scores({name}, k)
"""


@pytest.fixture
def code(plugin):
    """Write the method with another variable, or with another result."""

    def write(name="scores", seed=5):
        return plugin(METHODS.format(name=name, seed=seed), "base.py")

    return write


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of the one run of this module."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def runs(inside, tiny, code, tmp_path, run_folder):
    """Four cells of a method: two seeds without pairs, two with."""
    if not (run_folder / "runs").exists():
        for setting in (("ez",), ("fs", "--ratio", "0.5")):
            words = ("--setting", *setting, "--methods", "base", "--plugin", code(), "--seed", "0,1")
            assert inside("run", "--dataset", tiny, *words).returncode == 0
        shutil.copytree(tmp_path / "runs", run_folder / "runs")
    return Store(shutil.copytree(run_folder / "runs", tmp_path / "runs", dirs_exist_ok=True))


@pytest.mark.parametrize(
    "words", [("ls", "results"), ("confirm", "--full"), ("leaderboard", "--runs", "runs", "--out", "board")]
)
def test_what_cannot_be_judged_is_named(inside, code, runs, words):
    """Results of a plug-in that was not named were called fresh."""
    code("renamed")
    said = "note: whether results of base are stale is not known (name the file of a plug-in with --plugin)"
    assert inside(*words).stderr.count(said) == 1
    assert "not known" not in inside(*words, "--plugin", code()).stderr


def test_a_row_that_cannot_be_judged_is_named_where_it_is_shown(inside, code, runs, tiny):
    code("renamed")
    said = "whether results of base are stale is not known (name the file of a plug-in with --plugin)"
    one = ("base", "--dataset", tiny, "--setting", "ez", "--seed", "0")
    for words in (("compare", "base", *one), ("explain", "base", *one)):
        ended = inside(*words)
        assert (ended.returncode, ended.stderr.count(said)) == (0, 1), ended.stderr
        assert said not in inside(*words, "--plugin", code()).stderr
    words = ("show", *one, "--instance", "0100")
    assert "whether this result is stale is not known" in inside(*words).stdout
    assert "not known" not in inside(*words, "--plugin", code()).stdout


def statuses(inside, path):
    return [result["status"] for result in json.loads(inside("ls", "results", "--plugin", path, "--json").stdout)]


def test_one_cell_vouches_for_all_that_the_same_code_made(inside, tiny, code, runs):
    before = runs.records()
    path = code("renamed")
    assert statuses(inside, path) == ["stale"] * 4
    words = ("confirm", "--full", "--dataset", tiny, "--plugin", path)
    planned = inside(*words, "--dry-run")
    assert [line.partition(" on ")[0] for line in planned.stdout.splitlines()] == ["[1/2] Base", "[2/2] Base"]
    ended = inside(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count(": confirmed: 100.00% of the ranks are equal") == 2
    assert statuses(inside, path) == ["ok"] * 4
    assert runs.records() == before
    (listed,) = json.loads((runs.root / "equivalent.json").read_text())["base"]
    assert [entry["kind"] for entry in listed] == ["first", "reruns"]
    assert listed[1]["outcome"].startswith("100.00% of the ranks are equal")
    assert inside(*words).stdout == "nothing to confirm: no result is stale because of changed code\n"
    assert statuses(inside, code()) == ["ok"] * 4  # the code that made them still vouches for them


def test_another_result_is_not_confirmed(inside, tiny, code, runs):
    before, path = runs.records(), code(seed=6)
    ended = inside("confirm", "--full", "--dataset", tiny, "--plugin", path)
    assert (ended.returncode, ended.stdout.count("not confirmed: ")) == (1, 2)
    assert "run it again with --refresh" in ended.stdout
    assert runs.records() == before
    assert statuses(inside, path) == ["stale"] * 4


def test_a_cell_that_fails_now_is_not_confirmed(inside, tiny, code, runs):
    before, path = runs.records(), code()
    path.write_text(path.read_text().replace("self.labels = len(raw_Y)", "raise ValueError('broken')"))
    ended = inside("confirm", "--full", "--dataset", tiny, "--plugin", path)
    assert (ended.returncode, ended.stdout.count("not confirmed: failed: ValueError: broken")) == (1, 2)
    assert runs.records() == before


def test_only_what_is_asked_for_is_checked(inside, code, runs, tmp_path, monkeypatch):
    for words, said in (
        (("--methods", "bas"), "unknown method 'bas' in runs (did you mean 'base'?)"),
        (("--methods", "base:quick"), "unknown method 'base:quick' in runs"),
        (("--dataset", "lf-debian-2k"), "runs has no record of LF-Debian-2K"),
    ):
        ended = inside("confirm", "--full", *words, "--plugin", code("renamed"))
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ended = inside("confirm", "--full", "--plugin", code("renamed"), "--runs", runs.root)
    assert ended.returncode == 1  # tiny is not a dataset name
    assert ended.stdout.count("not confirmed: unknown dataset 'tiny'") == 2
    assert inside("confirm", "--runs", "none").returncode == 2


def test_what_cannot_be_read_is_said(inside, code, runs):
    runs.record_path(runs.records()[0].cell).with_name("bad.json").write_text("{}")
    ended = inside("confirm", "--full", "--plugin", code())
    assert (ended.returncode, ended.stdout) == (1, "nothing to confirm: no result is stale because of changed code\n")
    assert ended.stderr.count("left out: ") == 1


def test_changed_data_are_not_blamed_on_parameters(inside, tiny, code, runs):
    (tiny / "tst.json").write_bytes(gzip.decompress((tiny / "tst.json.gz").read_bytes()).split(b"\n", 1)[1])
    (tiny / "tst.json.gz").unlink()
    ended = inside("confirm", "--full", "--runs", "runs", "--plugin", code("renamed"), "--dataset", tiny)
    assert ended.returncode == 1
    assert ended.stdout.count("not confirmed: the data of tiny have changed since Base was run on them") == 2


def test_the_board_runs_again_what_is_stale_and_nothing_else(inside, tiny, code, runs):
    (first, *others), path = runs.records(), code(seed=6)
    words = ("leaderboard", "--runs", "runs", "--out", "pages", "--plugin", path, "--dataset", tiny)
    marked = inside(*words)
    assert marked.returncode == 0
    assert "stale records: 4 of 4; their rows are marked" in marked.stderr
    ended = inside(*words, "--refresh")
    assert (ended.returncode, ended.stderr.count(": ok, ")) == (0, 4)
    made = runs.records()
    assert [record.key for record in made] == [first.key, *(record.key for record in others)]
    assert all(record.metrics != old.metrics for record, old in zip(made, (first, *others), strict=True))
    logs = {path: path.stat().st_mtime_ns for path in (runs.root / "logs").rglob("*.log")}
    assert inside(*words, "--refresh").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in logs} == logs


def test_the_board_does_not_add_a_cell_beside_the_stale_one(inside, tiny, code, runs):
    before, path = runs.records(), code(seed=6)
    (tiny / "tst.json").write_bytes(gzip.decompress((tiny / "tst.json.gz").read_bytes()).split(b"\n", 1)[1])
    (tiny / "tst.json.gz").unlink()
    ended = inside("leaderboard", "--runs", "runs", "--out", "pages", "--plugin", path, "--dataset", tiny, "--refresh")
    assert (ended.returncode, ended.stderr.count("the data of tiny have changed since")) == (1, 4), ended.stderr
    assert runs.records() == before


@pytest.mark.parametrize("words", [["run", "--setting", "ez", "--methods", "base", "--seed", "0,1"], ["leaderboard"]])
def test_a_result_gives_way_to_another_result_only(inside, tiny, code, runs, words):
    before, path = runs.records(), code()
    path.write_text(path.read_text().replace("self.labels = len(raw_Y)", "raise ValueError('broken')"))
    more = ["--runs", "runs", "--out", "pages"] if words == ["leaderboard"] else []
    ended = inside(*words, *more, "--dataset", tiny, "--plugin", path, "--refresh")
    assert ended.returncode == 1
    assert "failed: ValueError: broken" in ended.stdout + ended.stderr
    assert runs.records() == before


def test_canaries_take_no_flag_of_whole_cells(inside, code, runs, tiny):
    for flag, value in (("--dataset", tiny), ("--plugin", code()), ("--columns", "text=x")):
        ended = inside("confirm", flag, value)
        assert (ended.returncode, f"{flag} can only be used with --full" in ended.stderr) == (2, True), ended.stderr
    assert "--jobs does nothing with --full" in inside("confirm", "--full", "--jobs", "7", code=2).stderr


def test_the_canaries_of_changed_code_are_run(inside, runs, monkeypatch):
    """Canaries themselves are tested elsewhere: here, one method has changed."""
    from xmcbench.runner.canaries import confirmation
    from xmcbench.runner.canaries.confirmation import Verdict

    monkeypatch.setattr(confirmation, "find_changed", lambda registry, runs: {"tfidf": "2" * 64, "bm25": "3" * 64})
    verdicts = {
        "tfidf": Verdict("tfidf", "1" * 64, "2" * 64, True, "equal on 3 canaries"),
        "bm25": Verdict("bm25", "1" * 64, "3" * 64, False, "lucene: 3 ranks of 9"),
    }
    monkeypatch.setattr(confirmation, "run_canaries", lambda chosen, jobs: [verdicts[name] for name in chosen])
    ended = inside("confirm")
    assert ended.returncode == 1
    assert ended.stdout == "tfidf: confirmed: equal on 3 canaries\nbm25: not confirmed: lucene: 3 ranks of 9\n"
    assert inside("confirm", "--methods", "tfidf").returncode == 0
    assert inside("confirm", "--methods", "knn").stdout.startswith("nothing to confirm")
    dry = inside("confirm", "--dry-run")
    assert (dry.stdout, "canaries to run: tfidf, bm25" in dry.stderr) == ("", True)


def test_what_cannot_be_confirmed_or_stored_is_an_error(inside, tiny, monkeypatch, tmp_path):
    from xmcbench.runner.canaries import run as canaries

    stored = []
    monkeypatch.setattr(canaries, "store", lambda methods, jobs: stored.append(methods) or {})
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf").returncode == 0
    for words, said in (
        (("--store", "tfdif"), "unknown method 'tfdif'"),
        (("--methods", "tfdif"), "unknown method 'tfdif'"),
        (("--store", "tfidf", "--dry-run"), "--dry-run does nothing with --store"),
        (("--store", "tfidf", "--columns", "text=x"), "--columns does nothing with --store"),
        (("--store", "tfidf", "--full"), "--full does nothing with --store"),
        (("--store", "tfidf", "--methods", "bm25"), "--methods does nothing with --store"),
        (("--jobs", "0"), "0"),
    ):
        ended = inside("confirm", *words)
        assert (ended.returncode, said in ended.stderr, "internal" in ended.stderr) == (2, True, False), ended.stderr
    assert stored == []
    assert inside("confirm", "--store", "tfidf").returncode == 0
    assert stored == [["tfidf"]]
