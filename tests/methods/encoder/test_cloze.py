"""The cloze task, and the sentences that it is made of."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from xmcbench import MethodError, Texts
from xmcbench.methods.encoder.cloze import context_pairs, splitter, without_title
from xmcbench.methods.encoder.opening import open_tokenizer


@pytest.mark.parametrize(
    ("title", "sentences", "share", "expected"),
    [
        ("apple", ["An apple.", "No more."], 0.0, "An apple. No more."),
        ("apple", ["An apple.", "No more."], 1.0, "An . No more."),
        ("apple", ["apple", "apple"], 1.0, ""),
    ],
)
def test_the_title_is_taken_out(title, sentences, share, expected):
    assert without_title(title, sentences, share, np.random.default_rng(0)) == expected


def test_the_share_of_sentences_that_lose_the_title():
    text = without_title("apple", ["An apple."] * 4000, 0.9, np.random.default_rng(0))
    assert text.count("apple") == pytest.approx(400, abs=60)


def test_documents_without_a_context_are_counted(artifacts, checkpoint):
    texts = Texts.from_lists(["apple", "bridge", "candle"], ["The old. The new.", "Only the old.", "The. Red. Green."])
    options = {"context_length": 16, "title_length": 8, "min_sentences": 2, "title_dropout": 0.9, "seed": 0}
    tokenizer = open_tokenizer(checkpoint())
    drawn = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    # The second document has one sentence.
    assert (drawn.left_out, drawn.rows.tolist(), len(drawn.contexts), len(drawn.titles)) == (1, [0, 2], 2, 2)
    assert drawn.titles[1].tolist() == tokenizer(["candle"], 8)[0]
    again = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    assert again.contexts.folder == drawn.contexts.folder
    # Shorter than all, so that all documents are taken.
    longer = context_pairs(artifacts, texts, (tokenizer, tokenizer), **{**options, "min_sentences": 4})
    assert (longer.left_out, longer.rows.tolist(), longer.min_sentences) == (0, [0, 1, 2], 1)


def test_which_documents_have_a_context(artifacts, checkpoint):
    titles = ["apple", "", "apple", "apple", " "]
    contents = ["An apple.", "The old. The new.", "", "apple\napple", "The old."]
    options = {"context_length": 16, "title_length": 8, "title_dropout": 1.0, "seed": 0}
    texts, tokenizer = Texts.from_lists(titles, contents), open_tokenizer(checkpoint())
    one = context_pairs(artifacts, texts, (tokenizer, tokenizer), min_sentences=1, **options)
    assert one.rows.tolist() == [0, 3]
    assert context_pairs(artifacts, texts, (tokenizer, tokenizer), min_sentences=2, **options).rows.tolist() == [3]
    # Nothing but the title: it stays.
    assert one.contexts[1].tolist() == tokenizer(["apple apple"], 16)[0]
    with pytest.raises(MethodError, match="no document has a title and a content"):
        context_pairs(artifacts, texts.take([1, 2, 4]), (tokenizer, tokenizer), min_sentences=1, **options)


def test_white_space_around_a_title_is_not_looked_for(artifacts, checkpoint):
    """At the first visit and at a later one."""
    texts, tokenizer = Texts.from_lists([" apple \r\n"], ["An apple. No more."]), open_tokenizer(checkpoint())
    options = {"context_length": 16, "title_length": 8, "title_dropout": 1.0, "seed": 0, "min_sentences": 1}
    drawn = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    for visit in (0, 1):
        assert drawn.visit(visit)[0].tolist() == tokenizer(["An . No more."], 16)[0]


@pytest.mark.parametrize(("long", "rows", "least"), [(1, [0, 1, 2], 1), (2, [0, 1], 2)])
def test_one_sentence_is_a_context_where_most_contents_have_one(artifacts, checkpoint, long, rows, least):
    """Of three documents with a title and a content; the last two lack one of them."""
    contents = ["The old. The new."] * long + ["Only the old."] * (3 - long) + ["", "The old. The new."]
    texts, tokenizer = Texts.from_lists([*["apple"] * 4, ""], contents), open_tokenizer(checkpoint())
    options = {"context_length": 16, "title_length": 8, "title_dropout": 0.9, "seed": 0, "min_sentences": 2}
    drawn = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    assert (drawn.rows.tolist(), drawn.min_sentences, drawn.left_out) == (rows, least, 5 - len(rows))
    assert len(drawn.contexts) == len(rows)


def test_visits_in_another_process(artifacts, checkpoint):
    """The object that a spawned process receives maps the same files and draws the same contexts."""
    texts = Texts.from_lists(["apple"] * 3, [" ".join(["The apple."] * 9), "The old. The new.", "An apple. So."])
    options = {"context_length": 32, "title_length": 8, "min_sentences": 2, "title_dropout": 0.5, "seed": 0}
    drawn = context_pairs(artifacts, texts, (open_tokenizer(checkpoint()),) * 2, **options)
    again = pickle.loads(pickle.dumps(drawn))
    assert len(pickle.dumps(drawn.repeated)) < 20_000
    for visit in range(3):
        for row in range(3):
            assert drawn.visit(visit)[row].tolist() == again.visit(visit)[row].tolist()
    assert drawn.visit(1)[0].tolist() != drawn.visit(2)[0].tolist()
    assert drawn.visit(1).pad == drawn.contexts.pad
    plain = context_pairs(artifacts, texts, (open_tokenizer(checkpoint()),) * 2, **{**options, "title_dropout": 0.0})
    assert plain.visit(5) is plain.contexts


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


def test_punkt_whatever_the_locale_writes(tmp_path):
    """Its words have letters that ASCII lacks."""
    code = """
from pathlib import Path
from xmcbench import Artifacts, Texts
from xmcbench.methods.encoder.cloze import splitter
texts = Texts.from_lists(["apple"], ["\\u00c4pfel z. B. sind gut. \\u00c4pfel."])
print(len(splitter("punkt", Artifacts(Path("store")), texts)(texts.contents[0])))
"""
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **locale}, cwd=tmp_path
    )
    assert int(ended.stdout) >= 2


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
