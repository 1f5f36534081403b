from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from xmcbench.methods.maclr.first_stage import ClusterSchedule

schedules = st.builds(
    ClusterSchedule,
    steps=st.integers(0, 300),
    first=st.integers(1, 50),
    doubled_every=st.integers(1, 80),
    updated_every=st.integers(1, 80),
)


def algorithm_1(schedule):
    """The clusters in force at each step, by the paper's loop: what line 4 ff. leave behind for the next step."""
    scale = current = schedule.first
    found = []
    for t in range(1, schedule.steps + 1):
        found.append(current)
        if t % schedule.doubled_every == 0 and t < schedule.steps / 2:
            scale *= 2
        if t % schedule.updated_every == 0 and t < schedule.steps / 2:
            current = scale
        if t >= schedule.steps / 2:
            current = None
    return found


@given(schedules)
def test_is_algorithm_1(schedule):
    assert [schedule.clusters(step) for step in range(schedule.steps)] == algorithm_1(schedule)


@given(schedules)
def test_clusters_are_made_before_they_are_used_and_never_shrink(schedule):
    last = None
    for step in range(schedule.steps):
        made_at = schedule.last_update(step)
        assert (made_at is None) == (schedule.clusters(step) is None) == (2 * step >= schedule.steps)
        if made_at is not None:
            assert schedule.due(made_at)
            assert schedule.due(step) == (made_at == step)
            assert last is None or schedule.clusters(step) >= last
            last = schedule.clusters(step)


@given(schedules, st.integers(1, 2000))
def test_scales_are_the_changes(schedule, documents):
    """With as many clusters as documents each is its own, which is what comes last anyway."""
    scales = schedule.scales(documents)
    assert scales[-1][1] is None
    assert all(before[1] != after[1] for before, after in pairwise(scales))
    for step in range(schedule.steps):
        clusters = schedule.clusters(step)
        found = [clusters for start, clusters in scales if start <= step][-1]
        assert found == (None if clusters is None or clusters >= documents else clusters)


def test_the_paper():
    schedule = ClusterSchedule(100_000, 2048, 10_000, 5_000)
    assert schedule.scales(294_805) == [
        [0, 2048],
        [10_000, 4096],
        [20_000, 8192],
        [30_000, 16_384],
        [40_000, 32_768],
        [50_000, None],
    ]
    assert [step for step in range(100_000) if schedule.due(step)] == list(range(0, 50_000, 5_000))


def test_no_clusters_at_all():
    schedule = ClusterSchedule(10, 0, 1, 1)
    assert all(schedule.clusters(step) is None and not schedule.due(step) for step in range(10))
    assert schedule.scales(10) == [[0, None]]
