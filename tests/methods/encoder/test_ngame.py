"""NGAME: batches of clusters, the hinge on hard labels, classifiers on top, the score, and edge cases."""

from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from xmcbench import MethodError, UsageError
from xmcbench.methods.deepxml import classifiers
from xmcbench.methods.deepxml.classifiers import contrastive_loss, fit_classifiers
from xmcbench.methods.encoder import clustering
from xmcbench.methods.encoder.clustering import ClusteredPairs, Mining, PairLoss, cluster_evenly
from xmcbench.methods.encoder.contrastive import Vectors, triplet_loss
from xmcbench.methods.encoder.network import Encoder
from xmcbench.methods.ngame import NGAME

QUICK = {
    "instance_length": 24,
    "label_length": 16,
    "finetune_steps": 6,
    "finetune_batch": 8,
    "finetune_rate": 1e-3,
    "clusters_updated_every": 3,
    "cluster_size": 4,
    "classifier_epochs": 3,
}


@given(st.integers(0, 70), st.integers(1, 9), st.integers(0, 99))
@settings(deadline=None)
def test_clusters_are_equal_to_within_one_at_each_split(count, size, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)
    found = cluster_evenly(vectors, size, seed)
    sizes = sorted(Counter(found.tolist()).values())

    def halve(rows):
        return [rows] if rows <= size else sorted(halve(rows // 2) + halve(rows - rows // 2))

    assert sizes == (halve(count) if count else [])
    assert {*found.tolist()} == set(range(len(sizes)))


def test_clusters_hold_what_is_alike():
    rng = np.random.default_rng(0)
    centers = np.eye(4, dtype=np.float32)
    vectors = np.repeat(centers, 8, axis=0) + 0.05 * rng.standard_normal((32, 4)).astype(np.float32)
    order = rng.permutation(32)
    found = cluster_evenly(vectors[order], 8, 1)
    assert all(len({*(order[found == cluster] // 8).tolist()}) == 1 for cluster in range(4))
    with pytest.raises(MethodError, match="NaN or infinite"):
        cluster_evenly(np.full((3, 2), np.nan, np.float32), 2, 0)


def test_the_hinge_equals_its_transcription(batch):
    cosines, own, true = batch
    for hardest in (1, 2, 99):
        costs = []
        for row in range(5):
            negatives = sorted(
                (cosines[row, j] for j in range(6) if not own[row, j] and not true[row, j]), reverse=True
            )
            hinges = [max(0.0, 0.3 - cosines[row][own[row]][0] + cosine) for cosine in negatives[:hardest]]
            costs.append(sum(hinges) / len(hinges) if hinges else 0.0)
        tensors = map(torch.from_numpy, batch)
        assert triplet_loss(*tensors, 0.3, hardest).item() == pytest.approx(np.mean(costs))


def test_the_gradient_of_the_hinge():
    cosines = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    own = torch.eye(4, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda products: triplet_loss(products, own, own, 2.5, 3), (cosines,))


@pytest.fixture
def task(token_pairs):
    stores, dense = token_pairs()

    def make(batch=6, seed=0, kind="triplet"):
        loss = PairLoss(kind, 0.3, 10, 0.05)
        return ClusteredPairs(*stores, csr_matrix(dense.astype(np.float32)), batch, Mining(3, 4), loss, seed)

    return make, dense


def test_a_batch_takes_whole_clusters_and_every_document_once_an_epoch(task):
    made, dense = task
    one = made()
    one.resume({"clusters": np.arange(20) // 3})
    steps = [one.draw(step) for step in range(6)]
    for first in (0, 3):
        rows = np.concatenate([step["anchor"].rows for step in steps[first : first + 3]])
        assert len({*rows.tolist()}) == 18
        in_order = (rows // 3).tolist()
        changes = sum(a != b for a, b in pairwise(in_order))
        assert changes == len({*in_order}) - 1  # documents of a cluster stand together
    for step in steps:
        assert dense[step["anchor"].rows, step["positive"].rows].all()
    orders = [np.concatenate([steps[first + i]["anchor"].rows for i in range(3)]).tolist() for first in (0, 3)]
    assert orders[0] != orders[1]
    again = made()
    again.resume(one.state())
    assert again.draw(4)["anchor"].rows.tolist() == steps[4]["anchor"].rows.tolist()
    assert again.draw(4)["positive"].rows.tolist() == steps[4]["positive"].rows.tolist()
    drawn = [tuple(made(seed=seed).draw(0)["positive"].rows.tolist()) for seed in range(4)]
    assert len({*drawn}) > 1


def test_clusters_are_made_again_between_epochs(task, monkeypatch):
    """Every 4 steps would be amid an epoch of 3: it is done every 6."""
    made, _ = task
    one, at = made(), []

    def cluster(network, instances, rows, context, halved):
        at.append(now)
        return np.random.default_rng(len(at)).permutation(20) // 3

    monkeypatch.setattr(clustering, "cluster_texts", cluster)
    rows = []
    for now in range(12):
        one.prepare(now, Encoder.__new__(Encoder), None)
        rows.append(one.draw(now)["anchor"].rows)
    assert at == [0, 6]
    for first in range(0, 12, 3):
        assert len({*np.concatenate(rows[first : first + 3]).tolist()}) == 18


@pytest.mark.parametrize("values", [{"negatives": "all"}, {"finetune_balanced": True}])
def test_what_clusters_replace_is_refused(values):
    with pytest.raises(UsageError, match="NGAME draws its batches from clusters"):
        NGAME(**values).require()


@pytest.mark.parametrize("kind", ["triplet", "contrastive"])
def test_own_labels_of_a_document_are_no_negatives(task, kind):
    """Moving a vector that stands for another true label of a document changes nothing for it."""
    made, dense = task
    one = made(kind=kind)
    one.resume({"clusters": np.arange(20) // 3})
    views = one.draw(0)
    true = dense[views["anchor"].rows][:, views["positive"].rows]
    row, column = next((i, j) for i, j in np.argwhere(true).tolist() if i != j)
    vectors = torch.nn.functional.normalize(torch.rand(6, 4, generator=torch.manual_seed(0)), dim=1)
    labels = vectors.clone().requires_grad_()
    anchors = vectors[row : row + 1]
    found = one.compare(0, views, {"anchor": Vectors(anchors, anchors, row), "positive": Vectors(labels, labels, row)})
    found[kind].sum().backward()
    assert labels.grad[column].abs().sum() == 0
    assert labels.grad[row].abs().sum() > 0


@pytest.fixture
def run(fit_and_predict):
    return partial(fit_and_predict, NGAME, QUICK)


def test_a_head_with_inner_products_is_refused(run):
    """The margin is one of cosines, and so is the score of a classifier."""
    with pytest.raises(UsageError, match="ngame compares by cosine, and .* with head=paper by inner product") as raised:
        run(head="paper")
    with pytest.raises(UsageError, match="ngame compares by cosine"):
        run(head="paper", finetune_steps=0)
    assert raised.value.hint == "head=cls compares by cosine"


def test_pairs_teach_encoder_and_classifiers(run, stories):
    pairs = stories[2].toarray()

    def hits(**values):
        return np.take_along_axis(pairs, run(k=1, **values)[0].indices, 1).mean()

    untrained = hits(finetune_steps=0, classifier_epochs=0)
    taught = hits(finetune_steps=80, finetune_rate=5e-3, classifier_epochs=0)
    # A vector of 16 values would lose too many by the default dropout.
    classified = hits(finetune_steps=0, classifier_epochs=60, classifier_rate=5e-2, classifier_dropout=0.2, fusion=1.0)
    assert taught > untrained + 0.2
    assert classified > untrained + 0.2


def test_equal_runs_are_equal_and_a_seed_is_another(run):
    first, method = run()
    assert first.scores.tobytes() == run()[0].scores.tobytes()
    assert [*method.notes["fine-tuning"]["losses"]] == ["triplet"]
    assert method.notes["classifiers"]["curve"][-1][0] == 3
    assert not np.array_equal(first.scores, run(pair_loss="contrastive")[0].scores)
    assert not np.array_equal(first.scores, run(fusion=0.0)[0].scores)
    assert not np.array_equal(first.scores, run(classifier_dropout=0.1)[0].scores)


def test_parameters_reach_the_trainings(run, monkeypatch):
    given = []

    def list_candidates(documents, labels, pairs, shortlist, *options):
        given.append(shortlist)
        return shortlisted_of(documents, labels, pairs, shortlist, *options)

    def fit(*arguments, **options):
        loss = arguments[4]
        given.append({**loss.keywords, **{name: options[name] for name in ("batch", "epochs", "rate", "dropout")}})
        return fit_classifiers(*arguments, **options)

    class Watched(ClusteredPairs):
        def __init__(self, instances, labels, pairs, batch, mining, loss, seed):
            given.append((batch, mining, loss, seed))
            super().__init__(instances, labels, pairs, batch, mining, loss, seed)

    shortlisted_of = classifiers.list_candidates
    monkeypatch.setattr(classifiers, "list_candidates", list_candidates)
    monkeypatch.setattr(classifiers, "fit_classifiers", fit)
    monkeypatch.setattr(clustering, "ClusteredPairs", Watched)
    run(
        cluster_size=3,
        clusters_updated_every=5,
        margin=0.4,
        hardest=2,
        temperature=0.3,
        shortlist=6,
        classifier_epochs=2,
        classifier_rate=0.003,
        classifier_dropout=0.15,
        c=0.8,
        d=2.0,
    )
    assert given == [
        (8, Mining(3, 5), PairLoss("triplet", 0.4, 2, 0.3), 0),
        6,
        {"c": 0.8, "d": 2.0, "batch": 256, "epochs": 2, "rate": 0.003, "dropout": 0.15},
    ]


@pytest.mark.parametrize("fusion", [0.25, 0.8])
def test_the_score_is_the_fusion_of_vector_and_classifier(run, stories, monkeypatch, fusion):
    kept = []

    def watch(documents, start, *rest, **options):
        found = fit_classifiers(documents, start, *rest, **options)
        kept.append((documents, start, found[0]))
        return found

    monkeypatch.setattr(classifiers, "fit_classifiers", watch)
    _, raw_Y, pairs = stories
    found, _ = run(k=len(raw_Y), fusion=fusion, classifier_rate=5e-2)
    ((documents, vectors, trained),) = kept
    for matrix in kept[0]:
        np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1, rtol=1e-5)
    known = np.flatnonzero(np.diff(pairs.indptr))
    for query, row in zip(documents, known, strict=True):
        for label, score in zip(found.indices[row], found.scores[row], strict=True):
            expected = (1 - fusion) * (query @ vectors[label]) + fusion * (query @ trained[label])
            assert score == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert not np.allclose(vectors, trained, atol=1e-2)


def test_the_losses_have_their_parameters(run, monkeypatch):
    given = []

    def note(name, loss, *arguments, **options):
        given.append((name, *[argument for argument in arguments if isinstance(argument, int | float)], options))
        return loss(*arguments, **options)

    monkeypatch.setattr(clustering, "triplet_loss", partial(note, "triplet", triplet_loss))
    monkeypatch.setattr(classifiers, "contrastive_loss", partial(note, "classifiers", contrastive_loss))
    run(margin=0.45, hardest=3, c=0.6, d=7.0)
    assert {str(call) for call in given} == {
        str(("triplet", 0.45, 3, {})),
        str(("classifiers", {"c": 0.6, "d": 7.0})),
    }


def test_notes_say_how_shortlists_were_found(run, stories):
    _, method = run()
    assert method.notes["classifiers"]["search"] == {"index": "exact", "items": len(stories[1])}
