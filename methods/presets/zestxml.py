"""Presets of ZestXML."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "amazon": {"share": 0.9},
    "wikipedia": {"cost": 2.0, "direct_weight": 0.1, "share": 0.8},
    "eurlex": {
        "cost": 5.0,
        "links": 120,
        "union": 0.02,
        "direct_weight": 0.8,
        "shortlist": 150,
        "share": 0.9,
    },
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "amazon": "the authors' program, for datasets of Amazon",
    "wikipedia": "the authors' program, for datasets of Wikipedia",
    "eurlex": "the authors' program, for EURLex",
}
