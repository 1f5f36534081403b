"""Training and encoding in several processes, on one machine and on two."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from one_process import gradients
from scipy.sparse import save_npz

from xmcbench import Artifacts, Compute, MethodError, UsageError
from xmcbench.methods.encoder.contrastive import Replayed, TwoViews
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.tower import train_shared
from xmcbench.methods.encoder.training import TrainingPlan
from xmcbench.methods.maclr import MACLR

SCRIPT = Path(__file__).with_name("one_process.py")
PRETRAINING = {
    "instance_length": 24,
    "batch": 8,
    "learning_rate": 1e-4,
    "steps": 8,
    "pseudo_steps": 3,
    "clusters": 3,
    "clusters_doubled_every": 2,
    "clusters_updated_every": 2,
    "sampled_labels": 5,
    "label_temperature": 0.5,
    "precision": "fp32",
}


KINDS = ["pairs", "views", "own twins", "cluster twins", "pseudo pairs", "soft targets", "replayed"]


def test_two_processes_with_half_the_batch_are_one_with_the_whole(
    artifacts, side_by_side, tmp_path, checkpoint, stories
):
    """The tasks of all methods, and of MACLR: Stage I with both losses and its clusters, and Stage II."""
    weights = checkpoint(dropout=0.0)
    stores = [TokenStore.of(artifacts, texts, open_tokenizer(weights), 32) for texts in stories[:2]]
    (tmp_path / "stores.txt").write_text("\n".join(str(store.folder) for store in stores))
    save_npz(tmp_path / "pairs.npz", stories[2])
    together = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "{rank}"}
    # All kinds in one pair of processes: they take longer to start than to compute.
    statuses, errors = side_by_side(SCRIPT, [tmp_path, weights, *KINDS], together)
    assert statuses == [0, 0], errors
    for kind in KINDS:
        expected = gradients(tmp_path, weights, kind)
        for rank in (0, 1):
            with np.load(tmp_path / f"{kind} {rank}.npz") as found:
                assert set(found.files) == set(expected), kind
                for name in found.files:
                    np.testing.assert_allclose(
                        found[name], expected[name], atol=1e-5, rtol=1e-5, err_msg=f"{kind}: {name}"
                    )


@pytest.mark.parametrize("recomputed_layers", [False, True])
def test_a_training_in_two_processes_ends_where_one_ends(artifacts, checkpoint, stories, recomputed_layers):
    weights = checkpoint(dropout=0.0)
    store = TokenStore.of(artifacts, stories[0], open_tokenizer(weights), 32)
    plan, ends, notes = TrainingPlan(4, 1e-3), [], []
    for processes in (1, 2):
        encoder = open_encoder(weights, "native", seed=0)
        encoder.save_memory(None, recomputed_layers)
        notes.append(train_shared(artifacts, encoder, TwoViews(store, store, 12, 0.05, 0), plan, {}, "cpu", processes))
        ends.append(encoder.weights())
    assert notes[1]["processes"] == 2
    np.testing.assert_allclose(notes[0]["curve"], notes[1]["curve"], atol=2e-5)
    for name in ends[0]:
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=1e-4, err_msg=name)


def test_processes_share_what_does_not_fill_a_batch(artifacts, checkpoint, stories):
    """Also where their number does not divide it; fewer rows than processes are refused before any is started."""
    weights = checkpoint()
    encoder = open_encoder(weights, "native", seed=0)
    store = TokenStore.of(artifacts, stories[0][:7], open_tokenizer(weights), 32)
    again = TwoViews(store, store, 64, 0.05, 0)
    task = Replayed(TwoViews(store, store, 4, 0.05, 0), again, 0.5)
    assert train_shared(artifacts, encoder, task, TrainingPlan(2, 1e-3), {}, "cpu", 2)["processes"] == 2
    assert (task.batch, again.batch) == (4, 6)
    with pytest.raises(UsageError, match="8 processes cannot share 7 rows of a training"):
        train_shared(artifacts, encoder, task, TrainingPlan(2, 1e-3), {}, "cpu", 8)


class Killed(TwoViews):
    def draw(self, step):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_the_system_ends_is_named(artifacts, checkpoint, stories):
    weights = checkpoint()
    store = TokenStore.of(artifacts, stories[0], open_tokenizer(weights), 32)
    task = Killed(store, store, 12, 0.05, 0)
    with pytest.raises(MethodError, match="a process ended while training: .*SIGKILL") as caught:
        train_shared(artifacts, open_encoder(weights, "native", seed=0), task, TrainingPlan(4, 1e-3), {}, "cpu", 2)
    assert "memory" in caught.value.hint


@pytest.mark.slow
def test_a_pretraining_of_maclr_in_two_processes_ends_where_one_ends(tmp_path, checkpoint, stories):
    """Clusters made in the middle of the training included; without dropout, which differs between processes."""
    ends = []
    for processes in (1, 2):
        method = MACLR(**PRETRAINING, backbone=str(checkpoint(dropout=0.0)))
        method.compute = Compute("cpu", processes)
        method.artifacts = Artifacts(tmp_path / str(processes))
        ends.append(method.pretrain(*stories[:2]))
        assert method.notes["stage I"]["processes"] == processes
    for name in ends[0]:
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=1e-5, err_msg=name)


MACHINE_SCRIPT = Path(__file__).with_name("one_machine.py")
#: What torchrun says on two machines, with one command on each.
TORCHRUN = {
    "GROUP_WORLD_SIZE": "2",
    "GROUP_RANK": "{rank}",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


@pytest.mark.slow
def test_two_machines_end_where_one_ends_also_when_killed(side_by_side, tmp_path, checkpoint, imported):
    """One process and one folder on each: two trainings, the first of them killed, and taken up from one checkpoint.

    Then they share the texts that are embedded.
    """
    weights = checkpoint(dropout=0.0)
    expected, notes = imported(MACHINE_SCRIPT).run(tmp_path / "one", weights)
    assert [note["processes"] for note in notes] == [1, 1]
    words = [tmp_path / "machine{rank}", weights]
    statuses, _ = side_by_side(MACHINE_SCRIPT, [*words, "3"], TORCHRUN)
    assert all(statuses)
    held = [list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors")) for rank in "01"]
    assert [len(files) for files in held] == [1, 0]
    statuses, errors = side_by_side(MACHINE_SCRIPT, [*words, ""], TORCHRUN)
    assert statuses == [0, 0], errors
    for rank in "01":
        with np.load(tmp_path / f"machine{rank}" / "end.npz") as found:
            assert (int(found["processes"]), found["resumed"].tolist()) == (2, [3, 0])
            for name, array in expected.items():
                np.testing.assert_allclose(found[name], array, atol=1e-4, err_msg=name)
        assert not list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors"))
