"""Random segments: how documents are split, what is paired, and what follows from (seed, step) alone."""

import pickle
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from xmcbench import MethodError, Texts, UsageError
from xmcbench.methods.encoder.opening import open_encoder, open_tokenizer
from xmcbench.methods.encoder.segments import RandomSegments, SegmentCorpus, Segments
from xmcbench.methods.encoder.training import DistributedContext
from xmcbench.methods.rts import RTS


def split_one_by_one(words, lengths, shortest):
    """The rule of the paper, document by document; lengths: what is drawn for each, in order."""
    found = []
    for document, count in enumerate(words):
        drawn = [next(lengths) for _ in range(-(-count // shortest))]
        cuts, start = [], 0
        for length in drawn:
            if start < count:
                cuts.append([start, min(start + length, count)])
                start += length
        if len(cuts) > 1 and cuts[-1][1] - cuts[-1][0] < shortest // 2:
            last = cuts.pop()
            cuts[-1][1] = last[1]
        found += [(document, *cut) for cut in cuts]
    return found


@given(st.lists(st.integers(0, 200), max_size=8), st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_documents_are_split_as_the_paper_says(words, shortest, more, seed):
    longest = shortest + more
    found = Segments.drawn(np.array(words, np.int64), shortest, longest, np.random.default_rng(seed))
    needed = sum(-(-count // shortest) for count in words)
    lengths = iter(np.random.default_rng(seed).integers(shortest, longest + 1, needed).tolist())
    triples = list(zip(found.documents.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True))
    assert triples == split_one_by_one(words, lengths, shortest)
    covered = Counter()
    for document, start, end in triples:
        assert start == covered[document]
        covered[document] = end
    assert [covered[document] for document in range(len(words))] == words


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 2**32 - 1))
def test_a_matching_uses_each_segment_once_and_stays_in_its_document(counts, seed):
    documents = np.repeat(np.arange(len(counts)), counts)
    segments = Segments(documents, np.zeros(len(documents), np.int64), np.ones(len(documents), np.int64))
    pairs = segments.match(np.random.default_rng(seed))
    assert len(np.unique(pairs)) == pairs.size
    assert (documents[pairs[:, 0]] == documents[pairs[:, 1]]).all()
    assert np.bincount(documents[pairs[:, 0]], minlength=len(counts)).tolist() == [count // 2 for count in counts]


def test_all_matchings_occur():
    three = Segments(np.zeros(3, np.int64), np.zeros(3, np.int64), np.ones(3, np.int64))
    drawn = [frozenset(three.match(np.random.default_rng(seed))[0].tolist()) for seed in range(60)]
    assert set(drawn) == {frozenset({0, 1}), frozenset({0, 2}), frozenset({1, 2})}


@pytest.fixture
def corpus(checkpoint):
    documents = Texts.from_lists(
        ["apple", "", "bridge"], [" ".join(["red green blue old"] * 5), " ".join(["new large"] * 6), ""]
    )
    tokenizer = open_tokenizer(checkpoint())
    return SegmentCorpus(documents, Texts.from_lists(["candle", " ", "desert"]), (tokenizer, tokenizer), (16, 8))


def kinds(pairs):
    return Counter(map(tuple, pairs[:, :, :2].reshape(-1, 4).tolist()))


def cuts_of(segments):
    return set(zip(segments.documents.tolist(), segments.starts.tolist(), segments.ends.tolist(), strict=True))


def test_the_pairs_of_an_epoch(corpus):
    task = RandomSegments(corpus, (4, 6), 4, 0.05, seed=0)
    epoch = task._draw_pairs(0)
    rng = np.random.default_rng([0, 11, 0])
    first, second = (Segments.drawn(corpus.words, 4, 6, rng) for _ in range(2))
    found = kinds(epoch)
    title, label, segment = 0, 1, 2
    assert found[title, 0, title, 0] == found[title, 2, title, 2] == 1
    assert found[label, 0, label, 0] == found[label, 2, label, 2] == 1
    # A document without a title has no pair of a title; one without words has no segment.
    assert found[title, 0, segment, 0] == int((first.documents == 0).sum())
    assert {pair for pair in found if pair[0] == title and pair[2] == segment} == {(title, 0, segment, 0)}
    assert {pair for pair in found if pair[0] == pair[2] == segment} == {(2, 0, 2, 0), (2, 1, 2, 1)}
    assert not any(1 in pair[1::2] and pair[0] != segment for pair in found)
    between = epoch[(epoch[:, :, 0] == segment).all(1)]
    assert (between[:, 0, 2] != between[:, 1, 2]).all()
    assert cuts_of(second) >= {tuple(cut) for cut in between[:, :, 1:].reshape(-1, 3).tolist()}
    of_title = epoch[(epoch[:, 0, 0] == title) & (epoch[:, 1, 0] == segment)]
    assert {tuple(cut) for cut in of_title[:, 1, 1:].tolist()} == {cut for cut in cuts_of(first) if cut[0] == 0}
    assert cuts_of(first) != cuts_of(second)
    assert not np.array_equal(task._draw_pairs(1), epoch)


def test_a_long_document_is_not_split_for_every_segment(corpus):
    read = []

    class Contents:
        def __getitem__(self, row):
            read.append(row)
            return "red green blue old"

    again = replace(corpus, texts=SimpleNamespace(contents=Contents()))
    for start in range(3):
        assert again.tokens(2, 0, start, 4).tolist() == corpus.tokens(2, 0, start, 4).tolist()
    assert read == [0]


def test_words_become_tokens(corpus):
    fast = corpus.tokenizers[0]
    assert corpus.tokens(0, 2, 0, 0).tolist() == fast(["bridge"], 8)[0]
    assert corpus.tokens(1, 2, 0, 0).tolist() == fast(["desert"], 8)[0]
    assert corpus.tokens(2, 0, 1, 4).tolist() == fast(["green blue old"], 16)[0]
    assert len(corpus.tokens(2, 0, 0, 20)) == 16
    labels = Texts.from_lists(list(corpus.labels.titles), ["a red bridge"] * len(corpus.labels))
    assert replace(corpus, labels=labels).tokens(1, 2, 0, 0).tolist() == fast([labels[2]], 8)[0]
    again = pickle.loads(pickle.dumps(corpus))
    assert again.words.tolist() == corpus.words.tolist() == [20, 12, 0]


def steps_of(task, steps):
    return [[view.store.drawn.tolist() for view in task.draw(step).values()] for step in steps]


def test_steps_follow_from_their_number(corpus):
    def task(seed=0):
        return RandomSegments(corpus, (4, 6), 4, 0.05, seed)

    whole = steps_of(task(), range(12))
    assert steps_of(task(), range(7, 12)) == whole[7:]  # a training that goes on
    backwards = task()
    assert steps_of(backwards, reversed(range(12))) == whole[::-1]
    assert steps_of(task(1), range(12)) != whole
    assert all(len(side) == 4 for step in whole for side in step)
    first = len(task()._pairs) // 4
    visited = [tuple(map(tuple, pair)) for step in whole[:first] for pair in zip(*step, strict=True)]
    expected = [tuple(map(tuple, pair)) for pair in task()._pairs[: 4 * first].tolist()]
    assert visited == expected


def test_the_step_is_its_equation(corpus, checkpoint):
    """From words to the loss, against embeddings made one by one and equation 2 in numpy."""

    encoder = open_encoder(checkpoint(dropout=0.0), "native", seed=0).eval()
    task = RandomSegments(corpus, (4, 6), 4, 0.3, seed=0)
    found = task.losses(1, encoder, DistributedContext.of("cpu"))
    sides = []
    for view in task.draw(1).values():
        ids = [torch.from_numpy(view.store[row].astype(np.int64))[None] for row in view.rows]
        with torch.no_grad():
            sides.append(encoder(ids, [torch.ones_like(row, dtype=torch.bool) for row in ids]).double().numpy())
    shares = np.exp(sides[0] @ sides[1].T / 0.3)
    expected = -np.log(shares.diagonal() / shares.sum(1)).mean()
    assert found["contrastive"].item() == pytest.approx(expected, abs=1e-5)


def test_a_batch_is_no_larger_than_what_every_epoch_has(corpus):
    task = RandomSegments(corpus, (4, 6), 100, 0.05, 0)
    assert {len(side) for step in steps_of(task, range(9)) for side in step} == {4}  # two titles and two labels


def test_a_corpus_without_titles(checkpoint):
    tokenizer = open_tokenizer(checkpoint())
    corpus = SegmentCorpus(
        Texts.from_lists(["", "apple"], ["red green", ""]), Texts.from_lists([" "]), (tokenizer, tokenizer), (16, 8)
    )
    with pytest.raises(MethodError, match="fewer than two documents and labels have a title"):
        RandomSegments(corpus, (4, 6), 4, 0.05, 0)


def test_segments_that_cannot_be(checkpoint):
    method = RTS(backbone=str(checkpoint()), min_words=9, max_words=8)
    with pytest.raises(UsageError, match=r"rts.max_words = 8 is less than min_words = 9"):
        method.require()
