"""Plug-ins that misbehave in every way at every stage: each is one row, and no other row is affected."""

import itertools
import json
import textwrap

from process_tree import World

#: What code can do to the process that it runs in.
BEHAVIORS = {
    "raises": "raise ValueError('no\\nway')",
    "raises-base": "raise BaseException('no way')",
    "raises-silent": "raise Silent",
    "interrupts": "raise KeyboardInterrupt",
    "exits": "sys.exit()",
    "exits-badly": "raise SystemExit(7)",
    "ends": "os._exit(0)",
    "ends-badly": "os._exit(3)",
    "segfaults": "os.kill(os.getpid(), signal.SIGSEGV)",
    "aborts": "os.abort()",
    "kills-itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminates": "os.kill(os.getpid(), signal.SIGTERM)",
    "loops": "while True: pass",
    "closes-output": "print('{{' * 100, flush=True); os.close(1); os.close(2); raise ValueError('closed')",
    "leaves-a-child": "subprocess.Popen(SLEEP, start_new_session=True); raise ValueError('left one')",
}

#: Where the code of a plug-in runs: its class, with a place to misbehave.
STAGES = {
    "import": "BEHAVIOR",
    "describe": "class {name}(Honest):\n    def describe(self):\n        BEHAVIOR",
    "require": "class {name}(Honest):\n    def require(self):\n        BEHAVIOR",
    "init": "class {name}(Honest):\n    def __init__(self, **values):\n        BEHAVIOR",
    "pretrain": "class {name}(Honest):\n    def pretrain(self, raw_X, raw_Y):\n        BEHAVIOR",
    "fit": "class {name}(Honest):\n    def fit(self, raw_X, raw_Y, pairs=None):\n        BEHAVIOR",
    "predict": "class {name}(Honest):\n    def predict(self, raw_X, k=100):\n        BEHAVIOR",
}

SOURCE = """
import abc, atexit, os, signal, subprocess, sys, threading, time
import numpy as np
from xmcbench import Method, TopK

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

class Silent(Exception):
    def __str__(self):
        raise ValueError("nothing to say")

class Honest(Method, abc.ABC):
    @property
    @abc.abstractmethod
    def named(self): ...
    def fit(self, raw_X, raw_Y, pairs=None):
        self.labels = len(raw_Y)
    def predict(self, raw_X, k=100):
        return TopK.from_scores(np.ones((len(raw_X), self.labels)), k)

print("a plug-in that prints")
"""

#: Plug-ins that misbehave when their result is there: it counts.
AFTERWARDS = {
    "hangs-in-thread": "threading.Thread(target=time.sleep, args=[600]).start()",
    "hangs-at-exit": "atexit.register(time.sleep, 600)",
    "ends-at-exit": "atexit.register(os._exit, 5)",
}


def trials():
    """(name, source, whether it has a result) of every plug-in."""
    for (behavior, code), (stage, source) in itertools.product(BEHAVIORS.items(), STAGES.items()):
        yield f"{behavior}-{stage}", source.replace("BEHAVIOR", code), False
    for behavior, code in AFTERWARDS.items():
        fit = "class {name}(Honest):\n    def fit(self, raw_X, raw_Y, pairs=None):\n        super().fit(raw_X, raw_Y)"
        yield f"{behavior}-fit", f"{fit}\n        {code}", True


def write(folder, name, source):
    """Write a plug-in whose method has this name, and whose file as well: that is its name where it does not load."""
    cls = "".join(part.capitalize() for part in name.split("-"))
    source = source.format(name=cls) + "\n    named = True\n" * source.startswith("class")
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(SOURCE) + source)
    return path


def test_a_bad_plugin_is_one_row_and_no_other_row_is_touched(faults, tiny, tmp_path):
    world, every = World(tmp_path / "world"), [*trials()]
    assert len(every) >= 100
    chosen = {name: (source, good) for name, source, good in faults.random.sample(every, faults.number(8, len(every)))}
    words = ("run", "--dataset", tiny, "--setting", "ez", "--json", "--time-limit", faults.number(15, 10))
    alone = json.loads(world.run(*words, "--methods", "tfidf,bm25", "--runs", "alone").stdout)
    plugins = [("--plugin", write(tmp_path, name, source)) for name, (source, _) in chosen.items()]
    methods = ",".join(["tfidf", *chosen, "bm25"])
    ended = world.run(*words, "--methods", methods, *itertools.chain(*plugins))
    assert ended.returncode == (0 if all(good for _, good in chosen.values()) else 1), ended.stderr
    document = json.loads(ended.stdout)
    left_out = {skipped["method"]: "left out" for skipped in document["skipped"]}
    records = {record["cell"]["method"]: record for record in document["records"]}
    assert {*left_out, *records} == {"tfidf", "bm25", *chosen}
    assert not {*left_out} & {*records}
    for name, (_, good) in chosen.items():
        outcome = left_out.get(name) or records[name]["status"]
        assert outcome == "ok" if good else outcome in ("left out", "failed", "timeout"), (name, outcome)
        faults.count("bad plug-ins", f"{outcome}, no other row affected")
    for one in alone["records"]:
        other = records[one["cell"]["method"]]
        for field in ("cell", "metrics", "ranks", "predictions"):
            assert other[field] == one[field]
    assert world.left_processes() == []
    assert world.left_files() == []


def test_a_check_of_a_bad_plugin_fails(faults, tiny, tmp_path):
    """Also where the plug-in ends the process as if all was well."""
    world = World(tmp_path / "world")
    stages = {stage: STAGES[stage] for stage in ("import", "require", "init", "fit", "predict")}
    every = [*itertools.product(("ends", "exits", "interrupts", "kills-itself", "leaves-a-child"), stages)]
    for behavior, stage in faults.random.sample(every, faults.number(2, len(every))):
        name = f"{behavior}-{stage}"
        path = write(tmp_path, name, stages[stage].replace("BEHAVIOR", BEHAVIORS[behavior]))
        ended = world.run("check", path, "--json", "--time-limit", 120)
        assert ended.returncode == 1, (name, ended.stderr)
        (findings,) = json.loads(ended.stdout).values()
        assert "failed" in {finding["status"] for finding in findings}, name
        assert world.left_processes() == []
        assert world.left_files() == []
        faults.count("checks of bad plug-ins", "the contract is broken")
