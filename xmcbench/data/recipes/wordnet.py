"""The nouns of WordNet, from Debian's package wordnet-base, as a dataset: from a synset to its direct hypernyms.

    instance   a synset of nouns with a hypernym; title: its lemmas; content: its gloss, which includes examples
    label      a synset that is the direct hypernym of a synset of nouns, or the class of which one is an instance;
               title "lemmas: gloss"
    pair       synset -> its direct hypernym

A uid is n and the offset of the synset in ``data.noun``. A synset is a training instance if the SHA-256 of its uid, as
a number, ends in a decimal digit below 7. Instances and labels have the order of ``data.noun``.

Format: wndb(5WN), which wordnet-base contains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from xmcbench.data.card import Recipe
from xmcbench.data.recipes.apt import fetch_packages, open_package
from xmcbench.data.sources.xc_raw import write_instances, write_labels
from xmcbench.data.text_files import at
from xmcbench.errors import DataError

_NOUNS = "usr/share/wordnet/data.noun"
#: The pointers to a hypernym, and to the class of an instance such as a city.
_HYPERNYMS = frozenset({"@", "@i"})


class _Synset(NamedTuple):
    uid: str
    lemmas: str
    gloss: str
    hypernyms: list[str]


fetch = fetch_packages


def write(recipe: Recipe, files: Sequence[Path], out: Path, progress: Callable[[str], None]) -> None:
    """Write the dataset in the XC raw layout. files: the package. Raises DataError."""
    progress(f"reading {_NOUNS}")
    synsets = _read_synsets(files[0])
    progress(f"writing {len(synsets):,} synsets")
    named = {uid for synset in synsets for uid in synset.hypernyms}
    labels = [synset for synset in synsets if synset.uid in named]
    ids = {synset.uid: row for row, synset in enumerate(labels)}
    if missing := sorted(named - ids.keys()):
        raise DataError(f"{_NOUNS} in {files[0]} does not have the hypernym {missing[0]}", "is the package whole?")
    for name, wants_training in (("trn", True), ("tst", False)):
        rows = (
            (synset.uid, synset.lemmas, synset.gloss, sorted(ids[uid] for uid in synset.hypernyms))
            for synset in synsets
            if synset.hypernyms and is_training(synset.uid) == wants_training
        )
        write_instances(out / f"{name}.json.gz", rows)
    write_labels(out / "lbl.json.gz", ((synset.uid, f"{synset.lemmas}: {synset.gloss}") for synset in labels))


def is_training(uid: str) -> bool:
    """Tell whether the instance of this uid is a training instance."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest(), "big") % 10 < 7


def _read_synsets(package: Path) -> list[_Synset]:
    """Read the synsets of nouns. Raises DataError with file and line."""
    path, synsets = package / _NOUNS, []
    with open_package(package) as opened:
        streams = (opened.extractfile(member) for member in opened if member.name == f"./{_NOUNS}")
        found = [stream.read() for stream in streams if stream is not None]
    if not found:
        raise DataError(f"{package} does not contain {_NOUNS}", "is this wordnet-base?")
    for number, line in enumerate(found[0].splitlines(), 1):
        if line.startswith(b"  "):  # the license
            continue
        try:
            synsets.append(_read_synset(line.decode()))
        except (ValueError, IndexError) as error:
            raise at(path, number, f"is not a synset: {error}", "is this WordNet's database?") from None
    if not synsets:
        raise DataError(f"{path} has no synset", "is this WordNet's database?")
    return synsets


def _read_synset(line: str) -> _Synset:
    """Read ``offset file type word_count (word lex_id)... pointer_count (symbol offset type source)... | gloss``."""
    data, bar, gloss = line.partition(" | ")
    if not bar:
        raise ValueError("it has no gloss")
    offset, _, _, count, *fields = data.split()
    end = 2 * int(count, 16)
    words, pointers = fields[:end:2], fields[end + 1 :]
    if len(words) != end // 2 or len(pointers) != 4 * int(fields[end]):
        raise ValueError("it has another number of words or pointers than it says")
    hypernyms = [f"n{pointers[i + 1]}" for i in range(0, len(pointers), 4) if pointers[i] in _HYPERNYMS]
    lemmas = ", ".join(words).replace("_", " ")
    return _Synset(f"n{offset}", lemmas, " ".join(gloss.split()), [*dict.fromkeys(hypernyms)])
