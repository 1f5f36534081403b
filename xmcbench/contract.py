"""The contract test of a method: what `xmcbench check` runs, on a corpus of a few hundred texts."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import parameters
from xmcbench.data.xc_text import write_instances, write_labels
from xmcbench.errors import MethodError, XmcbenchError
from xmcbench.method import Method
from xmcbench.records import Store
from xmcbench.registry import Entry, Registry
from xmcbench.runner.execution import Limits, Place, execute
from xmcbench.runner.plan import DEFAULT_PRESET, Request, plan
from xmcbench.setting import Setting
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


#: The dataset of the chance test: instances of either side, labels, true labels per instance.
_ROWS, _LABELS, _TRUE = 400, 40, 2
#: No honest method hits so many more test pairs than chance in a million checks.
_SIGNIFICANCE = 1e-6


def check(entry: Entry, registry: Registry, limits: Limits | None = None) -> list[Finding]:
    """Every check that applies to the method; the later ones are left out where it does not load.

    limits: of the check that runs a cell in a process of its own.
    """
    try:
        method = entry.usable()
    except XmcbenchError as error:
        return [Finding("loads", False, str(error))]
    checks: dict[str, Callable[[type[Method]], None]] = {"declares its parameters": _declares}
    if method.supervision != "required":
        checks["learns without pairs (ez)"] = lambda cls: _valid(cls, pairs=False)
    if method.supervision != "unused":
        checks["learns from pairs (fs, full)"] = lambda cls: _valid(cls, pairs=True)
        checks["leaves the pairs as they are"] = _leaves_pairs
    checks["pads where k is larger than the number of labels"] = lambda cls: _valid(cls, pairs=True, k=50)
    checks["takes empty and unknown texts"] = _strange_texts
    checks["gives equal predictions under one seed"] = _repeats
    if method.deterministic:
        checks["gives equal predictions under any seed"] = lambda cls: _repeats(cls, seeds=(0, 1))
    checks["is at chance where test pairs are random"] = lambda _: _at_chance(entry, registry, limits or Limits())
    return [Finding("loads", True), *(_finding(name, run, method) for name, run in checks.items())]


def _finding(name: str, run: Callable[[type[Method]], None], method: type[Method]) -> Finding:
    try:
        run(method)
    except XmcbenchError as error:
        return Finding(name, False, str(error))
    except Exception as error:
        return Finding(name, False, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Finding(name, True)


def _declares(cls: type[Method]) -> None:
    problems = parameters.undeclared(cls, Method)
    if problems:
        raise MethodError("; ".join(problems))


def _corpus() -> tuple[Texts, Texts, csr_matrix]:
    """40 instances, 10 labels; instance i speaks of the topics i and i + 1, and these are its labels."""
    from scipy.sparse import csr_matrix

    rows = range(40)
    titles = [f"{_TOPICS[row % 10]} number {row}" for row in rows]
    contents = [f"A story. It is about the {_TOPICS[row % 10]} and the {_TOPICS[(row + 1) % 10]}." for row in rows]
    columns = np.sort(np.array([[row % 10, (row + 1) % 10] for row in rows]), axis=1).ravel()
    pairs = csr_matrix((np.ones(80, np.float32), columns, np.arange(0, 81, 2)), shape=(40, 10))
    return Texts.from_lists(titles, contents), Texts.from_lists([f"the {topic}" for topic in _TOPICS]), pairs


def _predict(cls: type[Method], texts: Texts, pairs: csr_matrix | None, k: int, seed: int = 0) -> TopK:
    method = cls(**cls.presets.get(DEFAULT_PRESET, {}))
    method.seed = seed
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


def _repeats(cls: type[Method], seeds: tuple[int, int] = (0, 0)) -> None:
    train, _, pairs = _corpus()
    first, second = (_predict(cls, train[:20], _known(cls, pairs), 5, seed) for seed in seeds)
    same = np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores)
    if not same and seeds[0] == seeds[1]:
        raise MethodError("two runs with one seed predict differently", "draw every random number from self.seed")
    if not same:
        raise MethodError("two seeds predict differently", "`deterministic = True` says that they do not")


def _at_chance(entry: Entry, registry: Registry, limits: Limits) -> None:
    """Run a cell on a dataset whose test pairs are drawn at random: who hits them has seen them."""
    method = entry.usable()
    with tempfile.TemporaryDirectory(prefix="xmcbench-") as folder:
        root = Path(folder, "random-pairs")
        root.mkdir()
        _write_random(root)
        setting = Setting.of("ez" if method.supervision == "unused" else "full")
        store = Store(Path(folder, "runs"))
        planned = plan([Request(str(root), setting, (entry.name,))], registry, store)
        (record,) = execute(planned, Place(store, limits))
    if not record.ok:
        raise MethodError(record.reason)
    hits, scored = round(record.metrics["none"].values["P@1"] * _ROWS), record.metrics["none"].scored
    if _chance(hits, scored, _TRUE / _LABELS) < _SIGNIFICANCE:
        raise MethodError(
            f"it hits {hits} of {scored} random test pairs at rank 1, where chance hits {scored * _TRUE // _LABELS}",
            "nothing in the texts or the training pairs says anything about them: the method has read them",
        )


def _write_random(folder: Path) -> None:
    """Texts that speak of two labels each; the training pairs are these, the test pairs random."""
    random = np.random.RandomState(0)
    labels = [f"the {topic} of {kind}" for kind in ("gold", "iron", "salt", "wool") for topic in _TOPICS]

    def rows(side: str) -> Iterator[tuple[str, str, str, list[int]]]:
        for row in range(_ROWS):
            spoken, drawn = (sorted(random.permutation(_LABELS)[:_TRUE].tolist()) for _ in range(2))
            title, content = f"{side} {row}", f"A story. It is about {labels[spoken[0]]} and {labels[spoken[1]]}."
            yield f"{side}{row}", title, content, spoken if side == "train" else drawn

    write_labels(folder / "lbl.json.gz", ((f"label{row}", text) for row, text in enumerate(labels)))
    write_instances(folder / "trn.json.gz", rows("train"))
    write_instances(folder / "tst.json.gz", rows("test"))


def _chance(hits: int, rows: int, share: float) -> float:
    """The probability of at least so many hits in so many rows."""
    return sum(math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(hits, rows + 1))
