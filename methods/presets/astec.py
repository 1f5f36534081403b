"""Presets of Astec."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "paper": {
        "vectors": "glove",
        "dimensions": 512,
        "epochs": 20,
        "encoder_rate": 0.02,
        "classifier_rate": 5e-4,
        "neighbors": 500,
        "negatives": 500,
        "fusion": 0.1,
        "reranker": True,
    },
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "DeepXML, sections 3 and 4, and its code; its token vectors are fastText's, ours "
    "are GloVe's, trained on the corpus"
}
