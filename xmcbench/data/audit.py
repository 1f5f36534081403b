"""Facts about a dataset: counts, and empty, repeated and leaked texts, scripts, and letters a tokenizer cannot read.

None of them is an error. No method can tell labels of one text apart, and a test text that is in the training set,
or nearly so, is an answer that a method with pairs may look up.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmcbench.errors import Unavailable, UsageError
from xmcbench.extras import installation

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from xmcbench.data.dataset import Dataset
    from xmcbench.texts import Column, Texts

#: Words of a shingle, hash functions, and bands of them: texts with a similarity of 0.8 share a band in 99.98% of
#: cases.
_SHINGLE, _HASHES, _BANDS = 3, 64, 16
#: Factors (odd) and offsets of the hash functions: uint64 [hashes].
_FACTORS, _OFFSETS = np.frombuffer(np.random.RandomState(0).bytes(16 * _HASHES), np.uint64).reshape(2, -1)
_FACTORS = _FACTORS | np.uint64(1)
#: The least Jaccard similarity of the shingles of near duplicates.
NEAR = 0.8
#: Texts that a query is compared with, at most: those that share the most bands. Bands of more texts than
#: ``_CROWDED`` do not count: they are boilerplate, and would make every query a comparison with every text.
_COMPARED, _CROWDED = 100, 1_000
#: Scripts whose words are not separated by spaces, by the first word of the names of their letters in Unicode.
_UNSPACED = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
#: The least share of a script in all letters, and of unknown letters in a script, that a warning is about.
_FEW, _UNREAD = 0.01, 0.05
#: Kinds of findings, where there is one row.
_SINGULAR = {
    "are empty": "is empty",
    "also appear in the training set": "also appears in the training set",
    "are near duplicates of training texts": "is a near duplicate of a training text",
}
#: Texts of a side whose letters are counted, and examples of a finding.
_SAMPLED, _EXAMPLES = 2_000, 5
#: The file of a tokenizer in the folder of a model.
_TOKENIZER = "tokenizer.json"


def statistics(dataset: Dataset) -> dict[str, float]:
    """Return counts and means of a dataset, by name. Words are separated by white space."""
    train, test = dataset.train_pairs(), dataset.test_pairs()
    frequency = np.bincount(train.indices, minlength=train.shape[1])
    instances = len(dataset.train) + len(dataset.test)
    return {
        **dataset.counts(),
        "labels_per_train_instance": train.nnz / len(dataset.train),
        "labels_per_test_instance": test.nnz / len(dataset.test),
        "train_instances_per_label": train.nnz / len(dataset.labels),
        "words_per_title": (_words(dataset.train.titles) + _words(dataset.test.titles)) / instances,
        "words_per_content": (_words(dataset.train.contents) + _words(dataset.test.contents)) / instances,
        "words_per_label": _words(dataset.labels.titles) / len(dataset.labels),
        "labels_without_train_pair": int((frequency == 0).sum()),
        "test_pairs_of_labels_without_train_pair": int((frequency[test.indices] == 0).sum()),
    }


def _words(column: Column) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.count_substring_regex(column.to_arrow(), r"\S+")).as_py() or 0)


@dataclass(frozen=True)
class Finding:
    """Rows with something in common: a property, the side, their number and that of all rows, and example texts."""

    kind: str
    side: str
    rows: int
    of: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        share = f"{100 * self.rows / self.of:.2f}%" if self.of else "0%"
        kind = _SINGULAR.get(self.kind, self.kind) if self.rows == 1 else self.kind
        return f"{self.rows:,} of {self.of:,} {self.side} ({share}) {kind}"


@dataclass(frozen=True)
class Audit:
    """The findings on a dataset, and the share of letters of each script in a sample of its texts.

    near: whether near duplicates were looked for. unread: script -> share of its letters that a tokenizer does not
    know; empty without a tokenizer.
    """

    dataset: str
    findings: tuple[Finding, ...]
    near: bool
    scripts: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, float] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """One line per finding, and per warning about scripts without spaces and letters that are unknown."""
        found = list(map(str, self.findings))
        unspaced = {name: share for name, share in self.scripts.items() if name in _UNSPACED and share >= _FEW}
        if unspaced:
            listed = ", ".join(f"{name.capitalize()} {100 * share:.1f}%" for name, share in unspaced.items())
            hint = "methods that split at spaces take a sentence for one word"
            found.append(f"letters of scripts without spaces between words: {listed}; {hint}")
        for name, share in self.unread.items():
            if share >= _UNREAD and self.scripts.get(name, 0.0) >= _FEW:
                what = f"{100 * share:.1f}% of the {name.capitalize()} letters are unknown to the tokenizer"
                found.append(f"{what} ({100 * self.scripts[name]:.1f}% of all letters are {name.capitalize()})")
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {**asdict(self), "warnings": self.warnings()}


def audit(dataset: Dataset, near: bool = True, tokenizer: Path | None = None) -> Audit:
    """Look for empty texts, repeated texts, labels of one text, and test texts that also appear in the training set.

    near: also for test texts nearly in the training set: a Jaccard similarity of 0.8 of the sets of three words in a
    row, found by MinHash (Broder, 1997). It takes memory and time for every text. tokenizer: the folder of a model, or
    its tokenizer.json, whose unknown letters are counted. Raises UsageError for a place without one.
    """
    reader = _load_tokenizer(tokenizer) if tokenizer else None
    sides = {"training instances": dataset.train, "test instances": dataset.test, "labels": dataset.labels}
    digests = {name: _digests(texts) for name, texts in sides.items()}
    findings = [finding for name, texts in sides.items() for finding in _repetitions(name, texts, digests[name])]
    findings += _leaks(dataset, digests["training instances"], digests["test instances"], near)
    sample = [texts[row] for texts in sides.values() for row in range(0, len(texts), max(1, len(texts) // _SAMPLED))]
    scripts = _scripts("".join(sample))
    total = max(1, sum(scripts.values()))
    shares = {name: count / total for name, count in scripts.most_common(8)}
    unknown = unknown_letters(reader, sample, _scripts) if reader else Counter()
    unread = {name: unknown[name] / scripts[name] for name in shares if unknown[name]}
    return Audit(dataset.name, tuple(findings), near, shares, unread)


def _digests(texts: Texts) -> np.ndarray:
    """A number per text, 0 where it is empty: the texts themselves may not fit in memory. uint64 [texts].

    Two of ten million different texts share one with a probability of 3 in a million.
    """
    digests = np.zeros(len(texts), np.uint64)
    for row, text in enumerate(texts):
        if text and not text.isspace():
            digests[row] = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1
    return digests


def _repetitions(name: str, texts: Texts, digests: np.ndarray) -> Iterator[Finding]:
    """Find empty texts, and texts that repeat an earlier one."""
    rows = np.flatnonzero(digests)
    if count := len(texts) - len(rows):
        yield Finding("are empty", name, count, len(texts))
    _, first, counts = np.unique(digests[rows], return_index=True, return_counts=True)
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        order = repeated[np.lexsort((first[repeated], -counts[repeated]))][:_EXAMPLES]
        examples = tuple(f"{texts[int(rows[first[group]])]} ({counts[group]} times)" for group in order)
        kind = "have the text of another label" if name == "labels" else f"have the text of other {name}"
        yield Finding(kind, name, int(counts[repeated].sum()), len(texts), examples)


def _leaks(dataset: Dataset, train: np.ndarray, test: np.ndarray, near: bool) -> Iterator[Finding]:
    """Find test texts in the training set, exactly and nearly. train, test: their digests."""
    is_exact = np.isin(test, train) & (test > 0)
    if is_exact.any():
        examples = tuple(dataset.test[int(row)] for row in np.flatnonzero(is_exact)[:_EXAMPLES])
        yield Finding("also appear in the training set", "test instances", int(is_exact.sum()), len(test), examples)
    others = np.flatnonzero(~is_exact)
    if near and (pairs := near_pairs((dataset.test[int(row)] for row in others), dataset.train)):
        shown = [(dataset.test[int(others[query])], dataset.train[text]) for query, text in pairs[:_EXAMPLES]]
        kind = "are near duplicates of training texts"
        yield Finding(kind, "test instances", len(pairs), len(test), tuple(map(" | ".join, shown)))


def near_pairs(queries: Iterable[str], texts: Iterable[str], every: bool = False) -> list[tuple[int, int]]:
    """(query, text) of the queries that have a near duplicate among the texts, by position.

    every: all near duplicates of a query, not the first alone. Texts with fewer than three words are not reported.
    Where many texts share most of their words, a near duplicate can be missed: see ``_COMPARED``.
    """
    kept: list[tuple[int, np.ndarray]] = []
    seen: set[int] = set()
    buckets: dict[tuple[int, bytes], list[int]] = {}
    for row, text in enumerate(texts):
        if hash(text) in seen:  # it would only crowd the bands of the first one
            continue
        seen.add(hash(text))
        shingles = _shingles(text)
        for key in _bands(shingles):
            buckets.setdefault(key, []).append(len(kept))
        kept.append((row, shingles))
    found = []
    for row, query in enumerate(queries):
        shingles = _shingles(query)
        met = (buckets.get(key, ()) for key in _bands(shingles))
        shared = Counter(place for places in met if len(places) <= _CROWDED for place in places)
        for place in sorted(place for place, _ in shared.most_common(_COMPARED)):
            if _similarity(shingles, kept[place][1]) >= NEAR:
                found.append((row, kept[place][0]))
                if not every:
                    break
    return found


def _similarity(one: np.ndarray, other: np.ndarray) -> float:
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / (len(one) + len(other) - both)


def _shingles(text: str) -> np.ndarray:
    """The hashes of three words in a row, each once."""
    words = text.casefold().split()
    shingles = {" ".join(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1)}
    return np.unique(np.fromiter((zlib.crc32(shingle.encode()) for shingle in shingles), np.uint64, len(shingles)))


def _bands(shingles: np.ndarray) -> list[tuple[int, bytes]]:
    """The keys under which texts that are alike meet; none without shingles."""
    if not len(shingles):
        return []
    # Multiply-shift (Dietzfelbinger et al., 1997): modulo 2^64, of which the upper half counts.
    hashes = (shingles[:, None] * _FACTORS + _OFFSETS) >> np.uint64(32)
    return [(band, row.tobytes()) for band, row in enumerate(hashes.min(axis=0).reshape(_BANDS, -1))]


def _scripts(text: str) -> Counter[str]:
    """Letters by script: the first word of their names in Unicode."""
    counts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            counts[unicodedata.name(letter, "UNKNOWN").split()[0]] += count
    return counts


def _load_tokenizer(place: Path) -> Tokenizer:
    """Load the tokenizer of a model's folder, or a tokenizer.json, to read texts whole. Raises an XmcbenchError."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable("--tokenizer needs tokenizers", installation("tokenizers")) from None

    path = place / _TOKENIZER if place.is_dir() else place
    if not path.is_file():
        raise UsageError(f"there is no {_TOKENIZER} at {place}", "--tokenizer takes the folder of a model, or the file")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise UsageError(f"{path} is not a tokenizer: {error}", f"it must be a {_TOKENIZER} of Hugging Face") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def unknown_letters(tokenizer: Tokenizer, texts: Iterable[str], letters: Callable[[str], Counter[str]]) -> Counter[str]:
    """Count the letters of texts in words that become the unknown token, by kind.

    letters: text -> its letters by kind. A tokenizer without such a token, such as one of bytes, reads everything.
    """
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("type") == "Unigram":  # has the id in its description, all others the token
        unknown = None if model.get("byte_fallback") else model.get("unk_id")
    else:
        unknown = tokenizer.token_to_id(model.get("unk_token") or "")
    found: Counter[str] = Counter()
    for text in texts if unknown is not None else ():
        tokens = tokenizer.encode(text, add_special_tokens=False)
        for number, (start, end) in zip(tokens.ids, tokens.offsets, strict=True):
            if number == unknown:
                found.update(letters(text[start:end]))
    return found
