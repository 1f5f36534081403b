"""Which layout a place has: those that ship with xmcbench, and those of installed packages.

They are tried in the order of ``LAYOUTS``, the more particular ones first. Layouts of other packages, in the order of
their names, go before the tables, which nearly any folder could be.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from xmcbench.data.sources.source import Place, Source
from xmcbench.errors import DataError, UnknownName, UsageError
from xmcbench.output.escaping import visible

#: The layouts that ship with xmcbench: module and class, in the order in which they are tried.
LAYOUTS = (
    ("maclr", "Maclr"),
    ("xc_raw", "XCRaw"),
    ("pecos", "Pecos"),
    ("pecos", "Text2Text"),
    ("xc_lines", "GZXML"),
    ("xc_lines", "XCLines"),
    ("beir", "Beir"),
    ("annif", "Annif"),
    ("hugging_face", "HuggingFace"),
    ("plain_text", "PlainText"),
    ("tables", "Tables"),
    ("table_formats", "Csv"),
    ("table_formats", "JsonLines"),
    ("table_formats", "Parquet"),
)

#: Before this one go the layouts of other packages.
_LAST = "tables"

#: The entry-point group of layouts.
GROUP = "xmcbench.sources"

#: Where the layouts are that come with xmcbench.
_OWN = "xmcbench.data.sources."
#: What every layout knows: which layout it is; the seed and the share of a test set that is drawn. ``documents`` is
#: known to ``load_dataset``, for names too.
COMMON = frozenset({"layout", "split_seed", "test_share"})


@cache
def layouts() -> dict[str, type[Source]]:
    """All layouts by name, in the order in which they are tried. One that cannot be imported is left out, with a word.

    Raises UsageError where a package claims the name of another layout.
    """
    own = [getattr(import_module(f"xmcbench.data.sources.{module}"), name) for module, name in LAYOUTS]
    last = next(place for place, each in enumerate(own) if each.name == _LAST)
    found: dict[str, type[Source]] = {}
    for each in (*own[:last], *_plugins(), *own[last:]):
        if each.name in found:
            raise UsageError(
                f"two layouts are called {each.name!r}: {_origin(found[each.name])} and {_origin(each)}",
                "uninstall the package of one",
            )
        found[each.name] = each
    return found


def _plugins() -> list[type[Source]]:
    made = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            cls = point.load()
            if not (isinstance(cls, type) and issubclass(cls, Source)):
                raise TypeError("it is not a class derived from xmcbench.data.sources.Source")
            if not isinstance(getattr(cls, "name", None), str):
                raise TypeError("it has no name")
            made.append(cls)
        except Exception as error:  # a package of somebody else can raise anything
            _say_left_out(point.name, str(error))
    return made


def _origin(cls: type[Source]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def place_of(reference: str | Path) -> Place:
    """The place that a user names: a path or an id, and after a question mark how to read it.

        articles.csv?text=abstract&labels=subjects

    A path that exists is taken whole, whatever characters it has. Raises UsageError for options that are none, that are
    empty or that are given twice, and for an empty name.
    """
    if not str(reference).strip():
        raise UsageError("the name of the dataset is empty", "a dataset is a name or a place; . is this folder")
    given = os.path.expanduser(str(reference))
    if isinstance(reference, Path) or Path(given).exists() or "?" not in given:
        return Place(str(reference), Path(given))
    bare, _, query = given.rpartition("?")
    try:
        # A plus is a plus, as a user writes it; a space is one, or %20.
        given_options = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise UsageError(
            f"{query!r} is not a list of options", "for example articles.csv?text=abstract&labels=subjects"
        ) from None
    options = dict(given_options)
    if empty := [name for name, value in given_options if not value]:
        raise UsageError(f"the option {empty[0]} in {query!r} is empty", "leave it out, or give it a value")
    if len(options) < len(given_options):
        raise UsageError(f"an option in {query!r} is given twice", "give each once")
    return Place(str(reference).rpartition("?")[0], Path(bare), options)


def reference_to(place: str, options: dict[str, str]) -> str:
    """The reference that ``place_of`` takes apart again; the options are added to those that the place has."""
    if not options:
        return place
    before = place_of(place)
    return f"{before.given}?{_query({**before.options, **options})}"


def without(reference: str, option: str) -> str:
    """A reference without one of its options."""
    place = place_of(reference)
    rest = {key: value for key, value in place.options.items() if key != option}
    return f"{place.given}?{_query(rest)}" if rest else place.given


def _query(options: Mapping[str, str]) -> str:
    return urlencode(options, quote_via=quote)


def recognized(place: Place) -> type[Source] | None:
    """The layout of a place; None if no layout recognizes it."""
    for cls in layouts().values():
        try:
            if cls.recognize(place):
                return cls
        except OSError:
            continue  # a folder that may not be read
        except Exception as error:  # as in ``_plugins``
            if cls.__module__.startswith(_OWN):
                raise
            _say_left_out(cls.name, str(error))
    return None


@cache
def _say_left_out(name: str, reason: str) -> None:
    """Say, once, that a layout of another package is not used."""
    print(f"xmcbench: the layout {visible(name)} is left out: {visible(reason)}", file=sys.stderr)


def source_at(place: Place) -> Source:
    """The source at a place.

    Raises DataError where no layout recognizes it, UnknownName for an unknown layout, UsageError for options that the
    layout does not have.
    """
    wanted = place.options.get("layout")
    if wanted is not None and wanted not in layouts():
        raise UnknownName("layout", wanted, layouts())
    cls = layouts()[wanted] if wanted else recognized(place)
    if cls is None:
        if not place.path.exists():
            raise UsageError(f"there is no file or folder at {place.path}")
        raise DataError(
            f"{place.path} has no layout that xmcbench knows",
            "expected lbl.json.gz with trn.json.gz, or another layout of `xmcbench ls layouts`",
        )
    known = COMMON | cls.options
    for key in place.options:
        if key not in known:
            raise UnknownName("option", key, known, where=f"of the layout {cls.name}")
    return cls(place)
