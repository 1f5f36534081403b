"""The card of a dataset: what it is, where it comes from, and what its files must look like. A TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import get_args

from xmcbench.data.vocabulary import Count, Filter
from xmcbench.errors import DataError
from xmcbench.storage.atomic import write_text

#: The constants of the propensity model for datasets that are neither Amazon's nor Wikipedia's (Jain et al., 2016).
DEFAULT_PROPENSITY = (0.55, 1.5)


@dataclass(frozen=True)
class Derivation:
    """A dataset made on load from the dataset ``source``, by a draw under ``seed``. One of the two is given.

    labels: so many labels, and the instances that have one of them. held_out: so many training instances become the
    test instances, for choosing hyper-parameters without a look at the test instances of the source.
    """

    source: str
    seed: int
    labels: int | None = None
    held_out: int | None = None


@dataclass(frozen=True)
class Recipe:
    """How a dataset is built: the file format it is read from, the release, and the SHA-256 of its indices."""

    recipe: str
    release: str
    component: str
    architecture: str
    indices: Mapping[str, str]


@dataclass(frozen=True)
class Card:
    """What is known of a dataset without opening it.

    counts: any of train, test, labels, train_pairs, test_pairs. propensity: A and B of the propensity model.
    filter: the filter that its tables use by default. files: file name -> SHA-256.
    """

    name: str
    slug: str
    description: str = ""
    source: str = ""
    release: str = ""
    licence: str = ""
    homepage: str = ""
    filter: Filter = "none"
    counts: Mapping[str, int] = field(default_factory=dict)
    propensity: tuple[float, float] = DEFAULT_PROPENSITY
    files: Mapping[str, str] = field(default_factory=dict)
    derive: Derivation | None = None
    build: Recipe | None = None


#: What a derivation may draw.
_DRAWN = ("labels", "held_out")

_TEXTS = ("name", "slug", "description", "source", "release", "licence", "homepage", "filter")


def read_card(path: Path) -> Card:
    """Read a card.

    Raises DataError, naming the file, when it is not TOML, or when a key is unknown, missing or ill-typed.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no card {path}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no card: {error}", "a card is a TOML file in UTF-8") from None
    section = _Section(path, "", table)
    section.allow({each.name for each in fields(Card)})
    texts = {key: section.text(key) for key in _TEXTS if key in table}
    for key in ("name", "slug"):
        if not texts.get(key):
            raise DataError(f"{path}: {key} is missing", "a card has at least a name and a slug")
        if "/" in texts[key] or texts[key] in (".", ".."):
            raise DataError(f"{path}: {key} is {texts[key]!r}", "folders are named after it: a name without a slash")
    if texts.get("filter", "none") not in get_args(Filter):
        raise DataError(f"{path}: filter is {texts['filter']!r}", f"one of {', '.join(get_args(Filter))}")
    counts, propensity = section.sub("counts"), section.sub("propensity")
    counts.allow(get_args(Count))
    propensity.allow(("a", "b"))
    files = section.sub("files")
    return Card(
        **texts,  # type: ignore[arg-type]
        counts={key: counts.integer(key) for key in counts.table},
        propensity=(propensity.number("a"), propensity.number("b")) if propensity.table else DEFAULT_PROPENSITY,
        files={key: files.text(key) for key in files.table},
        derive=_derivation(section.sub("derive")) if "derive" in table else None,
        build=_recipe(section.sub("build")) if "build" in table else None,
    )


def _derivation(section: _Section) -> Derivation:
    section.allow(("from", "seed", *_DRAWN))
    drawn = {key: section.integer(key) for key in _DRAWN if key in section.table}
    if len(drawn) != 1:
        found = "both labels and held_out" if drawn else "neither labels nor held_out"
        raise DataError(f"{section.path}: {section.name} has {found}", "it draws one of the two")
    return Derivation(section.text("from"), section.integer("seed"), **drawn)


def _recipe(section: _Section) -> Recipe:
    section.allow(("recipe", "release", "component", "architecture", "indices"))
    indices = section.sub("indices")
    texts = [section.text(key) for key in ("recipe", "release", "component", "architecture")]
    return Recipe(*texts, {key: indices.text(key) for key in indices.table})  # type: ignore[arg-type, call-arg]


def write_card(path: Path, card: Card) -> None:
    """Write a card; ``read_card`` gives it back, and equal cards have equal bytes."""
    lines = [f"{key} = {_quoted(getattr(card, key))}" for key in _TEXTS if getattr(card, key)]
    lines += _table("counts", card.counts)
    lines += _table("propensity", dict(zip("ab", card.propensity, strict=True)))
    lines += _table("files", card.files)
    if card.derive:
        drawn = {key: getattr(card.derive, key) for key in _DRAWN if getattr(card.derive, key) is not None}
        lines += _table("derive", {"from": card.derive.source, **drawn, "seed": card.derive.seed})
    if card.build:
        texts = {key: getattr(card.build, key) for key in ("recipe", "release", "component", "architecture")}
        lines += [*_table("build", texts), *_table("build.indices", card.build.indices)]
    write_text(path, "\n".join(lines) + "\n")


def _table(name: str, values: Mapping[str, object]) -> list[str]:
    if not values:
        return []
    return ["", f"[{name}]", *(f"{_key(key)} = {_quoted(value)}" for key, value in values.items())]


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _quoted(key)


def _quoted(value: object) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class _Section:
    """A table of a card; its accessors check types and name file and key in errors."""

    path: Path
    name: str
    table: Mapping[str, object]

    def allow(self, keys: object) -> None:
        unknown = sorted(set(self.table) - set(keys))  # type: ignore[call-overload]
        if unknown:
            known = ", ".join(sorted(keys))  # type: ignore[call-overload]
            raise DataError(f"{self.path}: unknown key {self._full(unknown[0])}", f"known here: {known}")

    def sub(self, key: str) -> _Section:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise DataError(f"{self.path}: {self._full(key)} is not a table")
        return _Section(self.path, self._full(key), value)

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def integer(self, key: str) -> int:
        value = self.table.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "an integer from 0 up")
        return value

    def number(self, key: str) -> float:
        value = self.table.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, "a number")
        return float(value)

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def _wrong(self, key: str, what: str) -> DataError:
        found = f"is {self.table[key]!r}" if key in self.table else "is missing"
        return DataError(f"{self.path}: {self._full(key)} {found}", f"it must be {what}")
