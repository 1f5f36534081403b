"""The card of a dataset: its description, its origin, and the checksums of its files. A TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from xmcbench.data.vocabulary import Count, Filter
from xmcbench.errors import DataError
from xmcbench.storage.atomic import write_text
from xmcbench.storage.naming import check_name
from xmcbench.storage.reading import read_text

_Size = Annotated[int, Meta(ge=0)]
_Positive = Annotated[float, Meta(gt=0)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a card: read-only, without undeclared keys."""


class Propensity(_Part, frozen=True):
    """The constants A and B of the propensity model (Jain et al., 2016).

    The defaults are those for datasets that are neither Amazon's nor Wikipedia's.
    """

    a: _Positive = 0.55
    b: _Positive = 1.5


class Derivation(_Part, frozen=True, rename={"source": "from"}):
    """A dataset sampled from the dataset ``source`` on load, with ``seed``. Either labels or held_out is given.

    labels: number of labels; instances with one of them stay. held_out: number of training instances that become the
    test instances, to choose hyperparameters without looking at the test instances of the source.
    """

    source: str
    seed: _Size
    labels: _Size | None = None
    held_out: _Size | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of the two is given."""
        if (self.labels is None) == (self.held_out is None):
            found = "neither labels nor held_out" if self.labels is None else "both labels and held_out"
            raise ValueError(f"it has {found}; give exactly one of them")


class Recipe(_Part, frozen=True):
    """How a dataset is built: the file format it is read from, the release, and the SHA-256 of its indices."""

    recipe: str
    release: str
    component: str
    architecture: str
    indices: dict[str, str] = {}


class Card(_Part, frozen=True):
    """The description of a dataset.

    slug: its name in file names and on the command line. counts: any of train, test, labels, train_pairs, test_pairs.
    filter: the filter that its tables use by default. files: file name -> SHA-256. default: whether it is used
    if no dataset is named.
    """

    name: str
    slug: str
    description: str = ""
    source: str = ""
    release: str = ""
    license: str = ""
    homepage: str = ""
    filter: Filter = "none"
    default: bool = False
    counts: dict[Count, _Size] = {}
    propensity: Propensity = Propensity()
    files: dict[str, str] = {}
    derive: Derivation | None = None
    build: Recipe | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a name that is not a valid file name."""
        check_name("name", self.name)
        check_name("slug", self.slug)


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
    values: dict[str, Any] = msgspec.to_builtins(card)
    values = {key: each for key, each in values.items() if each not in ("", None, False) and each != {}}
    if values.get("filter") == "none":
        del values["filter"]
    write_text(path, "\n".join(_lines(values)) + "\n")


def _lines(values: Mapping[str, Any], table: str = "") -> list[str]:
    """Keys first, then tables, as TOML requires."""
    plain = {key: each for key, each in values.items() if not isinstance(each, dict) and each is not None}
    lines = ["", f"[{table}]"] if table and (plain or not values) else []
    lines += [f"{_key(key)} = {_quoted(each)}" for key, each in plain.items()]
    for key, each in values.items():
        if isinstance(each, dict) and each:
            lines += _lines(each, f"{table}.{_key(key)}" if table else _key(key))
    return lines


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _quoted(key)


def _quoted(value: object) -> str:
    # A JSON string is a TOML basic string, except that TOML requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
