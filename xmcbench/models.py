"""Trained methods as folders: a method is fitted like a cell, kept without pickle, and opened again to predict.

A folder has ``model.json`` (method, parameters, source, dataset), ``labels.jsonl``, a card, and what ``Method.save``
writes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from xmcbench import __version__
from xmcbench.analysis.rankings import check_k
from xmcbench.data.catalog import load_dataset, load_documents
from xmcbench.environment import Compute, distribution_versions
from xmcbench.errors import DataError, MethodError, UnknownName, UsageError, XmcbenchError, summarize
from xmcbench.experiment import Options, plan_run
from xmcbench.method import Method
from xmcbench.plugins.loading import import_file, load
from xmcbench.plugins.registry import Registry
from xmcbench.runner.parts import source
from xmcbench.runner.plan import PlannedCell
from xmcbench.runner.predict_texts import predict_texts
from xmcbench.runner.tasks import depth
from xmcbench.storage.atomic import atomic_file, atomic_folder, write_json, write_text
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.reading import open_regular, read_bytes
from xmcbench.suggestions import Suggestions, check_single, single_grids, single_place
from xmcbench.texts import Texts
from xmcbench.topk import TopK

_FACTS, _LABELS, _CARD = "model.json", "labels.jsonl", "README.md"
#: Test instances on which a model that was just written is compared with the method that was trained.
_SAMPLE = 50
#: Difference that another number of threads can make: of a score, and in parts of the greatest score of its row.
_OF_SCORE, _OF_ROW = 1e-3, 1e-5
#: Share of the variance of the scores in rows that differences may have: an order of its own is no rounding.
_OF_VARIANCE = 0.5


class Facts(Struct, frozen=True, kw_only=True):
    """The identity of a model.

    name: of its row. parameters: all of them. source_sha256: of the method's source when it was trained. depth: labels
    that are ranked at once, as in its cell. plugins: the files of a method that is not installed. packages: versions.
    files: all of the folder but this one. labels_sha256: of the file of labels.
    """

    format: Literal[1] = 1
    xmcbench: str = __version__
    method: str
    name: str
    parameters: dict[str, bool | int | float | str | None]
    seed: int
    source_sha256: str
    dataset: str
    dataset_sha256: str
    setting: str
    labels: int
    depth: int
    plugins: tuple[str, ...] = ()
    packages: dict[str, str] = {}
    files: tuple[str, ...]
    labels_sha256: str


class _Label(Struct, frozen=True):
    """A line of the file of labels."""

    uid: str
    title: str


@dataclass(frozen=True, repr=False)
class Model:
    """A trained method with its labels."""

    folder: Path
    facts: Facts
    method: Method
    labels: Texts

    def __repr__(self) -> str:
        return f"<Model {self.facts.name}: {self.facts.dataset}, {self.facts.setting}, {self.facts.labels:,} labels>"

    @classmethod
    def load(
        cls, folder: str | Path, plugins: str | Path | Sequence[str | Path] = (), compute: Compute | None = None
    ) -> Model:
        """Open the folder that ``fit`` wrote.

        plugins: files of a method that is not installed, or one. Raises UsageError, DataError, PluginError and
        Unavailable.
        """
        folder = Path(folder)
        facts = _read_facts(folder)
        for plugin in [plugins] if isinstance(plugins, str | Path) else plugins:
            import_file(Path(plugin))
        flags = " ".join(f"--plugin {name}" for name in facts.plugins)
        try:
            kind = load(facts.method)
        except UnknownName as error:
            raise UnknownName("method", facts.method, (), flags or error.hint, f"of the model {folder}") from None
        method = kind(**facts.parameters)
        method.compute = compute or Compute()
        method.seed = facts.seed  # a part of a Hybrid takes it while it is loaded
        try:
            method.load(folder)
        except DataError as error:  # its hint may be that of an artifact
            raise DataError(error.message, "fit the model again") from error
        except UnknownName as error:  # one of its parts
            raise UsageError(f"{error.message} in the model {folder}", flags or error.hint) from None
        except XmcbenchError:
            raise
        except Exception as error:  # a method can raise anything
            raise DataError(f"the model {folder} cannot be opened: {summarize(error)}", "fit it again") from error
        return cls(folder, facts, method, _read_labels(folder, facts))

    @property
    def is_current(self) -> bool:
        """True where the source of the method and its parts is that of the training: it predicts as its cell did.

        Raises DataError where a file that a plug-in declares is not there.
        """
        try:
            return source(self.method).digest == self.facts.source_sha256
        except OSError as error:
            what = f"{self.facts.method} names {error.filename} in its files, and it cannot be read: {error.strerror}"
            raise DataError(what, "put it beside the plug-in") from error

    def predict(self, texts: Texts | Sequence[str], k: int = 100) -> TopK:
        """Return the k best labels of each text: a TopK of shape [len(texts), k]. Raises what the method raises."""
        if isinstance(texts, str):
            raise UsageError("predict takes several texts, and this is one", "predict([text])")
        if not isinstance(k, Integral) or k < 1:
            raise UsageError(f"k={k!r} is not a number of labels", "k=100")
        given = Texts.of(texts)
        # As many as in its cell: the best labels of a method may depend on how many are requested.
        whole = max(k, self.facts.depth)
        found = self.method.predict(given, whole)
        found.check(len(given), whole, len(self.labels))
        return TopK(found.indices[:, :k], found.scores[:, :k])

    def suggest(self, documents: str | Path | Texts | Sequence[str], k: int = 5) -> Suggestions:
        """Return the first k labels (1..100) of documents: texts, or their place, as of ``xmcbench.suggest``.

        Predictions are not filtered. Raises UsageError and DataError.
        """
        check_k(k)
        is_place = isinstance(documents, str | Path)
        texts, notes = load_documents(documents) if is_place else (Texts.of(documents), ())  # type: ignore[arg-type]
        named = self.facts.name, self.facts.setting, str(documents) if is_place else "a list"
        return Suggestions(*named, texts, self.labels, self.predict(texts, k), k, problems=notes)


def fit(
    arguments: Mapping[str, Any],
    out: str | Path,
    overwrite: bool = False,
    options: Options | None = None,
    registry: Registry | None = None,
) -> Model:
    """Train a method as its cell does, and write it into the folder ``out``, which is opened again and tested.

    arguments: of ``xmcbench.run``, for a single cell; the setting as of ``suggest``. Raises UsageError, DataError, and
    MethodError where the method fails, cannot be kept, or predicts otherwise when opened.
    """
    out = Path(os.path.realpath(out))
    check_out(out, overwrite)
    place = single_place(arguments["dataset"])
    dataset = load_dataset(place)
    grids, options, registry = single_grids({**arguments, "dataset": place}, dataset, options or Options(), registry)
    cell = check_single(plan_run(grids, options, registry, None), "fit").plan.cells[0]
    texts = dataset.test[:_SAMPLE]
    with atomic_folder(out) as folder:
        predicted = predict_texts(cell, options.target, texts, depth(cell), folder)
        _write(cell, folder)
        model = Model.load(folder, cell.plugins, options.compute)
        again = model.predict(texts, depth(cell))
        if not _is_equal(predicted, again):
            raise MethodError(
                f"the method {cell.cell.method} does not keep its trained state: it predicts otherwise when it is "
                "opened again",
                "it uses something that is no attribute, or its save leaves something out",
            )
        check_out(out, overwrite)  # the training may have taken hours
    return replace(model, folder=out)


def check_out(out: Path, overwrite: bool) -> None:
    """Raise UsageError for a folder that a model must not replace."""
    if out.resolve() == Path.cwd():
        raise UsageError(f"{out} is the current folder, which a model would replace", "choose another name")
    if os.path.ismount(out):
        raise UsageError(f"{out} is a mount point, which cannot be replaced", "choose a folder below it")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        facts = _read_facts(out)
    except XmcbenchError:
        raise UsageError(f"{out} already exists and is not a model", "choose another name") from None
    if not overwrite:
        raise UsageError(f"{out} already exists", "choose another name, or replace it with --overwrite")
    if others := sorted({*_list_files(out)} - {*facts.files, _FACTS}):
        raise UsageError(f"{out} has files that are not the model's: {', '.join(others)}", "move them, or remove them")


def _list_files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, below it, in order."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _is_equal(one: TopK, other: TopK) -> bool:
    """Return whether two rankings of the same texts agree; near the same score, labels may change places."""
    changed = varied = 0.0
    for labels, scores, other_labels, other_scores in zip(
        one.indices.tolist(), one.scores.tolist(), other.indices.tolist(), other.scores.tolist(), strict=True
    ):
        size = max((abs(score) for score in scores + other_scores if math.isfinite(score)), default=0.0)
        least = _OF_ROW * size
        close = partial(math.isclose, rel_tol=_OF_SCORE, abs_tol=least)
        first, second = dict(zip(labels, scores, strict=True)), dict(zip(other_labels, other_scores, strict=True))
        # A label behind the last one has its score at most.
        pairs = [(first.get(label, scores[-1]), second.get(label, scores[-1])) for label in {*first, *second}]
        if not all(map(close, scores, other_scores)) or not all(close(*pair) for pair in pairs):
            return False
        found = [(before, after) for before, after in pairs if math.isfinite(before)]
        mean = math.fsum(before for before, _ in found) / max(1, len(found))
        if any(abs(before - mean) > least for before, _ in found):  # else all are tied
            # Not the squares of the scores, which may be too small for a float.
            changed += math.fsum(((before - after) / least) ** 2 for before, after in found)
            varied += math.fsum(((before - mean) / least) ** 2 for before, _ in found)
    return changed <= _OF_VARIANCE * varied


def _write(planned: PlannedCell, folder: Path) -> None:
    cell, dataset = planned.cell, planned.dataset
    with atomic_file(folder / _LABELS) as stream:
        for uid, title in zip(dataset.labels.uids, dataset.labels.titles, strict=True):
            stream.write(msgspec.json.encode(_Label(uid, title)) + b"\n")
    facts = Facts(
        method=cell.method,
        name=planned.name,
        parameters=dict(planned.row.values),  # type: ignore[arg-type] # they were checked
        seed=cell.seed,
        source_sha256=planned.source_sha256,
        dataset=dataset.name,
        dataset_sha256=dataset.digest,
        setting=cell.setting.title,
        labels=len(dataset.labels),
        depth=depth(planned),
        plugins=tuple(map(str, planned.plugins)),
        packages=distribution_versions(sorted(planned.packages)),
        files=tuple(sorted({*_list_files(folder), _CARD})),
        labels_sha256=sha256_file(folder / _LABELS),
    )
    write_text(folder / _CARD, _card(facts))
    write_json(folder / _FACTS, msgspec.to_builtins(facts))


def _card(facts: Facts) -> str:
    values = "\n".join(f"| {name} | `{value}` |" for name, value in facts.parameters.items())
    return f"""---
library_name: xmcbench
tags: [extreme-multi-label-classification]
---

# {facts.name} on {facts.dataset}

The method `{facts.method}`, trained on {facts.dataset} ({facts.setting}, seed {facts.seed}), suggests some of
{facts.labels:,} labels for a text. xmcbench {facts.xmcbench} wrote it:

    xmcbench suggest --model FOLDER --documents new.txt

| Parameter | Value |
|---|---|
{values}

SHA-256 of the dataset: `{facts.dataset_sha256}`; of the method's source: `{facts.source_sha256}`.
`labels.jsonl` has the labels in the order of their numbers.
"""


def _read_facts(folder: Path) -> Facts:
    if not (folder / _FACTS).is_file():
        raise UsageError(f"{folder} is not a model: it has no {_FACTS}", "xmcbench fit METHOD --out FOLDER writes one")
    try:
        return msgspec.json.decode(read_bytes(folder / _FACTS), type=Facts)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder / _FACTS} cannot be read: {error}", "fit the model again") from error


def _read_labels(folder: Path, facts: Facts) -> Texts:
    path = folder / _LABELS
    try:
        with open_regular(path) as stream:
            labels = msgspec.json.Decoder(_Label).decode_lines(stream.read())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}", "fit the model again") from error
    if sha256_file(path) != facts.labels_sha256:
        raise DataError(f"{path}: checksum mismatch", "fit the model again")
    if len(labels) != facts.labels:
        raise DataError(f"{path} has {len(labels):,} labels instead of {facts.labels:,}", "fit the model again")
    return Texts.from_lists([label.title for label in labels], uids=[label.uid for label in labels])
