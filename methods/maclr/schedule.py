"""The schedule of multi-scale adaptive clustering (MACLR, algorithm 1), as a function of the step alone."""

from __future__ import annotations

from dataclasses import dataclass

from xmcbench import UsageError


@dataclass(frozen=True)
class ClusterSchedule:
    """The number of clusters at each step, and when they are recomputed.

    Steps are counted from 0, a step's number being how many were done before it. The paper's line 4, "if t mod T = 0"
    at the end of step t, thus holds before step t here.

    steps: of the whole training; clusters are in force in its first half, afterwards every pair is a cluster of its
    own. first: the paper's K0, 0 for no clusters at all. doubled_every: T_K. updated_every: T_update. The number of
    clusters follows T_K and takes effect where clusters are next made, as in the paper. Raises UsageError for an
    invalid schedule.
    """

    steps: int
    first: int
    doubled_every: int
    updated_every: int

    def __post_init__(self) -> None:
        if self.steps < 0 or self.first < 0 or self.doubled_every < 1 or self.updated_every < 1:
            raise UsageError(
                f"invalid cluster schedule: steps = {self.steps}, first = {self.first}, "
                f"doubled_every = {self.doubled_every}, updated_every = {self.updated_every}",
                "clusters and steps must be at least 0, the others at least 1",
            )

    def made_at(self, step: int) -> int | None:
        """The step before which the clusters of ``step`` are made; None where every pair is its own cluster."""
        if not self.first or 2 * step >= self.steps:
            return None
        return step - step % self.updated_every

    def clusters(self, step: int) -> int | None:
        """How many clusters are in force at a step; None where every pair is its own."""
        made_at = self.made_at(step)
        return None if made_at is None else int(self.first * 2 ** (made_at // self.doubled_every))

    def due(self, step: int) -> bool:
        """Whether clusters are made before this step."""
        return self.made_at(step) == step

    def scales(self) -> list[list[int | None]]:
        """[step, clusters from it on] of every change: what a reader of the record wants to know."""
        found: list[list[int | None]] = []
        for step in (*range(0, (self.steps + 1) // 2, self.updated_every), (self.steps + 1) // 2):
            clusters = self.clusters(step)
            if not found or found[-1][1] != clusters:
                found.append([step, clusters])
        return found
