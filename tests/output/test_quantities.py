"""Quantities as a person says them."""

from xmcbench.output.quantities import duration, format_count


def test_a_number_and_its_noun():
    assert [format_count(number, "cell") for number in (0, 1, 2, 1234)] == [
        "0 cells",
        "1 cell",
        "2 cells",
        "1,234 cells",
    ]
    assert [format_count(number, "query", "queries") for number in (0, 1, 2)] == ["0 queries", "1 query", "2 queries"]


def test_seconds_as_a_person_says_them():
    assert [duration(seconds) for seconds in (0.4, 89, 90, 3600, 12000)] == [
        "0 s",
        "89 s",
        "2 min",
        "60 min",
        "3 h 20 min",
    ]
