"""`xmcbench run` as a user meets it: what it prints, what it leaves, how it ends."""

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from xmcbench.command import flags, settings_file
from xmcbench.environment import machine_cores

FEW = ("--setting", "fs", "--ratio", "0.5")

TROUBLE = """
    import os, signal, time
    import numpy as np
    from xmcbench import Method, TopK

    class Base(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

    class Raises(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            raise ValueError("the matrix is\\nsingular")

    class Hangs(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            time.sleep(600)

    class Dies(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.artifacts.get("large", {}, lambda folder: os.kill(os.getpid(), signal.SIGSEGV))

    class Eats(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.block = np.ones(2**27)
            time.sleep(600)

    class Shapeless(Base):
        def predict(self, raw_X, k=100):
            return super().predict(raw_X[:-1], k)

    class Nan(Base):
        def predict(self, raw_X, k=100):
            best = super().predict(raw_X, k)
            best.scores[0, 0] = np.nan
            return best

    class Twice(Base):
        def predict(self, raw_X, k=100):
            best = super().predict(raw_X, k)
            best.indices[3, 1] = best.indices[3, 0]
            return best

    class Outside(Base):
        def predict(self, raw_X, k=100):
            best = super().predict(raw_X, k)
            best.indices[3, 0] = 10
            return best

    class Scores(Base):
        def predict(self, raw_X, k=100):
            return np.ones((len(raw_X), k))
"""

#: What is said of cells that have a result.
FINISHED = "cached (--force reruns them)"


def records(runs):
    return {path: json.loads(path.read_text()) for path in sorted((runs / "records").rglob("*.json"))}


def test_the_main_command_on_a_folder(xmcbench, tiny, tmp_path):
    ended = xmcbench("run", "--dataset", tiny, *FEW, "--methods", "tfidf,bm25,xr-linear")
    assert ended.returncode == 0, ended.stderr
    starts, ends = ([line for line in ended.stderr.splitlines() if line.endswith(end)] for end in ("started", " s"))
    assert [line.partition(":")[0] for line in starts] == [line.partition(":")[0] for line in ends]
    assert starts[0] == "[1/3] TF-IDF, seed 0: started"
    assert re.fullmatch(r"\[3/3\] XR-Linear, seed 0: ok, \d+\.\d s", ends[2])
    assert len(ended.stderr.splitlines()) == 6
    assert "few-shot, 50% of the labels" in ended.stdout
    assert "metric protocol 3" in ended.stdout
    for title in ("TF-IDF", "BM25", "XR-Linear"):
        assert title in ended.stdout
    made = records(tmp_path / "runs")
    assert len(made) == 3
    for record in made.values():
        assert record["status"] == "ok"
        assert record["subset"]["labels"] == 5
        assert (tmp_path / "runs" / record["predictions"]["file"]).exists()
        assert record["measured"]["peak_memory_bytes"] > 0


def test_an_identical_run_executes_nothing_and_says_so(inside, tiny, tmp_path):
    command = ("run", "--dataset", tiny, *FEW, "--methods", "tfidf,bm25")
    first = inside(*command)
    assert first.returncode == 0
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    second = inside(*command)
    assert second.stdout == first.stdout
    assert second.stderr == f"xmcbench: 2 of 2 cells {FINISHED}\n"
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    dry = inside(*command, "--dry-run")
    assert (dry.stdout.count("  cached "), "2 cells: 2 cached." in dry.stdout, dry.stderr) == (2, True, "")
    forced = inside(*command, "--dry-run", "--force")
    assert forced.stdout.count("  to run ") == 2
    (tfidf,) = [path for path in records(tmp_path / "runs") if path.name.startswith("tfidf")]
    tfidf.unlink()
    partly = inside(*command)
    assert partly.stdout.partition("\n\n")[0] == first.stdout.partition("\n\n")[0]
    assert partly.stderr.startswith("xmcbench: 1 of 2 cells cached (--force reruns them)\n[")
    assert tfidf.exists()


def test_two_runs_with_one_seed_are_equal_but_for_what_is_measured(inside, tiny, tmp_path):
    for runs in ("a", "b"):
        ended = inside("run", "--dataset", tiny, *FEW, "--methods", "tfidf,bm25,xr-linear", "--runs", runs)
        assert ended.returncode == 0, ended.stderr
    first, second = records(tmp_path / "a"), records(tmp_path / "b")
    assert [path.name for path in first] == [path.name for path in second]
    for one, other in zip(first.values(), second.values(), strict=True):
        assert one.pop("measured") != other.pop("measured")
        assert one.pop("sha256") != other.pop("sha256")
        assert one == other
        files = [tmp_path / runs / one["predictions"]["file"] for runs in ("a", "b")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_json_is_one_document_and_dry_run_does_nothing(inside, tiny, tmp_path):
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf", "--json")
    document = json.loads(inside(*words, "--dry-run").stdout)
    assert [cell["state"] for cell in document["cells"]] == ["to run"]
    assert not (tmp_path / "runs").exists()
    document = json.loads(inside(*words).stdout)
    assert [record["status"] for record in document["records"]] == ["ok"]
    # What the next cell of a method may take is what its last one took.
    (cell,) = json.loads(inside(*words, "--seed", "1", "--dry-run").stdout)["cells"]
    assert (cell["state"], cell["last_s"]) == ("to run", document["records"][0]["measured"]["total_s"])


@pytest.mark.parametrize(
    ("status", "reasons", "limit"),
    [
        (
            "failed",
            {
                "raises": "ValueError: the matrix is singular",
                "dies": "SIGSEGV",
                "eats": "out of memory",
                "shapeless": "rows, not 30",
                "nan": "NaN",
                "twice": "row 3 names a label twice",
                "outside": "row 3 names a label outside 0..9",
                "scores": "predict returned an object of type ndarray",
            },
            "100",
        ),
        ("timeout", {"hangs": "time limit of 4 s"}, "4"),
    ],
    ids=["failed", "timeout"],
)
def test_a_cell_in_trouble_is_one_row_and_the_rest_go_on(inside, tiny, plugin, tmp_path, status, reasons, limit):
    words = ("--setting", "ez", "--methods", ",".join([*reasons, "base"]), "--plugin", plugin(TROUBLE))
    ended = inside("run", "--dataset", tiny, *words, "--time-limit", limit, "--memory-limit", "0.9")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    made = {record["cell"]["method"]: record for record in records(tmp_path / "runs").values()}
    assert {method: record["status"] for method, record in made.items()} == {
        **dict.fromkeys(reasons, status),
        "base": "ok",
    }
    for method, reason in reasons.items():
        (line,) = [line for line in ended.stdout.splitlines() if reason in line]
        assert line.startswith(f"{method}, seed 0: {status}: {made[method]['reason']} (log: runs/{made[method]['log']}")
        assert (tmp_path / "runs" / made[method]["log"]).exists()
    assert not list((tmp_path / "runs").rglob(".*tmp"))  # also what they were making


def test_the_line_of_a_failed_cell_ends_with_the_last_line_of_its_log(inside, tiny, plugin):
    """The last words of a process are shown where the reason does not have them."""
    source = (
        TROUBLE
        + """
    class Speaks(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            print("terminate called after throwing", flush=True)
            print("", flush=True)
            os._exit(3)
    """
    )
    words = ("run", "--dataset", tiny, "--setting", "ez", "--plugin", plugin(source))
    (line,) = [line for line in inside(*words, "--methods", "speaks").stdout.splitlines() if "speaks" in line]
    assert re.fullmatch(
        r"speaks, seed 0: failed: ended with exit code 3 and no result "
        r"\(log: runs/logs/tiny/ez/speaks-s0-[0-9a-f]{12}\.log: terminate called after throwing\)",
        line,
    )
    # This one's log ends with its reason, which is not said twice.
    (line,) = [line for line in inside(*words, "--methods", "scores").stdout.splitlines() if "scores, seed" in line]
    assert re.search(r"predict returned an object of type ndarray .* \(log: runs/logs/[^:]*\.log\)$", line)


def test_ctrl_c_keeps_finished_cells_and_ends_the_running_one(tiny, plugin, tmp_path):
    words = ["--setting", "ez", "--methods", "base,hangs", "--plugin", str(plugin(TROUBLE))]
    # A shell ignores Ctrl-C in what it starts in the background, tests included, and the command would inherit that.
    obeys = ["env", "--default-signal=INT"]
    command = [*obeys, sys.executable, "-m", "xmcbench", "run", "--dataset", str(tiny), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A terminal sends Ctrl-C to all processes of the command.
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    deadline = time.monotonic() + 60
    logs = tmp_path / "runs" / "logs"
    while not list(logs.rglob("hangs*.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    *progress, last = err.splitlines()
    assert last == "xmcbench: interrupted; finished results are kept; run the same command to continue"
    assert [line.partition(": ")[2].partition(",")[0] for line in progress] == ["started", "ok", "started"]
    assert [record["cell"]["method"] for record in records(tmp_path / "runs").values()] == ["base"]
    assert not [process for process in psutil.process_iter() if _belongs(process, tmp_path)]


def _belongs(process, folder):
    """Return whether a process of the run exists: cells and the scorer have its folder as working directory."""
    try:
        return process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid()
    except psutil.Error:
        return False


def test_two_runs_on_one_folder_share_the_work(tiny, plugin, tmp_path):
    source = (
        TROUBLE
        + """
    class Slow(Base):
        def fit(self, raw_X, raw_Y, pairs=None):
            super().fit(raw_X, raw_Y)
            with open(os.environ["COUNT"], "a") as stream:
                stream.write("x")
            time.sleep(1)
    """
    )
    words = ["--setting", "ez", "--methods", "slow,base", "--plugin", str(plugin(source)), "--json"]
    command = [sys.executable, "-m", "xmcbench", "run", "--dataset", str(tiny), *words]
    environment = {**os.environ, "COUNT": str(tmp_path / "count")}
    both = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)
    ]
    documents = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert documents[0] == documents[1]
    assert (tmp_path / "count").read_text() == "x"


EDITED = """
    from pathlib import Path

    import numpy as np
    from xmcbench import Method, TopK

    VERSION = 1

    class Edited(Method):
        supervision = "unused"

        def fit(self, raw_X, raw_Y, pairs=None):
            # What an editor does while the cell runs.
            own, helper = Path(__file__), Path(__file__).with_name("beside.py")
            own.write_text(own.read_text().replace("VERSION = 1", "VERSION = 2"))
            helper.write_text("x = 2")
            folder = self.artifacts.get("made", {}, lambda folder: (folder / "by").write_text(str(VERSION)))
            self.notes["versions"] = [VERSION, int((folder / "by").read_text())]
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)
"""


def test_a_method_that_is_edited_while_it_runs_is_what_was_imported(inside, tiny, plugin, tmp_path):
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "edited", "--plugin", plugin(EDITED))

    def versions(*more):
        ended = inside(*words, *more)
        assert ended.returncode == 0, ended.stderr
        (made,) = records(tmp_path / "runs").values()
        return made["notes"]["versions"]

    assert versions() == [1, 1]
    assert "stale" in inside(*words).stdout
    assert versions("--refresh") == [2, 2]


def test_a_method_that_is_edited_between_two_cells_fails(inside, tiny, plugin):
    words = ("--setting", "ez", "--methods", "edited", "--seed", "0,1", "--plugin", plugin(EDITED))
    ended = inside("run", "--dataset", tiny, *words)
    assert ended.returncode == 1
    assert "the code of edited has changed since the run was planned (run again)" in ended.stderr


def test_a_module_that_is_edited_before_a_cell_imports_it_fails(inside, tiny, plugin, tmp_path):
    late = EDITED.replace("self.labels =", "from beside import x\n            self.labels =")
    file = plugin(late)
    file.with_name("beside.py").write_text("x = 1")
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "edited", "--plugin", file)
    assert ended.returncode == 1
    said = "beside.py has changed while edited ran, and was imported after that (run again)"
    assert said in ended.stderr


LATE = """
    import os
    from pathlib import Path

    import numpy as np
    from xmcbench import Method, TopK

    class Late(Method):
        supervision = "unused"

        def fit(self, raw_X, raw_Y, pairs=None):
            if "EDIT" in os.environ:
                Path(__file__).with_name("beside.py").write_text("x = 2")

            def build(folder):
                from beside import x

                (folder / "by").write_text(str(x))

            self.notes["made by"] = int((self.artifacts.get("made", {}, build) / "by").read_text())
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)
"""


MISSING = """
    from xmcbench import Method
    from xmcbench.errors import Unavailable

    class Missing(Method):
        supervision = "unused"

        def fit(self, raw_X, raw_Y, pairs=None):
            raise Unavailable("its weights are not here", "get them")

        def predict(self, raw_X, k=100):
            pass
"""


def test_a_method_that_is_named_and_finds_itself_unable_is_no_success(inside, tiny, plugin):
    words = ("run", "--dataset", tiny, "--setting", "ez", "--plugin", plugin(MISSING))
    ended = inside(*words, "--methods", "missing,tfidf")
    assert (ended.returncode, "its weights are not here (get them)" in ended.stdout) == (1, True)


DOWNLOADS = """
    import os
    from pathlib import Path

    import numpy as np
    from xmcbench import Method, TopK

    class Downloads(Method):
        supervision = "unused"

        def fit(self, raw_X, raw_Y, pairs=None):
            home = Path(os.environ["HF_HOME"]) if "HF_HOME" in os.environ else Path.home() / ".cache" / "huggingface"
            weights = home / "hub" / "models--a--b" / "weights"
            weights.parent.mkdir(parents=True)
            weights.write_text("1")
            self.notes["weights"] = weights.read_text()
            self.labels = len(raw_Y)

        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)
"""


@pytest.mark.parametrize("hub", [None, "caches/xmcbench/hub"])
def test_what_a_method_downloads_first_can_be_read(inside, tiny, plugin, tmp_path, monkeypatch, hub):
    """The cache of the hub is beside ours, whose files are hidden from a method, or even in it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "HF_HOME", "XMCBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    if hub:
        monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "caches" / "xmcbench"))
        monkeypatch.setenv("HF_HOME", str(tmp_path / hub))
    ended = inside(
        *("run", "--dataset", tiny, "--setting", "ez", "--methods", "downloads", "--plugin", plugin(DOWNLOADS)),
    )
    assert ended.returncode == 0, ended.stderr
    (made,) = records(tmp_path / "runs").values()
    assert made["notes"]["weights"] == "1"


def test_what_an_edited_module_has_made_is_not_kept(inside, tiny, plugin, tmp_path, monkeypatch):
    """The artifact would be found under the digest of the code that the run planned, for good."""
    file = plugin(LATE)
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "late", "--plugin", file)
    helper = file.with_name("beside.py")
    helper.write_text("x = 1")
    monkeypatch.setenv("EDIT", "1")
    assert inside(*words).returncode == 1
    monkeypatch.delenv("EDIT")
    helper.write_text("x = 1")
    ended = inside(*words)
    assert ended.returncode == 0, ended.stderr
    (made,) = records(tmp_path / "runs").values()
    assert made["notes"]["made by"] == 1


def test_a_changed_source_is_stale_until_it_is_refreshed(inside, tiny, plugin, tmp_path):
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "base", "--plugin")
    stale = "base: stale: the method's code has changed since this result was made"

    said = []

    def run(source, *more):
        ended = inside(*words, plugin(source), *more)
        assert ended.returncode == 0, ended.stderr
        (made,) = records(tmp_path / "runs").values()
        said.append(ended.stderr)
        return ended.stdout, made

    printed, first = run(TROUBLE)
    assert "stale" not in printed
    same, made = run(TROUBLE + "\n    # a comment\n")
    assert (same, made) == (printed, first)
    changed = TROUBLE + "\n    CHANGED = True\n"
    marked, made = run(changed)
    assert stale in marked.splitlines()
    assert made == first
    assert said[0].startswith("[1/1] base, seed 0: started\n")
    assert said[1:] == [
        f"xmcbench: 1 of 1 cell {FINISHED}\n",
        "xmcbench: 1 of 1 cell cached; 1 of them stale (--refresh reruns these)\n",
    ]
    document = json.loads(inside(*words, plugin(changed), "--json").stdout)
    assert document["records"][0]["problem"] == "stale: the method's code has changed since this result was made"
    (listed,) = json.loads(inside("ls", "results", "--plugin", plugin(changed), "--json").stdout)
    assert (listed["status"], listed["reason"]) == ("stale", document["records"][0]["problem"])
    (cell,) = json.loads(inside(*words, plugin(changed), "--dry-run", "--json").stdout)["cells"]
    assert cell["state"] == "stale"
    again, made = run(changed, "--refresh")
    assert "stale" not in again
    assert made["method"]["source_sha256"] != first["method"]["source_sha256"]
    assert made["key"] == first["key"]


def test_what_is_beside_a_plugin_runs_with_it_and_counts(inside, tiny, plugin, tmp_path):
    source = """
    import numpy as np
    from beside_ranking import FIRST
    from xmcbench import Method, TopK

    class Fixed(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
        def predict(self, raw_X, k=100):
            self.notes["first"] = FIRST
            scores = np.zeros((len(raw_X), self.labels))
            scores[:, FIRST] = 1
            return TopK.from_scores(scores, k)
    """
    (tmp_path / "methods").mkdir()
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "fixed")
    words = (*words, "--plugin", plugin(source, "methods/fixed.py"))

    def run(text, *more):
        plugin(text, "methods/beside_ranking.py")
        sys.modules.pop("beside_ranking", None)  # a user's next command is another process
        ended = inside(*words, *more)
        assert ended.returncode == 0, ended.stderr
        (made,) = records(tmp_path / "runs").values()
        return made["notes"]["first"], "fixed: stale" in ended.stdout

    assert run("FIRST = 3\n") == (3, False)
    assert run("FIRST = 3  # a comment\n") == (3, False)
    assert run("FIRST = 2 + 2\n") == (3, True)
    assert run("FIRST = 2 + 2\n", "--refresh") == (4, False)


def test_the_zero_shot_setting_hands_over_no_pair(inside, tiny, plugin, tmp_path):
    spy = """
    import numpy as np
    from xmcbench import Method, TopK

    class Spy(Method):
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
            self.notes["pairs"] = None if pairs is None else [int(pairs.nnz), str(pairs.dtype), *pairs.shape]
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.zeros((len(raw_X), self.labels)), k)
    """
    for setting in (("ez",), ("full",)):
        inside("run", "--dataset", tiny, "--setting", *setting, "--methods", "spy", "--plugin", plugin(spy))
    seen = {
        record["cell"]["setting"]["kind"]: record["notes"]["pairs"] for record in records(tmp_path / "runs").values()
    }
    assert seen == {"ez": None, "full": [120, "float32", 60, 10]}


def test_pretraining_is_made_once_for_all_settings(inside, tiny, plugin, tmp_path, monkeypatch):
    source = """
    import os, time
    import numpy as np
    from xmcbench import Method, TopK

    class Pretrained(Method):
        def pretrain(self, raw_X, raw_Y):
            time.sleep(0.3)
            with open(os.environ["COUNT"], "a") as stream:
                stream.write("x")
            self.notes["curve"] = [3, 2, 1]
            return {"scores": np.arange(len(raw_Y), dtype=np.float32)}
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.pretrained["scores"], (len(raw_X), 10)), k)
    """
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    for setting in (("ez",), ("full",), FEW[1:]):
        words = ("--setting", *setting, "--methods", "pretrained", "--plugin", plugin(source))
        ended = inside("run", "--dataset", tiny, *words)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "count").read_text() == "x"
    made = {record["cell"]["setting"]["kind"]: record for record in records(tmp_path / "runs").values()}
    assert made["ez"]["measured"]["reused_s"] == 0
    assert made["full"]["measured"]["reused_s"] > 0.3
    assert all(record["notes"]["curve"] == [3, 2, 1] for record in made.values())


def test_a_full_disk_is_one_line_and_keeps_what_is_done(tiny, plugin, tmp_path):
    """A file-size limit stands in for a full disk: the system refuses the write in the same way."""
    words = ["--setting", "ez", "--methods", "base", "--plugin", str(plugin(TROUBLE))]
    limited = f"""
import resource, sys
from xmcbench.command.main import main
from xmcbench.data import load_dataset
load_dataset({str(tiny)!r}).train_pairs()
resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))
sys.exit(main(["run", "--dataset", {str(tiny)!r}, *{words!r}]))
"""
    # Coverage could not write either, and would say so.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-c", limited]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("xmcbench: error: no space left to write")
    assert ended.stderr.count("\n") == 1
    assert not list((tmp_path / "runs").rglob("*.json"))
    assert not list((tmp_path / "runs").rglob(".*tmp"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--setting", "fs"], "the few-shot setting needs a ratio"),
        (["--setting", "fs", "--ratio", "0"], "outside"),
        (["--setting", "fs", "--ratio", "0.001"], "selects nothing"),
        (["--setting", "ez", "--methods", "tfdif"], "did you mean 'tfidf'"),
        (["--setting", "ez", "--dataset", "lf-debian-3k"], "did you mean"),
        (["--setting", "ez", "--dataset", "no/such/folder"], "no folder at"),
        (["--setting", "ez", "--methods", "bm25", "--set", "bm25.k2=1"], "did you mean 'bm25.k1'"),
        (["--setting", "ez", "--methods", "bm25", "--set", "bm25.k1=high"], "is not of type float"),
        (["--setting", "ez", "--methods", "bm25", "--set", "bm25.k1=inf"], "is not a finite number"),
        (["--setting", "ez", "--methods", "bm25", "--set", "bm25.k1=-1"], "bm25.k1 = -1.0 is out of range"),
        (["--setting", "ez", "--methods", "all", "--set", "bm25.b=2"], "out of range: it must be at most 1"),
        (["--setting", "ez", "--methods", "sentbert", "--set", "sentbert.device=cpu"], "unknown parameter"),
        (["--setting", "ez", "--methods", "bm25", "--device", "gpu"], "invalid choice: 'gpu'"),
        (["--setting", "ez", "--methods", "bm25", "--processes", "0"], "argument --processes: 0 must be at least 1"),
        (["--setting", "ez", "--methods", "bm25", "--set", "bm25"], "is not METHOD.PARAM=VALUE"),
        (["--setting", "ez", "--methods", "tfidf:sklaern"], "did you mean 'sklearn'"),
        (["--setting", "ez", "--methods", "bm25", "--shard", "3/2"], "--shard '3/2' is not I/N"),
        (["--setting", "ez", "--methods", "bm25", "--jobs", "two"], "argument --jobs: 'two' is not a number"),
        (["--setting", "ez", "--methods", "bm25", "--jobs", "0"], "argument --jobs: 0 must be at least 1"),
        (["--setting", "ez", "--seed", "one"], "must be comma-separated integers"),
        (["--setting", "ez", "--methods", ","], "is empty"),
        (["--setting", "ez", "--plugin", "none.py"], "no plug-in file"),
        (["--setting", "ez", "--config", "none.toml"], "cannot read the settings file"),
        (
            ["--setting", "ez", "--time-limit", "0"],
            "a time limit of 0 is not above 0 and at most 1e+09 (use inf for no limit)",
        ),
        (
            ["--setting", "ez", "--memory-limit", "1e300"],
            "a memory limit of 1e+300 is not above 0 and at most 1e+09 (leave it out for no limit)",
        ),
        (["--setting", "ez", "--filter", "file"], "has no filter 'file'"),
        (["--setting", "zero"], "unknown setting 'zero'"),
        (["--setting", "ez,zero"], "unknown setting 'zero'"),
        (["--setting", "ez", "--dataset", ","], "the name of the dataset is empty"),
        (["--setting", ","], "argument --setting: the list ',' is empty"),
        (["--setting", "fs", "--ratio", "half"], "argument --ratio: 'half' must be comma-separated numbers"),
        (["--setting", "ez,full", "--ratio", "0.5"], "cannot be used with the setting ez,full"),
        (["--setting", "fs", "--ratio", "0.5", "--by", "row"], "cannot sample by 'row'"),
        (["--setting", "ez", "--methods", "bm25", "--best", "P@1"], "would choose by the test labels of tiny"),
        (["--setting", "ez", "--methods", "bm25", "--best", "P@2"], "unknown metric 'P@2'"),
        (["--setting", "ez", "--methods", "bm25", "--metrics", "P@1,P@0x"], "unknown metric 'P@0x'"),
        (["--setting", "ez", "--methods", "bm25", "--metrics", "MRR"], "ls results --metrics MRR computes it"),
        ([], "--setting"),
    ],
)
def test_a_wrong_request_is_one_line_with_a_hint_and_exit_2(inside, tiny, tmp_path, words, message):
    dataset = [] if "--dataset" in words else ["--dataset", tiny]
    ended = inside("run", *dataset, *words)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert ended.stderr.startswith("xmcbench: error: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_an_infinite_limit_is_none():
    assert [flags.limit(text) for text in ("inf", "2.5")] == [None, 2.5]


def test_a_settings_file_is_read_or_refused(inside, tiny, tmp_path):
    (tmp_path / "x.toml").write_text("seed = 7\n")
    (tmp_path / "y.toml").write_text('config = "x.toml"\n')
    (tmp_path / "places.toml").write_text('runs = ["a", "b"]\n')
    (tmp_path / "z.toml").write_text('seting = "ez"\n')
    (tmp_path / "grids.toml").write_text("[[grid]]\nsed = 1\n")
    (tmp_path / "commas.toml").write_text('dataset = ["a", "c,d"]\n')
    (tmp_path / "number.toml").write_text("[[grid]]\nsetting = 5\n")
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--dry-run")
    for more, reason in (
        (("--conf", "x.toml"), "unrecognized argument '--conf': did you mean --config?"),
        (("--config", "x.toml", "--config=y.toml"), "--config is given more than once"),
        (("--config", "y.toml"), "a settings file cannot include another"),
        (("--config", "places.toml"), "places.toml: runs takes one value, and there are 2 (give one of them)"),
        (("--config", "z.toml"), "unknown key 'seting' in z.toml (did you mean 'setting'?)"),
        (("--config=commas.toml",), "commas.toml: 'c,d' in dataset has a comma (write a [[grid]] for each value)"),
        (("--config=grids.toml",), "unknown key 'sed' in grids.toml (did you mean 'seed'?)"),
        (("--config=number.toml",), "number.toml: setting = 5 is not a text"),
    ):
        ended = inside(*words, *more)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert reason in ended.stderr
    ended = inside("--config", "x.toml")
    assert (ended.returncode, "internal" in ended.stderr) == (2, False), ended.stderr
    (tmp_path / "x.toml").write_text('metrics = ["P@1", "R@100"]\n')
    assert inside(*words[:-1], "--config", "x.toml").returncode == 0


def test_a_list_of_datasets_may_be_long_and_begin_with_a_file(inside, tmp_path):
    for name in ("docs", "other"):
        lines = [f"text {row},label {row % 2}" for row in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,labels", *lines]))
    words = ("run", "--setting", "ez", "--methods", "bm25", "--dry-run", "--json", "--dataset")
    for given, names in (
        ("docs.csv?dev=0.3,other.csv", ["docs-dev-0.3", "other"]),
        (
            ",".join(f"docs.csv?dev=0.{share}" for share in range(101, 120)),
            [f"docs-dev-0.{n}" for n in range(101, 120)],
        ),
    ):
        ended = inside(*words, given, code=0)
        found = {cell["dataset"] for cell in json.loads(ended.stdout)["cells"]}
        assert found == {name.rstrip("0") if "dev" in name else name for name in names}


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "knn", "--out", "model"),
        ("curve", "--methods", "tfidf", "--ratio", "0,1"),
        ("tune", "bm25", "--trials", "1"),
    ],
)
def test_notes_on_the_data_are_printed_by_each_command(inside, tmp_path, words):
    lines = [f"text {row},label {row % 2}" for row in range(30)]
    (tmp_path / "docs.csv").write_text("\n".join(["text,labels", *lines]))
    ended = inside(*words, "--dataset", "docs.csv", code=0)
    assert "xmcbench: note: there is one set of instances" in ended.stderr


def test_flags_and_a_settings_file_are_the_same(inside, tiny, tmp_path):
    (tmp_path / "x.toml").write_text(
        f'dataset = "{tiny}"\nsetting = "fs"\nratio = 0.5\nmethods = ["bm25", "tfidf"]\nseed = [0, 1]\n'
        "[set.bm25]\nk1 = 1.2\n"
    )
    by_file = inside("run", "--config", "x.toml", "--dry-run", "--json")
    words = ("--methods", "bm25,tfidf", "--seed", "0,1", "--set", "bm25.k1=1.2", "--dry-run", "--json")
    by_flags = inside("run", "--dataset", tiny, *FEW, *words)
    assert by_file.stdout == by_flags.stdout != ""
    one_seed = inside("run", "--config", "x.toml", "--dry-run", "--json", "--seed", "0")
    assert len(json.loads(one_seed.stdout)["cells"]) == 2
    (tmp_path / "x.toml").write_text("datset = 'x'\n")
    unknown = inside("run", "--config", "x.toml", "--setting", "ez")
    assert (unknown.returncode, "datset" in unknown.stderr) == (2, True)


GRIDS = """
    seed = [0, 1]
    methods = ["bm25", "xr-linear"]
    [set.bm25]
    b = 0.5
    k1 = 1.0
    [[grid]]
    setting = "ez"
    [[grid]]
    setting = "fs"
    ratio = [0.3, 0.5]
    by = ["label", "pair"]
    methods = "bm25"
    seed = 2
    [grid.set.bm25]
    k1 = [1.1, 1.2]
"""


@pytest.mark.parametrize(
    ("text", "flags", "slugs"),
    [
        ('setting = "fs"\nratio = 0.5\nby = "pair"', ("--setting", "ez"), ["ez"]),
        ('setting = "fs"\nratio = 0.5', ("--setting=full",), ["full"]),
        ("ratio = 0.5", ("--setting", "fs"), ["fs-label-0.5"]),
        ("ratio = 0.5", ("--setting", "ez,fs"), ["ez", "fs-label-0.5"]),
        ('ratio = 0.5\n[[grid]]\nsetting = ["fs", "full"]', (), ["fs-label-0.5", "full"]),
        ('setting = "fs"\nratio = 0.5\n[[grid]]\nsetting = "ez"\n[[grid]]\nby = "pair"', (), ["ez", "fs-pair-0.5"]),
        (
            'ratio = 0.1\n[[grid]]\nsetting = "ez"\n[[grid]]\nsetting = "fs"',
            ("--ratio", "0.5", "--by=pair"),
            ["ez", "fs-pair-0.5"],
        ),
    ],
)
def test_a_ratio_of_a_settings_file_goes_with_its_setting(inside, tiny, tmp_path, text, flags, slugs):
    (tmp_path / "settings.toml").write_text(f'dataset = "{tiny}"\nmethods = "bm25"\n{text}\n')
    ended = inside("run", "--config", "settings.toml", *flags, "--dry-run", "--json")
    assert ended.returncode == 0, ended.stderr
    assert [cell["setting"] for cell in json.loads(ended.stdout)["cells"]] == slugs
    # Where no grid is few-shot, a ratio is a mistake.
    wrong = inside("run", "--config", "settings.toml", "--setting", "ez", "--ratio", "0.5", "--dry-run")
    assert "ratio and by cannot be used with the setting ez" in wrong.stderr


def test_grids_of_a_settings_file_are_planned_together(inside, tiny, tmp_path):
    (tmp_path / "x.toml").write_text(f'dataset = "{tiny}"\n' + textwrap.dedent(GRIDS))

    def cells(*words):
        ended = inside("run", "--config", "x.toml", "--dry-run", "--json", *words)
        assert ended.returncode == 0, ended.stderr
        return [(cell["method"], cell["setting"], cell["seed"]) for cell in json.loads(ended.stdout)["cells"]]

    first = [
        (name, "ez", seed) for name, seeds in (("BM25 (k1=1.0, b=0.5)", [0]), ("XR-Linear", [0, 1])) for seed in seeds
    ]
    second = [
        (f"BM25 (k1={k1}, b=0.5)", f"fs-{by}-{ratio}", 2)
        for by in ("label", "pair")
        for ratio in (0.3, 0.5)
        for k1 in (1.1, 1.2)
    ]
    assert cells() == first + second
    # What the command line says of a parameter replaces all that the file says of it.
    assert {name for name, _, _ in cells("--set", "bm25.k1=2", "--methods", "bm25")} == {"BM25 (k1=2.0, b=0.5)"}
    assert {seed for *_, seed in cells("--seed=7")} == {7}
    # Values of methods that the command line leaves out do not matter.
    assert {name for name, *_ in cells("--methods=tfidf")} == {"TF-IDF"}
    wrong = inside("run", "--config", "x.toml", "--dry-run", "--methods", "tfidf", "--set", "bm25.k1=2")
    assert "--set bm25: bm25 is not among the methods of this run" in wrong.stderr


@pytest.mark.parametrize(
    ("methods", "kept"),
    [
        ("tfidf", ["tfidf"]),
        ("bm25, tfidf:sklearn", ["tfidf", "bm25"]),
        ("all", ["tfidf", "bm25"]),
        ("knn", []),
    ],
)
def test_a_settings_file_sets_values_of_the_methods_of_the_command_line(tmp_path, methods, kept):
    path = tmp_path / "x.toml"
    path.write_text("[set.tfidf]\nmax_df = 0.5\n[set.bm25]\nk1 = 1.0\n")
    (words,) = settings_file.expand(
        ["run", "--config", str(path), "--methods", methods], lambda: ["--config", "--methods", "--set"]
    )
    assert [word.split("=")[1].partition(".")[0] for word in words if word.startswith("--set=")] == kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid = 1", "grid must be an array of tables"),
        ("grid = []", "grid is empty (leave it out"),
        ('columns = {text = "title"}', 'columns cannot be a table (write columns = "text=abstract,labels=subjects")'),
        ('[[grid]]\ncolumns = [{text = "title"}]', "columns cannot be a table"),
        ('[plugin]\nfile = "x.py"', "plugin cannot be a table (write plugin = VALUE)"),
        (
            '[[grid]]\nsetting = "ez"\nruns = "x"',
            "runs cannot differ between grids (write it above the first [[grid]])",
        ),
        ('[[grid]]\nsetting = "ez"\n[grid.set]\nbm25 = 1', "set must be a table of tables"),
        ('setting = "ez"\n[set.bm25]\nk1 = []', "bm25.k1 has no value"),
        ('[[grid]]\nmethods = "bm25"', "--setting"),
    ],
)
def test_a_wrong_grid_is_one_line(inside, tmp_path, text, message):
    (tmp_path / "x.toml").write_text(text)
    ended = inside("run", "--config", "x.toml", "--dry-run")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert message in ended.stderr


def test_one_command_for_datasets_and_settings(inside, tiny, tmp_path):
    """A table for each dataset and setting, what is chosen on held-out instances, and an estimate by what has run."""
    card = tmp_path / "cards" / "tiny-dev"
    card.mkdir(parents=True)
    shutil.copytree(tiny, tmp_path / "cards" / "small")
    (tmp_path / "cards" / "small" / "card.toml").write_text('name = "Small"\nslug = "small"\n')
    derived = 'name = "Small-dev"\nslug = "small-dev"\n[derive]\nfrom = "small"\nheld_out = 20\nseed = 0\n'
    (card / "card.toml").write_text(derived)
    words = ("run", "--setting", "ez,fs", "--ratio", "0.5", "--methods", "bm25")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMCBENCH_DATASETS", str(tmp_path / "cards"))
        both = inside(*words, "--dataset", f"small-dev,{tiny}", "--seed", "0,1")
        assert both.returncode == 0, both.stderr
        heads = re.findall(r"^(\S+) \(.*labels\), (.*), filter", both.stdout, re.MULTILINE)
        settings = ["zero-shot (no pairs)", "few-shot, 50% of the labels"]
        assert heads == [(name, setting) for name in ("Small-dev", "tiny") for setting in settings]
        assert len(records(tmp_path / "runs")) == 4, "a second seed could only repeat what BM25 finds"
        k1 = ("--set", "bm25.k1=0.1", "--set", "bm25.k1=1.2")
        dry = inside(*words, *k1, "--dataset", "small-dev", "--dry-run")
        assert "4 cells: 4 to run." in dry.stdout
        assert re.search(r"Estimate: \d+ s for 4 cells, one after the other\.$", dry.stdout.strip())
        best = inside(*words, *k1, "--dataset", "small-dev", "--best", "P@1", "--json")
        document = json.loads(best.stdout)
        values = {}
        for record in document["records"]:
            p1 = record["metrics"]["none"]["values"]["P@1"]
            values.setdefault(record["cell"]["setting"]["kind"], {})[record["cell"]["parameters"]["k1"]] = p1
        assert [choice["value"] for choice in document["best"]] == [max(values[kind].values()) for kind in ("ez", "fs")]
        for choice, kind in zip(document["best"], ("ez", "fs"), strict=True):
            assert values[kind][choice["parameters"]["k1"]] == choice["value"]
            assert [*choice["parameters"]] == ["k1"]
        said = inside(*words, *k1, "--dataset", "small-dev", "--best", "P@1").stdout
        assert said.count("best P@1 of 2 rows of bm25 on Small-dev, ") == 2
        assert "; select it with --set bm25.k1=" in said
        assert inside(*words, "--dataset", f"small-dev,{tiny}", "--best", "P@1").returncode == 2


FILER = """
    from pathlib import Path
    from typing import Annotated
    import numpy as np
    from xmcbench import Doc, Method, TopK

    class Filer(Method):
        presets = {"down": {"sign": -1}}
        words: str = ""
        sign: Annotated[int, Doc("1 or -1", added=True)] = 1

        def fit(self, raw_X, raw_Y, pairs=None):
            self.up = int(Path(self.words).read_text()) if self.words else self.sign
            self.labels = [label.split()[-1] for label in raw_Y]

        def predict(self, raw_X, k=100):
            found = [[self.up * float(label in text) for label in self.labels] for text in raw_X]
            return TopK.from_scores(np.array(found, np.float32), k)
"""


@pytest.mark.parametrize(
    ("methods", "name", "values"),
    [
        ("filer", "words", ["up.txt", "down.txt"]),
        ("filer", "sign", [1, -1]),
        ("filer:down", "sign", [1, -1]),
        ("filer --preset down", "sign", [1, -1]),
    ],
)
def test_the_flags_of_the_best_row_select_it(inside, tiny, plugin, tmp_path, methods, name, values):
    """Also where a file gives the value, and where the value is the default of a parameter that was added."""
    (tmp_path / "up.txt").write_text("1")
    (tmp_path / "down.txt").write_text("-1")
    words = ("run", "--dataset", f"{tiny}?dev=0.3", "--setting", "full", "--plugin", plugin(FILER, "filer.py"))
    words += ("--best", "P@1")
    several = ["--methods", *methods.split()]
    several += [word for value in values for word in ("--set", f"filer.{name}={value}")]
    (choice,) = json.loads(inside(*words, *several, "--json", code=0).stdout)["best"]
    preset = "down" if "down" in methods else ""
    assert (choice["parameters"], choice["preset"]) == ({name: values[0]}, preset)
    last = inside(*words, *several, code=0).stdout.splitlines()[-1]
    flags = shlex.split(last.partition("; select it with ")[2])
    assert flags == [*(["--methods", "filer:down"] if preset else []), "--set", f"filer.{name}={values[0]}"]
    named = [] if preset else ["--methods", "filer"]
    (alone,) = json.loads(inside(*words, *named, *flags, "--json", code=0).stdout)["best"]
    assert (alone["value"], alone["name"], alone["rows"]) == (choice["value"], choice["name"], 1)


TOGETHER = """
    import os, time
    from pathlib import Path
    import numpy as np
    from xmcbench import Method, TopK, usable_cores

    class First(Method):
        mine, other = "first", "second"
        folder: str = "."
        def inputs(self):
            return {}  # the cells write there
        def fit(self, raw_X, raw_Y, pairs=None):
            self.labels = len(raw_Y)
            (Path(self.folder) / self.mine).touch()
            while not (Path(self.folder) / self.other).exists():
                time.sleep(0.02)
            self.notes["threads"] = [usable_cores(), os.environ["NUMBA_NUM_THREADS"]]
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

    class Second(First):
        mine, other = "second", "first"
"""


def test_cells_at_once_share_the_cores(inside, tiny, plugin, tmp_path):
    """Each of the two goes on only when the other one runs."""
    (tmp_path / "met").mkdir()
    sets = [word for name in ("first", "second") for word in ("--set", f"{name}.folder={tmp_path / 'met'}")]
    words = ("--setting", "ez", "--methods", "first,second", "--plugin", plugin(TOGETHER), "--time-limit", "60", *sets)
    ended = inside("run", "--dataset", tiny, *words, "--jobs", "2")
    assert ended.returncode == 0, ended.stdout
    share = max(1, machine_cores() // 2)
    for record in records(tmp_path / "runs").values():
        assert record["measured"]["neighbors"] == 1
        assert record["environment"]["compute"]["threads"] == share
        assert record["notes"]["threads"] == [share, str(share)]


AHEAD = """
    import numpy as np
    from xmcbench import Method, TopK

    class Learner(Method):
        fails: bool = False
        def pretrain(self, raw_X, raw_Y):
            if self.fails:
                raise ValueError("no luck")
            return {"scores": np.arange(len(raw_Y))}
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100):
            return TopK.from_scores(np.broadcast_to(self.pretrained["scores"], (len(raw_X), 10)), k)
"""


def test_pretrainings_ahead_of_the_cells(inside, tiny, plugin, tmp_path):
    words = ("run", "--dataset", tiny, "--setting", "ez,full", "--methods", "learner", "--plugin", plugin(AHEAD))
    ahead = inside(*words, "--only", "pretrain")
    assert (ahead.returncode, ahead.stdout) == (0, "1 of 1 pre-trainings done\n")
    first, last = ahead.stderr.splitlines()
    assert first == "pre-training of learner on tiny, seed 0: started"
    assert last.startswith("pre-training of learner on tiny, seed 0: done in ")
    assert not records(tmp_path / "runs")
    assert inside(*words, "--only", "pretrain").stderr.endswith(": done in 0 s\n")
    failed = inside(*words, "--only", "pretrain", "--set", "learner.fails=true")
    assert failed.returncode == 1
    assert "failed: ValueError: no luck (log: runs/logs/pretraining/" in failed.stderr
    assert inside(*words, "--shard", "1/1").returncode == 0
    assert all(record["measured"]["reused_s"] > 0 for record in records(tmp_path / "runs").values())
    shards = [inside(*words, "--shard", f"{number}/9", "--dry-run", "--json") for number in range(1, 10)]
    assert sum(len(json.loads(cell.stdout)["cells"]) for cell in shards) == 2
    empty = next(number for number, shard in enumerate(shards, 1) if f"shard {number}/9 has no cells" in shard.stderr)
    assert inside(*words, "--shard", f"{empty}/9", "--dry-run").stdout.endswith("\n0 cells.\n")
    nothing = inside(*words, "--shard", f"{empty}/9", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["records"]) == (0, [])
    listed = json.loads(inside(*words, "--only", "pretrain", "--seed", "1", "--json").stdout)["pretrainings"]
    assert [(record["dataset"], record["seed"], record["reason"]) for record in listed] == [("tiny", 1, "")]
    refused = inside(*words, "--shard", "1/2", "--best", "P@1")
    assert (refused.returncode, "--best needs all cells" in refused.stderr) == (2, True)
    refused = inside(*words, "--only", "pretrain", "--best", "P@1")
    assert (refused.returncode, "--best needs results, and --only pretrain makes none" in refused.stderr) == (2, True)


def test_a_damaged_record_is_named_and_made_again(inside, tiny, tmp_path):
    words = ("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf")
    inside(*words)
    (path,) = records(tmp_path / "runs")
    good = json.loads(path.read_text())
    for changed, said in (
        ({**good, "cell": {**good["cell"], "seed": 5}}, "is not a valid record: the key does not match the cell"),
        ({**good, "sha256": "0" * 64}, "checksum mismatch"),
        ([], "is not a record of schema 2"),
    ):
        path.write_text(json.dumps(changed))
        planned = inside(*words, "--dry-run")
        assert (planned.returncode, said in planned.stderr) == (0, True), planned.stderr
        ended = inside(*words)
        assert (ended.returncode, f"{said}; the cell runs again" in ended.stderr) == (0, True), ended.stderr
        assert json.loads(path.read_text())["metrics"] == good["metrics"]
        assert "1 of 1 cell cached" in inside(*words).stderr
    path.write_text(json.dumps({**good, "schema": 9}))
    ended = inside(*words)
    assert (ended.returncode, "(upgrade xmcbench)" in ended.stderr) == (1, True)
    assert json.loads(path.read_text())["schema"] == 9


def test_two_datasets_of_one_name_are_not_taken_for_one(inside, tiny, tmp_path):
    other = shutil.copytree(tiny, tmp_path / "other" / tiny.name)
    words = ("run", "--dataset", f"{tiny},{other}", "--setting", "ez", "--methods", "tfidf")
    assert inside(*words).returncode == 0  # a copy
    lines = (other / "tst.json.gz").read_bytes()
    (other / "tst.json").write_bytes(gzip.decompress(lines).split(b"\n", 1)[1])
    (other / "tst.json.gz").unlink()
    ended = inside(*words)
    assert (ended.returncode, "are two datasets with the name tiny (rename a folder" in ended.stderr) == (2, True)


def test_two_names_that_differ_in_case_are_not_taken_for_two(inside, tiny, tmp_path):
    """Not in one command, and not beside results: the board would have two pages in one file."""
    other = shutil.copytree(tiny, tmp_path / "other" / "Tiny")
    words = ("run", "--setting", "ez", "--methods", "tfidf", "--dataset")
    ended = inside(*words, f"{tiny},{other}")
    assert ended.returncode == 2
    assert f"{tiny} and {other} are two datasets with the name tiny, or Tiny (rename a folder" in ended.stderr
    assert inside(*words, tiny).returncode == 0
    ended = inside(*words, other)
    assert ended.returncode == 2
    said = "runs has results of the dataset tiny, whose name differs from Tiny in case only (rename a folder, or"
    assert said in ended.stderr
    assert "1 of 1 cell cached" in inside(*words, tiny).stderr
    assert inside(*words, other, "--runs", "others").returncode == 0


@pytest.mark.parametrize("words", [("run", "--setting", "ez", "--dataset", ""), ("data", "info", "")])
def test_an_empty_name_is_not_this_folder(inside, tiny, monkeypatch, words):
    monkeypatch.chdir(tiny)
    ended = inside(*words)
    assert (ended.returncode, "the name of the dataset is empty" in ended.stderr) == (2, True), ended.stderr


def test_scores_follow_from_the_stored_predictions(inside, xmcbench, tiny, tmp_path):
    inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf")
    (record,) = records(tmp_path / "runs").values()
    file = Path("runs", record["predictions"]["file"])
    document = json.loads(xmcbench("score", "--dataset", tiny, "--predictions", file, "--json").stdout)
    assert document["values"] == record["metrics"]["none"]["values"]
    assert document["intervals"] == record["metrics"]["none"]["intervals"]


def test_a_dry_run_names_what_is_left_out_once(inside, tiny):
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--dry-run", "--wide")
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("knn ")]
    assert "skipped: it needs pairs, and the zero-shot setting has none (use --setting fs or full)" in line
    assert "left out" not in ended.stderr


def test_metrics_choose_the_columns_of_the_table(inside, tiny):
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "bm25", "--metrics", "PSP@5,P@1")
    assert ended.returncode == 0, ended.stderr
    (heads,) = [line.split() for line in ended.stdout.splitlines() if "PSP@5" in line]
    assert heads == ["Method", "PSP@5", "P@1"]
