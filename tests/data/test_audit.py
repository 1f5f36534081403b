"""Findings of an audit of a dataset."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from string import ascii_lowercase

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

from xmcbench import load_dataset
from xmcbench.data import audit as audits
from xmcbench.data.audit import NEAR, audit, near_pairs, unknown_letters


@pytest.fixture
def planted(tiny):
    """The dataset Tiny with repeated, empty and leaked texts: its folder."""

    def read(path):
        with gzip.open(path, "rt") as stream:
            return [json.loads(line) for line in stream]

    def change(name, **texts):
        path = tiny / f"{name}.json.gz"
        lines = read(path)
        for row, (title, content) in texts.items():
            lines[int(row[1:])] |= {"title": title, "content": content}
        with gzip.open(path, "wt") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)

    long = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    change("trn", r3=("leak", "of a text"), r4=(" ", ""), r5=("same", "text"), r6=("same", "text"), r7=("near", long))
    change("tst", r0=("leak", "of a text"), r1=("near", f"{long} seventeen"), r2=("漢字の文章です", "ながい文" * 20))
    lines = read(tiny / "lbl.json.gz")
    lines[1]["title"] = lines[0]["title"]
    with gzip.open(tiny / "lbl.json.gz", "wt") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    return tiny


def test_what_is_planted_is_found(planted):
    found = {(finding.side, finding.kind): finding for finding in audit(load_dataset(planted)).findings}
    assert {key: finding.rows for key, finding in found.items()} == {
        ("training instances", "are empty"): 1,
        ("training instances", "have the text of other training instances"): 2,
        ("labels", "have the text of another label"): 2,
        ("test instances", "also appear in the training set"): 1,
        ("test instances", "are near duplicates of training texts"): 1,
    }
    assert found["test instances", "also appear in the training set"].examples == ("leak\tof a text",)
    assert found["labels", "have the text of another label"].examples == ("the apple (2 times)",)
    assert str(found["training instances", "are empty"]) == "1 of 60 training instances (1.67%) is empty"
    assert str(replace(found["training instances", "are empty"], rows=2)).endswith("(3.33%) are empty")
    exact = audit(load_dataset(planted), near=False)
    assert not any("near duplicates" in finding.kind for finding in exact.findings)


def test_a_clean_dataset_has_no_finding(tiny):
    found = audit(load_dataset(tiny))
    assert found.findings == ()
    assert found.warnings() == []
    assert found.scripts == {"LATIN": 1.0}


@pytest.fixture
def tokenizer(tmp_path):
    """The folder of a model that reads Latin letters only."""
    pieces = ["[UNK]", *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
    made = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}))
    made.normalizer = Lowercase()
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(1)
    (tmp_path / "model").mkdir()
    made.save(str(tmp_path / "model" / "tokenizer.json"))
    return tmp_path / "model"


def test_what_a_tokenizer_cannot_read_is_said(inside, planted, tokenizer, tmp_path):
    found = audit(load_dataset(planted), near=False, tokenizer=tokenizer)
    assert found.unread == {"CJK": 1.0, "HIRAGANA": 1.0}
    assert any(warning.startswith("100.0% of the Hiragana letters are unknown") for warning in found.warnings())
    shown = inside("data", "info", planted, "--tokenizer", tokenizer).stdout
    assert "warning: 100.0% of the Hiragana letters are unknown to the tokenizer" in shown
    (tmp_path / "file").write_text("{}")
    for place, said in (("nowhere", "there is no tokenizer.json at nowhere"), ("file", "file is not a tokenizer")):
        ended = inside("data", "audit", planted, "--tokenizer", place)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("model", "unread"),
    [
        (Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0), {"b": 2}),
        (Unigram([("<unk>", 0.0), ("a", -1.0)]), {}),
        (BPE({"a": 0, "b": 1}, []), {}),
        (WordLevel({"ab": 0, "?": 1}, unk_token="?"), {"a": 1, "b": 2}),
    ],
)
def test_every_kind_of_tokenizer_says_what_it_does_not_know(model, unread):
    made = Tokenizer(model)
    made.pre_tokenizer = Whitespace()
    assert unknown_letters(made, ["ab bba"] if unread and "a" in unread else ["ab b"], Counter) == unread


def test_near_duplicates_are_those_of_the_exact_similarity():
    random = np.random.RandomState(0)
    words = [f"w{number}" for number in range(400)]
    texts = [" ".join(random.choice(words, 40)) for _ in range(200)]
    queries = []
    for row in range(200):
        changed = texts[row].split()
        for _ in range(random.randint(0, 4)):
            changed[random.randint(40)] = "changed"
        queries.append(" ".join(changed))

    def shingles(text):
        split = text.split()
        return {tuple(split[place : place + 3]) for place in range(len(split) - 2)}

    expected = set()
    for row, query in enumerate(queries):
        for other, text in enumerate(texts):
            one, two = shingles(query), shingles(text)
            if len(one & two) / len(one | two) >= NEAR:
                expected.add((row, other))
    assert 40 < len(expected) < 190
    assert set(near_pairs(queries, texts)) == expected
    assert near_pairs(["two words"], ["two words"]) == []
    found = near_pairs(
        ["a text of five words"], ["a text of five words", "a text", "a text of five words "], every=True
    )
    assert found == [(0, 0), (0, 2)]


def test_info_warns_and_audit_writes_a_page(inside, planted, tmp_path):
    shown = inside("data", "info", planted).stdout
    assert "warning: 1 of 30 test instances (3.33%) also appears in the training set" in shown
    assert "near duplicates" not in shown
    assert len(json.loads(inside("data", "info", planted, "--json").stdout)["warnings"]) == 5  # and scripts
    page = tmp_path / "audit.html"
    ended = inside("data", "audit", planted, "--html", page)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 30 test instances (3.33%) is a near duplicate of a training text" in ended.stdout
    assert "Hiragana" in ended.stdout
    assert "leak of a text" in page.read_text()  # title and content
    assert inside("data", "audit", planted, "--html", page).returncode == 2
    document = json.loads(inside("data", "audit", planted, "--no-near", "--json").stdout)
    assert document["near"] is False


def test_boilerplate_does_not_make_every_text_a_candidate(monkeypatch):
    """Texts that share most of their words, but are no near duplicates, meet in the same bands."""
    random = np.random.RandomState(0)
    words = [f"w{number}" for number in range(60)]

    def change_words(times):
        new = list(words)
        for place in random.choice(60, times, replace=False):
            new[place] = f"x{random.randint(10**6)}"
        return " ".join(new)

    texts, compared = [change_words(3) for _ in range(1500)], []
    similarity = audits._similarity
    monkeypatch.setattr(audits, "_similarity", lambda *sides: compared.append(sides) or similarity(*sides))
    queries = [change_words(3) for _ in range(20)]
    found = near_pairs([*queries, texts[700] + " end"], texts)
    assert len(compared) <= 100 * 21
    assert (20, 700) in found
    copies = ["a text that has been copied many times"] * 1500
    assert near_pairs(["a text that has been copied many times over"], ["other words only here", *copies]) == [(0, 1)]
