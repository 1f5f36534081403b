"""Metrics beyond the protocol, against implementations that go pair by pair."""

import math
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_reference import make_pairs

from xmcbench.errors import PluginError, UnknownName, UsageError
from xmcbench.metrics import METRICS, Evaluation, TruePairs, additional, true_ranks

LABELS = 8


def hits(ranking, true, k):
    """The true labels among the first k predictions."""
    return [label for label in ranking[:k] if label in true]


def plain(name, rows, weights):  # noqa: PLR0911
    """A metric of rows (ranking, set of true labels), by loops."""
    family, _, depth = name.partition("@")
    rows, k = [(ranking, true) for ranking, true in rows if true], int(depth or 0)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    together = sum(len(true) for _, true in rows)
    found = sum(len(hits(ranking, true, k)) for ranking, true in rows)
    labels = sorted(set().union(*(true for _, true in rows)))

    def recall_of(label):
        own = [(ranking, true) for ranking, true in rows if label in true]
        return mean([label in ranking[:k] for ranking, _ in own])

    def best(true):
        return sorted(true, key=lambda label: -weights[label])

    def discounted(ranking, true):
        gains = sum(weights[label] / math.log2(rank + 2) for rank, label in enumerate(ranking[:k]) if label in true)
        return gains / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(true))))

    match family:
        case "F1":
            values = []
            for ranking, true in rows:
                n = len(hits(ranking, true, k))
                p, r = n / k, n / len(true)
                values.append(2 * p * r / (p + r) if n else 0.0)
            return mean(values)
        case "micro-R":
            return found / together
        case "micro-F1":
            p, r = found / (k * len(rows)), found / together
            return 2 * p * r / (p + r) if found else 0.0
        case "macro-R":
            return mean([recall_of(label) for label in labels])
        case "coverage":
            return mean([recall_of(label) > 0 for label in labels])
        case "hit":
            return mean([bool(hits(ranking, true, k)) for ranking, true in rows])
        case "R-precision":
            return mean([len(hits(ranking, true, len(true))) / len(true) for ranking, true in rows])
        case "MRR":
            return mean(
                [
                    next((1 / rank for rank, label in enumerate(ranking, 1) if label in true), 0)
                    for ranking, true in rows
                ]
            )
        case "PSR":
            top = sum(sum(weights[label] for label in hits(ranking, true, k)) / len(true) for ranking, true in rows)
            return top / sum(sum(weights[label] for label in best(true)[:k]) / len(true) for _, true in rows)
        case "psnDCG":
            top = sum(discounted(ranking, true) for ranking, true in rows)
            return top / sum(discounted(best(true), true) for _, true in rows)


RANKING = st.lists(st.integers(0, LABELS - 1), unique=True, max_size=LABELS)
ROWS = st.lists(st.tuples(RANKING, st.sets(st.integers(0, LABELS - 1), max_size=5)), min_size=1, max_size=6)
WEIGHTS = st.lists(st.floats(1, 50), min_size=LABELS, max_size=LABELS)
NAMES = [f"{family}@{k}" for family in additional._AT for k in (1, 2, 5)] + [*additional._WHOLE]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(rows=ROWS.filter(lambda rows: any(true for _, true in rows)), weights=WEIGHTS)
def test_a_metric_is_what_its_definition_says(name, rows, weights):
    pairs = TruePairs.of(make_pairs([true for _, true in rows], LABELS))
    predicted = np.full((len(rows), LABELS), -1, np.int32)
    for row, (ranking, _) in enumerate(rows):
        predicted[row, : len(ranking)] = ranking
    found = additional.compute([name], true_ranks(predicted, pairs), pairs, np.array(weights))
    assert found[name] == pytest.approx(plain(name, rows, weights))


def test_metrics_of_the_protocol_are_those_of_records():
    pairs = TruePairs.of(make_pairs([{0, 1}, {2}], LABELS))
    ranks, weights = np.array([1, 0, 3], np.uint8), np.arange(1.0, LABELS + 1)
    assert additional.compute([*METRICS], ranks, pairs, weights) == Evaluation(pairs, weights)(ranks).values


def test_what_needs_propensities_is_none_without_them_and_so_is_all_without_pairs():
    pairs = TruePairs.of(make_pairs([{0}], LABELS))
    found = additional.compute(["PSR@1", "psnDCG@5", "PSP@1", "MRR"], np.array([2], np.uint8), pairs)
    assert found == {"PSR@1": None, "psnDCG@5": None, "PSP@1": None, "MRR": 0.5}
    nothing = TruePairs.of(make_pairs([set()], LABELS))
    assert additional.compute(["F1@1", "P@1"], np.empty(0, np.uint8), nothing) == {"F1@1": None, "P@1": None}


def test_more_true_labels_than_ranks():
    """Beyond rank 100 nothing is known: a row with 150 true labels, all predicted, has R-precision 2/3."""
    pairs = TruePairs(np.zeros(150, np.int64), np.arange(150), 1)
    ranks = np.r_[np.arange(1, 101), np.zeros(50)].astype(np.uint8)
    assert additional.compute(["R-precision"], ranks, pairs)["R-precision"] == pytest.approx(100 / 150)
    found = additional.compute(["psnDCG@100", "PSR@100"], ranks, pairs, np.ones(150))
    assert found == {"psnDCG@100": pytest.approx(1), "PSR@100": pytest.approx(1)}


def test_names_that_are_none():
    for name in ("F2@5", "MRR@5", "F1", "hit@0", "P@7"):
        with pytest.raises(UnknownName):
            additional.check_names([name])
    with pytest.raises(UsageError, match="hit@101 is deeper than the ranks"):
        additional.check_names(["hit@101"])


def count(ranks, pairs):
    return (ranks > 0).sum() / len(pairs)


def fail(ranks, pairs):
    raise ValueError("no")


def test_a_package_adds_a_metric(monkeypatch):
    points = [EntryPoint(name, f"test_additional:{name}", additional.GROUP) for name in ("count", "fail")]
    monkeypatch.setattr(additional, "entry_points", lambda group: points)
    pairs = TruePairs.of(make_pairs([{0, 1}], LABELS))
    ranks = np.array([3, 0], np.uint8)
    assert additional.compute(["count", "hit@5"], ranks, pairs) == {"count": 0.5, "hit@5": 1.0}
    with pytest.raises(PluginError, match="the metric fail failed: ValueError: no"):
        additional.compute(["fail"], ranks, pairs)
    monkeypatch.setattr(additional, "entry_points", lambda group: [EntryPoint("gone", "no_module:x", group)])
    with pytest.raises(PluginError, match="the metric gone cannot be imported"):
        additional.check_names(["gone"])
