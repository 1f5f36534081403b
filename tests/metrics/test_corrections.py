from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.metrics import holm


def literal_holm(p):
    """Holm (1979): of the ordered p-values, the adjusted j-th is the largest of (m - i + 1) p_i, i <= j, at most 1."""
    ordered = sorted(p.items(), key=lambda item: item[1])
    m = len(ordered)
    return {
        name: min(1.0, max((m - i + 1) * ordered[i - 1][1] for i in range(1, j + 1)))
        for j, (name, _) in enumerate(ordered, start=1)
    }


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_equals_the_procedure_written_out(p):
    adjusted = holm(p)
    assert adjusted == pytest.approx(literal_holm(p))
    assert list(adjusted) == list(p)


def test_by_hand():
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.06, "b": 0.03, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": 0.02, "b": 0.9, "c": 0.6}) == pytest.approx({"a": 0.06, "b": 1.0, "c": 1.0})


def test_a_family_of_one_or_none_is_left_alone():
    assert holm({"a": 0.04}) == {"a": 0.04}
    assert holm({}) == {}
