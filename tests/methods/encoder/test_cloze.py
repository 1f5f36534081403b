import numpy as np
import pytest

from xmcbench import MethodError, Texts
from xmcbench.methods.encoder.cloze import context, context_pairs, sentences
from xmcbench.methods.encoder.network import open_tokenizer


def test_sentences():
    assert sentences("One. Two!  Three? 3.5 is a number.\n\nA line") == [
        "One.", "Two!", "Three?", "3.5 is a number.", "A line",
    ]  # fmt: skip
    assert sentences("  ") == []


@pytest.mark.parametrize(
    ("title", "content", "least", "share", "expected"),
    [
        ("apple", "An apple. No more.", 2, 0.0, "An apple. No more."),
        ("apple", "An apple. No more.", 2, 1.0, "An . No more."),
        ("apple", "Only one sentence.", 2, 1.0, ""),
        ("apple", "Only one sentence.", 1, 1.0, "Only one sentence."),
        ("", "Two. Sentences.", 2, 1.0, ""),
        ("apple", "", 1, 1.0, ""),
        ("apple", "apple\napple", 2, 1.0, ""),
    ],
)
def test_context(title, content, least, share, expected):
    assert context(title, content, least, share, np.random.default_rng(0)) == expected


def test_documents_without_a_context_are_counted(artifacts, checkpoint):
    texts = Texts.from_lists(["apple", "bridge", "candle"], ["The old. The new.", "Only the old.", "The. Red. Green."])
    options = {"context_length": 16, "title_length": 8, "min_sentences": 2, "title_dropout": 0.9, "seed": 0}
    tokenizer = open_tokenizer(checkpoint())
    drawn = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    assert (drawn.left_out, drawn.rows.tolist(), len(drawn.contexts), len(drawn.titles)) == (1, [0, 2], 2, 2)
    assert drawn.titles[1].tolist() == tokenizer(["candle"], 8)[0]
    again = context_pairs(artifacts, texts, (tokenizer, tokenizer), **options)
    assert again.contexts.folder == drawn.contexts.folder
    with pytest.raises(MethodError, match="no document has a title and a context of at least 4 sentences"):
        context_pairs(artifacts, texts, (tokenizer, tokenizer), **{**options, "min_sentences": 4})
