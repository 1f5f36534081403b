"""The canaries: what they cover, and whether today's code gives their stored outcomes on this machine."""

import filecmp
import math
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec
import pytest
from make_texts import main as make_texts

from xmcbench import parameters
from xmcbench.environment import hardware
from xmcbench.errors import StorageError
from xmcbench.plugins.loading import load
from xmcbench.plugins.registry import Registry
from xmcbench.runner.canaries import run
from xmcbench.runner.canaries.cells import Canary, canaries, canary_folder, data
from xmcbench.runner.canaries.outcomes import (
    OUTCOMES,
    CanaryOutcome,
    Difference,
    Stored,
    compare,
    read_outcomes,
    write_outcomes,
)

ROOT = Path(__file__).parents[2]
METHODS = sorted(Registry().sources)
#: Values that no canary has, and why: "method.parameter" or "*.parameter", and the value.
WITHOUT = {
    ("*.precision", "auto"): "one of the others, by the processor",
    ("*.backend", "onnx"): "sentence-transformers needs other packages for it, which need an older transformers",
    ("*.backend", "openvino"): "the same",
    ("mpnet.recomputed_layers", True): "refused: the architecture cannot",
    **{
        ("*.label_text", part): "labels of canaries are titles"
        for part in ("alternatives", "content", "parents", "all")
    },
    ("ngame.finetune_balanced", True): "refused: it has no effect",
    ("ngame.negatives", "all"): "refused: it has no effect",
    ("ngame.head", "paper"): "refused: it compares by inner product",
    ("lmtx.head", "paper"): "the same",
    ("dexml.finetune_balanced", True): "refused: it has no effect",
    ("dexml.negatives", "all"): "refused: it has no effect",
    ("renee.head", "paper"): "refused: it compares by inner product",
}
#: Parameters whose values are those of another method, by code that both share: only the default and one more occur.
SHARED = {"analyzer": "tfidf"}


def names(problem):
    """A set of lines as the message of an assertion."""
    return "\n".join(sorted(problem))


def test_every_method_has_canaries():
    assert {canary.method for canary in canaries()} == {*METHODS}
    together = [(canary.method, canary.name) for canary in canaries()]
    assert len({*together}) == len(together)


def test_no_parameter_has_the_name_of_a_field():
    fields = {*Canary.__struct_fields__, "shared"}
    assert not [
        name for name in METHODS for name in fields & {*parameters.list_parameters(load(name))} if name != "values"
    ]


@pytest.mark.parametrize("method", METHODS)
def test_every_value_of_a_choice_has_a_canary(method):
    kind = load(method)
    declared = parameters.list_parameters(kind)
    used = [parameters.resolve(declared, method, canary.values) for canary in canaries([method])]
    lacking = []
    for name, parameter in declared.items():
        values = {False, True} if parameter.kind == "bool" else {*parameter.choices}
        values |= {None} if values and parameter.optional else set()
        found = {resolved[name] for resolved in used}
        missing = values - found
        if name in SHARED and method != SHARED[name]:
            missing = set() if len(found) > 1 else missing
        missing -= {value for (where, value) in WITHOUT if where in (f"{method}.{name}", f"*.{name}")}
        lacking += [f"{name} = {value!r}" for value in missing]
    assert not lacking, names(lacking)


def test_what_no_canary_has_is_not_listed_in_vain():
    used = {}
    for canary in canaries():
        values = parameters.resolve(parameters.list_parameters(load(canary.method)), canary.method, canary.values)
        for name, value in values.items():
            used.setdefault(f"{canary.method}.{name}", set()).add(repr(value))
            used.setdefault(f"*.{name}", set()).add(repr(value))
    assert not [where for where, value in WITHOUT if repr(value) in used[where]]


def test_the_texts_are_drawn_as_their_script_says(tmp_path):
    make_texts(ROOT / "datasets" / "lf-debian-20k", tmp_path / "texts.json")
    assert filecmp.cmp(tmp_path / "texts.json", canary_folder() / "texts.json", shallow=False)
    found = data()
    assert len(found.train) == found.pairs("train").shape[0] > 200
    assert len(found.test) == found.pairs("test").shape[0] > 40


def test_all_of_it_is_small():
    files = [file for file in canary_folder().rglob("*") if file.is_file()]
    assert len(files) <= 6
    assert sum(file.stat().st_size for file in files) <= 1_500_000


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_stored_outcomes_are_those_of_today():
    found = run.run_all(jobs=2)
    stored, here = read_outcomes(canary_folder() / OUTCOMES, found), hardware().processor
    in_16_bits = {
        (canary.method, canary.name) for canary in canaries() if canary.values.get("precision") in ("bf16", "fp16")
    }
    assert {method for method, _ in in_16_bits} > {"ict", "maclr", "ngame", "embedder"}
    differences = [
        f"{method}.{difference.canary}: {difference.what}"
        for method, outcomes in found.items()
        for difference in compare(stored[method].outcomes, outcomes)
        # Processors round sums in 16 bits in ways of their own, and then train on other negatives.
        if stored[method].processor == here or (method, difference.canary) not in in_16_bits
    ]
    assert not differences, names(differences)


#: Of all kinds of randomness and of shared state.
SEVERAL = {
    "bm25": "characters",
    "glove": "corpus",
    "sentbert": "trained",
    "simcse": "scratch",
    "maclr": "rounds",
    "astec": "reranker",
    "attentionxml": "trees",
    "xr-transformer": "levels",
    "zestxml": "links",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_canary_alone_gives_what_it_gives_among_others():
    chosen = [canary for canary in canaries() if SEVERAL.get(canary.method) == canary.name]
    assert len(chosen) == len(SEVERAL)
    found = []
    for order, options in ((chosen, {}), (chosen[::-1], {}), (chosen, {"max_tasks_per_child": 1})):
        with ProcessPoolExecutor(1, get_context("spawn"), **options) as pool:
            outcomes = pool.map(run_alone, order)
            found.append({canary.name: outcome for canary, outcome in zip(order, outcomes, strict=True)})
    assert all(outcome.status == "ok" for outcome in found[0].values()), found[0]
    assert found[0] == found[1] == found[2]


def run_alone(canary):
    """In another process, whose first import is that of this module."""
    return run.run(canary)


STORED = CanaryOutcome(
    ranks="1 0 3 2",
    losses={"training": "1 0.5, 2 0.25"},
    top=("7:0.9 3:0.5 4:0.5 1:0.2 2:0.1", "", "5:0.8", "1:0.7 2:0.6 3:0.5 4:0.4 5:0.3"),
)


def compare_changed(**changes):
    return compare({"a": STORED}, {"a": msgspec.structs.replace(STORED, **changes)})


def test_equal_outcomes():
    assert compare_changed() == []
    # Within the tolerance, .002 of their standard deviation: .24.
    assert compare_changed(top=("7:0.9004 3:0.5 4:0.5 1:0.2 2:0.1", *STORED.top[1:])) == []
    assert compare_changed(losses={"training": "1 0.5005, 2 0.2504"}) == []


def test_near_ties_may_fall_otherwise_in_few_places():
    swapped = "7:0.9 4:0.5 3:0.5 1:0.2 2:0.1", *STORED.top[1:]
    assert [difference.what for difference in compare_changed(top=swapped)] == ["2 labels of 11"]
    many = [STORED.top[0]] * 40
    stored = CanaryOutcome(ranks=STORED.ranks, top=(*many, *STORED.top))
    assert compare({"a": stored}, {"a": msgspec.structs.replace(stored, top=(*many, *swapped))}) == []
    # The last of five has a next place that nobody knows.
    last = "1:0.7 2:0.6 3:0.5 4:0.4 9:0.3"
    assert compare_changed(top=(*STORED.top[:3], last)) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"top": ("7:0.91 3:0.5 4:0.5 1:0.2 2:0.1", *STORED.top[1:])}, "scores by 0.043 of their deviation"),
        ({"top": ("8:0.9 3:0.5 4:0.5 1:0.2 2:0.1", *STORED.top[1:])}, "1 labels of 11 without a tie"),
        ({"top": ("7:0.9 3:0.5 4:0.5 1:0.2", *STORED.top[1:])}, "other texts have predictions, or another number"),
        ({"top": (STORED.top[0].replace("0.9", "nan"), *STORED.top[1:])}, "scores by inf of their deviation"),
        ({"top": STORED.top[:2]}, "other texts have predictions, or another number"),
        ({"ranks": "1 0 2 3"}, "2 ranks of 4"),
        ({"ranks": "1 0 3"}, "the number of true pairs"),
        ({"losses": {"training": "1 0.5, 2 0.26"}}, "losses of training by 0.038 of what they are"),
        ({"losses": {"training": "1 0.5, 2 nan"}}, "losses of training by inf of what they are"),
        ({"losses": {}}, "the number of losses of training"),
        ({"status": "failed", "reason": "ValueError: no"}, "it failed: ValueError: no"),
    ],
)
def test_differences(changes, what):
    (difference,) = compare_changed(**changes)
    assert difference.what == what
    assert difference.size > 1


def test_what_cannot_be_compared():
    assert compare({}, {"a": STORED}) == [Difference("a", "no outcome is stored", math.inf)]
    assert compare({"a": STORED}, {}) == [Difference("a", "it is not defined any more", math.inf)]
    skipped = CanaryOutcome(status="skipped", reason="needs the package gensim")
    assert compare({"a": STORED}, {"a": skipped}) == []
    assert compare({"a": skipped}, {"a": STORED}) == [Difference("a", "no outcome is stored", math.inf)]


def test_stored_outcomes_are_read_back(tmp_path):
    facts = ("f" * 64, "2026-11-28", "P", {"numpy": "2.0"})
    stored = {name: Stored(*facts, {"a": STORED}) for name in ("tfidf", "bm25")}
    file = tmp_path / OUTCOMES
    write_outcomes(file, stored)
    assert read_outcomes(file, ["bm25"]) == stored
    assert '    "5:0.8",\n' in file.read_text()
    assert file.read_text().index('"bm25"') < file.read_text().index('"tfidf"')
    with pytest.raises(StorageError, match=r"of the canaries of ict,knn \(xmcbench confirm --store ict,knn\)"):
        read_outcomes(file, ["knn", "bm25", "ict"])
    file.write_text("{")
    with pytest.raises(StorageError, match="cannot read the outcomes of canaries"):
        read_outcomes(file, [])


def test_outcomes_are_stored_beside_those_of_other_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "canary_folder", lambda: tmp_path)
    for methods in (["tfidf"], ["bm25"]):
        monkeypatch.setattr(run, "run_all", lambda methods, jobs: {name: {"a": STORED} for name in methods})
        run.store(methods)
    stored = read_outcomes(tmp_path / OUTCOMES, [])
    assert [*stored] == ["bm25", "tfidf"]
    assert {facts.source_sha256 for facts in stored.values()} == {Registry().sources[name] for name in stored}
