"""Numbers with their nouns, durations, and p-values, in words."""

from __future__ import annotations


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: ``1 cell``, ``2 cells``. plural: of the noun, if it is irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """Return a duration in words: 12 s, 4 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def format_p(p: float) -> str:
    """Return a p-value with four decimals, or as less than the smallest one that these can show."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
