from __future__ import annotations

from xmcbench.metrics import DEPTH, METRICS, VERSION, protocol


def test_the_protocol_names_its_version_and_metrics():
    assert f"version {VERSION}" in protocol.__doc__
    for metric in METRICS.values():
        assert f"* {metric.family}@k" in protocol.__doc__
        assert str(metric.k) in metric.description


def test_metrics():
    assert " ".join(METRICS) == ("P@1 P@3 P@5 R@1 R@3 R@5 R@10 R@100 nDCG@1 nDCG@3 nDCG@5 PSP@1 PSP@3 PSP@5")
    assert max(metric.k for metric in METRICS.values()) == DEPTH


def test_another_protocol_has_another_version():
    """Whoever changes the protocol raises the version, and with it these lines."""
    assert (VERSION, DEPTH) == (3, 100)
