"""Presets of XR-Transformer."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "quick": {"instance_length": 64, "steps": 15},
    "small": {"instance_length": 64, "steps": 60},
    "hour": {"steps": 600, "batch": 64},
    "gpu": {"instance_length": 256, "steps": 6000, "batch": 64},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "quick": "a budget of minutes on two cores; nothing was chosen",
    "small": "a budget of minutes on two cores; nothing was chosen",
    "hour": "a budget of an hour on two cores; nothing was chosen",
    "gpu": "a budget of an hour on a GPU; nothing was chosen",
}
