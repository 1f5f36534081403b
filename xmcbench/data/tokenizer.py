"""What the tokenizer of a model cannot read: letters that it replaces by its unknown token."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from xmcbench.errors import Unavailable, UsageError
from xmcbench.extras import installation

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: The file of a tokenizer in the folder of a model.
FILE = "tokenizer.json"


def load(place: Path) -> Tokenizer:
    """The tokenizer of a model's folder, or of its tokenizer.json, set to read texts whole.

    Raises UsageError, and Unavailable without the package tokenizers.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable("--tokenizer needs tokenizers", installation("tokenizers")) from None

    path = place / FILE if place.is_dir() else place
    if not path.is_file():
        raise UsageError(f"there is no {FILE} at {place}", "--tokenizer takes the folder of a model, or that file")
    try:
        made = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise UsageError(f"{path} is not a tokenizer: {error}", f"it must be a {FILE} of Hugging Face") from error
    made.no_truncation()
    made.no_padding()
    return made


def unknown_letters(tokenizer: Tokenizer, texts: Iterable[str], letters: Callable[[str], Counter[str]]) -> Counter[str]:
    """How many letters of the texts are in words that become the unknown token, by kind.

    letters: text -> its letters by kind. A tokenizer without such a token, such as one of bytes, reads everything.
    """
    unknown = _unknown(tokenizer)
    found: Counter[str] = Counter()
    if unknown is None:
        return found
    for text in texts:
        read = tokenizer.encode(text, add_special_tokens=False)
        for number, (start, end) in zip(read.ids, read.offsets, strict=True):
            if number == unknown:
                found.update(letters(text[start:end]))
    return found


def _unknown(tokenizer: Tokenizer) -> int | None:
    """The id of the unknown token; a unigram model has the id in its description, all others the token."""
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("type") == "Unigram":
        return None if model.get("byte_fallback") else model.get("unk_id")
    token = model.get("unk_token")
    return None if token is None else tokenizer.token_to_id(token)
