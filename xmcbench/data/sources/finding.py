"""The layouts that ship with xmcbench and those of installed packages, and the one that a place has.

They are tried in the order of ``LAYOUTS``, the more particular ones first. Layouts of other packages, in the order of
their names, go before the tables, which nearly any folder could be.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from xmcbench.data.sources.source import Place, Source
from xmcbench.errors import DataError, UnknownName, UsageError
from xmcbench.output.escaping import visible

#: The layouts that ship with xmcbench, with their modules, in the order in which they are tried.
LAYOUTS = {
    "Maclr": "xc_raw",
    "XCRaw": "xc_raw",
    "Pecos": "pecos",
    "Text2Text": "pecos",
    "GZXML": "text_lines",
    "XCLines": "text_lines",
    "Beir": "beir",
    "LLMs4Subjects": "llms4subjects",
    "Annif": "annif",
    "HuggingFace": "hugging_face",
    "PlainText": "text_lines",
    "Tables": "tables",
    "Csv": "tables",
    "JsonLines": "tables",
    "Parquet": "tables",
}
_PACKAGE = "xmcbench.data.sources."
#: The entry-point group of layouts, and the layout before which they go.
GROUP, _LAST = "xmcbench.sources", "Tables"
#: The options of every layout: its name; the seed and the share of a test set that is drawn. ``documents`` and
#: ``limit`` are known to ``load_dataset``, for names too.
COMMON = frozenset({"layout", "split_seed", "test_share"})


@cache
def layouts() -> dict[str, type[Source]]:
    """Return all layouts by name, in the order in which they are tried. A broken one is left out, with a warning.

    Raises UsageError where a package claims the name of another layout.
    """
    shipped = [getattr(import_module(f"{_PACKAGE}{module}"), name) for name, module in LAYOUTS.items()]
    last = [*LAYOUTS].index(_LAST)
    found: dict[str, type[Source]] = {}
    for layout in (*shipped[:last], *_plugins(), *shipped[last:]):
        if layout.name in found:
            names = (f"{cls.__module__}.{cls.__qualname__}" for cls in (found[layout.name], layout))
            raise UsageError(f"two layouts are called {layout.name!r}: {' and '.join(names)}", "uninstall one package")
        found[layout.name] = layout
    return found


def _plugins() -> Iterator[type[Source]]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            cls = point.load()
            if not (isinstance(cls, type) and issubclass(cls, Source)):
                raise TypeError("it is not a class derived from xmcbench.data.sources.Source")
            if not isinstance(getattr(cls, "name", None), str):
                raise TypeError("it has no name")
            yield cls
        except Exception as error:  # a package of somebody else can raise anything
            _say_left_out(point.name, str(error))


def place_of(reference: str | Path) -> Place:
    """The place that a user names: a path or an id, and after a question mark options of reading it.

        articles.csv?text=abstract&labels=subjects

    A path that exists is taken whole, whatever characters it has. Raises UsageError for invalid options.
    """
    if not str(reference).strip():
        raise UsageError("the name of the dataset is empty", "a dataset is a name or a place; . is this folder")
    given = os.path.expanduser(str(reference))
    if isinstance(reference, Path) or os.path.exists(given) or "?" not in given:
        return Place(str(reference), Path(given))
    path, _, query = given.rpartition("?")
    try:
        # A plus is a plus, as a user writes it; a space is one, or %20.
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=True)
    except ValueError:
        hint = "for example articles.csv?text=abstract&labels=subjects"
        raise UsageError(f"{query!r} is not a list of options", hint) from None
    options = dict(pairs)
    if empty := [name for name, value in pairs if not value]:
        raise UsageError(f"the option {empty[0]} in {query!r} is empty", "leave it out, or give it a value")
    if len(options) < len(pairs):
        raise UsageError(f"an option in {query!r} is given twice", "give each once")
    return Place(str(reference).rpartition("?")[0], Path(path), options)


def reference_to(place: str, options: Mapping[str, str]) -> str:
    """The reference that ``place_of`` takes apart again; the options are added to those that the place has."""
    if not options:
        return place
    before = place_of(place)
    return f"{before.given}?{urlencode({**before.options, **options}, quote_via=quote)}"


def without(reference: str, option: str) -> str:
    """A reference without one of its options."""
    place = place_of(reference)
    return reference_to(place.given, {key: value for key, value in place.options.items() if key != option})


def find_layout(place: Place) -> type[Source] | None:
    """Find the layout of a place; None if no layout recognizes it."""
    for cls in layouts().values():
        try:
            if cls.recognize(place):
                return cls
        except OSError:
            continue  # a folder that may not be read
        except Exception as error:  # as in ``_plugins``
            if cls.__module__.startswith(_PACKAGE):
                raise
            _say_left_out(cls.name, str(error))
    return None


@cache
def _say_left_out(name: str, reason: str) -> None:
    """Say, once, that a layout of another package is not used."""
    print(f"xmcbench: the layout {visible(name)} is left out: {visible(reason)}", file=sys.stderr)


def source_at(place: Place) -> Source:
    """The source at a place. Raises DataError where no layout recognizes it, UsageError for unknown options."""
    wanted = place.options.get("layout")
    if wanted is not None and wanted not in layouts():
        raise UnknownName("layout", wanted, layouts())
    cls = layouts()[wanted] if wanted else find_layout(place)
    if cls is None:
        if not place.path.exists():
            raise UsageError(f"there is no file or folder at {place.path}")
        from xmcbench.data.sources.annif import describe_lack

        usual = "expected lbl.json.gz with trn.json.gz, or another layout of `xmcbench ls layouts`"
        raise DataError(f"{place.path} has no layout that xmcbench knows", describe_lack(place) or usual)
    known = COMMON | cls.options
    if unknown := [key for key in place.options if key not in known]:
        raise UnknownName("option", unknown[0], known, where=f"of the layout {cls.name}")
    return cls(place)
