"""Presets of TF-IDF."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "sklearn": {"vectorizer": "sklearn", "max_df": 1.0},
    "pecos": {"vectorizer": "pecos", "max_df": 0.98},
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "sklearn": (
        "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods tfidf:pecos\n"
        "xmcbench run --dataset lf-debian-20k-dev --setting ez --methods tfidf:sklearn"
    ),
    "pecos": "the recipe that MACLR's maintainer gives (github.com/amzn/pecos, issue 206)",
}
