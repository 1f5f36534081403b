"""Suggested labels for documents: the first k labels of a method, as rows, a pandas frame, or a TSV file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmcbench.analysis.rankings import check_k, load_filtered, load_stored
from xmcbench.arguments import make_grids, several
from xmcbench.data.catalog import default_dataset, load_dataset
from xmcbench.data.sources.finding import reference_to
from xmcbench.errors import MethodError, StorageError, UsageError
from xmcbench.experiment import Options, Run, plan_run
from xmcbench.extras import data_frame
from xmcbench.output import document
from xmcbench.output.escaping import tsv
from xmcbench.output.layout import format_table
from xmcbench.records import Store
from xmcbench.setting import Setting
from xmcbench.storage.atomic import atomic_file

if TYPE_CHECKING:
    import pandas as pd

    from xmcbench.data import Dataset
    from xmcbench.plugins.registry import Registry
    from xmcbench.records import Record
    from xmcbench.results import Results
    from xmcbench.runner.grid import Grid
    from xmcbench.texts import Texts
    from xmcbench.topk import TopK

COLUMNS = ("uid", "rank", "score", "label_uid", "label")
#: Suggestions shown in a terminal and in a notebook.
_SHOWN = 20


@dataclass(frozen=True, repr=False)
class Suggestions:
    """The first k labels of each document.

    name, setting: of the row, as in tables. source: what the documents are called. predictions: after the filter, all
    of them. record: of the cell; None where a kept model predicted. problems: notes on how the dataset and the
    documents were read, then what is wrong with the row.
    """

    name: str
    setting: str
    source: str
    documents: Texts
    labels: Texts
    predictions: TopK
    k: int
    record: Record | None = None
    threshold: float = -math.inf
    problems: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, int, float, str, str]]:
        """Yield the uid of a document, rank, score, uid and text of a label; best label first."""
        titles = self.labels.titles
        for row, uid in enumerate(self.documents.uids):
            labels, scores = (
                part[row, : self.k].tolist() for part in (self.predictions.indices, self.predictions.scores)
            )
            for rank, (label, score) in enumerate(zip(labels, scores, strict=True), 1):
                if label >= 0 and score >= self.threshold:
                    yield uid, rank, score, self.labels.uids[label], titles[label]

    @property
    def empty(self) -> int:
        """The number of documents without a suggestion."""
        best = self.predictions.scores[:, 0].astype(float)
        return int(((self.predictions.indices[:, 0] < 0) | (best < self.threshold)).sum())

    def frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per suggestion."""
        return data_frame((dict(zip(COLUMNS, row, strict=True)) for row in self), COLUMNS)

    def write(self, path: str | Path) -> None:
        """Write a TSV file, inert in terminals and spreadsheets. Raises StorageError."""
        from xmcbench.data.sources.text_lines import one_line

        with atomic_file(Path(path)) as stream:
            stream.write(("\t".join(COLUMNS) + "\n").encode())
            for uid, rank, score, label, text in self:
                cells = (tsv(uid), str(rank), f"{score:.6g}", tsv(label), tsv(one_line(text)))
                stream.write(("\t".join(cells) + "\n").encode())

    def table(self, rows: int | None = None) -> str:
        """Return the suggestions as a table, or the first of them."""
        return format_table(self._lines(rows), COLUMNS, ("left", "right", "right", "left", "left"))

    def _lines(self, rows: int | None) -> list[list[str]]:
        shown = islice(self, rows)
        return [[uid, str(rank), f"{score:.4g}", label, text] for uid, rank, score, label, text in shown]

    def __str__(self) -> str:
        """The first suggestions as a table; then the problems."""
        return "\n\n".join([self.table(_SHOWN), *self.problems])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        caption = f"First suggestions of {self.name} for {len(self.documents):,} documents of {self.source}"
        table = document.table(caption, COLUMNS, self._lines(_SHOWN))
        return "".join([table, *map(document.paragraph, self.problems)])


def suggest(
    arguments: Mapping[str, Any],
    documents: str | Path | None,
    k: int,
    filter_name: str | None,
    options: Options,
    registry: Registry | None = None,
    execute: Callable[[Run], Results] = Run.execute,
) -> Suggestions:
    """Suggest labels for documents. Raises UsageError, DataError, MethodError if the cell fails.

    arguments: of ``xmcbench.run``, for a single cell; the setting is ``full`` by default if the dataset has training
    pairs that the method uses. documents: the place of others than the test set.
    """
    check_k(k)
    place = single_place(arguments["dataset"])
    if documents is not None:
        place = reference_to(place, {"documents": str(documents)})
    dataset = load_dataset(place)
    chosen_filter = dataset.choose_filter(filter_name)
    grids, options, registry = single_grids({**arguments, "dataset": place}, dataset, options, registry)
    planned = check_single(plan_run(grids, options, registry, None), "suggest")
    store, cached = Store(options.runs), planned.plan.cells[0].record
    try:
        # `xmcbench clean` removes predictions, but not their record.
        is_missing, damage = cached is not None and load_stored(cached, store) is None, ""
    except StorageError as error:
        is_missing, damage = True, error.message
    if is_missing:
        planned = plan_run(grids, replace(options, force=True), registry, None)
        cells = [replace(cell, damage=damage) for cell in planned.plan.cells]
        planned = replace(planned, plan=replace(planned.plan, cells=cells))
    results = execute(planned)
    (record,) = results.records
    if record.predictions is None:
        raise MethodError(f"{record.name}: {record.status}: {record.reason}")
    predictions = load_filtered(record, store, dataset, chosen_filter)
    named = record.name, record.cell.setting.title, dataset.name
    # That documents have no labels to score with is no problem.
    problems = (*dataset.notes, *results.problems_of_rows())
    return Suggestions(*named, dataset.test, dataset.labels, predictions, k, record, problems=problems)


def single_place(given: Any) -> str:
    """Return the only dataset that is given, or the default one. Raises UsageError for several."""
    first, *others = several(given) or (default_dataset(),)
    if others:
        raise UsageError(f"{len(others) + 1} datasets are given", f"this takes one: {first}")
    return str(first)


def single_grids(
    arguments: Mapping[str, Any], dataset: Dataset, options: Options, registry: Registry | None
) -> tuple[list[Grid], Options, Registry]:
    """Return the grids of a single cell, with options and methods. Raises UsageError for several methods."""
    methods = several(arguments["methods"])
    if len(methods) != 1 or methods == ("all",):
        raise UsageError(f"{', '.join(map(str, methods))!r} is not one method", "see `xmcbench ls methods`")
    grids, options = make_grids([{**arguments, "setting": arguments["setting"] or "ez"}], options)
    registry = registry or options.registry()
    if arguments["setting"] is None and dataset.train_corpus.pairs:
        name = grids[0].methods[0].partition(":")[0]
        if registry[name].usable().supervision != "unused":
            grids = [replace(grid, settings=(Setting.of("full"),)) for grid in grids]
    return grids, options, registry


def check_single(planned: Run, verb: str) -> Run:
    """Return the plan of a command for a single cell. Raises UsageError if it has more."""
    if len(planned.plan.cells) > 1:
        raise UsageError(
            f"{verb} runs a single cell, but these options select {len(planned.plan.cells)}",
            "give one setting, one seed, and one value of each parameter",
        )
    return planned
