"""Before a run: how many questions it asks of a judge, and of how many tokens. No server is asked."""

import gzip
import json

import pytest

SERVER = "http://localhost:1/v1"
RERANK = {"url": SERVER, "model": "m", "depth": 4}
LMTX = {"documents": 20, "shortlist": 3, "rounds": 2, "checked": 5}
REMOTE = {**LMTX, "judge": "m", "judge_url": SERVER}


def given(method, values):
    return [word for name, value in values.items() for word in ("--set", f"{method}.{name}={value}")]


@pytest.fixture
def plan(inside, tiny):
    def run(method, values, *setting):
        words = (*(setting or ("--setting", "ez")), "--methods", method, *given(method, values))
        ended = inside("run", "--dataset", tiny, *words, "--dry-run", "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)["cells"]

    return run


def mean_length(folder, name):
    with gzip.open(folder / f"{name}.json.gz", "rt") as stream:
        texts = [json.loads(line) for line in stream]
    return sum(len("\t".join(filter(None, [text["title"], text.get("content")]))) for text in texts) / len(texts)


def test_reranked_instances(plan, tiny):
    (cell,) = plan("rerank", RERANK)
    characters = mean_length(tiny, "tst") + mean_length(tiny, "lbl")
    assert (cell["calls"], cell["tokens"]) == (30 * 4, round(120 * (20 + characters / 4)))
    # Documents that are cut at 8 words, of 6 characters, and what the judge is told.
    (cell,) = plan("rerank", {**RERANK, "max_length": 8, "instruction": "Be strict."})
    assert cell["tokens"] == round(120 * (20 + (48 + mean_length(tiny, "lbl") + 10) / 4))
    (cell,) = plan("rerank", {**RERANK, "depth": 99})
    assert cell["calls"] == 30 * 10


def test_rounds_of_judged_documents(plan, tiny):
    cells = plan("lmtx", REMOTE, "--setting", "fs", "--ratio", "0.5,1")
    characters = mean_length(tiny, "trn") + mean_length(tiny, "lbl")
    asked = [(cell["calls"], cell["tokens"]) for cell in cells if "calls" in cell]
    assert asked == [(2 * (20 * 3 + 5), round(130 * (20 + characters / 4)))]  # both ratios share the pre-training
    assert len(cells) == 2
    (cell,) = plan("lmtx", {**REMOTE, "documents": "none"})
    assert cell["calls"] == 2 * (60 * 3 + 5)
    (cell,) = plan("lmtx", LMTX)
    assert "calls" not in cell


def test_the_table_says_it_in_words(inside, tiny):
    ended = inside(
        "run", "--dataset", tiny, "--setting", "ez", "--methods", "rerank,tfidf", *given("rerank", RERANK), "--dry-run"
    )
    said = " ".join(ended.stdout.split())
    assert "seed 0, on tiny asks a model at most 120 questions, of about 4,300 tokens" in said
    assert said.count("asks a model") == 1
