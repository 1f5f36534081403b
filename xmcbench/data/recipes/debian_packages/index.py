"""Package indices of a Debian release as a dataset: from a package's text to related packages.

    instance   a package that suggests, recommends or enhances another one of the release; or, as the recipe says, one
               that is related to others by other fields, such as Depends
    label      a package named there; title "name - synopsis" for both, as ``apt-cache search`` prints it
    content    the long description, in one line
    pair       package -> named package, other than itself

70% of the instances are for training, 30% for testing: the SHA-256 of the name decides, so that a package stays on
its side from release to release. Instances and labels are ordered by name; uids are the names.

In another language than English, instances and labels are the packages whose description is translated.

Formats: deb-control(5) for the stanzas, the wiki page DebianRepository/Format for ``Packages`` and ``Translation-en``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcbench.data.card import Recipe
from xmcbench.data.compression import lines, open_source, sha256_unpacked
from xmcbench.data.rows import at, decoded
from xmcbench.data.xc_text import write_instances, write_labels
from xmcbench.errors import DataError

#: Fields that name related packages, where a recipe does not say others.
RELATIONS = ("Suggests", "Recommends", "Enhances")

#: Share of training instances.
TRAIN_SHARE = 0.7

#: What may follow a name in a relation: a version, an architecture or a build profile.
_QUALIFIER = re.compile(r"[\s(:\[<].*", re.DOTALL)


@dataclass(frozen=True)
class Package:
    """A package: its title and content as text, and the names of the packages that it is related to."""

    name: str
    title: str
    content: str
    related: frozenset[str]


#: SHA-256 (hex) of an index without its compression, as the release's own ``InRelease`` file lists it.
index_digest = sha256_unpacked

#: An instance and the names of its labels.
Instance = tuple[Package, Sequence[str]]


def indices(recipe: Recipe) -> tuple[str, ...]:
    """The names of the two indices of each release; each may be compressed as .gz or .xz."""
    names = "Packages", f"Translation-{recipe.language or 'en'}"
    return (*names, *(f"{recipe.next_release}-{name}" for name in names)) if recipe.next_release else names


def index_file(folder: Path, name: str) -> Path:
    """The index of this name in ``folder``, compressed or not. Raises DataError if there is none."""
    for path in (folder / f"{name}{suffix}" for suffix in ("", ".gz", ".xz")):
        if path.is_file():
            return path
    raise DataError(f"{folder} has no {name}", "put it there, plain, .gz or .xz")


def read_packages(
    packages: Path, translations: Path, relations: Sequence[str] = RELATIONS, language: str = "en"
) -> dict[str, Package]:
    """All packages of an index by name; of several versions, the highest.

    relations: the fields that name related packages. language: of the translations; in another one than English,
    packages without a translation are left out. Raises DataError with file and line for a stanza that is not one, and
    for an index without packages.
    """
    descriptions = {
        (stanza.get("Package", ""), stanza.get("Description-md5", "")): stanza.get(f"Description-{language}", "")
        for _, stanza in _stanzas(translations)
    }
    newest: dict[str, dict[str, str]] = {}
    for line, stanza in _stanzas(packages):
        if not stanza.get("Package") or not stanza.get("Version"):
            raise at(packages, line, "a stanza without Package or Version", "is this a Packages index?")
        other = newest.get(stanza["Package"])
        if other is None or version_key(stanza["Version"]) > version_key(other["Version"]):
            newest[stanza["Package"]] = stanza
    if not newest:
        raise DataError(f"{packages} lists no package", "is this a Packages index?")
    if language != "en":
        newest = {name: each for name, each in newest.items() if descriptions.get(_described(each))}
    return {name: _package(stanza, descriptions, relations) for name, stanza in newest.items()}


def _described(stanza: dict[str, str]) -> tuple[str, str]:
    return stanza["Package"], stanza.get("Description-md5", "")


def _package(stanza: dict[str, str], descriptions: dict[tuple[str, str], str], relations: Sequence[str]) -> Package:
    name = stanza["Package"]
    # Old indices hold the long description themselves.
    description = descriptions.get(_described(stanza), stanza.get("Description", ""))
    synopsis, _, long = description.partition("\n")
    related = {
        _QUALIFIER.sub("", alternative.strip())
        for relation in relations
        for alternative in re.split(r"[,|]", stanza.get(relation, ""))
    }
    title = f"{name} - {_one_line(synopsis)}" if synopsis.strip() else name
    # In a description, a line with only a dot is an empty line.
    content = " ".join(line for line in long.split("\n") if line.strip() != ".")
    return Package(name, title, _one_line(content), frozenset(related - {"", name}))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _stanzas(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The stanzas of a control file with the number of their first line; a folded field keeps its line breaks."""
    stanza: dict[str, str] = {}
    field, start = "", 1
    with open_source(path) as stream:
        for number, raw in enumerate(lines(stream), 1):
            line = decoded(path, number, raw).rstrip("\n")
            if not line.strip():
                if stanza:
                    yield start, stanza
                stanza, field, start = {}, "", number + 1
            elif line[0] in " \t":
                if not field:
                    raise at(path, number, "is a continuation line without a field", "is this a Debian index?")
                stanza[field] += f"\n{line}"
            else:
                field, colon, value = line.partition(":")
                if not colon:
                    raise at(path, number, f"{line[:40]!r} is not a field", "is this a Debian index?")
                stanza[field] = value.strip()
    if stanza:
        yield start, stanza


def version_key(version: str) -> tuple[int, tuple[object, ...], tuple[object, ...]]:
    """A key that orders version numbers as dpkg does (deb-version(7)): epoch, upstream version, revision."""
    epoch, colon, rest = version.partition(":")
    if not colon or not epoch.isdigit():
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _part_key(upstream), _part_key(revision)


def _part_key(text: str) -> tuple[object, ...]:
    key: list[object] = []
    for letters, digits in re.findall(r"([^0-9]*)([0-9]*)", text):
        # `~` sorts before the end, letters before all other signs; the end is 0.
        weights = [-1 if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in letters]
        key += [(*weights, 0), int(digits or 0)]
    return tuple(key)


def trains(name: str) -> bool:
    """Whether the instance of this name is a training instance: its SHA-256 is in the first 70%."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") < TRAIN_SHARE * 2**64


def write_dataset(packages: dict[str, Package], out: Path) -> None:
    """Write the packages as a dataset in the XC raw layout, with the pairs (package, itself) as filter files.

    Raises DataError when no package names another one of the index.
    """
    targets = {name: sorted(package.related & packages.keys()) for name, package in packages.items()}
    labels = sorted(set().union(*targets.values()))
    if not labels:
        raise DataError("no package of the index refers to another one", "is this the index of a whole release?")
    instances = [(packages[name], targets[name]) for name in sorted(targets) if targets[name]]
    write_rows(
        [packages[name] for name in labels],
        [each for each in instances if trains(each[0].name)],
        [each for each in instances if not trains(each[0].name)],
        out,
    )


def write_rows(labels: Sequence[Package], training: Sequence[Instance], testing: Sequence[Instance], out: Path) -> None:
    """Write labels and instances in the XC raw layout, with the pairs (package, itself) as filter files."""
    number = {label.name: row for row, label in enumerate(labels)}
    write_labels(out / "lbl.json.gz", ((label.name, label.title) for label in labels))
    for side, word, instances in (("trn", "train", training), ("tst", "test", testing)):
        rows = ((each.name, each.title, each.content, [number[name] for name in named]) for each, named in instances)
        write_instances(out / f"{side}.json.gz", rows)
        names = [each.name for each, _ in instances]
        _write_self_filter(out / f"filter_labels_{word}.txt", names, number)


def _write_self_filter(path: Path, names: Sequence[str], number: dict[str, int]) -> None:
    from scipy.sparse import csr_matrix

    from xmcbench.data.xc_matrix import write_filter

    own = [(row, number[name]) for row, name in enumerate(names) if name in number]
    rows, columns = zip(*own, strict=True) if own else ((), ())
    write_filter(path, csr_matrix((np.ones(len(own)), (rows, columns)), shape=(len(names), len(number))))
