"""A part of a plan, for machines that share a runs folder and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xmcbench.errors import UsageError
from xmcbench.runner.schedule import parts_of

if TYPE_CHECKING:
    from xmcbench.runner.plan import Plan


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``parts``, counted from 1."""

    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """A shard from ``I/N``. Raises UsageError."""
        number, slash, parts = text.partition("/")
        try:
            found = cls(int(number), int(parts))
        except ValueError:
            found = cls(0, 0)
        if not slash or not 1 <= found.number <= found.parts:
            raise UsageError(f"--shard {text!r} is not I/N with 1 <= I <= N", "--shard 1/4 is the first of four")
        return found

    def of(self, plan: Plan) -> Plan:
        """The plan with the cells of this shard: each cell is in the shard that its key chooses.

        Cells whose rankings others use are in the shards of these too, and run in the one that is first: otherwise they
        would be trained twice.
        """
        own = [each for each in plan.cells if int(each.cell.key[:12], 16) % self.parts == self.number - 1]
        chosen = {each.cell.key for whole in own for each in (whole, *parts_of(whole, plan.cells))}
        return replace(plan, cells=[each for each in plan.cells if each.cell.key in chosen])
