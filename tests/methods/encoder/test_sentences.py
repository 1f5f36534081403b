import pickle

import pytest

from xmcbench import Texts
from xmcbench.methods.encoder.cloze import splitter

THINGS = ["apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"]
NAMES = ["Adams", "Baker", "Clark", "Davis", "Evans", "Foster", "Green", "Harris", "Irwin", "Jones"]


@pytest.fixture
def corpus():
    """Sentences that end with many words; "Dr." stands inside of one, which no list of abbreviations has to say."""
    contents = [
        f"The {thing} of Dr. {name} sees a {other}. It finds Dr. {name} and the {other}. Many like the {thing}."
        for thing, name in zip(THINGS, NAMES, strict=True)
        for other in THINGS
    ]
    return Texts.from_lists(THINGS * 10, contents)


def test_by_expression(artifacts, corpus):
    split = splitter("regex", artifacts, corpus)
    assert split("One. Two!  Three? 3.5 is a number.\n\nA line") == [
        "One.", "Two!", "Three?", "3.5 is a number.", "A line",
    ]  # fmt: skip
    assert split("  ") == []
    assert split("\u4ed6\u6765\u4e86\u3002\u300c\u597d\u3002\u300d\u4ed6\u8bf4\uff01 3.5\uff1f") == [
        "\u4ed6\u6765\u4e86\u3002", "\u300c\u597d\u3002\u300d\u4ed6\u8bf4\uff01", "3.5\uff1f",
    ]  # fmt: skip
    # Marks that are repeated end one sentence, also in front of a closing quotation mark.
    assert split("\u597d\uff01\uff01\uff01\u4f55\uff1f\uff01") == ["\u597d\uff01\uff01\uff01", "\u4f55\uff1f\uff01"]
    assert split("\u300c\u4f55\uff01\uff1f\u300d\u3068") == ["\u300c\u4f55\uff01\uff1f\u300d\u3068"]
    assert split("\u0915 \u0964 \u0916 \u061f") == ["\u0915 \u0964", "\u0916 \u061f"]
    assert len(split(corpus.contents[0])) == 5


def test_punkt_learns_abbreviations_from_the_corpus(artifacts, corpus):
    split = splitter("punkt", artifacts, corpus)
    content = corpus.contents[0]
    assert split(content) == [
        "The apple of Dr. Adams sees a apple.",
        "It finds Dr. Adams and the apple.",
        "Many like the apple.",
    ]
    assert split("  ") == []
    assert pickle.loads(pickle.dumps(split))(content) == split(content)
    assert splitter("punkt", artifacts, corpus).identity() == split.identity() != "regex"
