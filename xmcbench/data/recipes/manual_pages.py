"""English manual pages of Debian packages as a dataset: from a page's text to the pages in its SEE ALSO.

    instance   a page whose SEE ALSO names another page of the packages
    label      a page that the SEE ALSO of another page names
    title      ``name(section) - description``, as in the page's NAME, for instances and labels
    content    the other sections, in one line, without SEE ALSO; rendered by mandoc
    pair       page -> named page, other than itself

A page has one name and any number of further names: links, and files that only redirect to it by ``.so``. Pages of the
same text are one page too, by the first of their names. ``ls (1)`` is a reference as well as ``ls(1)``, and so is a
name without a section that no word looks like, such as ``List::Util``. The suffix of a section (``3pm``) is not shown,
and need not match: of several pages, that of the same package comes first, then that of the very section.

70% of the pages are for training, 30% for testing, by the SHA-256 of a name: that of the first of all pages that are
nearly the same (``audit.near_pairs``) or have the same name and section, directly or by way of another page. Pages are
ordered by name; uids are the names of the files. The packages are the recipe's: .deb files by name and SHA-256.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from xmcbench.data.audit import near_pairs
from xmcbench.data.card import Recipe
from xmcbench.data.recipes.apt import fetch_packages
from xmcbench.data.recipes.items import Item, is_training, write_items
from xmcbench.data.recipes.manual_files import File, Text, read_pages, render, split_name
from xmcbench.errors import DataError
from xmcbench.storage.temporary import scratch

#: Pages between two lines of progress.
_STEP = 100


fetch = fetch_packages


def write(recipe: Recipe, files: Sequence[Path], out: Path, progress: Callable[[str], None]) -> None:
    """Write the dataset in the XC raw layout. files: in the order of ``indices``. Raises DataError."""
    sources, links = read_pages(files)
    texts = _render(sources, progress)
    # Every name with the first name of its page.
    pages: dict[tuple[str, str], str] = {}
    first = {name: pages.setdefault((text.synopsis, text.content), name) for name, text in texts.items()}
    first |= {name: first[target] for name, target in links.items() if target in first}
    items = _items(sources, texts, first)
    instances = [(item, sorted(item.related)) for item in items.values() if item.related]
    if not instances:
        raise DataError("no page of the packages refers to another one", "are these packages with manual pages?")
    progress(f"{len(instances):,} pages with references are compared with each other")
    are_training = _split([item for item, _ in instances])
    training, testing = (
        [instance for instance, is_one in zip(instances, are_training, strict=True) if is_one == side]
        for side in (True, False)
    )
    write_items(items, training, testing, out)


def _render(sources: Mapping[str, File], progress: Callable[[str], None]) -> dict[str, Text]:
    """Render all pages, in the order of their names; those without a text are left out."""
    names = sorted(sources)
    texts = {}
    with scratch() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(lambda name: render(sources[name], folder), names)
        for number, (name, text) in enumerate(zip(names, found, strict=True)):
            if number % _STEP == 0:
                progress(f"{number:,} of {len(names):,} pages rendered")
            if text.content:
                texts[name] = text
    return texts


def _items(sources: Mapping[str, File], texts: Mapping[str, Text], first: Mapping[str, str]) -> dict[str, Item]:
    """The pages by their first names."""
    named: dict[str, list[tuple[str, str]]] = {}
    for name, page in first.items():
        topic, section = split_name(name)
        named.setdefault(topic, []).append((section, page))

    def find(package: str, topic: str, section: str) -> str:
        found = [
            (sources[page].package != package, own != section, page)
            for own, page in named.get(topic, ())
            if own.startswith(section[:1])
        ]
        return min(found)[2] if found else ""

    items = {}
    for name, text in texts.items():
        if first[name] == name:
            related = {find(sources[name].package, *reference) for reference in text.references} - {"", name}
            title = f"{_short_name(name)} - {text.synopsis}" if text.synopsis else _short_name(name)
            items[name] = Item(name, title, text.content, frozenset(related))
    return items


def _short_name(name: str) -> str:
    """Return the name of a page as references to it have it, with its section alone: ``List::Util(3)``."""
    topic, section = split_name(name)
    return f"{topic}({section[0]})"


def _split(items: Sequence[Item]) -> list[bool]:
    """Tell which instances, ordered by name, are for training; those that are nearly the same agree."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    contents = [item.content for item in items]
    rows: dict[str, int] = {}
    alike = [(row, rows.setdefault(_short_name(item.name), row)) for row, item in enumerate(items)]
    alike += near_pairs(contents, contents, every=True)
    graph = coo_array((np.ones(len(alike)), np.array(alike).T), shape=(len(items), len(items)))
    _, groups = connected_components(graph, directed=False)
    _, firsts = np.unique(groups, return_index=True)
    return [is_training(items[firsts[group]].name) for group in groups]
