"""The card of a dataset: its description, its origin, and the checksums of its files. A TOML file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from xmcbench.errors import DataError
from xmcbench.storage.atomic import write_text
from xmcbench.storage.locations import check_name
from xmcbench.storage.reading import read_text

#: none: no prediction is removed; self: the test instance itself, where it is a label too; file: the reciprocal pairs
#: in the dataset's filter file.
Filter = Literal["none", "self", "file"]
#: Training instances, test instances, labels, and the (instance, label) pairs of either side.
Count = Literal["train", "test", "labels", "train_pairs", "test_pairs"]

_Size = Annotated[int, Meta(ge=0)]
#: The seeds of numpy's RandomState.
_Seed = Annotated[int, Meta(ge=0, lt=2**32)]
_Positive = Annotated[float, Meta(gt=0, le=1e6)]  # TOML has infinity


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a card: read-only, without undeclared keys."""


class Propensity(_Part, frozen=True):
    """A and B of the propensity model (Jain et al., 2016), by default for data of neither Amazon nor Wikipedia."""

    a: _Positive = 0.55
    b: _Positive = 1.5


class Derivation(_Part, frozen=True, omit_defaults=True, rename={"source": "from"}):
    """A dataset made from the dataset ``source`` on load. One of labels, held_out and titles is given.

    labels: number of labels, drawn with ``seed``; instances with one of them stay. held_out: number of training
    instances, drawn with ``seed``, that become the test instances, to choose hyperparameters without looking at the
    test instances of the source. titles: whether contents are left out.
    """

    source: str
    seed: _Seed | None = None
    labels: _Size | None = None
    held_out: _Size | None = None
    titles: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of the three is given."""
        given = {"labels": self.labels is not None, "held_out": self.held_out is not None, "titles": self.titles}
        found = " and ".join(name for name, is_given in given.items() if is_given) or "none of them"
        if sum(given.values()) != 1:
            raise ValueError(f"give exactly one of labels, held_out and titles; it has {found}")
        if self.seed is None and not self.titles:
            raise ValueError("labels and held_out need a seed")


class Recipe(_Part, frozen=True, omit_defaults=True):
    """The recipe of a dataset: its name, the release of the source, and the SHA-256 of its files.

    component, architecture: of a distribution's release. relations: the fields that give the pairs; None for those of
    the recipe. language: of the texts; None for English. next_release: the release that the test instances and the
    unseen labels are from; None where all is of one. A release of Debian may end in @ and the day of a snapshot. tools:
    version of each Debian package with a program of its name that the bytes depend on.
    """

    recipe: str
    release: str
    component: str = ""
    architecture: str = ""
    indices: dict[str, str] = {}
    relations: tuple[str, ...] | None = None
    language: str | None = None
    next_release: str | None = None
    tools: dict[str, str] = {}


class Download(_Part, frozen=True):
    """An archive with the data of a dataset, in any layout. source: the origin of the address."""

    url: str
    source: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for anything but the address of a web server."""
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"{self.url!r} is not an address that begins with https://")


class Card(_Part, frozen=True):
    """The description of a dataset.

    slug: its name in file names and on the command line. filter: of its tables by default. files: file name -> SHA-256.
    downloads: where the data are, in order of preference. checked: the day on which these were last compared with their
    origin, and how. default: whether it is used if no dataset is named. held_out: whether the test instances are
    training instances of another dataset. date: of the test data, where it matters which models are older.
    """

    name: str
    slug: str
    description: str = ""
    source: str = ""
    release: str = ""
    date: Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    license: str = ""
    homepage: str = ""
    checked: Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2}: .+)?$")] = ""
    filter: Filter = "none"
    default: bool = False
    held_out: bool = False
    counts: dict[Count, _Size] = {}
    propensity: Propensity = Propensity()
    files: dict[str, str] = {}
    downloads: tuple[Download, ...] = ()
    derive: Derivation | None = None
    build: Recipe | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a name that is not a valid file name."""
        check_name("name", self.name)
        check_name("slug", self.slug)

    @property
    def is_for_choosing(self) -> bool:
        """True if hyperparameters may be chosen by the test labels, which are those of held-out instances."""
        return self.held_out or (self.derive is not None and self.derive.held_out is not None)


#: In the name of a dataset of which only some documents are used.
_LIMITED = "+limit"


def name_sample(name: str, number: int) -> str:
    """Return the name of a dataset of which at most this number of documents on either side are used."""
    return f"{name}{_LIMITED}{number}"


def is_limited(name: str) -> bool:
    """Tell whether a name is that of a dataset of which only some documents are used."""
    return re.search(rf"{re.escape(_LIMITED)}\d+\b", name) is not None


def read_card(path: Path) -> Card:
    """Read a card. Raises DataError, naming file and key, if it is not a valid card."""
    try:
        return msgspec.convert(tomllib.loads(read_text(path)), Card)
    except FileNotFoundError:
        raise DataError(f"no card at {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a card: {error}", "see the cards in datasets/") from None


def write_card(path: Path, card: Card) -> None:
    """Write a card; ``read_card`` gives it back, and equal cards have equal bytes."""
    values: dict[str, Any] = msgspec.to_builtins(card, order="deterministic")
    values["counts"] = {name: card.counts[name] for name in get_args(Count) if name in card.counts}
    values = {key: value for key, value in values.items() if value not in ("", None, False, {}, [], ())}
    if values.get("filter") == "none":
        del values["filter"]
    write_text(path, "\n".join(_lines(values)) + "\n")


def _lines(values: Mapping[str, Any], table: str = "") -> list[str]:
    """The lines of a TOML table: keys first, then tables, as TOML requires."""
    tables = {key: value for key, value in values.items() if _is_table(value)}
    plain = {key: value for key, value in values.items() if key not in tables and value is not None}
    lines = ["", f"[{table}]"] if table and (plain or not values) else []
    lines += [f"{_key(key)} = {_quote(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        if isinstance(value, dict):
            lines += _lines(value, f"{table}.{_key(key)}" if table else _key(key)) if value else []
        else:
            lines += [line for entry in value for line in ("", f"[[{_key(key)}]]", *_lines(entry))]
    return lines


def _is_table(value: object) -> bool:
    """Tell whether a value is a table, or a list of tables."""
    return isinstance(value, dict) or (isinstance(value, list | tuple) and isinstance(next(iter(value), None), dict))


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _quote(key)


def _quote(value: object) -> str:
    # A JSON string is a TOML basic string, except that TOML requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
