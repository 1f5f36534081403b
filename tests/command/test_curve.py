"""`xmcbench curve` as a user meets it: what runs, what is drawn, what is missing."""

import csv
import json
import re
import signal
import sys

import pytest

from xmcbench.command.main import main
from xmcbench.errors import Unavailable
from xmcbench.extras import installation
from xmcbench.leaderboard import rendering
from xmcbench.records import Store

LEARNERS = """
    import numpy as np
    from xmcbench import Method, TopK

    class Counts(Method):
        title = "Counts"
        supervision = "{supervision}"
        def fit(self, raw_X, raw_Y, pairs=None):
            self.scores = np.arange(len(raw_Y)) / 100.0
            if pairs is not None:
                self.scores += np.asarray(pairs.sum(axis=0)).ravel()
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.scores, (len(raw_X), len(self.scores))), k)
"""


@pytest.fixture
def counts(plugin):
    """A plug-in that ranks labels by their pairs."""

    def write(supervision):
        return plugin(LEARNERS.format(supervision=supervision), "counts.py")

    return write


def settings(runs):
    return sorted(path.parent.name for path in (runs / "records").rglob("counts-*.json"))


def test_a_curve_runs_draws_and_goes_on(inside, altered, tiny, counts, tmp_path):
    file = counts("optional")
    words = ("curve", "--dataset", tiny, "--methods", "tfidf,counts", "--plugin", file)
    ended = inside(*words, "--ratio", "0,0.5,1", "--seed", "0,1", "--by", "pair")
    assert ended.returncode == 0, ended.stderr
    assert {line.partition("] ")[0].partition("/")[0][0] for line in ended.stderr.splitlines()} == {"["}
    runs = tmp_path / "runs"
    assert settings(runs) == ["ez", "ez", "fs-pair-0.5", "fs-pair-0.5", "full", "full"]
    # What never looks at pairs runs once.
    assert [path.parent.name for path in (runs / "records").rglob("tfidf-*.json")] == ["ez"]
    drawn = sorted(path.name for path in (runs / "curves").iterdir())
    assert drawn == ["tiny-pair-p5.csv", "tiny-pair-p5.svg", "tiny-pair-r100.csv", "tiny-pair-r100.svg"]
    assert "P@5 on tiny, in percent, by share of the pairs; filter none" in ended.stdout
    assert "missing" not in ended.stdout
    with (runs / "curves" / "tiny-pair-p5.csv").open() as stream:
        points = {(line["method"], line["ratio"]): line for line in csv.DictReader(stream)}
    assert [points["Counts", ratio]["seeds"] for ratio in ("0", "0.5", "1")] == ["0 1"] * 3
    record = json.loads(next((runs / "records").rglob("full/counts-s0*.json")).read_text())
    assert float(points["Counts", "1"]["value"]) == pytest.approx(100 * record["metrics"]["none"]["values"]["P@5"])

    before = {path: path.read_bytes() for path in (runs / "curves").iterdir()}
    again = inside(*words, "--ratio", "0,0.5,1", "--seed", "0,1", "--by", "pair")
    assert again.stdout == ended.stdout
    assert before == {path: path.read_bytes() for path in (runs / "curves").iterdir()}

    half = inside(*words, "--ratio", "0,0.1,0.5,1", "--seed", "0,1,2", "--by", "pair", "--no-run")
    assert half.returncode == 0, half.stderr
    assert "missing: Counts at 0% (seed 2), 10%, 50% (seed 2), 100% (seed 2)" in half.stdout
    assert "fs-pair-0.1" not in settings(runs)

    # A result of other code is marked wherever it is shown.
    store = Store(runs)
    for record in store.records():
        if record.cell.method == "counts":
            store.write(altered(record, (("method", "source_sha256"), "0" * 64)))
    stale = "stale: the method's code has changed since this result was made"
    words += ("--ratio", "0,0.5,1", "--seed", "0,1", "--by", "pair", "--no-run")
    marked = inside(*words)
    assert f"Counts: {stale}" in marked.stdout
    assert "stale or mixed" in (runs / "curves" / "tiny-pair-p5.svg").read_text()
    document = json.loads(inside(*words, "--json").stdout)
    assert document["filter"] == "none"
    assert {(record["cell"]["method"], record["problem"]) for record in document["records"]} == {
        ("tfidf", None),
        ("counts", stale),
    }


def test_what_needs_pairs_does_not_run_at_zero(inside, tiny, counts, tmp_path):
    words = ("--methods", "counts", "--plugin", counts("required"), "--metric", "R@10", "--out", "figures")
    ended = inside("curve", "--dataset", tiny, *words, "--ratio", "0,1")
    assert ended.returncode == 0, ended.stderr
    assert settings(tmp_path / "runs") == ["full"]
    assert "missing" not in ended.stdout
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "tiny-label-r10.csv",
        "tiny-label-r10.svg",
    ]


def test_a_cell_that_fails_leaves_a_gap(inside, tiny, plugin):
    broken = LEARNERS.format(supervision="optional").replace("if pairs is not None:", "if pairs.nnz:")
    words = ("--methods", "counts", "--plugin", plugin(broken, "counts.py"), "--ratio", "0,1", "--metric", "P@1")
    ended = inside("curve", "--dataset", tiny, *words)
    assert ended.returncode == 1
    assert "missing: Counts at 0%" in ended.stdout
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("Counts, ez, seed 0: failed: Attribute")]
    assert re.search(r"\(log: runs/logs/tiny/ez/counts-s0-[0-9a-f]{12}\.log\)$", line)


def test_a_curve_leaves_the_board_it_is_drawn_beside(inside, tiny, tmp_path):
    words = ("curve", "--dataset", tiny, "--methods", "tfidf", "--ratio", "0")
    assert inside(*words).returncode == 0
    assert inside("leaderboard", "--runs", "runs", "--out", "runs").returncode == 0
    assert inside(*words, "--out", "runs").returncode == 0
    assert inside("leaderboard", "--runs", "runs", "--out", "runs", "--check").returncode == 0


def test_a_cell_that_was_skipped_says_why(inside, tiny, plugin):
    source = LEARNERS.format(supervision="optional").replace("if pairs is not None:", "if pairs is None:")
    source = source.replace("self.scores +=", "raise Unavailable('no weights', 'get them') #")
    source = source.replace("Method, TopK", "Method, TopK, Unavailable")
    words = ("--methods", "counts", "--plugin", plugin(source, "counts.py"), "--ratio", "0,1", "--metric", "P@1")
    ended = inside("curve", "--dataset", tiny, *words)
    assert ended.returncode == 1  # it was named
    assert "Counts, ez, seed 0: skipped: no weights (get them)" in ended.stdout


def test_what_needs_pairs_alone_at_zero_is_said(inside, tiny, counts):
    words = ("--methods", "counts", "--plugin", counts("required"), "--ratio", "0")
    ended = inside("curve", "--dataset", tiny, *words)
    reason = "counts cannot run at these shares (at 0 there are no pairs to learn from)"
    assert (ended.returncode, ended.stderr) == (2, f"xmcbench: error: {reason}\n")


def test_nothing_to_draw(inside, tiny):
    ended = inside("curve", "--dataset", tiny, "--methods", "bm25", "--no-run")
    assert (ended.returncode, "no results to draw" in ended.stdout) == (1, True)


@pytest.mark.parametrize("flag", ["--force", "--refresh"])
def test_a_flag_that_runs_cells_is_refused_where_nothing_is_run(inside, tiny, flag):
    ended = inside("curve", "--dataset", tiny, "--methods", "bm25", "--no-run", flag)
    said = f"xmcbench: error: {flag} runs cells, and --no-run runs nothing (use one of them)\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_what_is_drawn_without_a_run_needs_no_weights(inside, tiny):
    words = ("curve", "--dataset", tiny, "--methods", "tfidf,mpnet", "--ratio", "0")
    assert inside(*words).returncode == 1
    ended = inside(*words, "--no-run")
    assert (ended.returncode, ended.stdout) == (1, "no results to draw\n"), ended.stderr
    assert inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf").returncode == 0
    ended = inside(*words, "--no-run")
    assert "TF-IDF" in ended.stdout
    assert "missing: " in ended.stdout


def test_a_file_of_the_user_is_kept_and_costs_no_figures(inside, tiny, tmp_path):
    words = ("curve", "--dataset", tiny, "--methods", "tfidf", "--ratio", "0,1", "--metric", "P@5")
    drawn = inside(*words, "--out", "drawn")
    (figure,) = (tmp_path / "drawn").glob("*.svg")
    place = tmp_path / "mine" / figure.name
    place.parent.mkdir()
    place.write_text("mine")
    ended = inside(*words, "--out", "mine")
    assert (ended.returncode, place.read_text()) == (2, "mine")
    assert ended.stderr.splitlines()[-1].endswith(
        "already exists and was not generated by xmcbench (move it, or choose another folder with --out)"
    )
    assert ended.stdout.splitlines() == drawn.stdout.splitlines()[:-2]


def test_png(inside, tiny, tmp_path):
    ended = inside("curve", "--dataset", tiny, "--methods", "tfidf", "--ratio", "0,1", "--metric", "P@1", "--png")
    assert ended.returncode == 0, ended.stderr
    content = (tmp_path / "runs" / "curves" / "tiny-label-p1.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 1200
    drawing = tmp_path / "runs" / "curves" / "tiny-label-p1.svg"
    drawing.unlink()
    refused = inside("curve", "--dataset", tiny, "--methods", "tfidf", "--ratio", "0,1", "--metric", "P@1", "--png")
    assert (refused.returncode, "was not generated by xmcbench" in refused.stderr) == (2, True)
    assert (drawing.with_suffix(".png").read_bytes(), drawing.exists()) == (content, False)


def test_pdf(inside, tiny, tmp_path):
    try:
        rendering.require("pdf")
    except Unavailable as error:
        pytest.skip(str(error))
    ended = inside("curve", "--dataset", tiny, "--methods", "tfidf", "--ratio", "0,1", "--metric", "P@1", "--pdf")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].endswith("tiny-label-p1.pdf")
    content = (tmp_path / "runs" / "curves" / "tiny-label-p1.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/MediaBox [ 0 0 450 " in content  # 600 units of 3/4 point


def test_a_library_that_is_missing_below_a_package_is_named(monkeypatch):
    def fail(name):
        raise OSError('no library called "cairo-2" was found\nno library called "cairo"')

    monkeypatch.setattr(rendering, "import_module", fail)
    with pytest.raises(Unavailable, match='cairosvg: no library called "cairo-2" was found .*libcairo2'):
        rendering.require("pdf")


def test_a_format_names_the_missing_package(tiny, monkeypatch, capsys):
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # in the process of the tests
    for kind, (module, package) in rendering.FORMATS.items():
        monkeypatch.setitem(sys.modules, module, None)
        code = main(["curve", "--dataset", str(tiny), "--methods", "tfidf", "--ratio", "0,1", f"--{kind}"])
        assert (code, installation(package) in capsys.readouterr().err) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--methods", "tfidf", "--ratio", "0,two"],
            "argument --ratio/--ratios: '0,two' must be comma-separated numbers",
        ),
        (["--methods", "tfidf", "--ratio", "0,1.5"], "the ratio 1.5 is outside (0, 1]"),
        (["--methods", "tfidf", "--metric", "P@2"], "unknown metric 'P@2'"),
        (["--methods", "tfidf", "--metric", ","], "argument --metric: the list ',' is empty"),
        (["--methods", "all"], "a curve needs the names of its methods"),
        (["--methods", "tfdif"], "did you mean 'tfidf'"),
        (["--methods", "tfidf", "--set", "bm25.k1=2"], "not among the methods"),
        (["--methods", "tfidf", "--filter", "file"], "has no filter 'file'"),
        (["--methods", "tfidf,", "bm25"], "write a list without spaces, or in quotes"),
        ([], "--methods"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_2(inside, tiny, tmp_path, words, message):
    ended = inside("curve", "--dataset", tiny, *words)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_grids_of_a_settings_file_share_the_axis(inside, tiny, tmp_path):
    (tmp_path / "c.toml").write_text('methods = "tfidf"\n[[grid]]\nratio = 0\n[[grid]]\nratio = [0, 1]\n')
    ended = inside("curve", "--dataset", tiny, "--config", "c.toml")
    assert (ended.returncode, "its grids cannot differ in --by or --ratio" in ended.stderr) == (2, True), ended.stderr


def test_the_earlier_name_of_the_ratios(inside, tiny):
    ended = inside("curve", "--dataset", tiny, "--methods", "tfidf", "--ratios", "0,1", "--dry-run")
    assert ended.returncode == 0, ended.stderr


def test_a_preset_that_one_of_the_methods_has(inside, tiny, counts, tmp_path):
    """TF-IDF runs apart from the others, as it never looks at pairs; a preset of either side is one of the request."""
    words = ("curve", "--dataset", tiny, "--methods", "tfidf,xr-linear", "--ratio", "0,1")
    assert inside(*words, "--preset", "pecos").returncode == 0
    ended = inside(*words, "--preset", "pecso")
    assert (ended.returncode, "unknown preset 'pecso' (did you mean 'pecos'" in ended.stderr) == (2, True)


def test_a_finished_cell_is_not_missing_under_another_name(inside, tiny, tmp_path):
    """The preset ``sklearn`` of TF-IDF are its defaults: one cell, called after whoever ran it first."""
    words = ("curve", "--dataset", tiny, "--ratio", "0,1")
    assert inside(*words, "--methods", "tfidf:sklearn,xr-linear").returncode == 0
    ended = inside(*words, "--methods", "tfidf,xr-linear", "--no-run")
    assert (ended.returncode, "missing" in ended.stdout) == (0, False), ended.stdout
    assert "TF-IDF (sklearn)" in ended.stdout
