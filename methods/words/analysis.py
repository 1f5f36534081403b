"""Analyzers: texts as sentences, and as terms that can be compared, by language, by characters, or by ICU's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Literal
from unicodedata import normalize

import numpy as np

from xmcbench import Doc, Unavailable, arrow, installation
from xmcbench.methods.words.vocabulary import Tokens

if TYPE_CHECKING:
    import pyarrow as pa

#: A sentence ends with a line, with . ! ? or one of their kin (Arabic, Devanagari) before white space, or with the
#: last of the full stops, exclamation and question marks of Chinese and Japanese, which no white space follows.
_END = re.compile(
    "(?<=[.!?\u061f\u06d4\u0964])\\s+|(?<=[\u3002\uff01\uff1f\uff61])(?![\u300d\u300f\u201d\uff09\u3002\uff01\uff1f\uff61])\\s*|\\n+"
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, none of them empty."""
    return [sentence for sentence in (part.strip() for part in _END.split(text)) if sentence]


#: Languages that Snowball has a stemmer for, in all versions of PyStemmer since 2.2.
_A_TO_G = Literal["arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french"]
_G_TO_N = Literal["german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali"]
_N_TO_Y = Literal[
    "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish"
]
Language = Literal[_A_TO_G, _G_TO_N, _N_TO_Y]
Analyzer = Literal["characters", "icu", Language]

#: Declaration of the parameter, for every method that has it. It is newer than results of these methods.
ANALYZER = Doc(
    "how a text becomes terms. none: as the other parameters say; a language: its Snowball stems, without its stop "
    "words where bm25s has a list of them; characters: n-grams of 2 to 4 characters of each word and its edges, which "
    "need no language; icu: words as ICU finds them, for Chinese, Japanese, Thai and other languages without spaces",
    added=True,
)

#: Texts that are analyzed at a time: as n-grams of characters they take twenty times their space.
ROWS = 4_096

#: Lengths of the n-grams of characters.
_LENGTHS = (2, 3, 4)

#: Everything that is not part of a word. Unlike ``\w``, a word holds the combining marks that Hindi and others need.
_SEPARATORS = r"[^\p{L}\p{M}\p{N}]+"


def require_analyzer(analyzer: Analyzer | None) -> None:
    """Raise Unavailable where an analyzer needs a package that is not installed."""
    from importlib.util import find_spec

    if analyzer == "icu" and find_spec("icu4py") is None:
        raise Unavailable("the analyzer icu needs icu4py", installation("icu4py"))


def analyze(batch: pa.Array, analyzer: Analyzer) -> Tokens:
    """The terms of an Arrow array of texts, lower case, after Unicode's compatibility normalization (NFKC)."""
    if analyzer == "icu":
        return _segment(batch)
    tokens = Tokens.of(batch, _SEPARATORS, lowercase=True)
    return _character_ngrams(tokens) if analyzer == "characters" else _stem(tokens, analyzer)


def number_terms(batches: Iterable[Tokens]) -> tuple[list[list[int]], dict[str, int]]:
    """Return the numbers of the terms of every text of all batches, in order, and the number of every term."""
    numbers: dict[str, int] = {}
    found: list[list[int]] = []
    for tokens in batches:
        number = np.array([numbers.setdefault(word, len(numbers)) for word in tokens.words.to_pylist()], np.int64)
        ends = np.cumsum(np.bincount(tokens.rows, minlength=tokens.texts))[:-1]
        found += [codes.tolist() for codes in np.split(number[tokens.codes], ends)]
    return found, numbers


def _stem(tokens: Tokens, language: Language) -> Tokens:
    """The stems of the words, without stop words."""
    import Stemmer

    words, left_out = _normalize(tokens.words), stop_words(language)
    stems = Stemmer.Stemmer(language).stemWords(words)
    return rename_words(tokens, [stem if word not in left_out else "" for word, stem in zip(words, stems, strict=True)])


def _normalize(words: pa.Array) -> list[str]:
    """By Python: Arrow's ``utf8_normalize`` leaves a letter and its accent apart. A letter in bold can be a capital."""
    return [normalize("NFKC", word).lower() for word in words.to_pylist()]


def stop_words(language: Language) -> frozenset[str]:
    """Return the stop words that bm25s has for a language; none where it has no list."""
    from bm25s import stopwords

    name = "EN" if language == "english" else language.upper()
    return frozenset(getattr(stopwords, f"STOPWORDS_{name}", ()))


def rename_words(tokens: Tokens, names: list[str]) -> Tokens:
    """Return the tokens with their words renamed: words of one name become one, and those of none are left out."""

    numbers: dict[str, int] = {}
    number = np.array([numbers.setdefault(name, len(numbers)) if name else -1 for name in names], np.int32)
    codes = number[tokens.codes]
    kept = codes >= 0
    return Tokens(codes[kept], tokens.rows[kept], arrow.from_strings(numbers), tokens.texts)


def _character_ngrams(tokens: Tokens) -> Tokens:
    """The n-grams of the characters of every word, with ``_`` at both of its edges."""

    numbers: dict[str, int] = {}
    of_word = [
        [numbers.setdefault(ngram, len(numbers)) for ngram in (_ngrams(f"_{word}_") if word else ())]
        for word in _normalize(tokens.words)
    ]
    lengths = np.array([len(ngrams) for ngrams in of_word], np.int64)
    starts = np.cumsum(lengths) - lengths
    flat = np.fromiter(chain.from_iterable(of_word), np.int32, int(lengths.sum()))
    counts = lengths[tokens.codes]
    # Place i of a word's n-grams is the start of the word and i: one range per token, all in one array.
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    codes = flat[np.repeat(starts[tokens.codes], counts) + inside]
    return Tokens(codes, np.repeat(tokens.rows, counts), arrow.from_strings(numbers), tokens.texts)


def _ngrams(word: str) -> list[str]:
    return [word[start : start + n] for n in _LENGTHS for start in range(len(word) - n + 1)]


def _segment(batch: pa.Array) -> Tokens:
    """The words of texts by ICU's rules and dictionaries (UAX #29); what holds no letter or digit is not a word."""
    from icu4py.breakers import WordBreaker

    numbers: dict[str, int] = {}
    codes: list[int] = []
    lengths = []
    for text in batch.to_pylist():
        before = len(codes)
        # Not its `segments`: those count in UTF-16, and slice wrongly after an emoji.
        codes += [
            numbers.setdefault(word, len(numbers))
            for word in WordBreaker(normalize("NFKC", text).lower(), "und")
            if any(character.isalnum() for character in word)
        ]
        lengths.append(len(codes) - before)
    rows = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return Tokens(np.array(codes, np.int32), rows, arrow.from_strings(numbers), len(lengths))
