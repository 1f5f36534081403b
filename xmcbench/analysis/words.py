"""Words that a text and a label have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: A word: letters and digits, at least two.
_WORD = re.compile(r"[^\W_]{2,}")

#: A word in more than this share of the label texts says nothing about any of them, such as "the".
_COMMON = 0.02
#: Of fewer labels no word is common.
_FEW = 100


def words(text: str) -> frozenset[str]:
    """The words of a text, in lower case."""
    return frozenset(_WORD.findall(text.casefold()))


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """The words that are in more than 2% of the texts; none of fewer than 100 texts."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        counts.update(words(text))
        total += 1
    return (
        frozenset(word for word, count in counts.items() if count > _COMMON * total) if total >= _FEW else frozenset()
    )


def shared(text: str, label: str, common: frozenset[str]) -> tuple[str, ...]:
    """The words of a text and of a label, without the common ones, in order of the alphabet."""
    return tuple(sorted((words(text) & words(label)) - common))
