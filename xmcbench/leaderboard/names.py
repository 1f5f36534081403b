"""Names of rows, and the facts that they are made of."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xmcbench.leaderboard import provenance
from xmcbench.leaderboard.groups import group_by
from xmcbench.records import Record
from xmcbench.storage.canonical import canonical_json

if TYPE_CHECKING:
    from xmcbench.leaderboard.rows import Row

#: A SHA-1 or SHA-256: the content of a file that a parameter names, the commit of a model.
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
#: A part of a variant that is a preset's name ("small"), and one that is a budget ("60 steps of 32").
_PRESET, _BUDGET = re.compile(r"[a-z][a-z0-9-]*"), re.compile(r"\d")


@dataclass(frozen=True)
class Facts:
    """The parts of a row's name, each with its own column.

    preset: empty for the default parameters. encoder: the model that the row starts from, or the methods that it
    combines. training: the budget. changes: parameters that are not those of the preset. apart: parameters in which the
    row differs from others of this name.
    """

    title: str
    preset: str = ""
    encoder: str = ""
    training: str = ""
    changes: str = ""
    apart: str = ""

    @property
    def others(self) -> str:
        """The parameters that are not those of the preset, or of other rows of this name."""
        return ", ".join(filter(None, [self.changes, self.apart]))

    @property
    def short(self) -> str:
        """The title, with preset and other parameters."""
        told = ", ".join(filter(None, [self.preset, self.others]))
        return f"{self.title} ({told})" if told else self.title

    @classmethod
    def of(cls, record: Record) -> Facts:
        """The facts of a record's row, from the variant that the record holds."""
        found: dict[str, list[str]] = {}
        encoders = {model.name for model in provenance.models(record)}
        for place, part in enumerate(filter(None, record.method.variant.split(", "))):
            if "=" in part or "changes" in found:  # they are last, and a value may have a comma
                kind = "changes"
            elif part in encoders:
                kind = "encoder"
            elif _BUDGET.match(part):
                kind = "training"
            elif not place and _PRESET.fullmatch(part):
                kind = "preset"
            else:
                kind = "encoder"
            found.setdefault(kind, []).append(part)
        return cls(record.method.title, **{kind: ", ".join(parts) for kind, parts in found.items()})


def names(groups: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    """The name of every group of records; groups of one name are told apart by the parameters in which they differ.

    Names coincide if a preset changed between two runs, or if two methods have the same title.
    """
    firsts = {key: group[0] for key, group in groups.items()}
    parameters = {key: {"method": first.cell.method, **first.cell.parameters} for key, first in firsts.items()}
    return tell_apart({key: first.name for key, first in firsts.items()}, parameters)


def tell_apart(names: Mapping[str, str], parameters: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the names by their keys; after equal ones stand the parameters in which they differ."""
    found: dict[str, str] = {}
    for name, keys in group_by(names, names.__getitem__).items():
        differences = apart([parameters[key] for key in keys])
        found |= {key: name + difference for key, difference in zip(keys, differences, strict=True)}
    return found


def short_names(rows: Sequence[Row]) -> list[str]:
    """Return titles with preset and changed parameters; the whole name where several rows would look alike, or where
    these do not show that values changed."""
    short = [row.short_name for row in rows]
    counts = Counter(short)
    return [name if counts[name] == 1 else row.name for name, row in zip(short, rows, strict=True)]


def shared_name(title: str, variants: Sequence[str]) -> str:
    """A name for several rows of a method: its title, and the parts of a variant that all of them have."""
    parts = [variant.split(", ") for variant in variants]
    shared = [part for part in dict.fromkeys(parts[0]) if part and all(part in own for own in parts)]
    return f"{title} ({', '.join(shared)})" if shared else title


def apart(parameters: Sequence[Mapping[str, object]]) -> list[str]:
    """Return ", name=value" of every parameter in which they are not all equal; digests by their first 12 digits."""
    if len(parameters) == 1:
        return [""]
    differing = [
        name
        for name in sorted(set().union(*parameters))
        if len({canonical_json([own[name]] if name in own else []) for own in parameters}) > 1
    ]
    return ["".join(f", {name}={_short(own[name])}" for name in differing if name in own) for own in parameters]


def _short(value: object) -> str:
    return _DIGEST.sub(r"\1", str(value))


def slug(text: str) -> str:
    """The text as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:40].strip("-.") or "x"


def free_name(base: str, taken: set[str]) -> str:
    """Return a name that is not taken, which it then is: ``base``, with a number behind it if need be."""
    names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name
