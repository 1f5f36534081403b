"""Methods inside a method: another one by name and preset, whose ranking is made once for all that ask for it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench import parameters
from xmcbench.contents import identity_values
from xmcbench.errors import MethodError, UnknownName, UsageError
from xmcbench.method import Method
from xmcbench.plugins.description import DEFAULT_PRESET
from xmcbench.plugins.loading import load
from xmcbench.runner.prediction import Phases, json_notes, predict
from xmcbench.runner.training import training_name
from xmcbench.storage.canonical import canonical_json
from xmcbench.storage.pairs import pairs_digest
from xmcbench.storage.source import Source, join_digests, source_of
from xmcbench.topk import TopK

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from xmcbench.texts import Texts

_KIND, _RANKING, _NOTES = "ranking", "ranking.npz", "notes.json"


@dataclass(frozen=True)
class Part:
    """Another method, for use in ``fit`` and ``predict`` of one's own.

    name, values: the method and all its parameters. outer: the method that it is a part of, from which it has seed,
    artifacts and compute. ``uses`` of the outer method names it, so that results are stale when its source changes.
    """

    spec: str
    name: str
    values: Mapping[str, Any]
    kind: type[Method]
    outer: Method

    @classmethod
    def of(cls, spec: str, outer: Method) -> Part:
        """A part by NAME or NAME:PRESET; a name alone is its preset ``quick`` where it has one, as in a run.

        One in a plug-in file is found if the run was given the file. Raises UnknownName, UsageError, PluginError,
        Unavailable, and MethodError for one that ``uses`` of the outer method does not name.
        """
        if spec.strip() not in {each.strip() for each in outer.uses()}:
            raise MethodError(
                f"{type(outer).__name__} has the part {spec}, which its `uses` does not name",
                "return it there too: otherwise results are not stale when the part changes",
            )
        name, colon, preset = (each.strip() for each in spec.partition(":"))
        kind = load(name)
        if kind is type(outer):
            raise UsageError(f"{name} cannot be a part of itself", "name other methods")
        if colon and preset not in kind.presets:
            raise UnknownName("preset", preset, kind.presets, where=f"of {name}")
        preset = preset or (DEFAULT_PRESET if DEFAULT_PRESET in kind.presets else "")
        values = parameters.resolve(parameters.list_parameters(kind), name, kind.presets.get(preset, {}))
        return cls(f"{name}:{preset}" if preset else name, name, values, kind, outer)

    def require(self) -> None:
        """Raise Unavailable where the part needs something that is not on this machine."""
        self.kind(**self.values).require()

    def ranking(
        self, texts: tuple[Texts, Texts, Texts], pairs: csr_matrix | None, k: int
    ) -> tuple[TopK, dict[str, Any]]:
        """The k best labels of each new text, and the part's notes; trained on the pairs first, if there are any.

        texts: of the training instances, the labels and the new instances. Where a cell of the same method, parameters,
        seed, texts and pairs has run before in this runs folder, its ranking is taken. Raises what the part raises.
        """
        if pairs is None and self.kind.supervision == "required":
            raise UsageError(f"{self.spec} learns from pairs and there are none", "leave it out, or run fs or full")
        method = self.kind(**self.values)
        if method.supervision == "unused":
            pairs = None

        def build(folder: Path) -> None:
            found = predict(
                method,
                texts,
                pairs,
                k,
                seed=self.outer.seed,
                artifacts=self.outer.artifacts,
                compute=self.outer.compute,
                identity=identity(self.name, method),
                phases=Phases(),
            )
            TopK.save_joined(folder / _RANKING, found, len(texts[2]), k)
            (folder / _NOTES).write_text(json.dumps(json_notes(method)))

        (_, *inner) = used = through(method)
        key = ranking_key(self.name, method, texts, pairs, k, self.outer.seed)
        if inner:  # their presets may change
            key["parts"] = [values for _, values in inner]
        with self.outer.artifacts.of_part(training_name(self.name, cell_parameters(method))):
            folder = self.outer.artifacts.get(_KIND, key, build, uses=tuple(kind for kind, _ in used), own=True)
        return TopK.load(folder / _RANKING), json.loads((folder / _NOTES).read_text())


def through(method: Method) -> list[tuple[type[Method], Mapping[str, Any]]]:
    """The class of a method and those of all parts that it uses, each with its parameters and once, itself first.

    A parameter that names a file or a model has its content.
    """
    distinct = {(type(used), canonical_json(used.parameters())): used for used in _chain(method)}
    return [(kind, identity_values(used)) for (kind, _), used in distinct.items()]


def _chain(method: Method) -> Iterator[Method]:
    yield method
    for spec in method.uses():
        part = Part.of(spec, method)
        yield from _chain(part.kind(**part.values))


def source(method: Method) -> Source:
    """The source of a method and of all parts that it uses: its digest is what the plan of the cell says of it."""
    used = through(method)
    read = [source_of(kind) for kind, _ in used]
    packages = sorted({package for each in read for package in each.packages})
    return Source(join_digests([each.digest for each in read], [values for _, values in used[1:]]), tuple(packages))


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
    """What names the ranking of a method that is not trained yet. pairs: those that it learns from."""
    return {
        "method": name,
        "parameters": identity_values(method),
        "seed": 0 if method.deterministic else seed,
        "texts": [each.digest for each in texts],
        "pairs": None if pairs is None else pairs_digest(pairs.indptr, pairs.indices),
        "k": k,
    }


def keep_ranking(key: dict[str, object], method: Method, file: Path, wall_s: float) -> None:
    """Leave the ranking of a finished cell, in ``file``, for methods that it is a part of.

    key: its ``ranking_key``. wall_s: what it cost. Raises StorageError when it cannot be written.
    """

    def write(folder: Path) -> None:
        try:
            os.link(file, folder / _RANKING)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, folder / _RANKING)
        (folder / _NOTES).write_text(json.dumps(json_notes(method)))

    method.artifacts.put(_KIND, key, write, wall_s, uses=(type(method),), own=True)
