import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import save_npz

from xmcbench import Artefacts
from xmcbench.methods.encoder.network import open_tokenizer
from xmcbench.methods.encoder.tokens import TokenStore
from xmcbench.methods.maclr import MACLR

SCRIPT = Path(__file__).with_name("one_maclr_process.py")
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
    "device": "cpu",
    "precision": "fp32",
}


@pytest.mark.parametrize("kind", ["own", "cluster", "second"])
def test_two_processes_with_half_the_batch_are_one_with_the_whole(artefacts, tmp_path, checkpoint, stories, kind):
    """Stage I with both losses and its clusters, for both kinds of twins, and Stage II."""
    weights = checkpoint(dropout=0.0)
    stores = [TokenStore.of(artefacts, texts, open_tokenizer(weights), 32) for texts in stories[:2]]
    (tmp_path / "stores.txt").write_text("\n".join(str(store.folder) for store in stores))
    save_npz(tmp_path / "pairs.npz", stories[2])
    expected = runpy.run_path(str(SCRIPT))["gradients"](tmp_path, weights, kind)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path), str(weights), kind],
            env={**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
        )
        for rank in "01"
    ]
    for process in running:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
    for rank in (0, 1):
        with np.load(tmp_path / f"rank{rank}-{kind}.npz") as found:
            assert set(found.files) == set(expected)
            for name in found.files:
                np.testing.assert_allclose(found[name], expected[name], atol=1e-5, rtol=1e-5, err_msg=name)


def test_a_pretraining_in_two_processes_ends_where_one_ends(tmp_path, checkpoint, stories):
    """Clusters made in the middle of the training included; without dropout, which differs between processes."""
    ends = []
    for processes in (1, 2):
        method = MACLR(**PRETRAINING, backbone=str(checkpoint(dropout=0.0)), processes=processes)
        method.artefacts = Artefacts(tmp_path / str(processes))
        ends.append(method.pretrain(*stories[:2]))
        assert method.notes["stage I"]["processes"] == processes
    for name in ends[0]:
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=1e-5, err_msg=name)
