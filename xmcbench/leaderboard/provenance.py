"""The provenance of rows: need for pairs, models that they start from, and the training data of these.

A note of a record describes a model if it has a ``name``, a ``source`` and a ``sha256``, at any depth. ``parameters``,
``width`` and ``card`` (``training_sets``, ``license``) are shown if they are there; ``date`` of ``card`` tells whether
the model is newer than the test data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from xmcbench.records import Record

#: The beginning of the source of a model that was made in the cell.
_OWN = "trained on the corpus"
#: The kinds of rows by which a board is filtered, and the words of pages for them.
KINDS = {
    "zero-shot": "works without pairs",
    "supervised": "needs pairs",
    "scratch": "from scratch",
    "pre-trained": "pre-trained outside",
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
#: The texts for a fact that a card leaves out, and for one that a record of an earlier version does not hold.
UNSTATED, UNKNOWN = "not stated", "not recorded"


@dataclass(frozen=True)
class Model:
    """A model that a row starts from. outside: whether it was trained on anything but the dataset.

    data, license: what its card declares, empty if it does not. None: the record does not say. date: the day that its
    card declares, as 2026-11-21; empty if it does not.
    """

    name: str
    source: str
    outside: bool
    parameters: int | None
    width: int | None
    data: tuple[str, ...] | None
    license: str | None
    date: str = ""

    @property
    def shown_data(self) -> str:
        """The training sets in words."""
        return UNKNOWN if self.data is None else "; ".join(self.data) or UNSTATED

    @property
    def shown_license(self) -> str:
        """The license in words."""
        return UNKNOWN if self.license is None else self.license or UNSTATED


def models(record: Record) -> tuple[Model, ...]:
    """Return the models that the notes of a record describe, each once."""
    return _models(msgspec.json.encode(record.notes))


@lru_cache(maxsize=4096)  # pages ask again and again, and notes can be large
def _models(notes: bytes) -> tuple[Model, ...]:
    return tuple(dict.fromkeys(_model(note) for note in _notes(msgspec.json.decode(notes))))


def kinds(record: Record) -> tuple[str, ...]:
    """The kinds of a row (of ``KINDS``): does it need pairs, and was a model of it trained outside?"""
    pairs = "supervised" if record.method.supervision == "required" else "zero-shot"
    return pairs, "pre-trained" if any(model.outside for model in models(record)) else "scratch"


def newer(record: Record, date: str) -> tuple[str, ...]:
    """Return a note per model of a row that its card dates later than the test data; none where a date is missing.

    date: the day of the test data, as 2026-11-21, or empty.
    """
    return tuple(
        f"{model.name} is of {model.date}, the test data of {date}: it may have learned from them"
        for model in models(record)
        if date and model.outside and model.date > date
    )


def _notes(value: Any) -> Iterator[Mapping[str, Any]]:
    """The notes that describe a model, at any depth."""
    if isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "source", "sha256")):
        yield value
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):  # else one of thousands of numbers
            yield from _notes(part)


def _model(note: Mapping[str, Any]) -> Model:
    card = note["card"] if isinstance(note.get("card"), Mapping) else None
    data = (card or {}).get("training_sets")
    return Model(
        name=note["name"],
        source=note["source"],
        outside=not note["source"].startswith(_OWN),
        parameters=_count(note.get("parameters")),
        width=_count(note.get("width")),
        data=None if card is None else _texts(data),
        license=None if card is None else str(card.get("license") or ""),
        date=date if _DAY.fullmatch(date := str((card or {}).get("date") or "")) else "",
    )


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(map(str, value)) if isinstance(value, Sequence) else ()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
