"""The calls of every method: pretrain, fit, predict. This module is part of the source of every result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xmcbench.errors import MethodError
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.tensors import load_arrays, save_arrays
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.environment import Compute
    from xmcbench.method import Method
    from xmcbench.texts import Texts


_Item = TypeVar("_Item")


class Phases:
    """Wall seconds of named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start

    def each(self, name: str, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the items; the phase is their computation, without the time between them."""
        remaining = iter(items)
        self.seconds[name] = 0.0
        while True:
            start = time.perf_counter()
            try:
                item = next(remaining)
            except StopIteration:
                return
            finally:
                self.seconds[name] += time.perf_counter() - start
            yield item


def predict(
    method: Method,
    texts: tuple[Texts, Texts, Texts],
    pairs: csr_matrix | None,
    k: int,
    *,
    seed: int,
    artifacts: Artifacts,
    compute: Compute,
    identity: Mapping[str, object],
    phases: Phases,
) -> Iterator[TopK]:
    """Train a method and predict the k best labels of every test instance: checked parts of a TopK [len(test), k].

    The training ends before this returns; each part is predicted when it is requested, and the notes of the method are
    complete after the last part.

    texts: of the training instances, the labels and the test instances. pairs: the training pairs that the method may
    see, None in the zero-shot setting. identity: name and parameters of the method, as JSON values. Raises MethodError
    if the method breaks the contract.
    """
    train, labels, test = texts
    _equip(method, seed, artifacts, compute)
    if hasattr(method, "pretrain"):
        with phases("pretrain"):
            method.pretrained = load_pretraining(method, train, labels, {**identity, "seed": seed})
    with phases("fit"):
        method.fit(train, labels, pairs)
    batches = method.predict_batches(test, k=k)
    if not isinstance(batches, Iterable):
        raise MethodError(
            f"predict_batches returned an object of type {type(batches).__name__}",
            "it must yield an xmcbench.TopK for each batch",
        )
    return TopK.check_parts(phases.each("predict", batches), len(test), k, len(labels))


def load_pretraining(
    method: Method, train: Texts, labels: Texts, identity: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """Return the arrays of the method's pre-training, made once for data, parameters, seed and source.

    Raises MethodError if ``pretrain`` returns anything else.
    """

    def build(folder: Path) -> None:
        # On a separate object: cells that find the arrays do not get its other attributes.
        other = type(method)(**method.parameters())
        _equip(other, method.seed, method.artifacts, method.compute)
        arrays = other.pretrain(train, labels)  # type: ignore[attr-defined]
        if not isinstance(arrays, Mapping):
            kind = type(arrays).__name__
            raise MethodError(f"pretrain returned an object of type {kind}", "it must return a dict of arrays")
        save_arrays(folder / "pretrained.safetensors", arrays)
        # Notes of the pre-training belong to every cell that uses it.
        (folder / "notes.json").write_text(json.dumps(json_notes(other)))

    key = {"train": train.digest, "labels": labels.digest, **identity}
    folder = method.artifacts.get("pretraining", key, build, uses=(type(method),))
    method.notes.update(json.loads((folder / "notes.json").read_text()))
    return load_arrays(folder / "pretrained.safetensors")


def _equip(method: Method, seed: int, artifacts: Artifacts, compute: Compute) -> None:
    method.seed, method.artifacts, method.compute = seed, artifacts, compute


def json_notes(method: Method) -> dict[str, Any]:
    """Return the notes of a method as JSON values. Raises MethodError if they are not."""
    try:
        notes: dict[str, Any] = json.loads(json.dumps(method.notes, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise MethodError(
            f"the method's notes are not JSON: {error}", "use numbers, strings, lists and dicts"
        ) from error
    return notes
