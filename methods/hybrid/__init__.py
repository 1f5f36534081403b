"""Hybrid: several methods, each with its own ranking, fused into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Unit

from xmcbench import Doc, Method, Part, Texts, TopK, UsageError, load_arrays, save_arrays
from xmcbench.methods.declarations import Probability
from xmcbench.methods.hybrid.fusion import Normalization
from xmcbench.methods.presets import CHOICES, PRESETS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_FUSION = "fusion.safetensors"
#: Instances at most on which weights are fitted.
_MOST_HELD_OUT = 1000
#: Instances whose rankings are fused at a time.
_BATCH = 16_384


class Hybrid(Method):
    """A weighted sum of what several methods rank, or reciprocal rank fusion (Cormack et al., SIGIR 2009).

    ``parts`` names other methods, each with a preset after a colon if it is to have one of its own. Every part is
    trained as it would be alone, on the same texts and pairs, and asked for as many labels as the hybrid itself. Where
    its own cell has run in the same runs folder, that ranking is taken, and the hybrid costs the fusion alone.

    Weights are equal, given, or fitted: ``fit`` holds out a share of the instances with known pairs, trains the parts
    on all others, chooses the weights by nDCG@10 among the labels with a known pair, and trains the parts again on all.
    Without pairs fitted weights are equal ones.
    """

    title = "Hybrid"
    supervision = "optional"
    described: ClassVar[tuple[str, ...]] = ("parts",)
    presets: ClassVar = PRESETS["hybrid"]

    choices: ClassVar = CHOICES["hybrid"]

    parts: Annotated[str, Doc("comma-separated methods, each NAME or NAME:PRESET")] = "tfidf,sentbert:quick"
    normalization: Annotated[
        Normalization,
        Doc(
            "how the scores of a part are normalized per instance: range (last 0, first 1), deviation (last 0, "
            "standard deviation 1), shift (last 0), rank (reciprocal rank fusion)",
            "LF-Debian-20K-dev",
        ),
    ] = "deviation"
    weights: Annotated[str, Doc("weights of the parts: equal, fit, or comma-separated numbers")] = "equal"
    held_out: Annotated[
        Probability, Doc("share of the instances with pairs that weights=fit is fitted on; at most 1,000 are")
    ] = 0.2
    depth: Annotated[int, Ge(0), Unit("labels"), Doc("labels requested from each part, if more than k")] = 0

    def describe(self) -> str:
        return " + ".join(self.uses())

    def uses(self) -> tuple[str, ...]:
        return tuple(spec.strip() for spec in self.parts.split(",") if spec.strip())

    def inputs(self) -> Mapping[str, Path | str]:
        """Return nothing: a file may be called like a part or ``fit``, but no parameter names one."""
        return {}

    def require(self) -> None:
        """Raise what a part raises, and UsageError where parts or weights make no sense."""
        self._parse_weights()
        for spec in self.uses():
            Part.of(spec, self).require()

    def fit(self, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None = None) -> None:
        """Remember what the parts learn from, and fit the weights if that is asked for."""
        self._texts, self._pairs, self._size = (raw_X, raw_Y), pairs, len(raw_Y)
        self._parts = [Part.of(spec, self) for spec in self.uses()]
        self._weights = self._parse_weights()
        if self.weights == "fit" and pairs is not None:
            self._fit_weights(pairs)

    def predict_batches(self, raw_X: Texts, k: int = 100) -> Iterator[TopK]:
        from xmcbench.methods.hybrid.fusion import fuse

        made = self._rank(raw_X, max(k, self.depth))
        self.notes["parts"] = {part.spec: notes for part, (_, notes) in zip(self._parts, made, strict=True)}
        self.notes["weights"] = dict(zip((part.spec for part in self._parts), self._weights, strict=True))
        for start in range(0, len(raw_X), _BATCH):
            rows = slice(start, start + _BATCH)
            rankings = [TopK(ranking.indices[rows], ranking.scores[rows]) for ranking, _ in made]
            yield fuse(rankings, self._weights, self.normalization, self._size, k)

    def save(self, folder: Path) -> None:
        """Train the parts, and write each into a folder of its own, with the weights beside them."""
        for place, part in enumerate(self._parts):
            part.save(folder / str(place), *self._texts, self._pairs)
        save_arrays(folder / _FUSION, {"weights": np.array(self._weights), "labels": np.array([self._size])})

    def load(self, folder: Path) -> None:
        fusion = load_arrays(folder / _FUSION)
        self._weights, self._size = fusion["weights"].tolist(), int(fusion["labels"][0])
        self._parts = [Part.of(spec, self) for spec in self.uses()]
        self._opened = [part.open(folder / str(place)) for place, part in enumerate(self._parts)]

    def _rank(self, raw_X: Texts, k: int) -> list[tuple[TopK, dict[str, Any]]]:
        """Return the ranking of each part, and its notes."""
        if self._opened:
            return [(part.predict(raw_X, k), part.notes) for part in self._opened]
        return [part.ranking((*self._texts, raw_X), self._pairs, k) for part in self._parts]

    def _fit_weights(self, pairs: csr_matrix) -> None:
        from xmcbench.methods.hybrid.fusion import find_own_labels, fit_weights, hold_out_rows, normalize, only_seen

        raw_X, raw_Y = self._texts
        rows = hold_out_rows(pairs, self.held_out, _MOST_HELD_OUT, self.seed)
        self.notes["weights_fitted_on"] = len(rows)
        if not len(rows):
            return
        # Without their texts too: the nearest neighbor of a held-out instance would be itself, without a pair.
        rest = np.setdiff1d(np.arange(len(raw_X)), rows)
        texts = raw_X.take(rest), raw_Y, raw_X.take(rows)
        rankings = [part.ranking(texts, pairs[rest], max(100, self.depth))[0] for part in self._parts]
        ready = [TopK(ranking.indices, normalize(ranking, self.normalization, len(raw_Y))) for ranking in rankings]
        own = find_own_labels(raw_X, raw_Y)[rows]
        known = [only_seen(ranking, own, pairs) for ranking in ready]
        self._weights, value = fit_weights(known, pairs[rows])
        self.notes["held_out_ndcg"] = round(value, 4)

    def _parse_weights(self) -> list[float]:
        """The weights as they are before any is fitted. Raises UsageError, and what ``Part.of`` raises."""
        # A name alone may be its preset quick: two words for one part.
        number = len(self.uses())
        if number < 2 or len({Part.of(spec, self).spec for spec in self.uses()}) < number:
            raise UsageError(
                f"hybrid.parts = {self.parts!r} must name at least two different methods", "tfidf,ict:small"
            )
        if self.weights in ("equal", "fit"):
            return [1 / number] * number
        try:
            given = [float(weight) for weight in self.weights.split(",")]
        except ValueError:
            given = []
        if len(given) != number or not all(0 <= weight < float("inf") for weight in given) or not any(given):
            raise UsageError(
                f"hybrid.weights = {self.weights!r} is not a number for each of the {number} parts", "equal, fit or 2,1"
            )
        return given

    _texts: tuple[Texts, Texts]
    _pairs: Any
    _size: int
    _parts: list[Part]
    _opened: Sequence[Method] = ()
    _weights: list[float]
