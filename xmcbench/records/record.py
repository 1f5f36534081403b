"""The record of a cell: its fields, typed, and checked when it is made.

A cell is dataset x setting x subset x method x parameters x seed; its key is the SHA-256 of that as canonical JSON. A
record holds the cell and everything about its result. Figures are fractions, times seconds, memory bytes. How it is
written and read is in ``record_json``.
"""

from __future__ import annotations

import shlex
from collections.abc import Set
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from xmcbench.environment import Compute, Hardware, Program
from xmcbench.errors import UsageError
from xmcbench.metrics import METRICS
from xmcbench.metrics.labels import MIN_INSTANCES
from xmcbench.setting import Setting
from xmcbench.storage.canonical import canonical_json, sha256_json
from xmcbench.storage.locations import check_name

SCHEMA = 2

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, le=2**62)]
#: Seconds or milliseconds. None took thirty thousand years; sums of such numbers stay finite.
Amount = Annotated[float, Meta(ge=0, lt=1e15)]

#: Keys of tables in a record: plain strings, so that any string can be looked up.
FilterName = Annotated[str, Meta(pattern="^(none|self|file)$")]
_COUNTS = ("train", "test", "labels", "train_pairs", "test_pairs")
Counted = Annotated[str, Meta(pattern=f"^({'|'.join(_COUNTS)})$")]

#: unscored: there are predictions, but no test instance has a label.
Status = Literal["ok", "unscored", "failed", "timeout", "skipped"]


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a record: read-only, without undeclared fields."""


class Cell(_Part, frozen=True, kw_only=True, dict=True):
    """The identity of one run."""

    dataset: str
    dataset_sha256: Sha256
    setting: Setting
    subset_sha256: Sha256 | None
    method: str
    parameters: dict[str, bool | int | float | str | None]
    seed: Annotated[int, Meta(ge=0, lt=2**32)]

    def __post_init__(self) -> None:
        """Raise ValueError for values that no run can have: a name that is not a file name, an invalid setting."""
        check_name("the dataset", self.dataset)
        check_name("the method", self.method)
        setting = self.setting
        try:
            valid = setting == Setting.of(setting.kind, setting.ratio, setting.by)
        except UsageError as error:
            raise ValueError(error.message) from None
        if not valid:
            raise ValueError("the setting is incomplete")

    @cached_property  # a plan of many cells asks again and again
    def key(self) -> str:
        """SHA-256 (hex) of the identity."""
        return sha256_json(msgspec.to_builtins(self))

    @property
    def row(self) -> str:
        """Method and parameters, as canonical JSON."""
        return canonical_json([self.method, self.parameters])

    @cached_property
    def path(self) -> Path:
        """The path of the cell's files in each folder of a runs folder, without a suffix."""
        return Path(self.dataset.lower(), self.setting.slug, f"{self.method}-s{self.seed}-{self.key[:12]}")


class MethodFacts(_Part, frozen=True, kw_only=True):
    """The description of a method.

    variant: preset, encoder, training budget, changed parameters. deterministic: whether results do not depend on the
    seed. source_sha256: of the code that made the result (``xmcbench.storage.source``). names: parameter -> the file,
    folder, or model that it named; the cell has its content instead.
    """

    title: str
    variant: str
    supervision: Literal["unused", "optional", "required"]
    deterministic: bool = False
    source_sha256: Sha256
    names: dict[str, str] = {}

    @property
    def changes(self) -> list[str]:
        """The parts of the variant that are changed parameters, as ``name=value``."""
        return [part for part in self.variant.split(", ") if "=" in part]


class SubsetFacts(_Part, frozen=True, kw_only=True):
    """The pairs that the method was given."""

    name: str
    sha256: Sha256
    pairs: Count
    labels: Count
    instances: Count


class Protocol(_Part, frozen=True, kw_only=True):
    """The computation of the figures: the version of the protocol, the dataset's default filter, the constants A and B
    of its propensities, and the source of the metrics."""

    version: Count
    filter: Literal["none", "self", "file"]
    propensity: tuple[float, float]
    source_sha256: Sha256


class Figures(_Part, frozen=True, kw_only=True):
    """Metric -> value and 95% interval; number of scored test rows, and of rows without a label."""

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    scored: Count
    unlabeled: Count


class FilteredFigures(Figures, frozen=True, kw_only=True):
    """The figures under one filter, over all labels and by group of labels."""

    views: dict[str, Figures]


class Predictions(_Part, frozen=True, kw_only=True):
    """file: below the runs folder. depth: predictions per row, including those that a filter may remove. empty: test
    rows without a single prediction; null in records from before they were counted."""

    file: str
    sha256: Sha256
    depth: Annotated[int, Meta(ge=1)]
    empty: Count | None = None


class RanksFacts(_Part, frozen=True, kw_only=True):
    """The stored ranks of the true pairs, the SHA-256 of these true pairs, and of the source that made the ranks.

    The source is null in records from before it was recorded.
    """

    file: str
    sha256: Sha256
    truth_sha256: Sha256
    source_sha256: Sha256 | None = None


class Environment(_Part, frozen=True, kw_only=True):
    """The environment of a cell: versions by package, machine, xmcbench and device (null in old records)."""

    packages: dict[str, str]
    hardware: Hardware
    xmcbench: Program
    compute: Compute | None = None


class Measured(_Part, frozen=True, kw_only=True):
    """Everything in which two equal runs differ. wall_s: seconds by phase; reused_s: seconds that reused artifacts
    took; neighbors: the most other cells of the same run that this machine worked on at the same time."""

    started: str
    total_s: Amount
    wall_s: dict[str, Amount]
    peak_memory_bytes: Count
    reused_s: Amount = 0.0
    predict_ms_per_instance: Amount | None = None
    peak_gpu_memory_bytes: Count | None = None
    neighbors: Count = 0


#: The metrics that need enough training instances, the others, and those of a group of labels. Sets: a board has
#: thousands of groups.
_PSP = frozenset(name for name, metric in METRICS.items() if metric.family == "PSP")
_PLAIN = frozenset(METRICS) - _PSP
_OF_GROUPS = frozenset(name for name in METRICS if not name.startswith("P"))


def _first(missing: Set[str]) -> str:
    return next(name for name in METRICS if name in missing)


class Record(_Part, frozen=True, kw_only=True):
    """The result of a cell.

    reason: why there is no result. metrics: by filter, empty without a result. notes: those of the method.
    isolation: ``landlock`` if the files of pairs were out of the method's reach, else ``process``. artifacts: what
    the cell used, as kind/hash. data_notes: what was left out, assumed or drawn when the dataset was read. checks:
    not read; early records have evidence here that ``equivalent.json`` has now. log: of a cell without a result, below
    the runs folder.
    """

    schema: Literal[2] = 2
    key: Sha256
    cell: Cell
    method: MethodFacts
    status: Status
    reason: str
    subset: SubsetFacts | None
    counts: dict[Counted, Count]
    protocol: Protocol
    metrics: dict[FilterName, FilteredFigures] = {}
    predictions: Predictions | None = None
    ranks: RanksFacts | None = None
    notes: dict[str, Any] = {}
    environment: Environment
    measured: Measured
    isolation: Literal["landlock", "process"] = "process"
    artifacts: tuple[str, ...] = ()
    data_notes: tuple[str, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    log: str | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a record whose status promises a result that it does not hold."""
        if self.key != self.cell.key:
            raise ValueError("the key does not match the cell")
        if self.ok and (self.predictions is None or self.ranks is None or self.protocol.filter not in self.metrics):
            raise ValueError("status is ok, but predictions, ranks or figures are missing")
        if self.status == "unscored" and (self.predictions is None or self.metrics):
            raise ValueError("status is unscored, but predictions are missing, or there are figures")
        if missing := [name for name in _COUNTS if name not in self.counts]:
            raise ValueError(f"counts have no {missing[0]}")
        if self.predictions is not None and not (self.predictions.empty or 0) <= self.counts["test"] > 0:
            raise ValueError("there are predictions for no test rows, or fewer test rows than are without one")
        needed = _PSP | _PLAIN if self.counts["train"] >= MIN_INSTANCES else _PLAIN
        for scores in self.metrics.values():
            if lacking := needed - scores.values.keys():
                raise ValueError(f"{_first(lacking)} is missing")
            for figures in (scores, *scores.views.values()):
                if figures.values.keys() != figures.intervals.keys():
                    raise ValueError("metrics and intervals are not of the same names")
                if lacking := _OF_GROUPS - figures.values.keys():
                    raise ValueError(f"{_first(lacking)} is missing in a group of labels")

    @property
    def ok(self) -> bool:
        """Return whether the cell has figures."""
        return self.status == "ok"

    @property
    def finished(self) -> bool:
        """Return whether the cell has predictions, with or without figures."""
        return self.status in ("ok", "unscored")

    @property
    def values(self) -> dict[str, bool | int | float | str | None]:
        """The parameters as they were given: with the names of files, folders, and models."""
        return {**self.cell.parameters, **self.method.names}

    @property
    def seedless(self) -> bool:
        """Return whether no seed changes the result: neither the method nor its pairs depend on one."""
        return self.method.deterministic and self.drawn_pairs is None

    @property
    def drawn_pairs(self) -> str | None:
        """The few-shot subset that the result depends on, by its SHA-256; None where it depends on none."""
        is_drawn = self.cell.setting.kind == "fs" and self.method.supervision != "unused"
        return self.cell.subset_sha256 if is_drawn else None

    @property
    def name(self) -> str:
        """Title and variant of the method, in one line: the name of the row."""
        title, variant = self.method.title, self.method.variant
        return " ".join((f"{title} ({variant})" if variant else title).split())

    def reproduction(self, runs: str = "") -> str:
        """The command that runs its cell again and compares. runs: its folder, if not ``leaderboards``."""
        where = f" --runs {shlex.quote(runs)}" if runs else ""
        return f"xmcbench reproduce {self.key[:12]}{where}"
