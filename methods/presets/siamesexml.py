"""Presets of SiameseXML."""

from __future__ import annotations

PRESETS: dict[str, dict[str, object]] = {
    "paper": {
        "vectors": "glove",
        "batch": 4095,
        "epochs": 50,
        "dropout": 0.0,
        "shortlist": 500,
        "classifier_rate": 2e-4,
        "threshold": 0.1393,
        "fusion": 0.5,
    },
}
#: Preset -> where its values come from: a source, or the commands by which they were chosen.
CHOICES = {
    "paper": "SiameseXML, section 5 and its code; its token vectors are fastText's, ours "
    "are GloVe's, trained on the corpus"
}
