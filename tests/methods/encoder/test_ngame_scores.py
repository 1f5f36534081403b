"""NGAME: the score, and what the losses are given."""

from functools import partial

import numpy as np
import pytest

from xmcbench import Artifacts
from xmcbench.methods.deepxml import classifiers, losses
from xmcbench.methods.deepxml.classifiers import trained_classifiers
from xmcbench.methods.deepxml.losses import contrastive_loss
from xmcbench.methods.encoder import clustered_pairs
from xmcbench.methods.encoder.losses import triplet_loss
from xmcbench.methods.ngame import NGAME

QUICK = {
    "instance_length": 24,
    "label_length": 16,
    "finetune_steps": 2,
    "finetune_batch": 8,
    "cluster_size": 4,
    "classifier_epochs": 2,
    "classifier_rate": 5e-2,
}


@pytest.fixture
def fit(checkpoint, stories, tmp_path):
    def go(**values):
        method = NGAME(backbone=str(checkpoint()), **QUICK, **values)
        method.artifacts = Artifacts(tmp_path / "store")
        method.fit(*stories)
        return method

    return go


@pytest.mark.parametrize("fusion", [0.25, 0.8])
def test_the_score_is_the_fusion_of_vector_and_classifier(fit, stories, monkeypatch, fusion):
    kept = []

    def watched(documents, start, *rest, **options):
        found = trained_classifiers(documents, start, *rest, **options)
        kept.append((documents, start, found[0]))
        return found

    monkeypatch.setattr(classifiers, "trained_classifiers", watched)
    raw_X, raw_Y, pairs = stories
    method = fit(fusion=fusion)
    found = method.predict(raw_X, len(raw_Y))
    ((documents, vectors, trained),) = kept
    for each in kept[0]:
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), 1, rtol=1e-5)
    known = np.flatnonzero(np.diff(pairs.indptr))
    for query, row in zip(documents, known, strict=True):
        for label, score in zip(found.indices[row], found.scores[row], strict=True):
            expected = (1 - fusion) * (query @ vectors[label]) + fusion * (query @ trained[label])
            assert score == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert not np.allclose(vectors, trained, atol=1e-2)


def test_the_losses_have_their_parameters(fit, monkeypatch):
    given = []

    def noted(name, loss, *arguments, **options):
        given.append((name, *[each for each in arguments if isinstance(each, int | float)], options))
        return loss(*arguments, **options)

    monkeypatch.setattr(clustered_pairs, "triplet_loss", partial(noted, "triplet", triplet_loss))
    monkeypatch.setattr(losses, "contrastive_loss", partial(noted, "classifiers", contrastive_loss))
    fit(margin=0.45, hardest=3, c=0.6, d=7.0)
    assert {str(each) for each in given} == {
        str(("triplet", 0.45, 3, {})),
        str(("classifiers", {"c": 0.6, "d": 7.0})),
    }


def test_notes_say_how_shortlists_were_found(fit, stories):
    assert fit().notes["classifiers"]["search"] == {"index": "exact", "items": len(stories[1])}
