"""The cost of cells on data that are not here, from the counts of a card and the times of records.

The time of a phase is its work over a rate on CPU or GPU: that of the record with the nearest work.

The work of an encoder is its multiplications: 12 layers x width^2 per token, three times as many in training, and
in the search width x labels per instance. Texts of the cell count as long as its parameters allow, those of a
record by the shares of texts that the records of its dataset cut at several lengths. The records of all such methods
count, those of the same method before others.

The work of any other method is the number of its texts, and for predictions between that and texts x labels; only
records with equal parameters count. What no record tells has no estimate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

from xmcbench.data.catalog import locate
from xmcbench.data.sources.finding import place_of
from xmcbench.errors import DataError
from xmcbench.output.quantities import duration
from xmcbench.records import Record
from xmcbench.runner.rows import Request, Row
from xmcbench.setting import Setting

Device = Literal["cpu", "gpu"]
DEVICES: tuple[Device, ...] = ("cpu", "gpu")

#: Layers and width of encoders, as the ``config.json`` of each says.
_ENCODERS = {
    "all-MiniLM-L6-v2": (6, 384),
    "bert-base-uncased": (12, 768),
    "sentence-transformers/bert-base-nli-mean-tokens": (12, 768),
    "sentence-transformers/paraphrase-mpnet-base-v2": (12, 768),
}
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")
#: The texts of a training without pairs, in the name of a row: ``7.68M texts``.
_TEXTS = re.compile(r"\b([\d.]+)([KM]?) texts\b")
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6}
#: Forward and backward, in passes forward.
_TRAINING = 3
#: Share of a phase that may be the time of what was reused, which the phase does not have.
_REUSED = 0.1
#: Seconds from which a time is in days.
_DAYS = 48 * 3600.0
#: A parameter of methods that train classifiers of labels beside the encoder, whose work it does not tell.
_CLASSIFIERS = "shortlist"

#: (dataset, side) -> length -> share of texts that are longer.
_Cuts = Mapping[tuple[str, str], Mapping[int, float]]
#: Work of each phase: lower and upper bound.
_Work = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Forecast:
    """Seconds of a cell on one device: lower and upper bound. records: those whose rates it has, by phase."""

    seconds: tuple[float, float]
    records: Mapping[str, Record]

    def __str__(self) -> str:
        """Return the time in words."""
        return in_words(self.seconds)

    @property
    def machines(self) -> tuple[str, ...]:
        """The processors or GPUs of the records, with threads where they are CPUs."""
        return tuple(dict.fromkeys(map(_machine, self.records.values())))


def in_words(seconds: tuple[float, float]) -> str:
    """Return the bounds of a time in words."""
    low, high = (duration(end) if end < _DAYS else f"{end / 86_400:,.0f} days" for end in seconds)
    return low if low == high else f"{low} to {high}"


class _Rate(NamedTuple):
    """A phase of a record: the bounds of its work, and its seconds."""

    record: Record
    phase: str
    work: tuple[float, float]
    seconds: float


class Rates:
    """The rates of records."""

    def __init__(self, records: Iterable[Record]) -> None:
        finished = [record for record in records if record.finished]
        cuts = _find_cuts(finished)
        #: By whether the work is that of an encoder.
        self._rates: dict[bool, list[_Rate]] = {False: [], True: []}
        for record in finished:
            rates = _list_rates(record, partial(_mean_length, cuts, record.cell.dataset))
            self._rates[_is_encoder(record.values)].extend(rates)

    def forecast(self, row: Row, setting: Setting, counts: Mapping[str, int]) -> dict[Device, Forecast]:
        """Return the cost of a cell by device, for those that records tell.

        counts: train, test and labels of the dataset.
        """
        # The parts of a method are cells of their own, which it may find done or not.
        wanted = {} if "uses" in row.method.defines else _work(row.values, row.variant, setting, counts) or {}
        defaults = row.method.resolve(row.entry.name, {})  # a parameter that was added later is not in the record
        by_device: dict[Device, dict[str, list[_Rate]]] = {device: {} for device in DEVICES}
        is_encoder = _is_encoder(row.values)
        for rate in self._rates[is_encoder]:
            record = rate.record
            is_alike = is_encoder or (
                record.cell.method == row.entry.name and {**defaults, **record.values} == row.values
            )
            # A fit is of other work with pairs and without.
            if is_alike and (rate.phase != "fit" or (record.cell.setting.kind == "ez") == (setting.kind == "ez")):
                by_device[_device(record)].setdefault(rate.phase, []).append(rate)
        costs = {device: _sum(wanted, row, rates) for device, rates in by_device.items()}
        return {device: cost for device, cost in costs.items() if cost}


def _sum(wanted: _Work, row: Row, rates: Mapping[str, Sequence[_Rate]]) -> Forecast | None:
    """Return the cost of all phases; None if the rate of one is not known."""
    low, high, used = 0.0, 0.0, dict[str, Record]()
    for phase, (least, most) in wanted.items():
        if not most or (phase == "pretrain" and phase not in rates and not _is_encoder(row.values)):
            continue  # there is no such phase
        if phase not in rates:
            return None

        def distance(rate: _Rate, most: float = most) -> tuple[float, str]:
            # A rate depends on the work, since short phases mostly start; another method has other work beside it.
            return abs(math.log(most / rate.work[1])) + (rate.record.cell.method != row.entry.name), rate.record.key

        near = min(rates[phase], key=distance)
        ends = sorted((near.seconds * least / near.work[0], near.seconds * most / near.work[1]))
        low, high, used[phase] = low + ends[0], high + ends[1], near.record
    return Forecast((low, high), used) if used else None


def _list_rates(record: Record, mean_length: Callable[[str, int], float]) -> Iterator[_Rate]:
    work = _work(record.values, record.method.variant, record.cell.setting, record.counts, mean_length)
    for phase, bounds in (work or {}).items():
        seconds = record.measured.wall_s.get(phase, 0.0)
        if seconds and bounds[0] and (phase != "pretrain" or record.measured.reused_s < _REUSED * seconds):
            yield _Rate(record, phase, bounds, seconds)


def _find_cuts(records: Iterable[Record]) -> _Cuts:
    """Return the shares of texts that records cut, by dataset and side, and by length."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for record in records:
        if encoder := _encoder(record.values):
            for side, of, length in (("instances", "test", encoder[2]), ("labels", "labels", encoder[3])):
                if isinstance(cut := record.notes.get(f"cut_{side}"), int):
                    found.setdefault((record.cell.dataset, side), {})[length] = min(1.0, cut / record.counts[of])
    return found


def _mean_length(cuts: _Cuts, dataset: str, side: str, length: int) -> float:
    """Return the mean tokens of texts that are cut at a length: the integral of the share of longer texts."""
    shares = {0: 1.0, **cuts.get((dataset, side), {})}
    points = sorted((at, share) for at, share in shares.items() if at <= length)
    return sum((after - at) * (share + later) / 2 for (at, share), (after, later) in pairwise(points)) or length


def _work(
    values: Mapping[str, object],
    variant: str,
    setting: Setting,
    counts: Mapping[str, int],
    mean_length: Callable[[str, int], float] = lambda side, length: length,
) -> _Work | None:
    """Return the work of each phase, of an encoder in multiplications, else in texts; None where it is not known."""
    train, test, labels = (float(counts[name]) for name in ("train", "test", "labels"))
    encoder = _encoder(values)
    if encoder is None or not _is_encoder(values):
        if encoder is None and {"backbone", "model"} & {*values}:
            return None
        return {"pretrain": (train + labels,) * 2, "fit": (train + labels,) * 2, "predict": (test, test * labels)}
    layers, width = encoder[:2]
    document, title = mean_length("instances", encoder[2]), mean_length("labels", encoder[3])
    token = 12 * layers * width**2
    fit = labels * title * token
    if setting.kind != "ez":
        steps, batch = (values.get(name) for name in ("finetune_steps", "finetune_batch"))
        if not isinstance(steps, int) or not isinstance(batch, int) or values.get("finetune_epochs") is not None:
            return None
        fit += _TRAINING * steps * batch * (document + title) * token
    pretrain = 0.0
    if said := _TEXTS.search(variant):
        pretrain = float(said[1]) * _THOUSANDS[said[2]] * _TRAINING * (document + title) / 2 * token
    predict = test * (document * token + labels * width)
    return {"pretrain": (pretrain,) * 2, "fit": (fit,) * 2, "predict": (predict,) * 2}


def _encoder(values: Mapping[str, object]) -> tuple[int, int, int, int] | None:
    """Return layers, width, and tokens of documents and labels; None for an unknown encoder, or where there is none."""
    name = str(values.get("backbone", values.get("model", "")))
    lengths = [values.get(side, values.get("max_length")) for side in ("instance_length", "label_length")]
    built = _SCRATCH.fullmatch(name)
    size = (int(built[1]), int(built[2])) if built else _ENCODERS.get(name)
    if size is None or not all(isinstance(length, int) for length in lengths):
        return None
    return (*size, *lengths)  # type: ignore[return-value]


def _is_encoder(values: Mapping[str, object]) -> bool:
    """Return whether the work of a method with these parameters is that of its encoder."""
    return _encoder(values) is not None and _CLASSIFIERS not in values


def _device(record: Record) -> Device:
    computed = record.notes.get("computed")
    return "gpu" if isinstance(computed, Mapping) and str(computed.get("device")).startswith("cuda") else "cpu"


def _machine(record: Record) -> str:
    hardware, compute = record.environment.hardware, record.environment.compute
    if _device(record) == "gpu":
        return hardware.accelerators[0] if hardware.accelerators else "a GPU"
    threads = (compute.threads if compute else None) or hardware.cores
    return f"{hardware.processor}, {threads} thread{'s' * (threads > 1)}"


def find_counts(requests: Iterable[Request]) -> dict[str, dict[str, int]]:
    """Return dataset -> its counts by its card, of all datasets that requests name; none if all are on this machine, or
    if one is a part of its data, which no card counts.

    Raises DataError for one that is not here and whose card has no counts, and what ``locate`` raises.
    """
    names = dict.fromkeys(request.dataset for request in requests)
    if any("limit" in place_of(name).options for name in names):
        return {}
    listings = {name: locate(name) for name in names}
    if not any(listing.problem for listing in listings.values()):
        return {}
    found = {}
    for name, listing in listings.items():
        counts = listing.card.counts if listing.card else {}
        if not {"train", "test", "labels"} <= {*counts}:
            raise DataError(listing.problem or f"the card of {listing.name} has no counts", listing.hint)
        found[name] = {str(of): number for of, number in counts.items()}
    return found
