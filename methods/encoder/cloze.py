"""The inverse cloze task of extreme classification: pairs of a document's context and its title (MACLR section 4.2).

The paper pairs the title s1 with the context s2 .. sn. Its authors' code takes documents whose content has more than
one sentence, and removes the title from a sentence of the content with probability .9, so that the pair is not found
by copying. It draws these sentences again at each visit of a document. Where most contents have a single sentence, the
code's rule would leave out most documents, and we take all of them, as the paper does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench import Artifacts, MethodError, Texts
from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore
from xmcbench.methods.words.analysis import split_sentences

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

Sentences = Literal["regex", "punkt"]

#: Contents that Punkt learns from at most, drawn at random.
_SAMPLE = 20_000


@dataclass(frozen=True)
class Splitter:
    """Splits a text into its sentences. model: the file of a trained Punkt; None for the regular expression."""

    model: Path | None = None

    def __call__(self, text: str) -> list[str]:
        """The sentences, none of them empty."""
        if self.model is None:
            return split_sentences(text)
        return [sentence for sentence in map(str.strip, self._punkt.tokenize(text)) if sentence]

    def __getstate__(self) -> dict[str, object]:
        """Another process reads the model again."""
        return {"model": self.model}

    def identity(self) -> str:
        """Identity of the rule: the sentences depend on it."""
        return "regex" if self.model is None else hashlib.sha256(self.model.read_bytes()).hexdigest()

    @cached_property
    def _punkt(self) -> PunktSentenceTokenizer:
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

        assert self.model is not None
        learned = json.loads(self.model.read_text(encoding="utf-8"))
        parameters = PunktParameters()
        parameters.abbrev_types = set(learned["abbreviations"])
        parameters.collocations = {(first, second) for first, second in learned["collocations"]}
        parameters.sent_starters = set(learned["starters"])
        parameters.ortho_context.update(learned["orthography"])
        return PunktSentenceTokenizer(parameters)


def splitter(kind: Sentences, artifacts: Artifacts, raw_X: Texts) -> Splitter:
    """A splitter for the contents of a corpus. Punkt (Kiss and Strunk 2006) learns abbreviations and collocations from
    plain text. NLTK's English model comes with no package, so this one learns from a sample of the contents, once."""
    if kind == "regex":
        return Splitter()

    def build(folder: Path) -> None:
        from nltk.tokenize.punkt import PunktTrainer

        rows = np.random.RandomState(0).permutation(len(raw_X))[:_SAMPLE]
        trainer = PunktTrainer()
        trainer.train("\n".join(raw_X.take(np.sort(rows)).contents), finalize=True)
        found = trainer.get_params()
        learned = {
            "abbreviations": sorted(found.abbrev_types),
            "collocations": sorted(found.collocations),
            "starters": sorted(found.sent_starters),
            "orthography": dict(sorted(found.ortho_context.items())),
        }
        (folder / "punkt.json").write_text(json.dumps(learned, ensure_ascii=False), encoding="utf-8")

    return Splitter(artifacts.get("punkt", {"digest": raw_X.digest}, build) / "punkt.json")


@dataclass(frozen=True)
class ContextPairs:
    """(context, title) pairs of a corpus. rows: the documents that have one, int64 [n]; left_out: how many have none.
    min_sentences: that a context has. contexts: as they are at the first visit, and titles: token stores of n texts
    each. repeated: what is needed to draw the other visits; None where no title is ever taken out."""

    contexts: TokenStore
    titles: TokenStore
    rows: np.ndarray
    left_out: int
    min_sentences: int
    repeated: Repeated | None = None

    def visit(self, number: int) -> TokenStore | Visit:
        """The contexts of a visit, counted from 0."""
        return self.contexts if self.repeated is None or not number else Visit(self.contexts, self.repeated, number)


@dataclass(frozen=True)
class Repeated:
    """The documents whose content repeats their title. folder: holds ``texts.arrow`` (their titles and contents) and
    ``places.npy`` (int64 [n], the place of a pair's document in it, -1 where the title is not repeated). The rest: see
    ``context_pairs``."""

    folder: Path
    split: Splitter
    tokenizer: Tokenizer
    context_length: int
    title_dropout: float
    seed: int

    def __getstate__(self) -> dict[str, object]:
        """Another process maps the files again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("texts", "places")}

    @cached_property
    def texts(self) -> Texts:
        """Titles and contents of these documents."""
        return Texts.open(self.folder / "texts.arrow")

    @cached_property
    def places(self) -> np.ndarray:
        """Number in ``texts`` of a pair's document, int64; -1: none."""
        places: np.ndarray = np.load(self.folder / "places.npy", mmap_mode="r", allow_pickle=False)
        return places

    def tokens(self, pair: int, visit: int) -> np.ndarray:
        """The tokens of a context at a visit. A context that would be empty keeps its title."""
        place = int(self.places[pair])
        title, content = self.texts.titles[place].strip(), self.texts.contents[place]
        found = self.split(content)
        text = without_title(title, found, self.title_dropout, draw_of(self.seed, visit, pair)) or " ".join(found)
        return np.array(self.tokenizer([text], self.context_length)[0], np.int32)


@dataclass(frozen=True)
class Visit:
    """The contexts as they are at one visit of the documents."""

    first: TokenStore
    repeated: Repeated
    number: int

    @property
    def pad(self) -> int:
        """The number that fills a batch up."""
        return self.first.pad

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, pair: int) -> np.ndarray:
        """Token numbers of one context."""
        if self.repeated.places[pair] < 0:
            return self.first[pair]
        return self.repeated.tokens(int(pair), self.number)


def context_pairs(
    artifacts: Artifacts,
    raw_X: Texts,
    tokenizers: tuple[Tokenizer, Tokenizer],
    *,
    context_length: int,
    title_length: int,
    min_sentences: int,
    title_dropout: float,
    seed: int,
    sentences: Sentences = "regex",
) -> ContextPairs:
    """The pairs of all documents with a title and at least ``min_sentences`` sentences of content, or with any content
    if most have fewer. tokenizers: of contexts and of titles. title_dropout: probability that a sentence loses the
    title's string. sentences: how contents are split. Lengths in tokens. Raises MethodError if no document has a
    context."""
    split = splitter(sentences, artifacts, raw_X)
    lengths = np.array([len(found) if title else 0 for title, found in _documents(raw_X, split)])
    if 2 * np.count_nonzero(lengths >= min_sentences) < np.count_nonzero(lengths):
        min_sentences = 1
    rows = np.flatnonzero(lengths >= min_sentences)
    if not len(rows):
        raise MethodError("no document has a title and a content", "the inverse cloze task needs documents with both")
    kept = raw_X.take(rows)

    def contexts() -> Iterator[list[str]]:
        return _in_lists(_contexts(kept, split, title_dropout, seed))

    def titles() -> Iterator[list[str]]:
        return _in_lists(iter(kept.titles))

    identity = {
        "digest": raw_X.digest,
        "min_sentences": min_sentences,
        "title_dropout": title_dropout,
        "sentences": split.identity(),
        "seed": seed,
    }
    return ContextPairs(
        TokenStore.shared(artifacts, {**identity, "part": "contexts"}, contexts, tokenizers[0], context_length),
        TokenStore.shared(artifacts, {**identity, "part": "their titles"}, titles, tokenizers[1], title_length),
        rows,
        len(raw_X) - len(rows),
        min_sentences,
        Repeated(
            _find_repeated(artifacts, identity, kept, split), split, tokenizers[0], context_length, title_dropout, seed
        )
        if title_dropout
        else None,
    )


def without_title(title: str, sentences: list[str], title_dropout: float, rng: np.random.Generator) -> str:
    """The sentences as one text; each loses the title's string with this probability."""
    if title_dropout:
        drawn = rng.random(len(sentences)) < title_dropout
        sentences = [
            sentence.replace(title, " ") if out else sentence for sentence, out in zip(sentences, drawn, strict=True)
        ]
    return " ".join(" ".join(sentences).split())


def draw_of(seed: int, visit: int, pair: int) -> np.random.Generator:
    """Random generator that decides which sentences of a pair lose the title at a visit."""
    return np.random.default_rng([seed, 1, visit, pair])


def _documents(texts: Texts, split: Splitter) -> Iterator[tuple[str, list[str]]]:
    """Title and sentences of each document, without white space around them."""
    for title, content in zip(texts.titles, texts.contents, strict=True):
        yield title.strip(), split(content)


def _contexts(kept: Texts, split: Splitter, title_dropout: float, seed: int) -> Iterator[str]:
    """The contexts of the first visit. One that would be empty keeps its title."""
    for pair, (title, found) in enumerate(_documents(kept, split)):
        yield without_title(title, found, title_dropout, draw_of(seed, 0, pair)) or " ".join(found)


def _find_repeated(artifacts: Artifacts, identity: Mapping[str, object], kept: Texts, split: Splitter) -> Path:
    """The folder of ``Repeated``."""

    def build(folder: Path) -> None:
        again = [any(title in sentence for sentence in found) for title, found in _documents(kept, split)]
        places = np.where(again, np.cumsum(again) - 1, -1)
        np.save(folder / "places.npy", places.astype(np.int64))
        _write_texts(folder / "texts.arrow", kept.take(np.flatnonzero(again)))

    return artifacts.get("contexts", identity, build, uses=(split,))


def _write_texts(path: Path, texts: Texts) -> None:
    """Titles and contents in the form that ``Texts.open`` maps."""
    import pyarrow as pa

    columns = {"uid": texts.uids, "title": texts.titles, "content": texts.contents}
    table = pa.table({name: column.to_arrow() for name, column in columns.items()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _in_lists(texts: Iterator[str]) -> Iterator[list[str]]:
    return iter(lambda: list(islice(texts, 4096)), [])
