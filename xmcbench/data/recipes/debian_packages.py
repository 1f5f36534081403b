"""Package indices of Debian releases as a dataset: from a package's text to related packages.

    instance   a package that suggests, recommends or enhances another one of the release; or, as the recipe says, one
               that is related to others by other fields, such as Depends
    label      a package named there; title "name - synopsis" for both, as ``apt-cache search`` prints it
    content    the long description, in one line
    pair       package -> named package, other than itself

70% of the instances are for training, 30% for testing: the SHA-256 of the name decides, so that a package stays on
its side from release to release. Instances and labels are ordered by name; uids are the names. In another language
than English, instances and labels are the packages whose description is translated.

With a next release, the dataset is generalized zero-shot, with labels that are packages new in that release:

    training   the training instances of the first release, with the packages that they name there
    test       packages of the next release that name a package that is new in it, and are not training instances;
               with the new packages and those seen in training that they name
    label      a package that a training instance names, as the first release describes it; or a new package that a
               test instance names, as the next one does

So a label is either seen, by at least one training pair, or it is new, and no text of the training instances could name
it: the views ``seen`` and ``unseen`` of a run with all pairs tell the two apart.

Formats: deb-control(5) for the stanzas, the wiki page DebianRepository/Format for ``Packages`` and ``Translation-en``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import date
from email.utils import parsedate_to_datetime
from pathlib import Path

from msgspec.structs import replace

from xmcbench.data.card import Card, Recipe
from xmcbench.data.catalog import slug_of
from xmcbench.data.recipes.apt import fetch_indices
from xmcbench.data.recipes.items import Instance, Item, is_training, labels_of, write_items
from xmcbench.data.sources.text_lines import one_line
from xmcbench.data.text_files import at, number_lines
from xmcbench.errors import DataError, UsageError

#: Fields that name related packages, where a recipe does not say others.
RELATIONS = ("Suggests", "Recommends", "Enhances")
#: A version, an architecture or a build profile, behind a name in a relation.
_QUALIFIER = re.compile(r"[\s(:\[<].*", re.DOTALL)


def indices(recipe: Recipe) -> tuple[str, ...]:
    """The names of the two indices of each release."""
    names = "Packages", f"Translation-{recipe.language or 'en'}"
    return (*names, *(f"{name_of(recipe.next_release)}-{name}" for name in names)) if recipe.next_release else names


def fetch(recipe: Recipe, out: Path, progress: Callable[[str], None]) -> list[Path]:
    """Fetch the indices with apt, and the InRelease of the next release. Raises DataError."""
    paths = [out / name for name in indices(recipe)]
    if recipe.next_release:
        paths.append(out / f"{name_of(recipe.next_release)}-InRelease")
    fetch_indices(recipe, paths)
    return paths


def write(recipe: Recipe, files: Sequence[Path], out: Path, progress: Callable[[str], None]) -> None:
    """Write the dataset in the XC raw layout. files: in the order of ``indices``. Raises DataError."""
    releases = [
        read_packages(packages, translations, recipe.relations or RELATIONS, recipe.language or "en")
        for packages, translations in zip(files[::2], files[1::2], strict=True)
    ]
    before, after = releases[0], releases[-1]
    instances = _instances(before, before.keys())
    training = [instance for instance in instances if is_training(instance[0].name)]
    testing = [instance for instance in instances if not is_training(instance[0].name)]
    if not (training if recipe.next_release else instances):
        raise DataError("no package of the index refers to another one", "is this the index of a whole release?")
    if recipe.next_release:
        new = after.keys() - before.keys()
        seen, trained = labels_of(training), {package.name for package, _ in training}
        others = {name: package for name, package in after.items() if name not in trained and package.related & new}
        testing = _instances(others, seen | new)
        if not testing:
            raise DataError("no package of the next release refers to a new one", "are the two indices of one release?")
    write_items({**after, **before}, training, testing, out)


def _instances(packages: Mapping[str, Item], labels: Set[str]) -> list[Instance]:
    """The packages that are related to labels, each with these, by name."""
    found = ((package, sorted(package.related & labels)) for _, package in sorted(packages.items()))
    return [(package, names) for package, names in found if names]


def read_packages(
    packages: Path, translations: Path, relations: Sequence[str] = RELATIONS, language: str = "en"
) -> dict[str, Item]:
    """Read all packages of an index by name; of several versions, the highest.

    language: of the translations; in another one than English, packages without a translation are left out. Raises
    DataError with file and line for a stanza that is not one, and for an index without packages.
    """
    stanzas = (stanza for _, stanza in _stanzas(translations))
    descriptions = {_description_key(stanza): stanza.get(f"Description-{language}", "") for stanza in stanzas}
    newest: dict[str, dict[str, str]] = {}
    for line, stanza in _stanzas(packages):
        if not stanza.get("Package") or not stanza.get("Version"):
            raise at(packages, line, "a stanza without Package or Version", "is this a Packages index?")
        other = newest.get(stanza["Package"])
        if other is None or version_key(stanza["Version"]) > version_key(other["Version"]):
            newest[stanza["Package"]] = stanza
    if not newest:
        raise DataError(f"{packages} lists no package", "is this a Packages index?")
    return {
        name: _package(stanza, descriptions, relations)
        for name, stanza in newest.items()
        if language == "en" or descriptions.get(_description_key(stanza))
    }


def _description_key(stanza: Mapping[str, str]) -> tuple[str, str]:
    return stanza.get("Package", ""), stanza.get("Description-md5", "")


def _package(stanza: dict[str, str], descriptions: dict[tuple[str, str], str], relations: Sequence[str]) -> Item:
    name = stanza["Package"]
    # Old indices hold the long description themselves.
    description = descriptions.get(_description_key(stanza), stanza.get("Description", ""))
    synopsis, _, long = description.partition("\n")
    related = {
        _QUALIFIER.sub("", alternative.strip())
        for relation in relations
        for alternative in re.split(r"[,|]", stanza.get(relation, ""))
    }
    title = f"{name} - {one_line(synopsis)}" if synopsis.strip() else name
    # In a description, a line with only a dot is an empty line.
    content = " ".join(line for line in long.split("\n") if line.strip() != ".")
    return Item(name, title, one_line(content), frozenset(related - {"", name}))


def _stanzas(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The stanzas of a control file with the number of their first line; a folded field keeps its line breaks."""
    stanza: dict[str, str] = {}
    field, start = "", 1
    for number, raw in number_lines(path):
        line = raw.rstrip("\n")
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


#: https://wiki.debian.org/DebianReleases
CODE_NAMES = {"10": "buster", "11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky", "15": "duke"}
#: Names that another release has some day, or that has other packages every day.
_MOVING = frozenset({"experimental", "oldoldstable", "oldstable", "sid", "stable", "testing", "unstable"})


def choose_releases(card: Card, train: str | None, test: str | None) -> Card:
    """Return the card of a dataset of other releases, without checksums; of the same, with those of the card.

    train, test: numbers or code names of releases, which may end in the day of a snapshot (``testing@2026-11-21``);
    None for those of the card. Raises UsageError for any other text, and for a dataset that is not of two releases.
    """
    recipe = card.build
    if recipe is None or recipe.next_release is None:
        hint = "--train and --test are for datasets like lf-debian-new"
        raise UsageError(f"{card.name} is not of two releases", hint)
    before = _release(train) if train else recipe.release
    after = _release(test) if test else recipe.next_release
    chosen = replace(recipe, release=before, next_release=after)
    if (name_of(before), name_of(after)) == (name_of(recipe.release), name_of(recipe.next_release)):
        return replace(card, build=chosen)
    name = "-".join((card.name, before, after)).replace("@", "-")
    return replace(
        card,
        name=name,
        slug=slug_of(name),
        description=f"Packages of Debian {after} that suggest, recommend or enhance a package which is new in it, "
        f"after training on Debian {before}: seen and unseen labels. Title: name and synopsis; content: long "
        "description.",
        release=f"Debian {before} and {after}, {recipe.component}",
        files={},
        build=replace(chosen, indices={}),
    )


def name_of(release: str) -> str:
    """Return a release without the day of a snapshot."""
    return release.partition("@")[0]


def _release(text: str) -> str:
    name, at, day = text.partition("@")
    name = CODE_NAMES.get(name, name)
    try:
        day = date.fromisoformat(day).isoformat() if at else ""
    except ValueError:
        name = ""
    if not re.fullmatch(r"[a-z]+", name):
        hint = "a number (13), a code name (trixie), or either with the day of a snapshot (13@2026-11-21)"
        raise UsageError(f"{text!r} is not a release of Debian", hint)
    if name in _MOVING and not day:
        raise UsageError(f"{name} changes with time", f"give the day of a snapshot, as {name}@2026-11-21")
    return f"{name}@{day}" if day else name


def read_date(path: Path) -> str:
    """Read the day of a release from its ``InRelease``, as 2026-11-21. Raises DataError."""
    if not path.is_file():
        raise DataError(f"{path.parent} has no {path.name}", "it has the day of the test data: put InRelease there")
    found = next((line for _, line in number_lines(path) if line.startswith("Date:")), "")
    try:
        return parsedate_to_datetime(found.removeprefix("Date:").strip()).date().isoformat()
    except ValueError:
        raise DataError(f"{path} has no valid Date", "is this the InRelease of a Debian release?") from None
