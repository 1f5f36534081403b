"""The cells of canaries: their definitions, their data and their models."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from xmcbench.errors import DataError
from xmcbench.runner.canaries.models import make
from xmcbench.storage.locations import find_shipped
from xmcbench.storage.reading import read_text
from xmcbench.texts import Texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

#: The file of the definitions, and its tables that are no methods.
_FILE, _OTHERS = "canaries.toml", ("shared", "models")
#: A parameter that begins with this names a model that is made for the canary.
_MADE = "made:"


class Canary(Struct, frozen=True, forbid_unknown_fields=True):
    """A cell: a method and its parameters, without pairs (``ez``) or with them (``full``).

    needs: packages besides those of the method, by the names of their imports. processes, threads: of the cell.
    constants: of modules below ``xmcbench.methods``, with smaller values, so that few texts take the path of many.
    slack: the tolerance of its scores and losses, see ``xmcbench.runner.canaries.outcomes.compare``.
    """

    method: str
    name: str
    setting: Literal["ez", "full"]
    values: dict[str, Any]
    needs: tuple[str, ...] = ()
    processes: int = 1
    threads: int = 1
    constants: dict[str, Any] = {}
    slack: float = 0.002

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the method, with the paths of models that are made for the canary."""
        return {name: _path(value) for name, value in self.values.items()}


#: Keys of a table that are no parameters.
_FIELDS = {*Canary.__struct_fields__} - {"method", "name", "values"}


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A text of the data set of the canaries. labels: of an instance."""

    uid: str
    title: str
    content: str = ""
    labels: tuple[int, ...] = ()


class Data(Struct, frozen=True, forbid_unknown_fields=True):
    """The data set of the canaries; tests/canaries/make_texts.py says how it was drawn."""

    train: tuple[Row, ...]
    labels: tuple[Row, ...]
    test: tuple[Row, ...]

    def texts(self) -> tuple[Texts, Texts, Texts]:
        """Return the texts of training instances, labels and test instances."""
        train, labels, test = (
            Texts.from_lists([row.title for row in side], [row.content for row in side], [row.uid for row in side])
            for side in (self.train, self.labels, self.test)
        )
        return train, labels, test

    def pairs(self, side: Literal["train", "test"]) -> csr_matrix:
        """Return the pairs of the training or the test instances: binary CSR float32."""
        from scipy.sparse import csr_matrix

        rows = self.train if side == "train" else self.test
        starts = np.cumsum([0, *(len(row.labels) for row in rows)])
        columns = np.array([label for row in rows for label in row.labels], np.int32)
        return csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(rows), len(self.labels)))


def canaries(methods: Collection[str] | None = None) -> list[Canary]:
    """Return all canaries, or those of the named methods, in the order of their file. Raises DataError."""
    tables = {name: table for name, table in _file().items() if name not in _OTHERS}
    chosen = [method for method in tables if methods is None or method in methods]
    return [_canary(method, name, table) for method in chosen for name, table in tables[method].items()]


def canary_folder() -> Path:
    """Return the folder with definitions, data and outcomes. Raises DataError if it is missing."""
    found = find_shipped("leaderboards/canaries")
    if found is None:
        raise DataError("the folder leaderboards/canaries is missing", "install xmcbench again")
    return found


@cache
def data() -> Data:
    """Read the data set, once. Raises DataError."""
    read: Data = _read("texts.json", partial(msgspec.json.decode, type=Data))
    return read


def _canary(method: str, name: str, table: Mapping[str, Any]) -> Canary:
    """Read a canary from its table: keys that are no fields are parameters, and ``shared`` names a table with more."""
    try:
        shared = _file()["shared"][table["shared"]] if "shared" in table else {}
        given = {key: value for key, value in {**shared, **table}.items() if key != "shared"}
        fields = {key: value for key, value in given.items() if key in _FIELDS}
        values = {key: value for key, value in given.items() if key not in _FIELDS}
        return msgspec.convert({"method": method, "name": name, **fields, "values": values}, Canary)
    except (KeyError, msgspec.ValidationError) as error:
        raise DataError(f"{canary_folder() / _FILE}: {method}.{name}: {error}") from error


@cache
def _file() -> dict[str, Any]:
    read: dict[str, Any] = _read(_FILE, tomllib.loads)
    return read


def _read(name: str, parse: Callable[[str], Any]) -> Any:
    file = canary_folder() / name
    try:
        return parse(read_text(file))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}", "install xmcbench again") from error


@cache
def _models() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="xmcbench-canaries-")


def _path(value: object) -> object:
    """Return the value of a parameter; the path of a model if it names one that is made for canaries."""
    if not isinstance(value, str) or not value.startswith(_MADE):
        return value
    name = value.removeprefix(_MADE)
    path = Path(_models().name) / name
    if not path.exists():
        make(_file()["models"][name], [text for side in data().texts() for text in side], path)
    return str(path)
