"""Presets of BM25."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {"bm25s": {"k1": 1.5, "b": 0.75}, "lucene": {"k1": 1.2, "b": 0.75}}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {"bm25s": "the defaults of the package bm25s", "lucene": "the defaults of Lucene"}
