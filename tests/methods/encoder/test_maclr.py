import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from xmcbench import Artifacts, MethodError, Texts, TopK, UsageError
from xmcbench.methods.encoder import fine_tuning
from xmcbench.methods.encoder.dual_encoder import DualEncoder
from xmcbench.methods.ict import ICT
from xmcbench.methods.lmtx import LMTX
from xmcbench.methods.maclr import MACLR
from xmcbench.methods.rts import RTS
from xmcbench.methods.simcse import SimCSE

THINGS = ["apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"]
STRANGE = Texts.from_lists(["", " ", "zyzzyva", "\u4e2d\u6587 \U0001f600", "the " * 900])
OFF = MACLR.ablation["1"]
SHARED = {
    "instance_length": 24,
    "finetune_steps": 4,
    "finetune_batch": 8,
    "finetune_rate": 1e-3,
    "steps": 8,
    "batch": 8,
    "learning_rate": 1e-3,
}
TINY = {
    **SHARED,
    "pseudo_steps": 3,
    "clusters": 3,
    "clusters_doubled_every": 2,
    "clusters_updated_every": 2,
    "kmeans_restarts": 1,
    "sampled_labels": 4,
    "label_temperature": 0.5,
}

#: Texts that are embedded with gradients, by preset: the same for ICT, SimCSE, RTS and MACLR.
TEXTS = {"quick": 768, "small": 3840, "scratch": 51_200, "hour": 204_800, "gpu": 3_072_000}


@pytest.fixture
def run(tmp_path_factory, checkpoint):
    """Train as the harness does; returns the predictions and the method."""

    def go(corpus, kind=MACLR, new=STRANGE, pairs=None, seed=0, store=None, **values):
        method = kind(backbone=str(checkpoint()), **{**(TINY if kind is MACLR else SHARED), **values})
        method.seed = seed
        method.artifacts = store or Artifacts(tmp_path_factory.mktemp("store"))
        method.pretrained = method.pretrain(corpus[0], corpus[1])
        method.fit(corpus[0], corpus[1], pairs)
        found = method.predict(new, k=7)
        found.check(len(new), 7, len(corpus[1]))
        return found, method

    return go


@pytest.mark.parametrize("head", ["native", "paper"])
def test_zero_shot_and_few_shot(run, stories, head):
    for pairs in (None, stories[2]):
        first, method = run(stories, pairs=pairs, head=head)
        again, _ = run(stories, pairs=pairs, head=head)
        assert first.indices.tobytes() == again.indices.tobytes()
        assert first.scores.tobytes() == again.scores.tobytes()
        assert ("fine-tuning" in method.notes) == (pairs is not None)
        json.dumps(method.notes, allow_nan=False)
    assert method.notes["stage I"]["losses"] == ["cluster", "label"]
    assert method.notes["stage II"]["losses"] == ["pseudo pairs"]
    assert method.notes["clusters"] == [[0, 3], [2, 6], [4, None]]
    counts = method.notes["pseudo pairs"]
    assert 0 < counts["mixed"] < counts["encoder"] + counts["tfidf"]
    assert counts["documents"] == 3 * 8  # steps x batch, of 30
    assert counts["encoder"] == 3 * 24
    other, _ = run(stories, seed=1, head=head)
    assert other.scores.tobytes() != first.scores.tobytes()


def test_inner_products_are_not_divided_by_the_label_temperature(run, stories):
    for head, same in (("paper", True), ("native", False)):
        found = [
            run(stories, head=head, label_temperature=temperature)[0].scores.tobytes() for temperature in (0.05, 0.5)
        ]
        assert (found[0] == found[1]) == same


def test_all_off_is_ict(run, stories):
    _, method = run(stories, **OFF)
    _, ict = run(stories, ICT)
    assert set(method.notes) - set(ict.notes) == {"stage I"}
    for name, weights in ict.pretrained.items():
        assert np.array_equal(method.pretrained[name], weights), name


def test_each_component_changes_the_result(run, stories):
    scores = {}
    for row, switches in MACLR.ablation.items():
        found, method = run(stories, **switches)
        scores[row] = found.scores.tobytes()
        assert ("stage II" in method.notes) == (switches["pseudo_encoder"] or switches["pseudo_tfidf"])
        assert ("label" in method.notes["stage I"]["losses"]) == switches["label_regularization"]
        assert ("clusters" in method.notes) == switches["adaptive_clustering"]
    assert len(set(scores.values())) == 7


def test_the_ablation_is_the_papers():
    assert list(MACLR.ablation) == list("1234567")
    assert all(set(row) == set(OFF) for row in MACLR.ablation.values())
    assert not any(OFF.values())
    assert all(MACLR.ablation["7"].values())


def test_rows_share_stage_one(run, stories, tmp_path, monkeypatch):
    """Rows 4 to 7 train Stage I once, and rows 2 and 4 make the first clusters once."""
    from xmcbench.methods.encoder import tower

    trainings, original = [], tower.train

    def count(network, task, *arguments):
        trainings.append(type(task).__name__)
        return original(network, task, *arguments)

    monkeypatch.setattr(tower, "train", count)
    store, alone = Artifacts(tmp_path), {}
    for row in "4567":
        run(stories, store=store, **MACLR.ablation[row])
    assert sorted(trainings) == ["FirstStage", *["SecondStage"] * 3]
    run(stories, store=store, **MACLR.ablation["2"])
    assert len(list((tmp_path / "clusters").glob("*/clusters.npy"))) == 1
    shared, _ = run(stories, store=store, **MACLR.ablation["7"])
    alone, _ = run(stories, **MACLR.ablation["7"])
    assert shared.scores.tobytes() == alone.scores.tobytes()


#: Section 5.1 and algorithm 1 of the paper, and what its authors' code does instead.
PAPER = {
    "backbone": "bert-base-uncased", "head": "paper", "instance_length": 288, "label_length": 64,
    "steps": 100_000, "pseudo_steps": 100_000, "batch": 8 * 32, "learning_rate": 1e-5, "warmup": 0.1,
    "clusters": 2048, "clusters_doubled_every": 10_000, "clusters_updated_every": 5000, "twins": "own",
    "pseudo_top": 3, "pseudo_mix": "each", "pseudo_loss": "equation-3", "pseudo_twice": False, "pseudo_bm25": False,
    "hard_negatives": 0, "negative_margin": None, "pseudo_replay": 0.0, "pseudo_rounds": 1, "pseudo_share": 1.0,
    "min_pseudo_score": None, "min_pseudo_margin": 0.0, "pseudo_own_title": True, "min_sentences": 1,
    "title_dropout": 0.0, "negatives": "all", "clip": None, "finetune_rate": 5e-6, "finetune_steps": 2000,
    "finetune_growth": "labels", "finetune_batch": 8 * 32, "finetune_share": 1.0, "finetune_replay": 0.0,
    "finetune_balanced": False, "finetune_epochs": None, "finetune_full_rate": 0, "temperature": 0.05,
    "label_temperature": 0.15, "adaptive_clustering": True, "label_regularization": True, "sampled_labels": 32,
    "cluster_length": 288, "kmeans_points": 256, "kmeans_restarts": 5, "sentences": "regex", "precision": "auto",
    "pseudo_encoder": True, "pseudo_tfidf": True, "pseudo_recipe": "pecos", "held_out": 0,
}  # fmt: skip
CODE = {
    "batch": 8 * 16, "clusters": 2500, "clusters_updated_every": 5000, "twins": "cluster", "kmeans_points": 1000,
    "kmeans_restarts": 5, "sampled_labels": 8 * 4, "pseudo_top": 1, "pseudo_loss": "equation-2", "pseudo_twice": True,
    "min_pseudo_score": 36.0, "min_sentences": 2, "title_dropout": 0.9, "sentences": "punkt", "clip": 8.0,
    "precision": "fp16", "finetune_rate": 1e-5, "finetune_steps": 100_000, "finetune_growth": "fixed",
    "finetune_batch": 8 * 16,
}  # fmt: skip


@pytest.mark.parametrize(("name", "stated"), [("paper", PAPER), ("reference", {**PAPER, **CODE})])
def test_the_presets_of_the_paper_and_of_its_code(name, stated):
    values = MACLR(**MACLR.presets[name]).parameters()
    assert {key: values[key] for key in stated} == stated


@pytest.mark.parametrize("name", sorted(MACLR.presets))
def test_presets_hold(name):
    values = MACLR.presets[name]
    assert {parameter: MACLR(**values).parameters()[parameter] for parameter in values} == values


def test_the_options_of_the_code(run, stories):
    _, method = run(
        stories, twins="cluster", pseudo_loss="equation-2", pseudo_top=1, min_pseudo_score=-2.0, head="paper"
    )
    assert method.notes["pseudo pairs"]["encoder"] == 24


LABELS = [*(f"{thing} story" for thing in THINGS[:5]), *(f"the {thing}" for thing in THINGS[5:])]


@pytest.fixture
def numbered():
    """30 documents that differ, of which 20 have the title of a label; the first four have no context."""
    titles = [f"{THINGS[row % 10]} story" for row in range(30)]
    contents = [
        f"The {row}." if row < 4 else f"The old {THINGS[row % 10]} {row}. It likes the engine." for row in range(30)
    ]
    return Texts.from_lists(titles, contents), Texts.from_lists(LABELS)


@pytest.fixture
def trained(run, numbered, monkeypatch):
    """Run MACLR with scores of its sources that are given, and without a training; returns the tasks of Stage II."""
    rng = np.random.default_rng(7)
    scores = {name: rng.random((30, 10)).astype(np.float32) for name in ("encoder", "sklearn", "pecos", "bm25")}
    tasks = []

    def rank(name, texts, depth):
        rows = [list(numbered[0]).index(text) for text in texts]
        return TopK.from_scores(scores[name][rows], depth)

    def train(tower, task, plan, identity, *options, **named):
        tasks.append(task)
        return {}

    pseudo = "xmcbench.methods.maclr.pseudo_pairs"
    monkeypatch.setattr(MACLR, "_nearest_by_encoder", lambda self, tower, read, labels, k: rank("encoder", read, k))
    monkeypatch.setattr(f"{pseudo}.tfidf_ranking", lambda store, corpus, read, labels, k, recipe: rank(recipe, read, k))
    monkeypatch.setattr(f"{pseudo}.bm25_ranking", lambda store, read, labels, k: rank("bm25", read, k))
    monkeypatch.setattr("xmcbench.methods.encoder.tower.Tower.train", train)

    def go(**values):
        tasks.clear()
        run(numbered, steps=0, **values)
        return scores, tasks[0]

    return go


@pytest.mark.parametrize(
    ("values", "sources", "depth"),
    [
        ({"pseudo_mix": "agreement", "pseudo_depth": 3}, ["encoder", "pecos"], 3),
        ({"pseudo_mix": "agreement", "pseudo_depth": 1}, ["encoder", "pecos"], 1),
        (
            {"pseudo_mix": "agreement", "pseudo_depth": 6, "pseudo_top": 2, "min_pseudo_score": 1.7},
            ["encoder", "pecos"],
            6,
        ),
        ({"pseudo_mix": "agreement", "pseudo_bm25": True, "pseudo_depth": 4}, ["encoder", "pecos", "bm25"], 4),
        ({"pseudo_mix": "sum", "pseudo_recipe": "sklearn"}, ["encoder", "sklearn"], 10),
        ({"pseudo_mix": "sum", "pseudo_own_title": False, "pseudo_steps": 1}, ["encoder", "pecos"], 10),
        ({"pseudo_encoder": False, "pseudo_bm25": True, "pseudo_mix": "sum"}, ["pecos", "bm25"], 10),
    ],
)
def test_pseudo_pairs_of_sources_put_together(trained, numbered, values, sources, depth):
    """Label by label: those among the first of every source, by the sum of scores over the mean best one."""
    scores, task = trained(**{"pseudo_top": 1, **values})
    read = read_by(task, numbered, values, most=4 if values["pseudo_mix"] == "agreement" else 1)
    own = own_titles(read, values)
    known = {name: np.where(own, -np.inf, scores[name][read]) for name in sources}
    expected = set()
    for row in range(len(read)):
        first = [set(np.argsort(-known[name][row])[:depth].tolist()) for name in sources]
        total = sum(known[name][row] / known[name].max(1).mean() for name in sources)
        agreed = [label for label in np.argsort(-total).tolist() if label in set.intersection(*first)]
        chosen = [label for label in agreed if total[label] >= values.get("min_pseudo_score", -np.inf)]
        expected |= {(row, label) for label in chosen[: values.get("pseudo_top", 1)] if not own[row, label]}
    assert pairs_of(task) == expected
    assert 0 < len(expected) <= len(read) * values.get("pseudo_top", 1)


@pytest.mark.parametrize(
    ("values", "sources"),
    [
        ({}, ["encoder", "pecos"]),
        ({"min_pseudo_score": 0.8}, ["encoder", "pecos"]),
        ({"pseudo_recipe": "sklearn", "pseudo_bm25": True}, ["encoder", "sklearn", "bm25"]),
        ({"pseudo_tfidf": False, "pseudo_top": 3}, ["encoder"]),
        ({"pseudo_own_title": False, "pseudo_steps": 1}, ["encoder", "pecos"]),
    ],
)
def test_pseudo_pairs_of_each_source(trained, numbered, values, sources):
    scores, task = trained(**{"pseudo_top": 2, **values})
    read = read_by(task, numbered, values, most=1)
    own, top = own_titles(read, values), values.get("pseudo_top", 2)
    expected = set()
    for name in sources:
        found = np.where(own, -np.inf, scores[name][read])
        least = values.get("min_pseudo_score", -np.inf) if name == "encoder" else -np.inf
        for row, label in itertools.product(range(len(read)), range(10)):
            if (
                np.isfinite(found[row, label])
                and (found[row] > found[row, label]).sum() < top
                and found[row, label] >= least
            ):
                expected.add((row, label))
    assert pairs_of(task) == expected
    assert len(expected) > len(read)


def read_by(task, corpus, values, most):
    """The numbers of the documents that a task reads; there are as many as its steps can visit."""
    from xmcbench.methods.maclr.second_stage import draw_visited

    steps = values.get("pseudo_steps", TINY["pseudo_steps"])
    rows = draw_visited(30, np.empty(0, np.int64), steps * SHARED["batch"] * most, 0)
    assert len(task._instances) == len(rows) == min(30, steps * SHARED["batch"] * most)
    return rows


def own_titles(read, values):
    """Return whether each label is the title of a document that is read, and therefore left out."""
    titles = np.array([[f"{THINGS[row % 10]} story" == label for label in LABELS] for row in read])
    return titles & (not values.get("pseudo_own_title", True))


def pairs_of(task):
    return {*zip(task._pairs.rows.tolist(), task._pairs.columns.tolist(), strict=True)}


@pytest.mark.parametrize(
    ("values", "losses"),
    [
        ({"pseudo_mix": "sum", "pseudo_bm25": True, "pseudo_share": 0.5}, ["pseudo pairs"]),
        ({"pseudo_mix": "agreement", "pseudo_depth": 5, "min_pseudo_margin": 1e-4}, ["pseudo pairs"]),
        ({"hard_negatives": 2, "hard_first": 2, "hard_last": 6, "negative_margin": 0.01}, ["pseudo pairs"]),
        ({"pseudo_loss": "soft", "pseudo_replay": 0.5}, ["pseudo pairs", "replayed contrastive"]),
        ({"sentences": "punkt", "cached_tokens": 64, "finetune_replay": 0.5, "finetune_share": 0.7}, ["pseudo pairs"]),
    ],
)
def test_every_way_of_stage_two_learns_something_else(run, stories, plain_scores, values, losses):
    found, method = run(stories, pairs=stories[2], **values)
    assert method.notes["stage II"]["losses"] == losses
    assert ("replayed contrastive" in method.notes["fine-tuning"]["losses"]) == ("finetune_replay" in values)
    assert found.scores.tobytes() != plain_scores
    json.dumps(method.notes, allow_nan=False)


@pytest.fixture(scope="module")
def _plain():
    return {}


@pytest.fixture
def plain_scores(run, stories, _plain):
    if not _plain:
        _plain["scores"] = run(stories, pairs=stories[2])[0].scores.tobytes()
    return _plain["scores"]


@pytest.mark.parametrize(("length", "hint"), [(2, "maclr.pseudo_loss=equation-3 needs one"), (3, "lower maclr.soft")])
def test_lists_that_no_document_has(run, stories, length, hint):
    with pytest.raises(MethodError, match=f"no document has {length} pseudo labels") as caught:
        run((stories[0], stories[1][:1]), steps=0, pseudo_loss="soft", soft_labels=length)
    assert caught.value.hint.startswith(hint)


def test_ranks_that_hold_too_few_hard_negatives(checkpoint):
    MACLR(backbone=str(checkpoint()), hard_negatives=3, hard_first=5, hard_last=7).require()
    with pytest.raises(UsageError, match="hard_negatives = 4, but the ranks from hard_first = 5 to hard_last = 7"):
        MACLR(backbone=str(checkpoint()), hard_negatives=4, hard_first=5, hard_last=7).require()
    MACLR(backbone=str(checkpoint()), hard_first=60).require()  # without hard negatives, their ranks are not looked at


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        ({"pseudo_mix": "sum"}, 100),
        ({"pseudo_mix": "sum", "hard_last": 150}, 100),
        ({"pseudo_mix": "sum", "hard_last": 150, "hard_negatives": 1}, 150),
        ({"pseudo_mix": "agreement", "pseudo_depth": 20}, 20),
    ],
)
def test_a_margin_needs_a_label_behind_the_pseudo_labels(values, listed, checkpoint):
    """As many as a mix lists at most have none."""
    values = {"backbone": str(checkpoint()), "min_pseudo_margin": 0.1, **values}
    with pytest.raises(UsageError, match=r"maclr.min_pseudo_margin = 0.1 has no effect with pseudo_top = ") as refused:
        MACLR(pseudo_top=listed, **values).require()
    assert refused.value.hint == "set min_pseudo_margin=0"
    MACLR(pseudo_top=listed - 1, **values).require()
    MACLR(pseudo_top=listed, **{**values, "min_pseudo_margin": 0.0}).require()
    MACLR(pseudo_top=listed, **{**values, "pseudo_mix": "each"}).require()


def test_pseudo_labels_are_found_anew_before_each_round(run, stories):
    _, method = run(stories, pseudo_rounds=2)
    assert [method.notes[f"stage II, round {number}"]["steps"] for number in (1, 2)] == [1, 2]
    assert "stage II" not in method.notes


def test_no_round_without_a_step(run, stories):
    _, method = run(stories, pseudo_rounds=8)  # of three steps
    rounds = {name: note["steps"] for name, note in method.notes.items() if name.startswith("stage II")}
    assert rounds == {f"stage II, round {number}": 1 for number in (1, 2, 3)}
    assert run(stories, pseudo_rounds=8, pseudo_steps=1)[1].notes["stage II"]["steps"] == 1


def test_rounds_go_on_where_the_one_before_ended(run, stories, monkeypatch):
    """Other documents and another dropout, though each counts its steps from 0; the first is as if it were alone."""
    from xmcbench.methods.encoder.tower import Tower

    seen, original = [], Tower.train

    def watch(self, task, plan, identity, batch, **options):
        if identity["kind"] == "maclr stage II":
            views = task.draw(0)
            seen.append((plan.seed, [view.rows.tolist() for view in views.values()]))
        return original(self, task, plan, identity, batch, **options)

    monkeypatch.setattr(Tower, "train", watch)
    values = {"pseudo_steps": 9, "batch": 4, "pseudo_replay": 1.0, "pseudo_encoder": False}  # labels of TF-IDF stay
    for rounds in (1, 3):
        run(stories, seed=5, pseudo_rounds=rounds, **values)
    alone, first, *others = seen
    assert alone == first
    assert alone[0] == 5
    assert len({first[0], *(seed for seed, _ in others)}) == 3
    for place in range(len(first[1])):
        assert len({tuple(rows[place]) for _, rows in seen}) == 3, "views of instance, label and what is replayed"


def test_shares_of_weights(run, stories):
    """None of Stage II is Stage I; half of it lies half-way."""
    first = run(stories, pseudo_steps=0)[1].pretrained
    ends = {share: run(stories, pseudo_share=share)[1].pretrained for share in (0.0, 0.5, 1.0)}
    name = next(name for name in first if name.endswith("query.weight"))
    assert np.array_equal(ends[0.0][name], first[name])
    np.testing.assert_allclose(ends[0.5][name], (first[name] + ends[1.0][name]) / 2, atol=1e-6)
    assert not np.array_equal(ends[1.0][name], first[name])


def test_rows_of_one_budget_embed_as_many_texts():
    """Titles, contexts, twins, labels: what ICT, SimCSE and MACLR compute gradients of, to a hundredth."""
    for name, texts in TEXTS.items():
        for kind in (ICT, SimCSE, RTS, MACLR):
            method = kind(**kind.presets[name])
            assert method._passes() == pytest.approx(texts, rel=0.01), (name, kind)
            assert method.describe().endswith(" texts")


def test_what_a_step_of_maclr_embeds(run, stories, monkeypatch):
    """The number in a row's name is the number of texts that are embedded with a gradient."""
    from xmcbench.methods.encoder import contrastive

    counted = []

    def count(network, parts, device):
        counted.append(sum(len(rows) for _, rows in parts))
        return contrastive_embedded(network, parts, device)

    contrastive_embedded = contrastive.embed_parts
    monkeypatch.setattr(contrastive, "embed_parts", count)
    for values in ({}, {"hard_negatives": 1, "pseudo_replay": 1.0}, {"pseudo_loss": "soft"}, OFF):
        counted.clear()
        _, method = run(stories, **values)
        schedule = ["clusters_doubled_every", "clusters_updated_every"]
        budget = {"texts": sum(counted), "parameters": ["steps", "pseudo_steps", *schedule]}
        assert method._passes() == sum(counted), values
        assert method.notes["budget"] == budget, values


@pytest.mark.parametrize(
    ("kind", "values", "batches"),
    [
        (ICT, {}, {"training": 30}),
        (SimCSE, {}, {"training": 30}),
        (RTS, {"min_words": 2, "max_words": 4}, {"training": 40}),
        (MACLR, {"sampled_labels": 32, "pseudo_replay": 1.0}, {"stage I": 30}),
        (MACLR, {"pseudo_loss": "soft"}, {"stage I": 30, "stage II": 30}),
        (LMTX, {"relevant": 0.2, "rounds": 2, "checked": 3, "shortlist": 4}, {}),
    ],
)
def test_batches_that_the_corpus_does_not_fill(run, stories, monkeypatch, kind, values, batches):
    """The record says what was computed: batches as they were, and the texts of all of them."""
    from xmcbench.methods.encoder import contrastive

    counted, original = [0], contrastive.embed_parts

    def count(network, parts, device):
        counted[0] += sum(len(rows) for _, rows in parts)
        return original(network, parts, device)

    monkeypatch.setattr(contrastive, "embed_parts", count)
    monkeypatch.setattr(DualEncoder, "fit", lambda *_: None)
    monkeypatch.setattr(DualEncoder, "predict", lambda *_, **__: TopK.joined([], 7, len(STRANGE)))
    _, method = run(stories, kind, batch=256, **values)
    assert {name: method.notes[name]["batch"] for name in batches} == batches
    assert method.notes["budget"]["texts"] == counted[0] < method._passes()


def test_few_pairs_do_not_fill_a_batch(run, stories):
    for values, batch in (({}, 60), ({"finetune_balanced": True}, 10), ({"finetune_replay": 0.5}, 60)):
        _, method = run(stories, ICT, pairs=stories[2], finetune_batch=256, **values)
        assert method.notes["fine-tuning"]["batch"] == batch


def test_held_out_documents(run, stories):
    _, method = run(stories, held_out=8)
    found = method.notes["held-out titles"]
    assert list(found) == ["untrained", "stage I", "stage II"]
    drawn = method._context_pairs(method._tower, stories[0])
    rows = np.sort(np.random.default_rng([method.seed, 4]).permutation(30)[:8])
    shorter = [run(stories, held_out=8, pseudo_steps=0, steps=steps)[1] for steps in (0, SHARED["steps"])]
    expected = [
        fine_tuning.title_retrieval(model._tower.encoder, drawn.contexts, drawn.titles, rows)
        for model in (*shorter, method)
    ]
    assert [*found.values()] == expected
    assert expected[0] != expected[1] != expected[2]
    assert method.notes["pseudo pairs"]["documents"] == 22
    with pytest.raises(UsageError, match="held_out = 30 leaves none of the 30 documents"):
        run(stories, held_out=30)


def test_documents_without_a_context_keep_the_numbers_of_the_others(run, numbered, monkeypatch):
    """Pairs of Stage I have numbers of their own: clusters, held-out documents and pseudo labels are of documents."""
    from xmcbench.methods.maclr import first_stage, second_stage

    clustered, left_out = [], []

    def clusters_of(encoder, store, rows, *options):
        clustered.append(rows.tolist())
        return np.arange(len(rows))

    def visit(documents, held_out, *options):
        left_out.append(held_out.tolist())
        return original(documents, held_out, *options)

    def first_clusters(self, tower, documents, rows):
        return clusters_of(tower.encoder, documents, rows)

    original = second_stage.draw_visited
    monkeypatch.setattr(first_stage, "clusters_of", clusters_of)
    monkeypatch.setattr(MACLR, "_first_clusters", first_clusters)
    monkeypatch.setattr(second_stage, "draw_visited", visit)
    _, method = run(numbered, held_out=6)
    assert method.notes["documents_without_a_context"] == 4
    order = 4 + np.random.default_rng([method.seed, 4]).permutation(26)
    assert left_out == [sorted(order[:6].tolist())]
    assert len(clustered) > 1
    assert {*map(tuple, clustered)} == {tuple(sorted(order[6:].tolist()))}


@pytest.mark.parametrize("block", [1, 2])
def test_a_tie_counts_against_a_context(monkeypatch, block):
    """The first context is as near to both titles."""
    vectors = {"contexts": [[1, 0], [0, 1]], "titles": [[1, 0], [1, 1]]}

    def encode(encoder, store, out, rows):
        out[:] = vectors[store]

    monkeypatch.setattr(fine_tuning, "encode", encode)
    monkeypatch.setattr(fine_tuning, "_BLOCK", block)
    found = fine_tuning.title_retrieval(SimpleNamespace(width=2), "contexts", "titles", np.arange(2))
    assert found == {"hit@1": 0.5, "MRR": 0.75}


def test_held_out_documents_are_not_replayed(run, stories, monkeypatch):
    from xmcbench.methods.encoder import contrastive

    seen = set()
    draw = contrastive.InverseCloze.draw

    def watch(self, step):
        views = draw(self, step)
        seen.update(views["anchor"].rows.tolist())
        return views

    monkeypatch.setattr(contrastive.InverseCloze, "draw", watch)
    _, method = run(stories, held_out=25, pseudo_replay=1.0)
    assert method.notes["documents_without_a_context"] == 0
    order = np.random.default_rng([method.seed, 4]).permutation(30)
    assert seen == {*order[25:].tolist()}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"pseudo_mix": "agreement"}, "pseudo_mix"),
        ({"hard_negatives": 1}, "hard_negatives"),
        ({"min_pseudo_margin": 0.1}, "min_pseudo_margin"),
        ({"min_pseudo_score": 0.1}, "min_pseudo_score"),
        ({"pseudo_twice": True}, "pseudo_twice"),
    ],
)
def test_what_soft_targets_do_not_use_is_refused(values, name, checkpoint):
    """The hint names a value that is not refused."""
    with pytest.raises(UsageError, match=f"maclr.{name} = .* has no effect with pseudo_loss = soft") as refused:
        MACLR(pseudo_loss="soft", **values).require()
    fits = json.loads(refused.value.hint.rpartition("=")[2].replace("none", "null").replace("sum", '"sum"'))
    MACLR(backbone=str(checkpoint()), pseudo_loss="soft", **{name: fits}).require()


@pytest.mark.parametrize("mix", ["sum", "agreement"])
def test_a_pair_counts_twice_only_where_each_source_names_its_own(mix):
    with pytest.raises(UsageError, match=f"maclr.pseudo_twice = True has no effect with pseudo_mix = {mix}"):
        MACLR(pseudo_twice=True, pseudo_mix=mix).require()


@pytest.mark.parametrize(("mix", "hint"), [("agreement", "a larger pseudo_depth"), ("sum", "a lower min_pseudo_score")])
def test_no_pseudo_label_at_all(run, stories, mix, hint):
    with pytest.raises(MethodError, match="no document has a pseudo label") as refused:
        run(stories, pseudo_mix=mix, min_pseudo_score=1e6)
    assert refused.value.hint.startswith(hint)


def test_fewer_documents_than_clusters(run, stories):
    """K = min(K, N): each document its own cluster, which is equation 2."""
    _, few = run(stories, clusters=10**6, clusters_updated_every=1, **{**OFF, "adaptive_clustering": True})
    _, none = run(stories, **OFF)
    assert not list(few.artifacts.root.glob("embeddings/*"))
    for name, weights in none.pretrained.items():
        assert np.array_equal(few.pretrained[name], weights), name


def test_a_corpus_of_one(run):
    from scipy.sparse import csr_matrix

    tiny = Texts.from_lists(["apple"], ["The old. The new."]), Texts.from_lists(["apple"])
    run(tiny, pairs=csr_matrix([[1.0]]))
    with pytest.raises(MethodError, match="no document has a pseudo label"):
        run(tiny, pseudo_own_title=False)


def test_no_document_has_a_context(run, stories):
    titles = Texts.from_lists(list(stories[0].titles))
    with pytest.raises(MethodError, match="no document has a title and a content"):
        run((titles, stories[1]))


def test_fewer_labels_than_are_sampled(run, stories):
    all_of_them, _ = run(stories, sampled_labels=10)
    more, _ = run(stories, sampled_labels=1000)
    assert all_of_them.scores.tobytes() == more.scores.tobytes()


def test_a_ranking_without_the_own_title_is_no_shorter(run, stories, monkeypatch):
    """A row with room left would count as that of a source that ended early."""
    from xmcbench.methods.maclr import pseudo_pairs

    seen, original = [], pseudo_pairs.sum_scores
    monkeypatch.setattr(pseudo_pairs, "DEPTH", 4)

    def watch(sources, *arguments, **options):
        seen.extend(sources)
        return original(sources, *arguments, **options)

    monkeypatch.setattr(pseudo_pairs, "sum_scores", watch)
    items = Texts.from_lists(sorted(set(stories[0].titles)))
    run((stories[0], items), pseudo_own_title=False, pseudo_mix="sum", pseudo_tfidf=False)
    (ranking,) = seen
    assert ranking.k == 4
    assert (ranking.indices >= 0).all()


def test_labels_that_are_the_titles(run, stories):
    """Item to item: every title is a label."""
    items = Texts.from_lists(sorted(set(stories[0].titles)))
    _, kept = run((stories[0], items))
    _, dropped = run((stories[0], items), pseudo_own_title=False)
    assert kept.notes["pseudo pairs"] != dropped.notes["pseudo pairs"]
    assert kept.notes["pseudo pairs"]["encoder"] == dropped.notes["pseudo pairs"]["encoder"] == 72


def test_a_title_that_many_labels_have_does_not_deepen_rankings_without_limit(run, stories, monkeypatch):
    depths, nearest = [], MACLR._nearest_by_encoder

    def watch(self, tower, raw_X, raw_Y, depth):
        depths.append(depth)
        return nearest(self, tower, raw_X, raw_Y, depth)

    monkeypatch.setattr(MACLR, "_nearest_by_encoder", watch)
    monkeypatch.setattr("xmcbench.methods.maclr.self_training._OWN_TITLES", 20)
    first = stories[0].titles[0]
    for count in (5, 30):
        labels = Texts.from_lists([*sorted(set(stories[0].titles)), *[first] * count, *map(str, range(60))])
        run((stories[0], labels), pseudo_own_title=False, pseudo_top=3)
    assert depths == [4 + 6, 4 + 20]  # the title stands among the others once more


@pytest.mark.parametrize(
    "wrong",
    [{"label_temperature": 0.0}, {"clusters": 0}, {"sampled_labels": 0}, {"pseudo_top": 0}, {"title_dropout": 2.0}],
)
def test_parameters_out_of_range(run, stories, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        run(stories, **wrong)


def test_importing_it_is_light():
    heavy = ["torch", "transformers", "faiss", "accelerate", "pyarrow", "scipy", "tokenizers"]
    code = f"import sys, xmcbench.methods.maclr; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
