"""Sentences of a text, by their end marks."""

from __future__ import annotations

import re

#: A sentence ends with a line, with . ! ? or one of their kin (Arabic, Devanagari) before white space, or with the
#: last of the full stops, exclamation and question marks of Chinese and Japanese, which no white space follows.
_END = re.compile(
    "(?<=[.!?\u061f\u06d4\u0964])\\s+|(?<=[\u3002\uff01\uff1f\uff61])(?![\u300d\u300f\u201d\uff09\u3002\uff01\uff1f\uff61])\\s*|\\n+"
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, none of them empty."""
    return [sentence for sentence in (part.strip() for part in _END.split(text)) if sentence]
