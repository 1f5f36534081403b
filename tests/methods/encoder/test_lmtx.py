"""LMTX: the loss, what a judge is asked, what is learned from its answers, and when the rounds end."""

from collections import Counter

import numpy as np
import pytest
import torch
from fake_server import completion
from scipy.sparse import csr_matrix

from xmcbench import Artifacts, LabelTexts, MethodError, Texts, UsageError
from xmcbench.data.sources.source import Details
from xmcbench.methods.encoder.clustering import ClusteredPairs, PairLoss
from xmcbench.methods.encoder.contrastive import triplet_loss
from xmcbench.methods.lmtx import LMTX, LexicalJudge
from xmcbench.methods.rerank.judgments import FILE

NEW = Texts.from_lists(["the old apple", "red bridge and green island"], ["candle forest", "garden"])


@pytest.fixture
def quick(checkpoint):
    return {
        "backbone": str(checkpoint()),
        "precision": "fp32",
        "instance_length": 24,
        "label_length": 16,
        "steps": 6,
        "batch": 8,
        "rounds": 2,
        "shortlist": 4,
        "checked": 0,
        "relevant": 0.2,
        "learning_rate": 1e-3,
    }


def test_the_loss_equals_its_transcription(batch):
    cosines, own, true = batch
    for hardest in (1, 3, 6):
        costs = []
        for row in range(5):
            negatives = [cosines[row, j] for j in range(6) if not own[row, j] and not true[row, j]]
            negatives = (sorted(negatives, reverse=True) + [None] * 6)[:hardest]
            positive = cosines[row][own[row]][0]
            hinges = [max(0.0, 0.3 - positive + cosine) if cosine is not None else 0.0 for cosine in negatives]
            shares = [np.exp(cosine / 0.1) if hinge else 1.0 for cosine, hinge in zip(negatives, hinges, strict=True)]
            costs.append(sum(share * hinge for share, hinge in zip(shares, hinges, strict=True)) / sum(shares))
        tensors = map(torch.from_numpy, batch)
        assert triplet_loss(*tensors, 0.3, hardest, 0.1).item() == pytest.approx(np.mean(costs))


def test_a_batch_has_documents_in_random_order_and_a_relevant_label_of_each(token_pairs):
    stores, dense = token_pairs()
    loss = PairLoss("triplet", 0.3, 10, sharpness=0.1)
    task = ClusteredPairs(*stores, csr_matrix(dense.astype(np.float32)), 6, None, loss, 0)
    steps = [task.draw(step) for step in range(6)]
    for first in (0, 3):
        rows = np.concatenate([step["anchor"].rows for step in steps[first : first + 3]])
        assert len({*rows.tolist()}) == 18
        assert rows.tolist() != sorted(rows.tolist())
    for step in steps:
        assert dense[step["anchor"].rows, step["positive"].rows].all()
    drawn = Counter(
        (row, label) for step in steps for row, label in zip(*(view.rows for view in step.values()), strict=True)
    )
    assert max(Counter(row for row, _ in drawn).values()) == 2  # another label at another visit


def test_the_lexical_judge_is_the_cosine_of_tfidf(stories, artifacts):
    from sklearn.feature_extraction.text import TfidfVectorizer

    judge = LexicalJudge(artifacts, *stories[:2])
    pairs = [(stories[0][3], stories[1][3]), (stories[0][0], stories[1][5]), (stories[0][3], stories[1][6])]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2)).fit([*stories[0], *stories[1]])
    documents, labels = (vectorizer.transform(side).toarray() for side in zip(*pairs, strict=True))
    found = dict(judge.judge(pairs))
    assert [found[place] for place in range(3)] == pytest.approx((documents * labels).sum(axis=1), abs=1e-6)
    other = LexicalJudge(artifacts, stories[0].take(np.arange(5)), stories[1])
    assert other.identity != judge.identity


def test_the_encoder_learns_what_the_judge_calls_relevant(quick, stories, artifacts, monkeypatch):
    taught = []

    def learn(self, tower, teacher, rows, found, plan, name):
        taught.append((rows, found.toarray(), plan))
        return original(self, tower, teacher, rows, found, plan, name)

    original = LMTX._learn
    monkeypatch.setattr(LMTX, "_learn", learn)
    method = LMTX(**quick, documents=12)
    method.artifacts = artifacts
    weights = method.pretrain(*stories[:2])
    judge = LexicalJudge(artifacts, *stories[:2])
    for rows, found, plan in taught:
        assert (len(rows), plan.steps) == (12, 3)
        assert 0 < found.sum(axis=1).max() <= 4
        for row, labels in zip(rows, found, strict=True):
            pairs = [(stories[0][int(row)], name) for name in stories[1]]
            scores = dict(judge.judge(pairs))
            assert all(scores[label] >= 0.2 for label in np.flatnonzero(labels))
    assert taught[0][2].seed != taught[1][2].seed
    assert taught[0][0].tolist() == taught[1][0].tolist()
    notes = method.notes
    assert [said["pairs"] for said in notes["rounds"]] == [int(found.sum()) for _, found, _ in taught]
    assert "judge" not in notes["judgments"]  # it costs nothing that a board would show
    assert 0 < notes["judgments"]["asked"] < 2 * 12 * 4
    assert notes["judgments"]["kept"] == 0
    assert [len(notes[f"round {number}"]["curve"]) for number in (1, 2)] == [3, 3]
    assert weights


def test_a_round_starts_with_the_checkpoint_or_with_the_round_before(quick, stories, tmp_path, monkeypatch):
    started = {}

    def learn(self, tower, *rest):
        started.setdefault(self.fresh, []).append(tower.encoder.digest())
        return original(self, tower, *rest)

    original = LMTX._learn
    monkeypatch.setattr(LMTX, "_learn", learn)
    for fresh in (True, False):
        method = LMTX(**quick, fresh=fresh)
        method.artifacts = Artifacts(tmp_path / "store")
        method.pretrain(*stories[:2])
    assert len({*started[True]}) == 1
    assert len({*started[False]}) == 2
    assert started[True][0] == started[False][0]


def test_rounds_end_where_the_judge_sees_no_progress(quick, stories, tmp_path):
    def pretrain(**values):
        method = LMTX(**{**quick, **values})
        method.artifacts = Artifacts(tmp_path / "store")
        return method.pretrain(*stories[:2]), method.notes["rounds"]

    weights, rounds = pretrain(rounds=6, checked=30)
    shares = [said["relevant first labels"] for said in rounds]
    assert len(shares) < 6
    assert shares[-1] <= max(shares[:-1])
    assert shares[:-1] == sorted(shares[:-1])
    # The encoder of the best round is taken, not that of the last one.
    best, all_rounds = len(rounds) - 1, {"rounds": 6, "checked": 0, "steps": 6}
    alone, _ = pretrain(**{**all_rounds, "rounds": best, "steps": best})
    assert all(np.array_equal(weights[name], alone[name]) for name in weights)


@pytest.mark.parametrize("label_text", ["title", "content"])
def test_own_titles_are_judged_or_not(quick, artifacts, stories, monkeypatch, label_text):
    titles = [*stories[1].titles, "apple story"]
    details = [Details((), f"all about {title}") for title in titles]
    labels = LabelTexts.with_details(titles, details, [*map(str, range(len(titles)))])
    asked = []
    original = LexicalJudge.judge
    monkeypatch.setattr(LexicalJudge, "judge", lambda self, pairs: asked.extend(pairs) or original(self, pairs))
    counts = {}
    for own_title in (True, False):
        asked.clear()
        method = LMTX(**{**quick, "shortlist": 11}, own_title=own_title, label_text=label_text)
        method.artifacts = Artifacts(artifacts.root / str(own_title))
        method.pretrain(stories[0], labels)
        counts[own_title] = sum(
            document.startswith("apple story") and label.startswith("apple story") for document, label in asked
        )
    assert counts[True] > 0 == counts[False]


def test_each_round_has_a_step(quick, artifacts, stories):
    method = LMTX(**{**quick, "steps": 2, "rounds": 6})
    method.artifacts = artifacts
    method.pretrain(*stories[:2])
    assert [method.notes[f"round {number}"]["steps"] for number in (1, 2)] == [1, 1]
    assert len(method.notes["rounds"]) == 2


def test_a_run_that_was_killed_asks_only_for_the_rest(quick, fake, stories, tmp_path):
    """The server refuses in the second round; what it answered before, and what round 1 taught, is not done again."""

    def pretrain(root, **values):
        method = LMTX(**{**quick, **values}, judge="judge-7b", judge_url=fake.url, judge_batch=1)
        method.artifacts = Artifacts(tmp_path / root)
        return method.pretrain(*stories[:2]), method.notes

    pretrain("first", rounds=1, documents=24)
    first = len(fake.seen)
    fake.seen.clear()
    undisturbed, notes = pretrain("whole")
    asked = len(fake.seen)
    assert len({str(request["messages"]) for _, request, _ in fake.seen}) == asked == notes["judgments"]["asked"]
    assert notes["judgments"]["judge"] == "judge-7b"
    assert notes["judgments"]["requests"] == asked
    assert notes["judgments"]["kept"] == 0
    assert notes["judge"] == {"name": "judge-7b", "source": "a server", "sha256": ""}
    assert asked > first + 1
    fake.seen.clear()
    fake.trouble = [None] * (first + 1) + [(400, {})] * 99
    with pytest.raises(MethodError, match="HTTP 400"):
        pretrain("killed")
    fake.trouble, before = [], len(fake.seen)
    again, notes = pretrain("killed")
    refused = before - first - 1
    assert 1 <= refused <= 2  # a second one was on its way
    assert len(fake.seen) == asked + refused
    assert (notes["judgments"]["asked"], notes["judgments"]["kept"]) == (asked - first - 1, first + 1)
    assert all(np.array_equal(again[name], undisturbed[name]) for name in undisturbed)
    # From a file, without the server.
    kept = tmp_path / "kept.jsonl"
    kept.write_bytes(b"".join(file.read_bytes() for file in (tmp_path / "whole").rglob(FILE)))
    method = LMTX(**quick, judge="judge-7b", judge_url="http://localhost:1/v1", judgments=str(kept))
    method.artifacts = Artifacts(tmp_path / "file")
    found = method.pretrain(*stories[:2])
    assert (method.notes["judgments"]["asked"], method.notes["judgments"]["kept"]) == (0, asked)
    assert all(np.array_equal(found[name], undisturbed[name]) for name in undisturbed)


def test_with_pairs_it_is_fine_tuned(quick, stories, artifacts):
    method = LMTX(**quick, finetune_steps=3, finetune_batch=8)
    method.artifacts = artifacts
    method.pretrained = method.pretrain(*stories[:2])
    method.fit(*stories)
    assert method.notes["fine-tuning"]["steps"] == 3
    method.predict(NEW, 5).check(2, 5, 10)


@pytest.mark.parametrize("name", ["judge_url", "judgments", "instruction", "judge_length"])
def test_what_the_lexical_judge_has_no_use_for(quick, name):
    with pytest.raises(UsageError, match=f"lmtx.{name} has no effect with the lexical judge"):
        LMTX(**quick, **{name: 8 if name == "judge_length" else "http://localhost:1"}).require()


def test_a_judge_that_calls_nothing_relevant(quick, fake, stories, artifacts):
    fake.answer = lambda request: completion(0.1)
    method = LMTX(**quick, judge="strict", judge_url=fake.url)
    method.artifacts = artifacts
    with pytest.raises(MethodError, match=r"calls no label of 24 documents relevant .*lmtx.relevant"):
        method.pretrain(*stories[:2])


def test_inner_products_are_refused(quick, stories, artifacts):
    method = LMTX(**quick, head="paper")
    method.artifacts = artifacts
    with pytest.raises(UsageError, match="lmtx compares by cosine"):
        method.pretrain(*stories[:2])


def test_a_cross_encoder_teaches(quick, language_model, stories, artifacts):
    folder = language_model()
    method = LMTX(**{**quick, "relevant": 0.0, "rounds": 1}, judge=str(folder), documents=8)
    method.artifacts = artifacts
    method.require()
    method.pretrain(*stories[:2])
    assert method.notes["judge"]["name"] == "language-model"
    assert {"judge", "backbone"} <= {*method.inputs()}
    assert method.describe().endswith("judge language-model")
