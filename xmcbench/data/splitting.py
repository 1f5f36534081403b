"""A test set for a dataset that has none, drawn by the digest of each text.

Instances with the same text are on the same side, so that no test instance was seen in training; and an instance is on
the same side wherever it is in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xmcbench.data.store import Corpus, get_cached, open_corpus, rows_of, write_corpus
from xmcbench.errors import DataError, UsageError
from xmcbench.storage.cache import cache_root
from xmcbench.storage.pairs import read_pairs
from xmcbench.texts import Texts


@dataclass(frozen=True)
class Split:
    """Parameters of drawing a test set: the share of the distinct texts, and the seed."""

    share: float = 0.2
    seed: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Split:
        """The options ``test_share`` and ``split_seed``. Raises UsageError for invalid values."""
        try:
            share, seed = float(options.get("test_share", cls.share)), int(options.get("split_seed", cls.seed))
        except ValueError:
            share, seed = 0.0, 0
        if not 0 < share < 1 or not 0 <= seed < 2**32:
            raise UsageError("invalid test_share or split_seed", "test_share is in (0, 1), split_seed in 0..2^32-1")
        return cls(share, seed)


def split(whole: Corpus, labels: int, drawn: Split) -> tuple[list[Corpus], str]:
    """Divide instances into training and test instances; returns them and a sentence about it.

    labels: L. Raises DataError where all texts are alike.
    """

    def fill(folder: Path) -> None:
        texts, pairs = Texts.open(whole.texts), read_pairs(whole.pair_file, labels)
        is_test = _draw(texts, drawn)
        for name, rows in (("train", np.flatnonzero(~is_test)), ("test", np.flatnonzero(is_test))):
            write_corpus(folder / name, rows_of(texts, rows), pairs[rows], whole.uids)

    # The path of a corpus in the cache identifies its source.
    identity = {"of": str(whole.folder.relative_to(cache_root())), "share": drawn.share, "seed": drawn.seed}
    folder = get_cached("split", identity, fill)
    train, test = (open_corpus(folder / name) for name in ("train", "test"))
    verb = "was" if test.rows == 1 else "were"
    note = (
        f"there is one set of instances: {test.rows:,} of {whole.rows:,} {verb} drawn for testing, by the digest of "
        f"their text (test_share={drawn.share:g}, split_seed={drawn.seed})"
    )
    return [train, test], note


def _draw(texts: Texts, drawn: Split) -> np.ndarray:
    """Draw the test instances: bool [N]."""
    seed = f"{drawn.seed}\n".encode()
    heads = (hashlib.sha256(seed + text.encode()).digest()[:8] for text in texts)
    digests = np.fromiter((int.from_bytes(head, "big") for head in heads), np.uint64, len(texts))
    distinct = np.unique(digests)
    if len(distinct) < 2:
        raise DataError("a test set cannot be drawn: all instances have the same text", "a dataset needs two texts")
    wanted = min(max(1, round(drawn.share * len(distinct))), len(distinct) - 1)
    return np.asarray(digests <= distinct[wanted - 1])
