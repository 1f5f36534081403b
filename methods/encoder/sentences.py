"""Sentences of a text: by a regular expression, or by Punkt, the algorithm that MACLR's code splits with."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    from xmcbench import Artifacts, Texts

Sentences = Literal["regex", "punkt"]

#: A sentence ends with a line, with . ! ? or one of their kin (Arabic, Devanagari) before white space, or with the
#: last of the full stops, exclamation and question marks of Chinese and Japanese, which no white space follows.
_END = re.compile(
    "(?<=[.!?\u061f\u06d4\u0964])\\s+|(?<=[\u3002\uff01\uff1f\uff61])(?![\u300d\u300f\u201d\uff09\u3002\uff01\uff1f\uff61])\\s*|\\n+"
)
#: Contents that Punkt learns from at most, drawn at random.
_SAMPLE = 20_000


@dataclass(frozen=True)
class Splitter:
    """Splits a text into its sentences. model: the file of a trained Punkt; None for the regular expression."""

    model: Path | None = None

    def __call__(self, text: str) -> list[str]:
        """The sentences, none of them empty."""
        parts = _END.split(text) if self.model is None else self._punkt.tokenize(text)
        return [each for each in (part.strip() for part in parts) if each]

    def __getstate__(self) -> dict[str, object]:
        """Another process reads the model again."""
        return {"model": self.model}

    def identity(self) -> str:
        """What the sentences depend on."""
        return "regex" if self.model is None else hashlib.sha256(self.model.read_bytes()).hexdigest()

    @cached_property
    def _punkt(self) -> PunktSentenceTokenizer:
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

        assert self.model is not None
        learned = json.loads(self.model.read_text())
        parameters = PunktParameters()
        parameters.abbrev_types = set(learned["abbreviations"])
        parameters.collocations = {(first, second) for first, second in learned["collocations"]}
        parameters.sent_starters = set(learned["starters"])
        parameters.ortho_context.update(learned["orthography"])
        return PunktSentenceTokenizer(parameters)


def splitter(kind: Sentences, artifacts: Artifacts, raw_X: Texts) -> Splitter:
    """A splitter for the contents of a corpus.

    Punkt (Kiss and Strunk 2006) learns abbreviations and collocations from plain text. NLTK's English model comes with
    no package, so this one learns from a sample of the contents themselves: once, kept as an artifact.
    """
    if kind == "regex":
        return Splitter()

    def build(folder: Path) -> None:
        from nltk.tokenize.punkt import PunktTrainer

        rows = np.random.RandomState(0).permutation(len(raw_X))[:_SAMPLE]
        trainer = PunktTrainer()
        trainer.train("\n".join(raw_X.take(np.sort(rows)).contents), finalize=True)
        found = trainer.get_params()
        learned = {
            "abbreviations": sorted(found.abbrev_types),
            "collocations": sorted(found.collocations),
            "starters": sorted(found.sent_starters),
            "orthography": dict(sorted(found.ortho_context.items())),
        }
        (folder / "punkt.json").write_text(json.dumps(learned, ensure_ascii=False))

    return Splitter(artifacts.get("punkt", {"digest": raw_X.digest}, build) / "punkt.json")
