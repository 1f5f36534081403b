"""The command line as such: what it imports, how fast it is, how it fails."""

import argparse
import json
import os
import re
import subprocess
import sys

import pytest

from xmcbench import __version__
from xmcbench.command.main import parser
from xmcbench.data.catalog import default_dataset
from xmcbench.metrics import protocol
from xmcbench.records import Store

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "accelerate", "faiss", "gensim", "numba", "matplotlib"),
    *("sklearn", "scipy", "pecos", "bm25s", "Stemmer", "pyarrow", "pandas", "shtab"),
)

WATCH = """
import sys
from xmcbench.command.main import main
try:
    main({words!r})
except SystemExit:
    pass
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        *([], ["--help"], ["run", "--help"], ["--version"]),
        *(["ls", "methods"], ["ls", "methods", "maclr"], ["ls", "datasets"], ["clean", "--help"]),
    ],
)
def test_help_and_listings_import_nothing_heavy(words):
    code = WATCH.format(words=words, heavy=HEAVY)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout
    assert ended.stderr == "[]\n"


def test_a_plan_imports_nothing_heavy(tiny, monkeypatch):
    """Once the dataset has been read, which needs some of it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["run", "--dataset", str(tiny), "--setting", "fs,full", "--ratio", "0.5", "--methods", "all", "--dry-run"]
    code = WATCH.format(words=words, heavy=HEAVY)
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SentBERT" in ended.stdout
    assert ended.stderr.splitlines()[-1] == "[]"


def test_a_bare_command_is_a_question(inside):
    bare, asked = inside(), inside("--help")
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout == asked.stdout
    assert bare.stdout.startswith("usage: xmcbench [-h]")
    assert "xmcbench run --setting ez --plugin my_method.py" in bare.stdout


def test_versions(inside):
    ended = inside("--version")
    assert (ended.returncode, ended.stdout) == (0, f"xmcbench {__version__}, metric protocol {protocol.VERSION}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(inside, shell):
    ended = inside("--print-completion", shell)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "leaderboard" in ended.stdout
    assert shell == "tcsh" or "--memory-limit" in ended.stdout


def test_completion_in_a_shell(inside, tmp_path):
    """Completions of bash after `xmcbench cl` and `xmcbench run --me`."""
    (tmp_path / "completion").write_text(inside("--print-completion", "bash").stdout)
    script = r"""
    source completion
    complete_it=$(complete -p xmcbench | sed 's/.*-F \([^ ]*\) .*/\1/')
    for line in "xmcbench cl" "xmcbench run --me" "xmcbench run --setting f" "xmcbench run --methods zest" \
        "xmcbench suggest --dataset lf-debian-2"; do
        COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        $complete_it xmcbench "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        echo "${COMPREPLY[@]}"
    done
    """
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [sorted(line.split()) for line in ended.stdout.splitlines()] == [
        ["clean"],
        ["--memory-limit", "--methods", "--metrics"],
        ["fs", "full"],
        ["zestxml"],
        ["lf-debian-20k", "lf-debian-20k-dev", "lf-debian-2k"],
    ]


def arguments_of(command):
    """Every argument of a command line and of the verbs below it."""
    for argument in command._actions:
        yield f"{command.prog} {argument.option_strings or argument.metavar}", argument
        if isinstance(argument, argparse._SubParsersAction):
            for verb in argument.choices.values():
                yield from arguments_of(verb)


def test_every_argument_has_a_help_text():
    verbs = ("VERB", "ACTION", "WHAT")
    assert [
        name for name, argument in arguments_of(parser()) if not argument.help and argument.metavar not in verbs
    ] == []


def test_help_shows_lists_where_a_command_takes_them_and_defaults(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = {
        verb: " ".join(inside(verb, "--help").stdout.split()) for verb in ("run", "suggest", "rank", "leaderboard")
    }
    assert "--setting ez|fs|full[,..]" in shown["run"]
    assert "--dataset NAME|PLACE[,..]" in shown["run"]
    assert "(default: the one that `ls datasets` marks)" in shown["run"]
    listed = json.loads(inside("ls", "datasets", "--json").stdout)
    assert [dataset["name"] for dataset in listed if dataset["default"]] == [default_dataset()]
    shown_as = [line.split() for line in inside("ls", "datasets").stdout.splitlines()]
    assert [words[0] for words in shown_as if "yes" in words[4:5]] == [default_dataset()]
    assert "PLACE[," not in shown["suggest"]
    for verb in ("suggest", "rank"):
        assert "ez|fs|full[" not in shown[verb]
        assert "label|pair[" not in shown[verb]
    assert "--seed S default: 0" in shown["suggest"]
    assert "zero-shot, few-shot or all pairs" in shown["rank"]
    assert "(default: markdown)" in shown["leaderboard"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "unknown command 'rnu' (did you mean 'run'?)"),
        (["--versoin"], "unrecognized argument '--versoin': did you mean --version?"),
        (["--debug"], "unrecognized argument '--debug': put it after the command that takes it"),
        (["--setting", "ez"], "unrecognized argument '--setting': put it after the command that takes it"),
        (["data", "info", "x", "--max-unpacked", "none"], "'none' is not a number of GiB"),
        (["--print-completion", "bsh"], "invalid choice: 'bsh': did you mean 'bash'?"),
        (["run", "--setting", "ez", "--method", "tfidf"], "argument '--method': did you mean --methods? (see"),
        (["run", "--setting=ez", "--dry_run"], "unrecognized argument '--dry_run': did you mean --dry-run?"),
        # A flag that is missing may be there under a misspelled name: that is what is said.
        (["run", "--seting", "ez"], "unrecognized argument '--seting': did you mean --setting?"),
        (["run", "--seting=ez"], "unrecognized argument '--seting=ez': did you mean --setting?"),
        (["run", "--setting", "ez", "--xyzzy"], "unrecognized argument '--xyzzy' (see `xmcbench run --help`)"),
        (["run", "--setting", "ez", "-x"], "unrecognized argument '-x' (see"),
        (["run", "--setting", "fss"], "unknown setting 'fss' (did you mean 'fs'?)"),
        (["run", "--setting", "zero"], "unknown setting 'zero' (choose ez, fs or full)"),
        (["ls", "method"], "argument LISTING: invalid choice: 'method': did you mean 'methods'?"),
        (["leaderboard", "ad"], "argument add: invalid choice: 'ad': did you mean 'add'?"),
        (
            ["run", "--setting", "ez", "--dry-run=1"],
            "--dry-run is a switch: write --dry-run, or dry-run = true in a set",
        ),
        (["data", "bulid", "x"], "argument ACTION: invalid choice: 'bulid': did you mean 'build'?"),
        (["data", "build", "x", "--indicse", "y"], "unrecognized argument '--indicse': did you mean --indices?"),
        (
            ["run", "--setting", "ez", "--methods", "tfidf,", "bm25"],
            "unrecognized argument 'bm25': write a list without spaces, or in quotes: --methods tfidf,bm25",
        ),
        (["run", "--setting", "ez", "--methods", "tfidf", ",bm25"], "argument ',bm25': write a list without spaces"),
        (["run", "--setting", "ez", "more"], "unrecognized argument 'more' (see `xmcbench run --help`)"),
    ],
)
def test_a_misspelled_word_is_one_line_with_what_was_meant(inside, words, message):
    ended = inside(*words)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert ended.stderr.startswith("xmcbench: error: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_descriptions_fit_the_terminal(monkeypatch, columns):
    """All but commands, which stay whole, to be copied."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for verb, below in parser().commands().items():
        shown = below.format_help().partition("\n\n")[2]
        shown = re.split(r"\n\n(?:positional arguments|options):\n", shown)[0]
        assert shown.split() == below.description.split()
        for paragraph in below.description.strip().split("\n\n"):
            if any(line.startswith((" ", "xmcbench ")) for line in paragraph.splitlines()):
                assert paragraph in shown, verb
                shown = shown.replace(paragraph, "")
        assert max(map(len, shown.splitlines())) <= columns, verb


def test_a_value_may_look_like_a_flag(inside, tiny):
    """As argparse has it: no flag has a space."""
    ended = inside("show", "tfidf", "--dataset", tiny, "--text", "--verbose output of tools")
    assert ended.returncode == 0, ended.stderr
    ended = inside("run", "--seting=e z")
    assert "unrecognized argument '--seting=e z': did you mean --setting?" in ended.stderr


def test_a_file_where_a_folder_should_be_is_not_an_internal_error(inside, tmp_path):
    (tmp_path / "file").touch()
    ended = inside("data", "build", "lf-debian-20k", "--out", "file")
    assert (ended.returncode, ended.stderr) == (
        2,
        "xmcbench: error: file already exists and is not a folder (choose a new or empty folder)\n",
    )


def test_debug_shows_the_traceback(xmcbench):
    words = ("run", "--setting", "fs")
    assert "Traceback" not in xmcbench(*words).stderr
    assert "Traceback" in xmcbench(*words, "--debug").stderr


def test_debug_in_a_settings_file(inside, tmp_path):
    (tmp_path / "x.toml").write_text('setting = "ez"\nmethods = "tfdif"\ndebug = true\n')
    assert "Traceback" in inside("run", "--config", "x.toml").stderr


def test_a_broken_plugin_is_a_row_and_a_missing_one_an_error(inside, plugin):
    words = ("ls", "methods", "--plugin", plugin("import nothing_of_that_name"))
    entries = {entry["name"]: entry for entry in json.loads(inside(*words, "--json").stdout)}
    assert entries["plugin"]["status"] == "broken"
    assert entries["plugin"]["reason"].startswith("cannot be imported: ModuleNotFoundError")
    assert (entries["tfidf"]["status"], entries["tfidf"]["reason"]) == ("ok", "")
    listed = inside(*words).stdout
    assert "cannot be imported: ModuleNotFoundError" in listed.partition("\nreason\n")[2]
    assert inside("ls", "methods", "--plugin", "none.py").returncode == 2


METHOD = """
    from typing import Annotated, ClassVar, Literal
    from annotated_types import Ge, Interval, Unit
    from xmcbench import Doc, Method

    class Listed(Method):
        '''What it does.

        More of it.
        '''
        title = "Listed"
        presets: ClassVar = {"quick": {"steps": 5}, "paper": {"steps": 100, "fast": True}}
        choices: ClassVar = {"quick": "xmcbench run --setting ez"}
        steps: Annotated[int, Ge(1), Unit("steps"), Doc("of the training", "Section 5")] = 50
        share: Annotated[float, Interval(gt=0, le=1)] = 0.5
        fast: bool = False
        kind: Literal["a", "b"] | None = None
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...
"""


def test_a_method_is_listed_with_all_that_can_be_set(inside, plugin):
    words = ("ls", "methods", "listed", "--plugin", plugin(METHOD))
    lines = inside(*words).stdout.splitlines()
    assert lines[0].startswith("listed: Listed, pairs optional, ")
    assert lines[2] == "What it does."
    assert lines[4:9] == [
        "listed.steps: int, >= 1, in steps, default 50",
        "    of the training [Section 5]",
        "listed.share: float, > 0, <= 1, default 0.5",
        "listed.fast: bool, default false",
        "listed.kind: 'a' | 'b' | none, default none",
    ]
    table = [line.split() for line in lines[10:14]]
    assert [table[0], *table[2:]] == [["preset", "quick", "paper"], ["steps", "5", "100"], ["fast", "true"]]
    assert lines[-2:] == ["Values of quick come from:", "    xmcbench run --setting ez"]
    document = json.loads(inside(*words, "--json").stdout)
    assert document["parameters"]["steps"] == {
        "type": "int",
        "default": 50,
        "range": ">= 1",
        "unit": "steps",
        "doc": "of the training",
        "source": "Section 5",
    }
    assert document["presets"]["paper"] == {"steps": 100, "fast": True}
    assert (document["supervision"], document["deterministic"], document["packages"]) == ("optional", False, {})


def test_a_name_that_is_not_a_methods(inside, plugin):
    for words, message in (
        (("methods", "tfdif"), "unknown method 'tfdif' (did you mean 'tfidf'?)"),
        (("methods", "popularity"), "(see `xmcbench ls methods`; one in a file needs --plugin FILE)"),
        (("datasets", "lf-debian-2k"), "datasets takes no name: 'lf-debian-2k' (xmcbench ls methods NAME)"),
        (("methods", "plugin", "--plugin", plugin("1 / 0")), "plugin: cannot be imported: ZeroDivisionError"),
    ):
        ended = inside("ls", *words)
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_results_are_fractions_for_machines_and_percent_for_readers(inside, record, tmp_path):
    store = Store(tmp_path / "runs")
    store.write(record("nobodys", value=0.123456))
    store.write(record("nobodys", seed=1, status="failed"))
    first, second = json.loads(inside("ls", "results", "--json").stdout)
    assert (first["P@1"], first["R@100"], first["status"], first["reason"]) == (0.123456, 0.123456, "ok", "")
    assert (second["P@1"], second["status"], second["reason"]) == (None, "failed", "ValueError: no")
    keys = [record.key[:12] for record in sorted(store.records(), key=lambda result: result.cell.seed)]
    assert [first["key"], second["key"]] == keys
    lines = inside("ls", "results").stdout.splitlines()
    assert lines[0] == "Tiny, ez, filter self"
    assert lines[4].split()[:6] == ["NOBODYS", "0", keys[0], "ok", "12.35", "12.35"]
    assert lines[5].split()[:4] == ["NOBODYS", "1", keys[1], "failed"]


def test_results_of_one_name_are_told_apart_in_a_listing(inside, record, altered, tmp_path):
    store = Store(tmp_path / "runs")
    named = (("method", "title"), "ONE")
    for made in (record("one"), record("one", seed=1), altered(record("other"), named), record("two", k=1)):
        store.write(made)
    store.write(altered(record("other"), named, (("cell", "dataset"), "Elsewhere")))
    listed = json.loads(inside("ls", "results", "--json").stdout)
    assert sorted((entry["dataset"], entry["method"], entry["seed"]) for entry in listed) == [
        ("Elsewhere", "ONE", 0),
        ("Tiny", "ONE, method=one", 0),
        ("Tiny", "ONE, method=one", 1),
        ("Tiny", "ONE, method=other", 0),
        ("Tiny", "TWO (k=1)", 0),
    ]


def test_doctor_examines_this_machine(xmcbench, plugin):
    document = json.loads(xmcbench("doctor", "--json").stdout)
    assert document["broken"] == []
    assert document["methods"]["tfidf"] == "ok"
    assert document["machine"]["cores"] >= 1
    assert document["datasets"]["lf-debian-20k"] == "ok"
    ignored = xmcbench("doctor", "--runs", "leaderboards")
    assert (ignored.returncode, "--runs names what --deep reads (add --deep)" in ignored.stderr) == (2, True)
    broken = xmcbench("doctor", "--plugin", plugin("1 / 0"))
    assert broken.returncode == 1
    assert "ZeroDivisionError" in broken.stdout


def test_doctor_examines_a_machine_whose_cache_cannot_be_reached(inside, monkeypatch):
    def refuse(_):
        raise PermissionError("no search permission")

    monkeypatch.setattr("shutil.disk_usage", refuse)
    ended = inside("doctor", "--json")
    assert json.loads(ended.stdout)["cache"]["free_gib"] is None, ended.stderr
    assert f"\n  {'free_gib':24}unknown\n" in inside("doctor").stdout


def test_a_broken_card_is_named_and_breaks_no_listing(xmcbench, inside, monkeypatch, tmp_path):
    (tmp_path / "sets" / "odd").mkdir(parents=True)
    (tmp_path / "sets" / "odd" / "card.toml").write_text("nonsense")
    environment = {**os.environ, "XMCBENCH_DATASETS": str(tmp_path / "sets"), "HF_HUB_OFFLINE": "true"}
    ended = xmcbench("doctor", "--json", env=environment)
    document = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert "dataset odd" in document["broken"][0]
    assert document["hub"] == "offline"
    monkeypatch.setenv("XMCBENCH_DATASETS", str(tmp_path / "sets"))
    listed = inside("ls", "datasets")
    assert "odd" in listed.stdout
    assert "lf-debian-2k" in listed.stdout


def test_a_command_without_a_settings_file_refuses_one(inside, tmp_path):
    (tmp_path / "json.toml").write_text("json = true")
    ended = inside("ls", "layouts", "--config", "json.toml")
    assert (ended.returncode, "unrecognized argument '--config'" in ended.stderr) == (2, True), ended.stderr


def test_an_ls_without_results_says_where_they_would_be(inside):
    ended = inside("ls", "results")
    assert ended.returncode == 2
    assert "no runs folder at runs" in ended.stderr


FAILING = """
    from xmcbench import Method

    class Failing(Method):
        title = "Failing"
        def fit(self, raw_X, raw_Y, pairs=None):
            raise ValueError("no")
        def predict(self, raw_X, k=100):
            pass
"""


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_run_that_failed_says_so_without_a_reader_too(tiny, plugin, tmp_path, unbuffered):
    read, write = os.pipe()
    os.close(read)
    words = ["run", "--dataset", tiny, "--setting", "ez", "--plugin", plugin(FAILING), "--methods", "failing", "--json"]
    command = [sys.executable, *(["-u"] if unbuffered else []), "-m", "xmcbench", *map(str, words)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=tmp_path)
    os.close(write)
    assert ended.returncode == 1
    assert b"Broken pipe" not in ended.stderr


@pytest.mark.parametrize("words", [["--help"], ["ls", "datasets"], ["doctor"]])
def test_a_reader_that_went_away_is_not_an_error(words, tmp_path):
    read, write = os.pipe()
    os.close(read)
    # Buffered, as standard output into a pipe is: the output is written at the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "xmcbench", *words]
    # Elsewhere, so that it is the installed package that runs and not the checkout, which has no xmcbench.methods.
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False, cwd=tmp_path)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")
