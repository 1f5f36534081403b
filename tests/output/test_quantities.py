"""Numbers as they are printed."""

import pytest

from xmcbench.output.quantities import format_p


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "< 0.0001"), (9.9e-5, "< 0.0001"), (1e-4, "0.0001"), (0.05, "0.0500"), (1.0, "1.0000")],
)
def test_no_p_value_is_printed_as_zero(p, text):
    assert format_p(p) == text
