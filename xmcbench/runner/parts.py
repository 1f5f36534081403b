"""Methods inside a method: by name and preset, with a ranking that is made once for all methods that use it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench import parameters
from xmcbench.errors import MethodError, UnknownName, UsageError
from xmcbench.method import Method, identity_values
from xmcbench.plugins.description import DEFAULT_PRESET
from xmcbench.plugins.loading import load
from xmcbench.runner.job import training_name
from xmcbench.runner.prediction import Phases, json_notes, predict
from xmcbench.storage.arrays import pairs_digest
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.source import Source, join_digests, source_of
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts

_KIND, _RANKING, _NOTES = "ranking", "ranking.npz", "notes.json"


@dataclass(frozen=True)
class Part:
    """Another method, for use in ``fit`` and ``predict`` of a method.

    name, values: the method and all its parameters. outer: the method that it is a part of, which gives it seed,
    artifacts and compute. ``uses`` of the outer method names it, so that results are stale when its source changes.
    """

    spec: str
    name: str
    values: Mapping[str, Any]
    kind: type[Method]
    outer: Method

    @classmethod
    def of(cls, spec: str, outer: Method) -> Part:
        """Return a part by NAME or NAME:PRESET; a name alone means its preset ``quick`` if it has one, as in a run.

        A part in a plug-in file is found if the run was given the file. Raises UnknownName, UsageError, PluginError,
        Unavailable, and MethodError for a part that ``uses`` of the outer method does not name.
        """
        if spec.strip() not in map(str.strip, outer.uses()):
            raise MethodError(
                f"{type(outer).__name__} has the part {spec}, which its `uses` does not name",
                "return it there too: otherwise results are not stale when the part changes",
            )
        name, colon, preset = map(str.strip, spec.partition(":"))
        kind = load(name)
        if kind is type(outer):
            raise UsageError(f"{name} cannot be a part of itself", "name other methods")
        if colon and preset not in kind.presets:
            raise UnknownName("preset", preset, kind.presets, where=f"of {name}")
        preset = preset or (DEFAULT_PRESET if DEFAULT_PRESET in kind.presets else "")
        values = parameters.resolve(parameters.list_parameters(kind), name, kind.presets.get(preset, {}))
        return cls(f"{name}:{preset}" if preset else name, name, values, kind, outer)

    def require(self) -> None:
        """Raise Unavailable if a requirement of the part is missing on this machine."""
        self.kind(**self.values).require()

    def ranking(
        self, texts: tuple[Texts, Texts, Texts], pairs: csr_matrix | None, k: int
    ) -> tuple[TopK, dict[str, Any]]:
        """Train the part on the pairs, if any, and return the k best labels of each new text, and its notes.

        texts: of the training instances, the labels and the new instances. If a cell with the same method, parameters,
        seed, texts and pairs has run before in this runs folder, its ranking is reused. Raises as the part does.
        """
        if pairs is None and self.kind.supervision == "required":
            raise UsageError(f"{self.spec} learns from pairs and there are none", "leave it out, or run fs or full")
        method = self.kind(**self.values)
        if method.supervision == "unused":
            pairs = None

        def build(folder: Path) -> None:
            found = self._predict(method, texts, pairs, k)
            TopK.save_joined(folder / _RANKING, found, len(texts[2]), k)
            (folder / _NOTES).write_text(json.dumps(json_notes(method)))

        (_, *inner) = used = through(method)
        key = ranking_key(self.name, method, texts, pairs, k, self.outer.seed)
        if inner:  # their presets may change
            key["parts"] = [values for _, values in inner]
        with self.outer.artifacts.of_part(training_name(self.name, cell_parameters(method))):
            folder = self.outer.artifacts.get(_KIND, key, build, uses=tuple(kind for kind, _ in used), own=True)
        # In parts: the limit of a file that is read as a whole is not for one's own.
        found = TopK.joined(TopK.load_parts(folder / _RANKING), k, len(texts[2]))
        return found, json.loads((folder / _NOTES).read_text())

    def save(self, folder: Path, raw_X: Texts, raw_Y: Texts, pairs: csr_matrix | None) -> None:
        """Train the part, and write what training has made into a new folder, for ``open``. Raises as the part does."""
        method = self.kind(**self.values)
        # The ranking of a text is the end of the training.
        list(self._predict(method, (raw_X, raw_Y, raw_X[:1]), None if method.supervision == "unused" else pairs, 1))
        folder.mkdir()
        method.save(folder)

    def open(self, folder: Path) -> Method:
        """Return the part as ``save`` wrote it, ready to predict. Raises as its ``load`` does."""
        method = self.kind(**self.values)
        method.seed, method.compute = self.outer.seed, self.outer.compute
        method.load(folder)
        return method

    def _predict(
        self, method: Method, texts: tuple[Texts, Texts, Texts], pairs: csr_matrix | None, k: int
    ) -> Iterator[TopK]:
        outer = self.outer
        return predict(
            method,
            texts,
            pairs,
            k,
            seed=outer.seed,
            artifacts=outer.artifacts,
            compute=outer.compute,
            identity=identity(self.name, method),
            phases=Phases(),
        )


def through(method: Method) -> list[tuple[type[Method], Mapping[str, Any]]]:
    """Return the classes of a method and its parts, each once and with its parameters as in a cell, itself first."""
    distinct = {(type(used), canonical_json(used.parameters())): used for used in _chain(method)}
    return [(kind, cell_parameters(used)) for (kind, _), used in distinct.items()]


def _chain(method: Method) -> Iterator[Method]:
    yield method
    for spec in method.uses():
        part = Part.of(spec, method)
        yield from _chain(part.kind(**part.values))


def source(method: Method) -> Source:
    """Return the source of a method and of all its parts, with the digest that the plan of the cell has."""
    used = through(method)
    read = [source_of(kind) for kind, _ in used]
    packages = sorted({package for source in read for package in source.packages})
    inner = canonical_json([values for _, values in used[1:]])
    return Source(join_digests([source.digest for source in read], inner), tuple(packages))


def identity(name: str, method: Method) -> dict[str, Any]:
    """Return the identity of the training of a method, with the source of its parts if it has any."""
    parts = {"parts": source(method).digest} if method.uses() else {}
    return {"method": name, "parameters": cell_parameters(method), **parts}


def cell_parameters(method: Method) -> dict[str, Any]:
    """Return the parameters of a method as a cell has them: files by content, and no default that was added later."""
    return parameters.identity(parameters.list_parameters(type(method)), identity_values(method))


def ranking_key(
    name: str, method: Method, texts: tuple[Texts, Texts, Texts], pairs: csr_matrix | None, k: int, seed: int
) -> dict[str, object]:
    """Return the identity of the ranking of a method that is not trained yet. pairs: those that it learns from."""
    return {
        "method": name,
        "parameters": identity_values(method),
        "seed": 0 if method.deterministic else seed,
        "texts": [of_side.digest for of_side in texts],
        "pairs": None if pairs is None else pairs_digest(pairs.indptr, pairs.indices),
        "k": k,
    }


def keep_ranking(key: dict[str, object], method: Method, file: Path, wall_s: float) -> None:
    """Keep the ranking of a finished cell, in ``file``, for methods that it is a part of.

    key: its ``ranking_key``. wall_s: its cost. Raises StorageError if it cannot be written.
    """

    def write(folder: Path) -> None:
        try:
            os.link(file, folder / _RANKING)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, folder / _RANKING)
        (folder / _NOTES).write_text(json.dumps(json_notes(method)))

    method.artifacts.put(_KIND, key, write, wall_s, uses=(type(method),), own=True)
