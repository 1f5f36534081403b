"""Presets of Hybrid."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "quick": {"parts": "tfidf,sentbert:quick"},
    "small": {"parts": "tfidf,ict:small"},
    "rrf": {"normalization": "rank"},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "small": "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods hybrid:small\n"
    "the same with --set hybrid.normalization=range, shift and rank; equal weights"
}
