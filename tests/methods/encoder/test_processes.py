import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import save_npz

from xmcbench.methods.encoder.contrastive import TwoViews
from xmcbench.methods.encoder.network import open_encoder, open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.encoder.trained import trained
from xmcbench.methods.encoder.training import Plan

SCRIPT = Path(__file__).with_name("one_process.py")


@pytest.fixture
def prepared(artefacts, tmp_path, checkpoint, stories):
    raw_X, raw_Y, pairs = stories
    tokenizer = open_tokenizer(checkpoint(dropout=0.0))
    stores = [TokenStore.of(artefacts, texts, tokenizer, 32) for texts in (raw_X, raw_Y)]
    (tmp_path / "stores.txt").write_text("\n".join(str(store.folder) for store in stores))
    save_npz(tmp_path / "pairs.npz", pairs)
    return tmp_path, checkpoint(dropout=0.0)


@pytest.mark.parametrize("kind", ["pairs", "views"])
def test_two_processes_with_half_the_batch_are_one_with_the_whole(prepared, kind):
    folder, weights = prepared
    expected = runpy.run_path(str(SCRIPT))["gradients"](folder, weights, kind, 12)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), str(weights), kind, "12"],
            env={**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
        )
        for rank in "01"
    ]
    for process in running:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
    for rank in (0, 1):
        with np.load(folder / f"rank{rank}-{kind}.npz") as found:
            assert set(found.files) == set(expected)
            for name in found.files:
                np.testing.assert_allclose(found[name], expected[name], atol=1e-5, rtol=1e-5, err_msg=name)


def test_a_training_in_two_processes_ends_where_one_ends(artefacts, prepared, stories):
    _, weights = prepared
    store = TokenStore.of(artefacts, stories[0], open_tokenizer(weights), 32)
    plan, ends, notes = Plan(4, 1e-3), [], []
    for processes in (1, 2):
        encoder = open_encoder(weights, "native", seed=0)
        notes.append(trained(artefacts, encoder, TwoViews(store, store, 12, 0.05, 0), plan, {}, "cpu", processes))
        ends.append(encoder.weights())
    assert notes[1]["processes"] == 2
    np.testing.assert_allclose(notes[0]["curve"], notes[1]["curve"], atol=2e-5)
    for name in ends[0]:
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=1e-4, err_msg=name)
