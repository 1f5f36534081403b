import json
from contextlib import suppress

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from xmcbench import Artifacts, UsageError
from xmcbench.methods.encoder.backbone import find_backbone
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.scratch import MaskedLanguageModel, MaskedWords
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.training import TrainingPlan, train


def scratch(artifacts, stories, name="scratch:1x32", steps=12, seed=0):
    return find_backbone(name, artifacts, stories[0], stories[1], seed=seed, mlm_steps=steps)


def test_learns_words_from_the_corpus_alone(artifacts, stories):
    found = scratch(artifacts, stories, steps=150)
    assert found.source == "trained on the corpus, 150 steps"
    tokens = open_tokenizer(found.folder)(["The old apple", "bridge"], 16)
    assert [len(text) for text in tokens] == [5, 3]
    assert (tokens[0][0], tokens[0][-1]) == (2, 3)
    curve = json.loads((found.folder / "history.json").read_text())["curve"]
    assert curve[-1][1] < 0.7 * curve[0][1]
    assert open_encoder(found.folder, "paper", 0).width == 512


def test_the_same_from_one_seed_and_another_from_another(tmp_path, stories):
    first, again, other = (
        scratch(Artifacts(tmp_path / name), stories, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first.sha256 == again.sha256 != other.sha256
    tokenizers = {open_tokenizer(backbone.folder).sha256 for backbone in (first, again, other)}
    assert len(tokenizers) == 1


def test_made_once(artifacts, stories):
    first = scratch(artifacts, stories)
    assert scratch(artifacts, stories).folder == first.folder
    assert scratch(artifacts, stories, "scratch:2x32").folder != first.folder


def test_made_once_whatever_computes_it(artifacts, stories):
    """Pre-trainings hold what they changed of one checkpoint, and are kept without device and precision, too."""
    first = scratch(artifacts, stories)
    again = find_backbone(
        "scratch:1x32", artifacts, stories[0], stories[1], mlm_steps=12, device="cuda", precision="bf16"
    )
    assert (again.folder, again.sha256) == (first.folder, first.sha256)


@pytest.mark.parametrize("name", ["scratch:0x32", "scratch:1x33", "scratch:1x16", "scratch:2x416"])
def test_a_shape_that_is_invalid(artifacts, stories, name):
    with pytest.raises(UsageError, match="is not a valid encoder"):
        scratch(artifacts, stories, name)


def test_no_step_of_warming_up(artifacts, stories):
    weights = open_encoder(scratch(artifacts, stories, steps=0).folder, "native", 0).weights()
    assert all(np.isfinite(array).all() for array in weights.values())


class Stopped(MaskedWords):
    def losses(self, step, network, context):
        if step == 4:
            raise KeyboardInterrupt
        return super().losses(step, network, context)


def test_warming_up_goes_on_where_it_was_stopped(artifacts, stories, tmp_path):
    """The word predictor shares the table of word embeddings: a checkpoint holds it once."""
    folder = scratch(artifacts, stories, steps=0).folder
    stores = [TokenStore.of(artifacts, texts, open_tokenizer(folder), 32) for texts in stories[:2]]
    plan, ends = TrainingPlan(7, 1e-3, checkpoint_s=0.0), []
    for task, place in ((Stopped, "stopped"), (MaskedWords, "stopped"), (MaskedWords, "whole")):
        network = MaskedLanguageModel(BertForMaskedLM.from_pretrained(folder, local_files_only=True), bf16=False)
        torch.manual_seed(0)
        network.model.cls.apply(network.model._init_weights)
        with suppress(KeyboardInterrupt):
            history = train(network, task(stores, 0), plan, tmp_path / place, {}, "cpu")
            ends.append((history.resumed_at, history.curve, network.state_dict()))
    (resumed_at, curve, resumed), (started_at, whole_curve, whole) = ends
    assert (resumed_at, started_at) == (4, 0)
    assert curve == whole_curve
    for name in whole:
        assert torch.equal(resumed[name], whole[name]), name
