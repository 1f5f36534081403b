"""Texts as token numbers: made once, memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from xmcbench import Artifacts, Texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

#: The end of a text.
Side = Literal["left", "right"]
#: Texts, and characters, handed to the tokenizer at a time; it spreads them over the cores. It tokenizes a text whole,
#: also what is cut off, and takes 20 to 80 times its size for that.
_BATCH, _CHARACTERS = 4096, 1 << 22


class Tokenizer:
    """A checkpoint's tokenizer, truncating to ``max_length`` tokens and keeping the special tokens."""

    def __init__(
        self, fast: FastTokenizer, pad: int, prompt: str = "", lower_case: bool = False, cut: Side = "right"
    ) -> None:
        """fast: of the package ``tokenizers``; pad: the number of its padding token; prompt: put before every text.
        lower_case: lower all text first. cut: the side on which longer texts lose tokens."""
        fast.no_padding()
        fast.no_truncation()
        if lower_case:
            _lower(fast)
        self._fast = fast
        self.pad = pad
        self.prompt = prompt
        self._cut = cut
        # The usual side is left out, as it was before the other one was followed.
        named = "" if cut == "right" else f"\0{cut}"
        self.sha256 = hashlib.sha256(f"{fast.to_str()}{prompt}{named}".encode()).hexdigest()

    @property
    def largest(self) -> int:
        """The largest number of a token."""
        return max(self._fast.get_vocab(with_added_tokens=True).values(), default=0)

    @property
    def prompt_tokens(self) -> int:
        """Tokens before a text and after it, if there is a prompt; 0 without one, and where it is cut off first."""
        if not self.prompt or self._cut == "left":
            return 0
        self._fast.no_truncation()
        # White space at its end can be a part of the text's first token.
        return len(self._fast.encode(self.prompt.rstrip()).ids)

    def __call__(self, texts: list[str], max_length: int) -> list[list[int]]:
        """Token numbers of each text, including special tokens; an empty text has only these."""
        self._fast.enable_truncation(max_length, direction=self._cut)
        if self.prompt:
            texts = [self.prompt + text for text in texts]
        return [encoding.ids for encoding in self._fast.encode_batch_fast(texts)]


def _lower(fast: FastTokenizer) -> None:
    from tokenizers import normalizers

    normalizer = fast.normalizer
    fast.normalizer = normalizers.Sequence([normalizers.Lowercase(), *([normalizer] if normalizer else [])])


def _portions(texts: list[str]) -> Iterator[list[str]]:
    """The texts in order, as many at a time as the tokenizer is given. One text may be any size."""
    first, characters = 0, 0
    for place, text in enumerate(texts):
        if place > first and (place - first == _BATCH or characters + len(text) > _CHARACTERS):
            yield texts[first:place]
            first, characters = place, 0
        characters += len(text)
    if texts:
        yield texts[first:]


@dataclass(frozen=True)
class TokenStore:
    """Token numbers of n texts in two memory maps. folder: holds ``tokens.bin`` (int32, all texts one after the other)
    and ``starts.npy`` (int64 [n + 1]). pad: the number that fills a batch up."""

    folder: Path
    pad: int

    @classmethod
    def shared(
        cls,
        artifacts: Artifacts,
        identity: Mapping[str, object],
        texts: Callable[[], Iterable[list[str]]],
        tokenizer: Tokenizer,
        max_length: int,
    ) -> TokenStore:
        """The store of these texts, taken from the artifacts, or made and put there. identity: of the texts; texts:
        gives them in lists. max_length: tokens of a text at most, special tokens included."""

        def build(folder: Path) -> None:
            starts, longer = [0], 0
            with (folder / "tokens.bin").open("wb") as stream:
                for some in (some for part in texts() for some in _portions(part)):
                    ids = tokenizer(some, max_length)
                    lengths = [len(row) for row in ids]
                    longer += sum(length == max_length for length in lengths)
                    starts.extend((starts[-1] + np.cumsum(lengths)).tolist())
                    np.fromiter((token for row in ids for token in row), np.int32, sum(lengths)).tofile(stream)
            np.save(folder / "starts.npy", np.array(starts, np.int64))
            (folder / "facts.json").write_text(json.dumps({"at_the_limit": longer}))

        key = {"texts": dict(identity), "tokenizer": tokenizer.sha256, "max_length": max_length}
        return cls(artifacts.get("tokens", key, build, uses=(texts,)), tokenizer.pad)

    @classmethod
    def of(
        cls, artifacts: Artifacts, texts: Texts, tokenizer: Tokenizer, max_length: int, titles: bool = False
    ) -> TokenStore:
        """The store of whole texts, or of their titles alone."""

        def parts() -> Iterator[list[str]]:
            if titles:
                for start in range(0, len(texts), _BATCH):
                    yield list(texts.titles[start : start + _BATCH])
            else:
                for batch in texts.batches(_BATCH):
                    yield batch.to_pylist()

        identity = {"digest": texts.digest, "part": "titles" if titles else "texts"}
        return cls.shared(artifacts, identity, parts, tokenizer, max_length)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __reduce__(self) -> tuple[type[TokenStore], tuple[Path, int]]:
        """Another process maps the files again."""
        return TokenStore, (self.folder, self.pad)

    @cached_property
    def starts(self) -> np.ndarray:
        """Starts of the texts, and the end of the last one: int64 [n + 1]."""
        starts: np.ndarray = np.load(self.folder / "starts.npy", mmap_mode="r", allow_pickle=False)
        return starts

    @cached_property
    def tokens(self) -> np.ndarray:
        """Token numbers of all texts: int32."""
        if self.starts[-1] == 0:
            return np.empty(0, np.int32)  # an empty file cannot be mapped
        return np.memmap(self.folder / "tokens.bin", np.int32, "r")

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each text: int32 [n]."""
        return np.diff(self.starts).astype(np.int32)

    @property
    def at_the_limit(self) -> int:
        """Number of texts with ``max_length`` tokens: truncated ones, and those that just fit."""
        return int(json.loads((self.folder / "facts.json").read_text())["at_the_limit"])

    def __getitem__(self, row: int) -> np.ndarray:
        """Token numbers of one text."""
        return self.tokens[self.starts[row] : self.starts[row + 1]]
