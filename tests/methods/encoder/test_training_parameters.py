"""Parameters of a method in the task and the plan that its tower receives."""

import numpy as np
import pytest

from xmcbench import Artifacts
from xmcbench.methods.dexml import DEXML
from xmcbench.methods.encoder.batches import BalancedEpochs, Epochs
from xmcbench.methods.encoder.tower import Tower
from xmcbench.methods.ict import ICT
from xmcbench.methods.maclr import MACLR, first_stage
from xmcbench.methods.ngame import NGAME
from xmcbench.methods.rts import RTS
from xmcbench.methods.sentbert import SentBERT
from xmcbench.methods.simcse import SimCSE

PRETRAINED = [SimCSE, RTS, ICT, MACLR]


@pytest.fixture
def trainings(checkpoint, stories, tmp_path, monkeypatch):
    """The (task, plan, batch, options) of each training of a method, none of which is done."""

    def of(kind, pairs=None, **values):
        found = []
        monkeypatch.setattr(
            Tower,
            "train",
            lambda self, task, plan, identity, batch, **options: found.append((task, plan, batch, options)) or {},
        )
        method = kind(backbone=str(checkpoint()), instance_length=24, **values)
        method.seed, method.artifacts = 3, Artifacts(tmp_path / "store")
        if kind in PRETRAINED:
            method.pretrained = method.pretrain(*stories[:2])
        method.fit(*stories[:2], pairs)
        return found

    return of


@pytest.mark.parametrize(("clip", "warmup"), [(None, 0.0), (8.0, 0.25)])
@pytest.mark.parametrize("kind", [SentBERT, *PRETRAINED])
def test_every_plan_has_clip_warmup_and_seed(trainings, stories, kind, clip, warmup):
    values = {"steps": 12, "batch": 6, "learning_rate": 1e-3} if kind in PRETRAINED else {}
    own = {"pseudo_steps": 12, "adaptive_clustering": False} if kind is MACLR else {}
    tuned = {"finetune_steps": 7, "finetune_batch": 5, "finetune_rate": 1e-4}
    found = trainings(kind, stories[2], clip=clip, warmup=warmup, **values, **own, **tuned)
    assert {(plan.clip, plan.warmup, plan.seed) for _, plan, _, _ in found} == {(clip, warmup, 3)}
    *before, last = [(plan.steps, plan.learning_rate, batch) for _, plan, batch, _ in found]
    assert before == [(12, 1e-3, 6)] * {SentBERT: 0, MACLR: 2}.get(kind, 1)
    assert last == (7, 1e-4, 5)


@pytest.mark.parametrize("negatives", ["all", "untrue"])
def test_negatives(trainings, stories, negatives):
    """In both stages of MACLR and in fine-tuning."""
    first, second, tuned = (
        task for task, *_ in trainings(MACLR, stories[2], negatives=negatives, steps=2, pseudo_steps=2, batch=6)
    )
    assert first._regularization.negatives == second._negatives == tuned._negatives == negatives


@pytest.mark.parametrize(("balanced", "kind"), [(True, BalancedEpochs), (False, Epochs)])
def test_balanced_draws(trainings, stories, balanced, kind):
    ((task, *_),) = trainings(SentBERT, stories[2], finetune_balanced=balanced)
    assert type(task._epochs) is kind


@pytest.mark.parametrize(
    ("values", "steps", "rate"),
    [
        ({}, 40, 1e-4),
        ({"finetune_growth": "labels"}, 4000, 1e-4),  # 40 for each hundredth of the labels, all of which are known
        ({"finetune_epochs": 0.5}, 4, 1e-4),  # half of 60 pairs, in batches of 8
        ({"finetune_full_rate": 240}, 40, 5e-5),  # a quarter of the pairs, half of the rate
    ],
)
def test_the_effort_of_fine_tuning(trainings, stories, values, steps, rate):
    common = {"finetune_steps": 40, "finetune_batch": 8, "finetune_rate": 1e-4}
    ((_, plan, batch, options),) = trainings(SentBERT, stories[2], **common, **values)
    assert (plan.steps, batch, options["share"]) == (steps, 8, 1.0)
    assert plan.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(
    ("kind", "values", "batch"),
    [(SentBERT, {"finetune_balanced": True}, 10), (NGAME, {"classifier_epochs": 0}, 30), (DEXML, {}, 30)],
)
def test_passes_over_the_pairs_in_batches_smaller_than_asked_for(trainings, stories, kind, values, batch):
    """Of all labels, or of all documents: two passes over 60 pairs."""
    ((task, plan, *_),) = trainings(kind, stories[2], finetune_epochs=2.0, finetune_batch=64, **values)
    assert task.batch == batch
    assert plan.steps * batch == 2 * 60


def test_a_share_of_fine_tuning(trainings, stories):
    ((_, _, _, options),) = trainings(SentBERT, stories[2], finetune_share=0.25)
    assert options["share"] == 0.25


@pytest.mark.parametrize(("head", "expected"), [("native", (0.3, 0.7)), ("paper", (1.0, 1.0))])
def test_temperatures(trainings, stories, head, expected):
    """Cosines are divided, inner products are not."""
    values = {"steps": 2, "pseudo_steps": 2, "batch": 6, "head": head}
    found = trainings(MACLR, stories[2], temperature=0.3, label_temperature=0.7, **values)
    assert {task._temperature for task, *_ in found} == {expected[0]}
    assert found[0][0]._regularization.temperature == expected[1]
    ((task, *_),) = trainings(RTS, temperature=0.3, steps=2, batch=6, head=head)
    assert task._temperature == expected[0]


def test_k_means(checkpoint, stories, tmp_path, monkeypatch):
    """Its restarts and points, at the first clusters and at the later ones."""
    asked, original = [], first_stage.k_means

    def watch(vectors, count, restarts, points, device):
        asked.append((count, restarts, points))
        return original(vectors, count, restarts, points, device)

    monkeypatch.setattr(first_stage, "k_means", watch)
    method = MACLR(
        backbone=str(checkpoint()),
        steps=8,
        batch=8,
        pseudo_steps=0,
        clusters=3,
        clusters_doubled_every=2,
        clusters_updated_every=2,
        kmeans_restarts=2,
        kmeans_points=7,
    )
    method.artifacts = Artifacts(tmp_path / "store")
    method.pretrain(*stories[:2])
    assert asked == [(3, 2, 7), (6, 2, 7)]
    assert method.notes["clusters"] == [[0, 3], [2, 6], [4, None]]


def test_regularization(trainings, stories):
    (first, *_), *_ = trainings(MACLR, steps=2, pseudo_steps=2, batch=6, sampled_labels=4, twins="cluster")
    assert (first._regularization.sampled, first._regularization.twins) == (4, "cluster")
    assert len(first.draw(0)["label"].rows) == 4


def test_stage_two(trainings, stories):
    values = {"hard_negatives": 2, "hard_first": 2, "hard_last": 6, "negative_margin": 0.1}
    *_, (second, *_) = trainings(MACLR, steps=2, pseudo_steps=2, batch=6, pseudo_loss="equation-2", **values)
    assert (second._loss, second._margin) == ("equation-2", 0.1)
    assert (second._hard.count, second._hard.first, second._hard.last) == (2, 2, 6)
    *_, (soft, *_) = trainings(
        MACLR, steps=2, pseudo_steps=2, batch=6, pseudo_loss="soft", soft_labels=3, soft_sharpness=0.5
    )
    assert soft._lists.shape[1] == 3
    teacher = soft._targets[soft._rows].astype(np.float64)
    *_, (sharper, *_) = trainings(
        MACLR, steps=2, pseudo_steps=2, batch=6, pseudo_loss="soft", soft_labels=3, soft_sharpness=0.25
    )
    expected = teacher**2 / (teacher**2).sum(1, keepdims=True)
    np.testing.assert_allclose(sharper._targets[sharper._rows], expected, atol=1e-6)
