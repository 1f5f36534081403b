"""An explanation: slices of instances in which two rows differ, and the instances that moved most; as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xmcbench.comparison import Comparison, describe_row
from xmcbench.metrics import protocol
from xmcbench.metrics.flips import LEVEL
from xmcbench.metrics.slices import LEAST_ROWS, Contrast
from xmcbench.output.layout import format_table, shorten
from xmcbench.output.quantities import format_count, format_p

#: Slices shown in a terminal and on a page; all of them are in the JSON document.
SHOWN_SLICES = 12
#: True labels of an instance shown in a terminal.
_SHOWN_LABELS = 6
#: The names of the rows in a terminal.
LETTERS = ("A", "B")


@dataclass(frozen=True)
class TrueLabel:
    """A true label of an instance.

    first, second: its rank in each run of a row, 0 where it is not among the first 100. frequency: its training pairs.
    seen: whether it has a pair among those that all runs were given; None where none was given a pair. shared: words in
    common with the text; None without texts.
    """

    label: int
    text: str
    frequency: int
    seen: bool | None
    first: tuple[int, ...]
    second: tuple[int, ...]
    shared: tuple[str, ...] | None


@dataclass(frozen=True)
class Moved:
    """A test instance on which the rows differ.

    row: its position among the test instances. first, second: the metric, means over the runs. rankings: the first
    labels that each row's first run predicts, as texts; None where its predictions are not in the runs folder.
    """

    row: int
    uid: str
    text: str
    first: float
    second: float
    labels: tuple[TrueLabel, ...]
    rankings: tuple[tuple[str, ...] | None, tuple[str, ...] | None]

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second


@dataclass(frozen=True, repr=False)
class Explanation:
    """The difference of two rows in one metric, first minus second.

    slices: name -> contrast, the clearest first. better, worse: instances on which the first row is better, and worse,
    those that moved most first. note: why texts could not be used.
    """

    comparison: Comparison
    metric: str
    slices: dict[str, Contrast]
    better: tuple[Moved, ...]
    worse: tuple[Moved, ...]
    note: str

    @property
    def found(self) -> list[str]:
        """The slices that differ from the other instances at the 5% level, after Holm's correction."""
        return [name for name, contrast in self.slices.items() if contrast.adjusted < LEVEL]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        compared = self.comparison.as_json()
        return {
            **{name: compared[name] for name in ("first", "second", "filter", "problems")},
            "metric": self.metric,
            "overall": compared["metrics"][self.metric],
            "found": self.found,
            "slices": {name: contrast._asdict() for name, contrast in self.slices.items()},
            "better": [asdict(moved) for moved in self.better],
            "worse": [asdict(moved) for moved in self.worse],
            "note": self.note,
        }

    def facts(self, names: tuple[str, str] = LETTERS) -> list[str]:
        """Return the two rows, the overall difference and the verdict on slices, a paragraph each."""
        whole = self.comparison.differences[self.metric]
        first, second = names
        rows = zip(names, (self.comparison.first, self.comparison.second), self.comparison.problems, strict=True)
        # A row by its whole name needs no other one before it.
        described = (describe_row(*row).removeprefix(f"{row[1].records[0].name}: ") for row in rows)
        parts = ["\n".join(described)]
        interval = f"95% interval {100 * whole.low:+.2f} to {100 * whole.high:+.2f}, p {format_p(whole.p)}"
        parts.append(
            f"{self.metric}: {first} {100 * whole.first:.2f}, {second} {100 * whole.second:.2f}, "
            f"{first} - {second} {100 * whole.delta:+.2f} ({interval}) over {self.comparison.instances:,} test "
            f"instances; filter {self.comparison.filter}, metric protocol {protocol.VERSION}."
        )
        if self.found:
            verdict = f"Slices that differ significantly from the other instances: {'; '.join(self.found)}."
        elif self.slices:
            verdict = "No slice differs significantly from the other instances (5% level)."
        else:
            verdict = f"No slice has {LEAST_ROWS} instances inside and outside, so none was tested."
        about = f"Permutation test, Holm's correction over {format_count(len(self.slices), 'slice')}"
        if whole.about_runs or whole.over_seeds:
            about += "; this is about these runs: with other seeds, other slices may differ"
        parts.append(f"{verdict} ({about}.)" if self.slices else verdict)
        return [*parts, *([self.note] if self.note else [])]

    def slice_heads(self, names: tuple[str, str] = LETTERS) -> list[str]:
        """Return the heads of the columns of ``slice_lines``."""
        return ["Slice", "instances", " - ".join(names), "elsewhere", "p", "p (Holm)"]

    def slice_lines(self) -> list[list[str]]:
        """Return the clearest slices as texts, in points."""
        lines = []
        for name, contrast in [*self.slices.items()][:SHOWN_SLICES]:
            differences = [f"{100 * difference:+.2f}" for difference in (contrast.inside, contrast.outside)]
            lines.append([name, f"{contrast.rows:,}", *differences, format_p(contrast.p), format_p(contrast.adjusted)])
        return lines

    def _repr_html_(self) -> str:
        from xmcbench.analysis.explanation_page import fragment

        return fragment(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """The facts, the clearest slices, and the instances that moved most."""
        parts = self.facts()
        if self.slices:
            heads = self.slice_heads()
            parts.append(format_table(self.slice_lines(), heads, ("left", *["right"] * (len(heads) - 1))))
        for head, moved in (("A is better", self.better), ("B is better", self.worse)):
            if moved:
                parts.append("\n\n".join([f"Instances on which {head}, by {self.metric}:", *map(_block, moved)]))
        return "\n\n".join(parts)


def _block(moved: Moved) -> str:
    """Return an instance for a terminal."""
    lines = [f"  {moved.uid}  A {100 * moved.first:.1f}, B {100 * moved.second:.1f}"]
    if moved.text:
        lines.append(f"    text: {shorten(moved.text, 200)}")
    # Labels that moved most come first.
    shown = sorted(moved.labels, key=lambda label: -abs(_reciprocal(label.first) - _reciprocal(label.second)))
    for label in shown[:_SHOWN_LABELS]:
        lines.append(f"    true: {shorten(label.text, 80) or f'label {label.label}'} ({', '.join(label_facts(label))})")
    if len(shown) > _SHOWN_LABELS:
        lines.append(f"    and {format_count(len(shown) - _SHOWN_LABELS, 'other true label')}")
    for letter, ranking in zip("AB", moved.rankings, strict=True):
        if ranking is not None:
            lines.append(f"    {letter}: {'; '.join(shorten(title, 60) for title in ranking)}")
    return "\n".join(lines)


def label_facts(label: TrueLabel, names: tuple[str, str] = LETTERS) -> list[str]:
    """Return the facts about a true label, in words."""
    facts = [f"rank in {names[0]} {_format_ranks(label.first)}, in {names[1]} {_format_ranks(label.second)}"]
    known = {None: "", True: ", seen", False: ", unseen"}[label.seen]
    facts.append(f"{format_count(label.frequency, 'training pair')}{known}")
    if label.shared is not None:
        facts.append(f"shares {', '.join(label.shared)}" if label.shared else "shares no word")
    return facts


def _reciprocal(ranks: Sequence[int]) -> float:
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


def _format_ranks(ranks: Sequence[int]) -> str:
    return "/".join(str(rank) if rank else ">100" for rank in ranks)
