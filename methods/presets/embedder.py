"""Presets of Embedder."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {"quick": {"precision": "auto", "max_length": 64}}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {"quick": "a budget of minutes on two cores; nothing was chosen"}
