"""Test instances of a dataset, and the ranks at which methods have their true labels.

A board keeps their texts in files that are written by hand, ``examples/<dataset>.toml``: its pages are made without the
datasets. Predictions are not part of a board either, but the ranks of all true labels are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from xmcbench.errors import StorageError
from xmcbench.leaderboard import captions
from xmcbench.leaderboard.blocks import Block, Heading
from xmcbench.leaderboard.names import short_names
from xmcbench.leaderboard.rows import Row
from xmcbench.leaderboard.tables import text_table
from xmcbench.output.escaping import markdown
from xmcbench.records import Record, Store
from xmcbench.setting import Setting
from xmcbench.storage.reading import read_text

#: The folder of the files, and the number of methods whose ranks are shown.
FOLDER, METHODS = "examples", 3


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A test instance. row: its number in the test set. labels: id of every true label -> its text."""

    row: int
    title: str
    content: str
    labels: dict[int, str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    instance: tuple[Instance, ...]


@dataclass(frozen=True)
class Examples:
    """The instances of a board. files: name of a dataset in lower case -> its file, and what that holds."""

    store: Store
    files: Mapping[str, tuple[Path, tuple[Instance, ...]]]

    @classmethod
    def of(cls, store: Store) -> Examples:
        """Return the instances beside the records of a store; none without the folder. Raises StorageError."""
        paths = sorted((store.root / FOLDER).glob("*.toml"))
        return cls(store, {path.stem.lower(): (path, _read(path)) for path in paths})

    def blocks(self, dataset: str, setting: Setting, shown: Iterable[Row]) -> list[Block]:
        """Return the section of a dataset; none without instances or rows.

        shown: the rows of a setting that have ranks, the best first. Raises StorageError for labels that are not those
        of the dataset.
        """
        best: dict[str, Row] = {}
        for row in shown:
            best.setdefault(row.facts.title, row)
        chosen = [*best.values()][:METHODS]
        path, instances = self.files.get(dataset.lower(), (Path(), ()))
        if not chosen or not instances:
            return []
        told = f"ranks in {', '.join(short_names(chosen))}"
        found: list[Block] = [Heading(2, "Test instances"), captions.EXAMPLES]
        ranks = [self._ranks(row.records[0], path, instances) for row in chosen]
        for number, instance in enumerate(instances):
            lines = [
                (text, [f"{own[number][label] or ''}" for own in ranks], 0) for label, text in instance.labels.items()
            ]
            caption = f"{dataset}, {setting.title}, true labels of test instance {instance.row}: {told}"
            found.append(f"**{markdown(instance.title)}** {markdown(instance.content)}".strip())
            found.append(text_table(f"instance-{instance.row}", caption, "True label", [*best][:METHODS], lines))
        return found

    def _ranks(self, record: Record, path: Path, instances: Sequence[Instance]) -> list[dict[int, int]]:
        """Return the ranks of the true labels of each instance, 0 where a label is not among the first 100."""
        truth = self.store.truth(record)
        ranks = self.store.ranks(record, truth).by_filter[record.protocol.filter]
        found = []
        for instance in instances:
            own = truth.pairs.rows == instance.row
            found.append(dict(zip(truth.pairs.labels[own].tolist(), ranks[own].tolist(), strict=True)))
            if found[-1].keys() != instance.labels.keys():
                listed = ", ".join(map(str, sorted(found[-1]))) or "none"
                raise StorageError(f"{path}: wrong labels of row {instance.row}", f"its true labels are: {listed}")
        return found


def _read(path: Path) -> tuple[Instance, ...]:
    try:
        return msgspec.convert(tomllib.loads(read_text(path)), _File, strict=False).instance
    except (OSError, ValueError, RecursionError) as error:
        hint = "give each row, title, content and labels"
        raise StorageError(f"{path} does not hold test instances: {error}", hint) from error
