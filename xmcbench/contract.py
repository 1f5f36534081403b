"""The contract test of a method: what `xmcbench check` runs, on a corpus of a few dozen texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench.errors import MethodError, XmcbenchError
from xmcbench.method import Method
from xmcbench.registry import Entry
from xmcbench.runner.plan import DEFAULT_PRESET
from xmcbench.texts import Texts
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TOPICS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle")


@dataclass(frozen=True)
class Finding:
    """One check: passed, or the reason why not."""

    name: str
    ok: bool
    reason: str = ""


def check(entry: Entry) -> list[Finding]:
    """Every check that applies to the method; the later ones are left out where it does not load."""
    try:
        method = entry.usable()
    except XmcbenchError as error:
        return [Finding("loads", False, str(error))]
    checks: dict[str, Callable[[type[Method]], None]] = {}
    if method.supervision != "required":
        checks["learns without pairs (ez)"] = lambda cls: _valid(cls, pairs=False)
    if method.supervision != "unused":
        checks["learns from pairs (fs, full)"] = lambda cls: _valid(cls, pairs=True)
        checks["leaves the pairs as they are"] = _leaves_pairs
    checks["pads where k is larger than the number of labels"] = lambda cls: _valid(cls, pairs=True, k=50)
    checks["takes empty and unknown texts"] = _strange_texts
    checks["gives equal predictions under one seed"] = _repeats
    return [Finding("loads", True), *(_finding(name, run, method) for name, run in checks.items())]


def _finding(name: str, run: Callable[[type[Method]], None], method: type[Method]) -> Finding:
    try:
        run(method)
    except XmcbenchError as error:
        return Finding(name, False, str(error))
    except Exception as error:
        return Finding(name, False, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Finding(name, True)


def _corpus() -> tuple[Texts, Texts, csr_matrix]:
    """40 instances, 10 labels; instance i speaks of the topics i and i + 1, and these are its labels."""
    from scipy.sparse import csr_matrix

    rows = range(40)
    titles = [f"{_TOPICS[row % 10]} number {row}" for row in rows]
    contents = [f"A story. It is about the {_TOPICS[row % 10]} and the {_TOPICS[(row + 1) % 10]}." for row in rows]
    columns = np.sort(np.array([[row % 10, (row + 1) % 10] for row in rows]), axis=1).ravel()
    pairs = csr_matrix((np.ones(80, np.float32), columns, np.arange(0, 81, 2)), shape=(40, 10))
    return Texts.from_lists(titles, contents), Texts.from_lists([f"the {topic}" for topic in _TOPICS]), pairs


def _predict(cls: type[Method], texts: Texts, pairs: csr_matrix | None, k: int) -> TopK:
    method = cls(**cls.presets.get(DEFAULT_PRESET, {}))
    train, labels, _ = _corpus()
    if hasattr(method, "pretrain"):
        method.pretrained = method.pretrain(train, labels)
    method.fit(train, labels, pairs)
    predictions = method.predict(texts, k=k)
    if not isinstance(predictions, TopK):
        raise MethodError(f"predict returned a {type(predictions).__name__}", "it returns an xmcbench.TopK")
    predictions.check(len(texts), k, len(labels))
    return predictions


def _known(cls: type[Method], pairs: csr_matrix) -> csr_matrix | None:
    return None if cls.supervision == "unused" else pairs


def _valid(cls: type[Method], pairs: bool, k: int = 5) -> None:
    train, _, known = _corpus()
    _predict(cls, train[:20], _known(cls, known) if pairs else None, k)


def _leaves_pairs(cls: type[Method]) -> None:
    train, _, pairs = _corpus()
    before = pairs.copy()
    _predict(cls, train[:5], pairs, 5)
    if pairs.shape != before.shape or pairs.nnz != before.nnz or (pairs != before).nnz:
        raise MethodError("fit changed the pairs it was handed", "work on a copy: other methods share them")


def _strange_texts(cls: type[Method]) -> None:
    _, _, pairs = _corpus()
    _predict(cls, Texts.from_lists(["", " ", "zyzzyva quokka", "\u4e2d\u6587 \U0001f600"]), _known(cls, pairs), 5)


def _repeats(cls: type[Method]) -> None:
    train, _, pairs = _corpus()
    first, second = (_predict(cls, train[:20], _known(cls, pairs), 5) for _ in range(2))
    same = np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores)
    if not same:
        raise MethodError("two runs with one seed predict differently", "draw every random number from self.seed")
