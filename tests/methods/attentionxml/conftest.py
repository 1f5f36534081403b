import numpy as np
import pytest


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """For networks this small a second thread only waits for the first."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def texts():
    """Five texts of 1 to 6 words out of 9."""
    from xmcbench.methods.attentionxml.network import Sequences

    rng = np.random.default_rng(0)
    lengths = np.array([3, 1, 6, 2, 5])
    return Sequences(np.concatenate([[0], np.cumsum(lengths)]), rng.integers(0, 9, lengths.sum()).astype(np.int32))


@pytest.fixture
def network():
    """A network with weights large enough for the softmax to be far from even, in evaluation mode."""

    import torch

    from xmcbench.methods.attentionxml.network import AttentionNetwork

    def make(nodes, seed=0, connected=(6,), dropouts=(0.0, 0.0)):
        torch.manual_seed(seed)
        vectors = np.random.default_rng(seed).standard_normal((9, 5)).astype(np.float32)
        made = AttentionNetwork(vectors, nodes, 4, connected, dropouts)
        for name, parameter in made.named_parameters():
            torch.nn.init.normal_(parameter, std=2.0 if name.startswith("attention") else 0.7)
        return made.eval()

    return make
