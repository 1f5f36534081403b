"""Predictions of a row for one instance or text: labels with their texts, scores and training pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xmcbench.analysis import rankings
from xmcbench.data import Dataset, load_dataset
from xmcbench.data.catalog import default_dataset
from xmcbench.errors import NoResult, UnknownName, UsageError
from xmcbench.metrics import label_frequency
from xmcbench.output.layout import format_table
from xmcbench.plugins.registry import Registry
from xmcbench.records.record import Cell, Record
from xmcbench.records.selection import Conditions, choose_row
from xmcbench.records.staleness import HINT, Staleness
from xmcbench.records.store import Store
from xmcbench.runner.plan import PlannedCell, plan, plan_again
from xmcbench.runner.predict_texts import predict_texts
from xmcbench.runner.rows import Request
from xmcbench.runner.scoring import ranks_under
from xmcbench.runner.target import Target
from xmcbench.setting import Setting
from xmcbench.texts import Texts


@dataclass(frozen=True)
class Predicted:
    """A label that is predicted, or true and not predicted. rank: from 1; None for a true label beyond the ranking.

    score: None where predictions are not stored. frequency: its training pairs. true: None where that is not known.
    """

    rank: int | None
    label: int
    text: str
    score: float | None
    frequency: int
    true: bool | None


@dataclass(frozen=True)
class Shown:
    """The predictions of a row for one text. notes: whether the result is stale, and what is missing."""

    row: str
    dataset: str
    setting: str
    seed: int
    filter: str
    uid: str
    text: str
    labels: tuple[Predicted, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """The row, the text, and a table of labels; true ones are marked."""
        head = f"{self.row}, {self.dataset}, {self.setting}, seed {self.seed}, filter {self.filter}"
        about = f"{self.uid}: {' '.join(self.text.split())}" if self.uid else " ".join(self.text.split())
        lines = [
            [
                "" if label.rank is None else str(label.rank),
                "true" if label.true else "",
                label.text,
                "" if label.score is None else f"{label.score:.4g}",
                f"{label.frequency:,}",
            ]
            for label in self.labels
        ]
        heads = ["rank", "", "label", "score", "training pairs"]
        table = format_table(lines, heads, ("right", "left", "left", "right", "right"))
        return "\n\n".join([f"{head}\n{about}", table, *(["\n".join(self.notes)] if self.notes else [])])


def show_instance(
    word: str,
    uid: str,
    *,
    store: Store,
    conditions: Conditions,
    filter_name: str | None,
    k: int,
    staleness: Staleness,
) -> Shown:
    """Show the predictions of a stored run for the test instance with this uid.

    word: a row as in ``compare``; of several seeds the first is shown. Where the runs folder does not hold the
    predictions, the ranks of the true labels are shown. staleness: today's code, by which a stale result is noted.

    Raises UsageError for a row or an instance that is not there, and for a dataset of another version.
    """
    import pyarrow.compute as pc

    rankings.check_k(k)
    chosen = choose_row(store, word, conditions, unscored=True)
    record = chosen.records[0]
    data = load_dataset(conditions.dataset or record.cell.dataset)
    if data.digest != record.cell.dataset_sha256:
        raise UsageError(
            f"{data.name} on this machine is a different version from the record's", "fetch that one, or run again"
        )
    row = int(pc.index(data.test.uids.to_arrow(), uid).as_py())
    if row < 0:
        raise UsageError(f"{data.name} has no test instance {uid!r}", f"for example {data.test.uids[0]!r}")
    name = filter_name or record.protocol.filter
    rank_of = _true_ranks(record, chosen.store, row, name) if record.ok else {}
    predictions = rankings.load_stored(record, chosen.store)
    found: dict[int, float] = {}
    notes = _notes(record, staleness)
    if predictions is None:
        path = chosen.store.predictions_path(record.cell)
        notes.append(f"only true labels are shown, by their stored ranks: the predictions {path} are not here")
    else:
        found = rankings.rank_labels(predictions, data, row, name, k)
    missed = [(rank or None, label, None, True) for label, rank in rank_of.items() if label not in found]
    lines = [
        *(
            (place, label, found[label], label in rank_of if record.ok else None)
            for place, label in enumerate(found, 1)
        ),
        *sorted(missed, key=lambda line: (line[0] or 101, line[1])),
    ]
    if len(chosen.seeds) > 1:
        notes.append(f"seed {record.cell.seed} of {', '.join(map(str, chosen.seeds))} is shown")
    return _show(record.name, record.cell, data, name, data.test.uids[row], data.test[row], lines, notes)


def show_text(word: str, text: str, *, place: Target, registry: Registry, conditions: Conditions, k: int) -> Shown:
    """Show the predictions of a method for any text: a title, or title, TAB and content.

    word: a row of the runs folder, which is trained again with its parameters and seed; or NAME or NAME:PRESET of a
    method that has no result there, in the zero-shot setting of the default dataset unless others are given.

    Raises what planning the cell and ``predict_texts`` raise.
    """
    rankings.check_k(k)
    if not text.strip():
        raise UsageError("--text is empty", 'for example --text "a web server in Rust"')
    try:
        text.encode()
    except UnicodeEncodeError:  # Python reads bytes that are not UTF-8 as lone surrogates
        raise UsageError(f"--text {text!a} is not valid UTF-8", "does the terminal use another encoding?") from None
    planned = _plan(word, place.store, registry, conditions)
    data = planned.dataset
    title, _, content = text.partition("\t")
    answer = predict_texts(planned, place, Texts.from_lists([title], [content]), min(k, len(data.labels)))
    ranked = zip(answer.indices[0].tolist(), answer.scores[0].tolist(), strict=True)
    lines = [(rank, label, score, None) for rank, (label, score) in enumerate(ranked, 1) if label >= 0]
    return _show(planned.name, planned.cell, data, "none", "", text, lines, [])


def _show(
    name: str,
    cell: Cell,
    data: Dataset,
    filter_name: str,
    uid: str,
    text: str,
    lines: Iterable[tuple[int | None, int, float | None, bool | None]],
    notes: Iterable[str],
) -> Shown:
    """Return predictions with the texts of labels. lines: rank, label, score and whether it is true."""
    frequency = label_frequency(data.train_pairs())
    labels = tuple(
        Predicted(rank, label, data.labels.titles[label], score, int(frequency[label]), true)
        for rank, label, score, true in lines
    )
    return Shown(name, cell.dataset, cell.setting.title, cell.seed, filter_name, uid, text, labels, tuple(notes))


def _true_ranks(record: Record, store: Store, row: int, filter_name: str) -> dict[int, int]:
    """Return true label of a test row -> its rank under a filter; 0 beyond the ranking."""
    truth = store.truth(record)
    ranks = ranks_under(filter_name, record, store, truth)
    start, end = np.searchsorted(truth.pairs.rows, [row, row + 1])
    return dict(zip(truth.pairs.labels[start:end].tolist(), ranks[start:end].tolist(), strict=True))


def _notes(record: Record, staleness: Staleness) -> list[str]:
    """Return warnings for a reader of the result."""
    found = [] if record.ok else [f"no label is marked as true: {record.reason}"]
    if staleness.find_missing_methods(record):
        found.append(f"whether this result is stale is not known ({HINT})")
    return [*found, *filter(None, [staleness.problem(record)])]


def _plan(word: str, store: Store, registry: Registry, conditions: Conditions) -> PlannedCell:
    dataset = conditions.dataset
    try:
        record = choose_row(store, word, conditions, unscored=True).records[0]
    except UsageError as error:
        missing = isinstance(error, NoResult | UnknownName) or not store.root.is_dir()
        if not missing or word.partition(":")[0] not in {entry.name for entry in registry}:
            raise
        setting, seeds = conditions.setting or Setting.of("ez"), (conditions.seeds or (0,))[:1]
        request = Request(dataset or default_dataset(), setting, (word,), None, {}, seeds)
        return plan([request], registry, store).cells[0]
    return plan_again(record, dataset or record.cell.dataset, registry, store, gained=True).cells[0]
