import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from xmcbench import MethodError, UsageError, XmcbenchError
from xmcbench.methods.encoder import checkpoints
from xmcbench.methods.encoder.batches import BalancedEpochs, Epochs
from xmcbench.methods.encoder.contrastive import KnownPairs, Replayed, TwoViews
from xmcbench.methods.encoder.hardware import choose_precision
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.tower import train_shared
from xmcbench.methods.encoder.training import DistributedContext, LossScale, TrainingPlan, train

SCRIPT = Path(__file__).with_name("killed_training.py")


@pytest.fixture
def prepared(artifacts, checkpoint, stories):
    tokenizer = open_tokenizer(checkpoint())
    instances, labels = (TokenStore.of(artifacts, texts, tokenizer, 32) for texts in stories[:2])
    return open_encoder(checkpoint(), "native", seed=0), instances, labels, stories[2]


@pytest.mark.slow
def test_killed_and_run_again_ends_with_the_weights_of_an_uninterrupted_one(tmp_path, checkpoint, imported):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "killed"), str(checkpoint()), "17"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert list((tmp_path / "killed" / "unfinished").rglob("checkpoint.safetensors"))
    run = imported(SCRIPT).run
    resumed, note = run(tmp_path / "killed", checkpoint())
    expected, whole = run(tmp_path / "whole", checkpoint())
    assert (note["resumed_at"], whole["resumed_at"]) == (17, 0)
    assert note["curve"] == whole["curve"]
    for name in expected:
        assert np.array_equal(resumed[name], expected[name]), name
    assert not list((tmp_path / "killed" / "unfinished").rglob("*.safetensors"))


class Diverging(TwoViews):
    def compare(self, step, views, vectors):
        losses = super().compare(step, views, vectors)
        return {"contrastive": losses["contrastive"] * (torch.nan if step == 6 else 1)}


def test_a_nan_loss_stops_and_keeps_the_last_checkpoint(prepared, tmp_path):
    encoder, instances, _, _ = prepared
    plan = TrainingPlan(10, 1e-3, checkpoint_s=0.0)
    with pytest.raises(MethodError, match=r"the loss of step 7 is NaN or infinite \(contrastive = nan\)"):
        train(encoder, Diverging(instances, instances, 8, 0.05, 0), plan, tmp_path, {}, "cpu")
    optimizer = torch.optim.AdamW(encoder.parameters(), 1e-3, weight_decay=0.0, fused=True)
    identity = {**plan.identity(), "processes": 1}
    assert checkpoints.restore(tmp_path, encoder, optimizer, identity).step == 6
    assert checkpoints.restore(tmp_path, encoder, optimizer, {**identity, "seed": 1}) is None


def test_a_full_disk_while_writing_a_checkpoint(prepared, tmp_path, monkeypatch):
    encoder, instances, _, _ = prepared
    monkeypatch.setattr(checkpoints, "save_file", _full)
    with pytest.raises(XmcbenchError, match="cannot write the checkpoint of step 1"):
        train(
            encoder,
            TwoViews(instances, instances, 8, 0.05, 0),
            TrainingPlan(9, 1e-3, checkpoint_s=0),
            tmp_path,
            {},
            "cpu",
        )
    assert not list(tmp_path.glob("*.tmp"))


def test_a_checkpoint_stays_until_the_weights_are_kept(artifacts, prepared, monkeypatch):
    """The disk is full when all steps are done: they are not lost."""
    import safetensors.numpy

    encoder, instances, _, _ = prepared
    task, plan, first = (
        TwoViews(instances, instances, 8, 0.05, 0),
        TrainingPlan(9, 1e-3, checkpoint_s=0),
        encoder.weights(),
    )
    monkeypatch.setattr(safetensors.numpy, "save_file", _full)
    with pytest.raises(XmcbenchError, match="cannot write .*weights.safetensors") as caught:
        train_shared(artifacts, encoder, task, plan, {}, "cpu")
    assert "continues from the last checkpoint" in caught.value.hint
    monkeypatch.undo()
    encoder.load_weights(first)
    assert train_shared(artifacts, encoder, task, plan, {}, "cpu")["resumed_at"] == 8
    assert not list((artifacts.root / "unfinished").rglob("*.safetensors"))


def _full(*_):
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_learns_and_says_how(prepared, tmp_path):
    encoder, instances, labels, pairs = prepared
    task = KnownPairs(instances, labels, pairs, 16, 0.05, 0)
    history = train(encoder, task, TrainingPlan(60, 3e-3), tmp_path, {}, "cpu")
    assert history.losses == ["contrastive"]
    assert history.curve[-1][0] == 60
    assert history.curve[-1][1] < 0.7 * history.curve[0][1]


def test_the_same_training_is_done_once(artifacts, prepared):
    encoder, instances, labels, pairs = prepared
    first = encoder.weights()
    ends = []
    for _ in range(2):
        encoder.load_weights(first)
        train_shared(
            artifacts, encoder, KnownPairs(instances, labels, pairs, 16, 0.05, 0), TrainingPlan(3, 1e-3), {}, "cpu"
        )
        ends.append(encoder.weights())
    assert artifacts.reused_s > 0
    assert all(np.array_equal(ends[0][name], ends[1][name]) for name in first)
    assert any(not np.array_equal(ends[0][name], first[name]) for name in first)


def test_the_rate_rises_and_falls():
    plan = TrainingPlan(100, 1.0, warmup=0.1)
    rates = [plan.rate(step) for step in range(100)]
    assert rates.index(max(rates)) == 10
    assert max(rates) == pytest.approx(1.0)
    assert np.all(np.diff(rates[:11]) > 0)
    assert np.all(np.diff(rates[10:]) < 0)
    assert rates[-1] == pytest.approx(1 / 90)
    assert TrainingPlan(1, 1.0).rate(0) > 0


def test_epochs_take_every_row_once():
    epochs = Epochs(10, 3, seed=0)
    drawn = [epochs(step) for step in range(6)]
    assert all(len(set(rows)) == 3 for rows in drawn)
    assert len(set(np.concatenate(drawn[:3]))) == 9
    assert Epochs(10, 3, seed=0)(4).tolist() == drawn[4].tolist()
    assert Epochs(10, 3, seed=1)(0).tolist() != drawn[0].tolist()
    assert len(Epochs(2, 64, seed=0)(5)) == 2


@given(st.integers(1, 50), st.integers(1, 60), st.integers(1, 8))
def test_a_batch_of_all_rows_is_one_that_processes_can_share(rows, batch, processes):
    """One that was asked for, and that there are rows for, stays as it is."""
    for epochs in (Epochs(rows, batch, 0), BalancedEpochs(np.arange(rows), batch, 0)):
        if rows < processes:
            with pytest.raises(UsageError, match=f"{processes} processes cannot share {rows} rows of a training"):
                epochs.share(processes)
            continue
        epochs.share(processes)
        drawn = epochs(3)
        assert len(set(drawn)) == len(drawn) == epochs.batch > 0
        assert epochs.batch == (batch if batch < rows else rows // processes * processes)


def test_another_true_label_is_not_a_negative(prepared):
    """A batch of all pairs: masked, the loss is that of the untrue labels only."""

    encoder, instances, labels, pairs = prepared
    encoder.eval()
    task = KnownPairs(instances, labels, pairs, 60, 1.0, 0)
    found = task.losses(0, encoder, DistributedContext.of("cpu"))["contrastive"].item()
    rows, columns = pairs.nonzero()
    vectors = []
    for store in (instances, labels):
        ids = [torch.from_numpy(store[row].astype(np.int64))[None] for row in range(len(store))]
        with torch.no_grad():
            vectors.append(encoder(ids, [torch.ones_like(row, dtype=torch.bool) for row in ids]))
    logits = (vectors[0] @ vectors[1].T).double().exp().numpy()
    true = pairs.toarray() > 0
    counts = true.sum(0)
    expected = np.mean(
        [
            -np.log(logits[i, j] / (logits[i, j] + (logits[i] * counts * ~true[i]).sum()))
            for i, j in zip(rows, columns, strict=True)
        ]
    )
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("clip", "moves"), [(None, True), (1e-30, False)])
def test_a_gradient_is_clipped_where_a_limit_is_set(prepared, tmp_path, clip, moves):
    """Adam's step does not shrink with its gradient, unless that is lost beside its epsilon."""
    encoder, instances, labels, pairs = prepared
    before = encoder.weights()
    task = KnownPairs(instances, labels, pairs, 16, 0.05, 0)
    train(encoder, task, TrainingPlan(2, 1e-3, clip=clip), tmp_path, {}, "cpu")
    name = next(name for name in before if name.endswith("query.weight"))
    assert (np.abs(encoder.weights()[name] - before[name]).max() > 1e-4) == moves


def test_all_other_labels_are_negatives_of_the_paper(prepared):

    encoder, instances, labels, pairs = prepared
    encoder.eval()
    place = DistributedContext.of("cpu")
    drawn = instances, labels, pairs, 60, 1.0, 0
    masked, whole = (
        KnownPairs(*drawn, negatives).losses(0, encoder, place)["contrastive"] for negatives in ("untrue", "all")
    )
    vectors = KnownPairs(*drawn, "all").draw(0)
    assert whole > masked
    logits = _vectors(encoder, vectors["anchor"]) @ _vectors(encoder, vectors["positive"]).T
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(60))
    torch.testing.assert_close(whole, expected)


def _vectors(encoder, view):
    ids = [torch.from_numpy(view.store[row].astype(np.int64))[None] for row in view.rows]
    with torch.no_grad():
        return encoder(ids, [torch.ones_like(row, dtype=torch.bool) for row in ids])


def test_what_is_replayed_is_added(prepared):

    encoder, instances, labels, pairs = prepared
    encoder.eval()
    place = DistributedContext.of("cpu")
    known, again = KnownPairs(instances, labels, pairs, 16, 0.05, 0), TwoViews(instances, instances, 8, 0.05, 1)
    alone = {**known.losses(3, encoder, place), "replayed": again.losses(3, encoder, place)["contrastive"]}
    both = Replayed(known, again, 0.25).losses(3, encoder, place)
    assert both["contrastive"].item() == pytest.approx(alone["contrastive"].item(), abs=1e-5)
    assert both["replayed contrastive"].item() == pytest.approx(0.25 * alone["replayed"].item(), abs=1e-5)


class Overflowing(TwoViews):
    """A loss whose gradient overflows at the third step."""

    def compare(self, step, views, vectors):
        loss = super().compare(step, views, vectors)["contrastive"]
        return {"contrastive": loss + (loss - loss.detach()) * (1e38 if step == 2 else 0)}


def test_float16_leaves_out_a_step_that_overflows(checkpoint, prepared, tmp_path):
    """And a training that goes on after it has the weights, and the scale, of one that was not interrupted."""
    _, instances, _, _ = prepared
    ends = {}
    for name in ("whole", "resumed"):
        encoder = open_encoder(checkpoint(), "native", seed=0, precision="fp16")
        task, plan = Overflowing(instances, instances, 8, 0.05, 0), TrainingPlan(6, 1e-3, checkpoint_s=0)
        if name == "resumed":
            interrupted = Stopping(instances, instances, 8, 0.05, 0)
            with pytest.raises(KeyboardInterrupt):
                train(encoder, interrupted, plan, tmp_path / name, {}, "cpu")
            encoder = open_encoder(checkpoint(), "native", seed=0, precision="fp16")
        history = train(encoder, task, plan, tmp_path / name, {}, "cpu")
        ends[name] = encoder.weights()
    assert history.resumed_at == 4
    assert all(np.isfinite(array).all() for array in ends["whole"].values())
    for name, weights in ends["whole"].items():
        assert np.array_equal(weights, ends["resumed"][name]), name
    scale = LossScale(True, torch.device("cpu"))
    state = scale.state()
    assert scale.resume({**state, "clusters": np.arange(2)}).keys() == {"clusters"}
    assert LossScale(False, torch.device("cpu")).state() == {}


class Stopping(Overflowing):
    def compare(self, step, views, vectors):
        if step == 4:
            raise KeyboardInterrupt
        return super().compare(step, views, vectors)


@pytest.mark.parametrize(
    ("native", "capability", "expected"), [(True, (9, 0), "bf16"), (False, (7, 0), "fp16"), (False, (6, 1), "fp32")]
)
def test_the_precision_of_a_gpu(monkeypatch, native, capability, expected):
    """A V100 says that it supports bfloat16, which it only emulates."""

    def is_supported(including_emulation=True):
        return native or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert choose_precision("auto", "cuda") == expected
    assert choose_precision("fp32", "cuda") == "fp32"


def test_processes_cannot_share_an_odd_batch():
    class Pair:
        num_processes, process_index = 2, 0

    with pytest.raises(UsageError, match="2 processes cannot share a step of 7 rows"):
        DistributedContext(Pair(), torch.device("cpu")).local_slice(7)


def test_a_process_alone_may_change_its_device():
    """accelerate keeps the first one: a training on the CPU made all later ones train there, without a word."""
    assert [DistributedContext.of(device).device.type for device in ("cuda", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]


def test_processes_wait_for_one_that_makes_clusters(monkeypatch):
    """Of a million documents that takes longer than the ten minutes after which torch gives up."""
    given = []
    monkeypatch.setattr("accelerate.Accelerator", lambda **options: given.extend(options["kwargs_handlers"]))
    DistributedContext.of("cpu")
    (waits,) = [handler.timeout for handler in given if hasattr(handler, "timeout")]
    assert waits >= timedelta(hours=12)
