"""A language model behind a server: retries, errors, what is kept, speed; and the questions a run will ask it."""

import gzip
import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from fake_server import share

from xmcbench import Artifacts, MethodError, Texts, UsageError
from xmcbench.methods.rerank import Rerank, judges
from xmcbench.methods.rerank.judges import Server, read_score
from xmcbench.methods.rerank.judgments import FILE, Judgments, keep_scores
from xmcbench.records import Store

NEW = Texts.from_lists(["the old apple", "red bridge and green island"], ["candle forest", "garden"])


@pytest.fixture
def waits(monkeypatch):
    """The waits between attempts, which do not happen."""
    waited = []
    monkeypatch.setattr(judges, "sleep", waited.append)
    return waited


@pytest.fixture
def judge(fake):
    return Server(fake.url, "judge-7b", "Be strict.", at_once=4, words=None)


def counts(run):
    """Return the numbers of judgments that a method or a record noted."""
    return {name: run.notes["judgments"][name] for name in ("asked", "kept")}


PAIRS = [(f"document {number}", f"label {number % 3}") for number in range(12)]


def test_a_score_is_the_probability_of_yes(fake, judge, monkeypatch):
    scores = dict(judge.judge(PAIRS))
    assert sorted(scores) == [*range(12)]
    for position, (document, label) in enumerate(PAIRS):
        yes = share({"messages": [{}, {"content": f"Document: {document}\n\nLabel: {label}"}]})
        assert scores[position] == pytest.approx(0.8 * yes / (0.8 * yes + 0.8 * (1 - yes)))
    path, request, key = fake.seen[0]
    assert (path, request["model"], request["max_tokens"], key) == ("/v1/chat/completions", "judge-7b", 1, None)
    assert request["messages"][0]["content"] == "Be strict. Answer yes or no."
    assert judge.counts == {"requests": 12, "retries": 0, "prompt_tokens": 360, "completion_tokens": 12}
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    other = Server(fake.url, "judge-7b", None, at_once=1, words=1)
    dict(other.judge(PAIRS[:1]))
    assert fake.seen[-1][2] == "Bearer secret"
    assert fake.seen[-1][1]["messages"][1]["content"] == "Document: document\n\nLabel: label 0"
    assert "secret" not in other.identity


@pytest.mark.parametrize(
    "trouble", [(500, {}), (503, {}), (429, {"Retry-After": "7"}), b"{", b'{"choices": []}', b"[]", "hang"]
)
def test_a_passing_trouble_changes_no_score(fake, judge, waits, trouble):
    undisturbed = dict(judge.judge(PAIRS))
    fake.trouble = [trouble, trouble]
    assert dict(judge.judge(PAIRS)) == undisturbed
    assert judge.counts["retries"] == len(waits) == 2
    assert min(waits) == 7 if trouble == (429, {"Retry-After": "7"}) else max(waits) < 7


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ((401, {}), "HTTP 401: .*trouble.*valid key"),
        ((404, {}), "HTTP 404: .*the name of the model"),
        ((400, {}), "HTTP 400"),
    ],
)
def test_a_request_that_is_refused_is_not_repeated(fake, judge, waits, trouble, said):
    fake.trouble = [trouble] * 99
    with pytest.raises(MethodError, match=said):
        dict(judge.judge(PAIRS[:1]))
    assert (len(fake.seen), waits) == (1, [])


def test_a_trouble_that_lasts_ends_the_cell(fake, judge, waits):
    fake.trouble = [(500, {})] * 99
    with pytest.raises(MethodError, match=r"HTTP 500: .* \(6 attempts\) \(what was answered is kept"):
        dict(judge.judge(PAIRS[:1]))
    assert (len(fake.seen), len(waits)) == (6, 5)


def test_answers_without_probabilities():
    def answer(content):
        return {"choices": [{"message": {"content": content}}]}

    assert [read_score(answer(said)) for said in ("Yes", " no.", "**Yes**")] == [1.0, 0.0, 1.0]
    for said in ("Perhaps", "Not", "Now", "Yesterday", "None", "", None):
        with pytest.raises(ValueError, match=f"says neither yes nor no but {said or ''!r}"):
            read_score(answer(said))


@pytest.mark.parametrize(("first", "said"), [("<think>", "<think>"), ("The", None)])
def test_a_model_that_reasons_first_is_no_judge(first, said):
    """Its first token is hardly ever yes or no, and which of these is likelier says nothing."""

    def answer(*words):
        top = [{"token": word, "logprob": logprob} for word, logprob in words]
        return {"choices": [{"message": {"content": said}, "logprobs": {"content": [{"top_logprobs": top}]}}]}

    with pytest.raises(ValueError, match=f"says neither yes nor no but {said or ''!r}"):
        read_score(answer((first, 0.0), ("No", -20.0)))
    assert read_score(answer((first, -0.05), ("No", -4.0), ("yes", -4.0))) == 0.5


def test_what_is_no_address():
    with pytest.raises(UsageError, match="localhost:8000 is not the address of a server"):
        Server("localhost:8000", "m", None, 1, None)


def test_a_run_that_was_killed_asks_only_for_the_rest(fake, judge, waits, tmp_path):
    undisturbed = Judgments(judge, tmp_path / "whole.jsonl").score(PAIRS)
    fake.seen.clear()
    fake.trouble = [None] * 5 + [(400, {})] * 99
    single = Server(fake.url, "judge-7b", "Be strict.", at_once=1, words=None)
    with pytest.raises(MethodError, match="HTTP 400"):
        Judgments(single, tmp_path / FILE).score(PAIRS)
    kept = (tmp_path / FILE).read_bytes()
    assert kept.count(b"\n") == 5
    (tmp_path / FILE).write_bytes(kept + b'{"judge": "server ju')  # killed while it wrote
    fake.trouble, before = [], len(fake.seen)
    again = Judgments(judge, tmp_path / FILE)
    np.testing.assert_array_equal(again.score(PAIRS), undisturbed)
    assert again.counts == {"asked": 7, "kept": 5}
    assert len(fake.seen) - before == 7
    assert (tmp_path / FILE).read_bytes().startswith(kept)
    np.testing.assert_array_equal(Judgments(judge, tmp_path / FILE).score(PAIRS), undisturbed)


def test_judgments_of_a_file_and_of_other_judges(fake, judge, tmp_path):
    judgments = Judgments(judge, tmp_path / "a.jsonl")
    scores = judgments.score([*PAIRS, PAIRS[0]])
    assert scores[-1] == scores[0]
    judgments.write(tmp_path / "kept.jsonl", PAIRS[:9])
    asked = len(fake.seen)
    assert asked == len(PAIRS)
    file = Judgments(judge, tmp_path / "b.jsonl", [tmp_path / "kept.jsonl"])
    np.testing.assert_array_equal(file.score(PAIRS), scores[:-1])
    assert (len(fake.seen) - asked, file.counts) == (3, {"asked": 3, "kept": 9})
    other = Server(fake.url, "judge-7b", "Be kind.", at_once=4, words=None)
    told = Judgments(other, tmp_path / "c.jsonl", [tmp_path / "kept.jsonl"])
    told.score(PAIRS[:2])
    assert told.counts == {"asked": 2, "kept": 0}
    *_, first = (tmp_path / "kept.jsonl").read_text().splitlines()
    other_score = json.dumps(json.loads(first) | {"score": json.loads(first)["score"] + 0.5})
    (tmp_path / "two.jsonl").write_text(f"{first}\n{other_score}\n")
    with pytest.raises(UsageError, match=r"two.jsonl, line 2: the label .* for the same document before"):
        Judgments(judge, tmp_path / "e.jsonl", [tmp_path / "two.jsonl"])
    (tmp_path / "bad.jsonl").write_text('{"judge": 1}\n')
    with pytest.raises(UsageError, match=r"bad.jsonl, line 1 is not a judgment"):
        Judgments(judge, tmp_path / "d.jsonl", [tmp_path / "bad.jsonl"])


class Constant:
    """A judge that always gives the same score. ends_at: the place of the pair at which it fails."""

    identity = "constant"

    def __init__(self, score, ends_at=None):
        self.score, self.ends_at, self.counts = score, ends_at, {}

    def judge(self, pairs):
        for place in range(len(pairs)):
            if place == self.ends_at:
                raise MethodError("killed")
            yield place, self.score


@pytest.fixture
def kept(tmp_path):
    """Scores of pairs from a store, by a judge that always gives the same score; also how many it was asked."""

    def keep(pairs, score, files=(), ends_at=None, kind=Constant):
        judge = kind(score, ends_at)
        scores, cost, _ = keep_scores(Artifacts(tmp_path / "store"), judge, pairs, ["texts"], files)
        return scores.tolist(), cost["asked"]

    return keep


def test_unfinished_judgments_belong_to_their_pairs(kept):
    """Of two seeds: the one that ends removes its own file alone."""
    with pytest.raises(MethodError, match="killed"):
        kept(PAIRS[:10], 0.75, ends_at=9)
    assert kept(PAIRS[:5], 0.5) == ([0.5] * 5, 5)
    assert kept(PAIRS[:10], 0.25) == ([0.75] * 9 + [0.25], 1)


def test_a_file_of_judgments_is_in_the_key(kept, tmp_path):
    assert kept(PAIRS[:2], 0.25) == ([0.25] * 2, 2)
    lines = Judgments(Constant(0.75), tmp_path / "given.jsonl")
    lines.score(PAIRS[:1])
    assert kept(PAIRS[:2], 0.5, [tmp_path / "given.jsonl"]) == ([0.75, 0.5], 1)
    assert kept(PAIRS[:2], 0.5) == ([0.25] * 2, 0)


class Doubled(Constant):
    """A judge of another module, whose source is its code."""

    __module__ = Rerank.__module__

    def judge(self, pairs):
        return ((place, 2 * score) for place, score in super().judge(pairs))


def test_judgments_of_other_code_are_not_taken(kept):
    assert kept(PAIRS[:2], 0.25) == ([0.25] * 2, 2)
    assert kept(PAIRS[:2], 0.25, kind=Doubled) == ([0.5] * 2, 2)


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_not_kept(kept, score):
    with pytest.raises(MethodError, match=f"the judge gives '.*' the score {score}"):
        kept(PAIRS[:2], score)
    assert kept(PAIRS[:2], 0.5) == ([0.5] * 2, 2)


def test_a_cell_is_made_again_from_its_judgments(fake, predicted, tmp_path):
    values = {"url": fake.url, "model": "judge-7b", "depth": 3, "batch": 2}
    found, method = predicted(Rerank(**values), NEW, 8)
    asked = len(fake.seen)
    assert counts(method) == {"asked": asked, "kept": 0}
    assert method.notes["judgments"]["judge"] == "judge-7b"
    assert method.notes["judgments"]["prompt_tokens"] == 30 * asked
    assert method.notes["judgments"]["requests"] == asked == method.notes["pairs_read"]
    assert np.isclose(found.scores[0, 0], max(found.scores[0, :3]))
    again, method = predicted(Rerank(**values), NEW, 8)
    assert (len(fake.seen), counts(method)) == (asked, {"asked": 0, "kept": asked})
    (file,) = (tmp_path / "store").rglob(FILE)
    file = shutil.copy(file, tmp_path / "kept.jsonl")
    shutil.rmtree(tmp_path / "store")
    again, method = predicted(Rerank(**values, judgments=str(file)), NEW, 8)
    assert again.indices.tolist() == found.indices.tolist()
    assert (len(fake.seen), counts(method)) == (asked, {"asked": 0, "kept": asked})


def test_a_model_ranks_alike_here_and_behind_a_server(fake, language_model, predicted):
    """The server runs the same model on the same words."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = language_model()
    told = "relevant ? Answer yes or no."
    here, _ = predicted(Rerank(model=str(folder), precision="fp32", instruction=told, depth=5), NEW, 8)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)

    def answer(request):
        system, user = (message["content"] for message in request["messages"])
        document, label = user.removeprefix("Document: ").split("\n\nLabel: ")
        said = f"system : {system} query : {document} document : {label} answer :"
        with torch.inference_mode():
            logits = model(**tokenizer(said, return_tensors="pt")).logits[0, -1].log_softmax(-1)
        words = [
            {"token": word, "logprob": float(logits[tokenizer.convert_tokens_to_ids(word)])} for word in ("yes", "no")
        ]
        return {"choices": [{"message": {"content": "yes"}, "logprobs": {"content": [{"top_logprobs": words}]}}]}

    fake.answer = answer
    there, _ = predicted(Rerank(url=fake.url, model="tiny", instruction="relevant ?", depth=5), NEW, 8)
    assert there.indices.tolist() == here.indices.tolist()
    np.testing.assert_allclose(there.scores[:, :5], here.scores[:, :5], atol=1e-5)


def test_judgments_at_home(fake, predicted, tmp_path, monkeypatch):
    values = {"url": fake.url, "model": "judge-7b", "depth": 2}
    predicted(Rerank(**values), NEW, 8)
    (file,) = (tmp_path / "store").rglob(FILE)
    shutil.move(file, tmp_path / "kept.jsonl")
    shutil.rmtree(tmp_path / "store")
    monkeypatch.setenv("HOME", str(tmp_path))
    asked, method = len(fake.seen), Rerank(**values, judgments="~/kept.jsonl")
    method.require()
    predicted(method, NEW, 8)
    assert (len(fake.seen), counts(method)) == (asked, {"asked": 0, "kept": asked})


def test_a_file_of_judgments_that_is_not_there():
    with pytest.raises(UsageError, match="there is no file of judgments at none.jsonl"):
        Rerank(url="http://localhost:1/v1", judgments="none.jsonl").require()


def test_a_cell_that_was_killed_asks_only_for_the_rest(fake, inside, tiny, tmp_path):
    """The whole way: a run is killed in the middle, run again, exported, and made again without the server."""
    fake.delay_s = 0.02
    values = (f"rerank.url={fake.url}", "rerank.model=judge-7b", "rerank.depth=4", "rerank.batch=2")
    words = ["run", "--dataset", str(tiny), "--setting", "ez", "--methods", "rerank"]
    words += [word for value in values for word in ("--set", value)]
    begun = subprocess.Popen([sys.executable, "-m", "xmcbench", *words], cwd=tmp_path, stderr=subprocess.DEVNULL)
    while len(fake.seen) < 30:
        assert begun.poll() is None
        time.sleep(0.01)
    begun.kill()
    begun.wait()
    while True:  # until the process of the cell has ended, too
        asked = len(fake.seen)
        time.sleep(1)
        if len(fake.seen) == asked:
            break
    ended = inside(*words)
    assert ended.returncode == 0, ended.stderr
    (record,) = Store(tmp_path / "runs").records()
    total = record.notes["pairs_read"]
    # The answers on their way when it was killed are lost.
    assert asked < total <= len(fake.seen) <= total + 2
    assert counts(record) == {"asked": len(fake.seen) - asked, "kept": total + asked - len(fake.seen)}
    assert inside("export", "judgments", "--out", "kept.jsonl").stdout == f"{total} judgments in kept.jsonl\n"
    whole = len(fake.seen)
    again = inside(*words, "--set", "rerank.judgments=kept.jsonl", "--runs", "other")
    assert again.returncode == 0, again.stderr
    (other,) = Store(tmp_path / "other").records()
    assert (len(fake.seen), counts(other)) == (whole, {"asked": 0, "kept": total})
    assert other.metrics == record.metrics
    assert inside("export", "judgments", "--out", "none.jsonl", "--runs", "nowhere").returncode == 2


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
