"""Citations: BibTeX of xmcbench, and of the methods and datasets that records are of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from xmcbench.data import known_datasets
from xmcbench.data.catalog import Listing, normalize_name, reference_of, reference_to_whole, slug_of
from xmcbench.errors import DataError, UnknownName, XmcbenchError
from xmcbench.output.escaping import latex
from xmcbench.plugins.registry import Registry
from xmcbench.records import Record
from xmcbench.storage.locations import find_shipped
from xmcbench.storage.reading import read_text

#: The file with the entries of what comes with xmcbench, and beside a plug-in with those of its methods.
REFERENCES = "references.bib"

_KEY = re.compile(r"@\w+\s*\{\s*([^\s,{}]+)\s*,")
_KEYWORDS = re.compile(r"^[ \t]*keywords\s*=\s*\{([^{}]*)\},?[ \t]*\r?\n", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """An entry of a file of references. names: the methods and datasets that it is cited for."""

    key: str
    bibtex: str
    names: frozenset[str]


@dataclass(frozen=True)
class Citations:
    """The entries that are cited for some names. missing: the names that nothing is cited for."""

    references: tuple[Reference, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """A file for BibTeX, which skips the lines before an entry: they say what it is cited for."""
        return "\n\n".join(f"% {', '.join(sorted(entry.names))}\n{entry.bibtex}" for entry in self.references)


def read_references(path: Path) -> list[Reference]:
    """Return the entries of a file. Raises DataError for a part that is not an entry with a key."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return [_parse(entry, path) for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE)[1:]]


def _parse(entry: str, path: Path) -> Reference:
    key = _KEY.match(entry)
    if key is None:
        raise DataError(f"{path}: {entry.splitlines()[0]!r} is not the beginning of an entry", "write @TYPE{KEY,")
    names = (name.strip() for found in _KEYWORDS.findall(entry) for name in found.split(","))
    return Reference(key[1], _KEYWORDS.sub("", entry).strip(), frozenset(filter(None, names)))


def cite(names: Iterable[str], plugins: Iterable[Path] = ()) -> Citations:
    """Return the entries of xmcbench, and of methods and datasets by their names; an entry lists those it is cited for.

    plugins: files with methods; ``references.bib`` beside one counts too. A dataset without an entry, and a source that
    it is derived from, is cited by its card. Raises DataError for a file of references that cannot be read, and for two
    entries of one key.
    """
    known = [entry for path in _find_files(plugins) for entry in read_references(path)]
    datasets = {listing.slug: listing for listing in known_datasets()}
    found: dict[str, Reference] = {}
    missing = []
    for name in dict.fromkeys(["xmcbench", *names]):
        origin = _origin(name, datasets)
        cited = [entry for entry in known if origin in entry.names] or _by_card(datasets.get(origin))
        for entry in cited:
            before = found.get(entry.key, Reference(entry.key, entry.bibtex, frozenset()))
            if before.bibtex != entry.bibtex:
                raise DataError(f"two references have the key {entry.key}", "rename one in its references.bib")
            found[entry.key] = replace(before, names=before.names | {name})
        if not cited:
            missing.append(name)
    return Citations(tuple(found.values()), tuple(missing))


def list_used(records: Iterable[Record], registry: Registry) -> list[str]:
    """Return the methods of records, with those that they run inside, and the datasets, both by name."""
    methods, datasets = set[str](), set[str]()
    for record in records:
        cell = record.cell
        datasets.add(cell.dataset)
        try:
            methods.update(entry.name for entry in registry.resolve(cell.method, cell.parameters).entries)
        except XmcbenchError:  # a method that is not here, or that has other parameters by now, names no parts
            methods.add(cell.method)
    return [*sorted(methods), *sorted({*map(_slug, datasets)})]


def _slug(name: str) -> str:
    """The slug of the whole dataset for the name of it, or of a part of it, in records."""
    # The file a?b.csv has a name with a question mark, which would be the options of a place.
    return slug_of(name if "?" in name else normalize_name(str(reference_to_whole(reference_of(name)))))


def check_names(names: Iterable[str], registry: Registry) -> list[str]:
    """Return names of methods as they are, and those of datasets as slugs. Raises UnknownName."""
    methods = {entry.name for entry in registry}
    datasets = {name: listing.slug for listing in known_datasets() for name in (listing.slug, listing.name)}
    names = [*names]
    for name in names:
        if name not in methods and name not in datasets:
            raise UnknownName("method or dataset", name, {*methods, *datasets.values()})
    return [name if name in methods else datasets[name] for name in names]


def _find_files(plugins: Iterable[Path]) -> list[Path]:
    folder = find_shipped("leaderboards/published")
    if folder is None:
        raise DataError("the references that come with xmcbench are missing", "reinstall xmcbench")
    beside = {plugin.parent / REFERENCES: None for plugin in plugins}
    return [folder / REFERENCES, *(path for path in beside if path.is_file())]


def _origin(name: str, datasets: Mapping[str, Listing]) -> str:
    """Return the dataset that a derived one is made from; another name as it is."""
    card = datasets[name].card if name in datasets else None
    return slug_of(card.derive.source) if card and card.derive else name


def _by_card(listing: Listing | None) -> list[Reference]:
    card = listing.card if listing else None
    if card is None or not card.homepage:
        return []
    address = quote(card.homepage, safe=":/?#[]@!$&'()*+,;=%~")
    origin = latex("; ".join(filter(None, [card.source, card.release])))
    # Without an author, the key says where the entry stands in the list.
    lines = [f"  key = {{{latex(card.name)}}},", f"  title = {{{{{latex(card.name)}}}}},"]
    lines += [f"  howpublished = {{\\url{{{address}}}}},"]
    lines += [f"  note = {{{origin}}},"] if origin else []
    return [Reference(card.slug, "\n".join([f"@misc{{{card.slug},", *lines, "}"]), frozenset())]
