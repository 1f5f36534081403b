"""The inverse cloze task of extreme classification: pairs of a document's context and its title (MACLR section 4.2).

The paper pairs the title s1 with the context s2 .. sn. Its authors' code takes documents whose content has more than
one sentence, and takes the title's words out of a sentence of the content with probability .9 where they are repeated
there, so that the pair is not found by copying.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmcbench import MethodError
from xmcbench.methods.encoder.tokens import Tokenizer, TokenStore

if TYPE_CHECKING:
    from xmcbench import Artifacts, Texts

#: A sentence ends with . ! or ? before whitespace, or with a line.
_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class ContextPairs:
    """(context, title) pairs of a corpus. rows: the documents that have one, int64 [n]; left_out: how many have none.

    contexts, titles: token stores of n texts each.
    """

    contexts: TokenStore
    titles: TokenStore
    rows: np.ndarray
    left_out: int


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
) -> ContextPairs:
    """The pairs of all documents with at least ``min_sentences`` sentences of content and a title.

    tokenizers: of contexts and of titles. title_dropout: probability that a sentence loses the title's string. Lengths
    in tokens. Raises MethodError where no document has a context.
    """
    rows = np.array(
        [row for row, context in enumerate(_contexts(raw_X, min_sentences, title_dropout, seed)) if context],
        np.int64,
    )
    if not len(rows):
        raise MethodError(
            f"no document has a title and a context of at least {min_sentences} sentences",
            "the inverse cloze task needs documents with content; this corpus has titles only",
        )

    def contexts() -> Iterator[list[str]]:
        yield from _in_lists(_contexts(raw_X, min_sentences, title_dropout, seed))

    def titles() -> Iterator[list[str]]:
        kept = raw_X.take(rows)
        yield from _in_lists(iter(kept.titles))

    identity = {
        "digest": raw_X.digest,
        "min_sentences": min_sentences,
        "title_dropout": title_dropout,
        "seed": seed,
    }
    return ContextPairs(
        TokenStore.shared(artifacts, {**identity, "part": "contexts"}, contexts, tokenizers[0], context_length),
        TokenStore.shared(artifacts, {**identity, "part": "their titles"}, titles, tokenizers[1], title_length),
        rows,
        len(raw_X) - len(rows),
    )


def sentences(text: str) -> list[str]:
    """The non-empty sentences of a text."""
    return [each for each in (part.strip() for part in _END.split(text)) if each]


def context(title: str, content: str, min_sentences: int, title_dropout: float, rng: np.random.Generator) -> str:
    """The context of a document; empty if it has none."""
    found = sentences(content)
    if len(found) < min_sentences or not title.strip():
        return ""
    if title_dropout:
        drawn = rng.random(len(found)) < title_dropout
        found = [each.replace(title, " ") if out else each for each, out in zip(found, drawn, strict=True)]
    return " ".join(" ".join(found).split())


def _contexts(raw_X: Texts, min_sentences: int, title_dropout: float, seed: int) -> Iterator[str]:
    rng = np.random.default_rng([seed, 1])
    for title, content in zip(raw_X.titles, raw_X.contents, strict=True):
        yield context(title, content, min_sentences, title_dropout, rng)


def _in_lists(texts: Iterator[str], size: int = 4096) -> Iterator[list[str]]:
    part: list[str] = []
    for text in texts:
        if text:
            part.append(text)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
