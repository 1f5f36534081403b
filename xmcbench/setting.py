"""Settings, which say what training pairs a method may see, and the few-shot subsets (MACLR, sections 3 and 5).

    ez     no pairs (EZ-XMC)
    fs     a drawn subset (FS-XMC): ``by label`` all training pairs of floor(ratio x labels with a training pair)
           labels, as in the paper's Tables 3 and 4; ``by pair`` floor(ratio x training pairs) pairs, as in its appendix
    full   every training pair

Draws are nested: under one seed the subset of a smaller ratio lies inside that of a larger one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from xmcbench.errors import UnknownName, UsageError
from xmcbench.storage.arrays import Pattern, write_pairs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """One setting; ``by`` and ``ratio`` belong to ``fs`` alone."""

    kind: Literal["ez", "fs", "full"]
    by: Literal["label", "pair"] | None = None
    ratio: float | None = None

    @classmethod
    def of(cls, kind: str, ratio: float | None = None, by: str | None = None) -> Setting:
        """Return a checked setting. Raises UsageError."""
        if not isinstance(kind, str):
            raise UsageError(f"the setting {kind!r} is not a name", "ez, fs or full")
        if kind not in ("ez", "fs", "full"):
            raise UnknownName("setting", kind, ("ez", "fs", "full"), "choose ez, fs or full")
        if kind != "fs":
            if ratio is not None or by is not None:
                raise UsageError(f"ratio and by cannot be used with the setting {kind}", "they need the setting fs")
            return cls(kind)  # type: ignore[arg-type]
        if ratio is None:
            raise UsageError("the few-shot setting needs a ratio", "for example 0.01")
        if not isinstance(ratio, Real):
            raise UsageError(f"the ratio {ratio!r} is not a number", "for example 0.01")
        # By its digits: 0.1 of 32 bits is the same setting as 0.1 of 64.
        ratio = float(str(ratio) if isinstance(ratio, np.floating) else ratio)  # 1 and 1.0 are one setting
        if not 0 < ratio <= 1:
            raise UsageError(f"the ratio {ratio:g} is outside (0, 1]", "0.01 is 1%; for no pairs use --setting ez")
        if by not in (None, "label", "pair"):
            raise UsageError(f"cannot sample by {by!r}", "--by label or --by pair")
        return cls("fs", by or "label", ratio)  # type: ignore[arg-type]

    @classmethod
    def optional(cls, kind: str | None, ratio: float | None = None, by: str | None = None) -> Setting | None:
        """Return the setting if a kind is given, else None. Raises UsageError."""
        if kind is None and (ratio is not None or by):
            raise UsageError("ratio and by can only be used with the setting fs", "--setting fs")
        return cls.of(kind, ratio, by) if kind else None

    @classmethod
    def at(cls, share: float, by: str) -> Setting:
        """Return the setting at a share of known labels or pairs: 0 is ez, 1 full. Raises UsageError outside 0..1."""
        return cls.of("full" if share else "ez") if share in (0, 1) else cls.of("fs", share, by)

    @property
    def share(self) -> float:
        """The share of the labels, or of the pairs, that is known, as ``at`` takes it."""
        return self.ratio or 0.0 if self.kind == "fs" else float(self.kind == "full")

    @property
    def slug(self) -> str:
        """The setting as a folder name: ``ez``, ``full``, ``fs-label-0.01``."""
        return self.kind if self.kind != "fs" else f"fs-{self.by}-{_exactly(self.ratio or 0)}"

    @property
    def flags(self) -> str:
        """The setting as flags of a command: ``--setting fs --by label --ratio 0.01``."""
        few = f" --by {self.by} --ratio {_exactly(self.ratio or 0)}" if self.kind == "fs" else ""
        return f"--setting {self.kind}{few}"

    @property
    def title(self) -> str:
        """The name of the setting in tables."""
        if self.kind == "fs":
            return f"few-shot, {(100 * Decimal(repr(self.ratio))).normalize():f}% of the {self.by}s"
        return "zero-shot (no pairs)" if self.kind == "ez" else "full (all training pairs)"


def _exactly(ratio: float) -> str:
    """Return a ratio as short text that means no other ratio: 0.01, 1, 0.3333333333333333."""
    short = f"{ratio:g}"
    return short if float(short) == ratio else repr(ratio)


def settings(kinds: Sequence[str], ratios: Sequence[float] = (), by: Sequence[str] = ()) -> tuple[Setting, ...]:
    """Return all settings of these kinds, each once: ``fs`` at every ratio, by labels unless ``by`` says otherwise.

    Raises UsageError for an invalid setting, and for a ratio or unit without ``fs``.
    """
    if "fs" not in kinds and (ratios or by):
        for kind in kinds:
            Setting.of(kind)
        raise UsageError(f"ratio and by cannot be used with the setting {','.join(kinds)}", "they need the setting fs")
    few = [(ratio, unit) for unit in by or (None,) for ratio in ratios or (None,)]
    found = [
        Setting.of(kind, ratio, unit) for kind in kinds for ratio, unit in (few if kind == "fs" else [(None, None)])
    ]
    return tuple(dict.fromkeys(found))


def seeds_of(given: int | Iterable[int]) -> tuple[int, ...]:
    """Return one seed or several, each once. Raises UsageError for anything but integers that numpy takes."""
    try:
        several = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
        seeds = tuple(dict.fromkeys(operator.index(seed) for seed in several))
    except TypeError:
        raise UsageError(f"the seed {given!r} is not an integer", "seed=0, or seed=[0, 1, 2]") from None
    for seed in seeds:
        if not 0 <= seed < 2**32:
            raise UsageError(f"the seed {seed} is outside 0..2^32-1")
    return seeds


@dataclass(frozen=True)
class Subset:
    """The pairs that a method may see in a setting: a named artifact with counts and a SHA-256."""

    name: str
    seed: int
    pattern: Pattern

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the pairs."""
        return self.pattern.digest

    @cached_property
    def pairs(self) -> csr_matrix:
        """The pairs: binary CSR, float32 [N, L]."""
        return self.pattern.matrix()

    @property
    def labels(self) -> int:
        """Labels with a pair."""
        return len(np.unique(self.pattern.indices))

    @property
    def instances(self) -> int:
        """Instances with a pair."""
        return int((np.diff(self.pattern.indptr) > 0).sum())

    def save(self, path: Path) -> None:
        """Write the pairs. Raises StorageError."""
        write_pairs(path, self.pattern.indptr, self.pattern.indices)


def draw(pairs: Pattern, setting: Setting, seed: int) -> Subset | None:
    """Return the subset of all training pairs that a setting and a seed select; None in the zero-shot setting.

    pairs: the training pairs of the dataset, [instances, labels]. Raises UsageError when the ratio selects nothing.
    """
    if setting.kind == "ez":
        return None
    if setting.kind == "full":
        return Subset("full", seed, pairs)
    units = np.unique(pairs.indices) if setting.by == "label" else np.arange(len(pairs))
    # Exact: as floats, 0.29 x 100 is 28.999...
    number = math.floor(Fraction(str(setting.ratio)) * len(units))
    if number == 0:
        what = "labels with a training pair" if setting.by == "label" else "training pairs"
        smallest = f"{math.ceil(10**6 / len(units)) / 10**6:g} selects one" if len(units) else "it has no pairs"
        raise UsageError(f"a ratio of {setting.ratio:g} of {len(units)} {what} selects nothing", smallest)
    # RandomState's streams are frozen (NEP 19): any later numpy draws the same subset.
    drawn = units[np.random.RandomState(seed).permutation(len(units))[:number]]
    if setting.by == "label":
        kept = np.isin(pairs.indices, drawn)
    else:
        kept = np.zeros(len(pairs), bool)
        kept[drawn] = True
    return Subset(f"{setting.slug}-s{seed}", seed, pairs.only(kept))
