"""The recipe that makes a dataset with contents from the abstracts among another one's titles."""

import json
import shutil

import pytest
from msgspec.structs import replace

from xmcbench.data import build, load_dataset
from xmcbench.data.card import read_card
from xmcbench.data.catalog import find
from xmcbench.data.recipes import long_texts
from xmcbench.data.text_files import find_source, sha256_unpacked
from xmcbench.errors import DataError
from xmcbench.storage.locations import find_shipped

ABSTRACT = "Old maps of the north. " + "They show many small lakes and rivers. " * 6 + "Nobody has drawn them since!"


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder in the XC raw layout with 12 abstracts among 20 titles; 4 are for testing and 7 for training."""
    monkeypatch.setattr(long_texts, "TEST", 4)
    monkeypatch.setattr(long_texts, "TRAIN", 7)
    folder = tmp_path / "source"
    folder.mkdir()
    titles = [f"{row}: {ABSTRACT}" if row % 5 < 3 else f"{row}: a title of five words" for row in range(20)]
    rows = [
        {"uid": f"u{row}", "title": title, "target_ind": [row % 3, 3] if row % 2 else [row % 3]}
        for row, title in enumerate(titles)
    ]
    (folder / "trn.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "lbl.json").write_text("".join(json.dumps({"title": f"label {row}"}) + "\n" for row in range(4)))
    return folder


def test_abstracts_become_title_and_content(source, tmp_path):
    built = build("lf-yso-abstracts-dev", out=tmp_path / "out", indices=source, allow_other_release=True)
    assert not built.as_pinned
    assert (built.card.counts["train"], built.card.counts["test"]) == (7, 4)
    dataset = load_dataset(tmp_path / "out")
    read = []
    assert list(dataset.labels.titles) == [f"label {row}" for row in range(4)]
    for texts, known, names in (
        (dataset.train, dataset.train_pairs(), dataset.train.uids),
        (dataset.test, dataset.test_pairs(), dataset.test.uids),
    ):
        for title, content, uid, labels in zip(texts.titles, texts.contents, names, known, strict=True):
            row = int(uid[1:])
            read.append(row)
            assert title == f"{row}: Old maps of the north."
            assert content == ABSTRACT.partition(". ")[2]
            assert labels.indices.tolist() == ([row % 3, 3] if row % 2 else [row % 3])
    assert len(set(read)) == 11
    assert all(row % 5 < 3 for row in read)


@pytest.mark.parametrize("text", [ABSTRACT.replace(".", ","), "One. Two. Three. " * 4])
def test_few_sentences_or_few_words_are_no_abstract(source, tmp_path, text):
    rows = [json.loads(line) for line in (source / "trn.json").read_text().splitlines()]
    for row in rows[:3]:
        row["title"] = text
    (source / "trn.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="has 9 long texts"):
        build("lf-yso-abstracts-dev", out=tmp_path / "out", indices=source, allow_other_release=True)
    assert not (tmp_path / "out").exists()


def test_the_source_is_another_dataset(source, tmp_path, monkeypatch):
    shipped, root = find_shipped("datasets"), tmp_path / "datasets"
    for slug in ("lf-yso-25k", "lf-yso-abstracts-dev"):
        (root / slug).mkdir(parents=True)
        shutil.copy(shipped / slug / "card.toml", root / slug)
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", lambda: [root])
    with pytest.raises(DataError, match="is needed: LF-YSO-25K is not on this machine") as error:
        build("lf-yso-abstracts-dev", out=tmp_path / "out")
    assert error.value.hint == "build it: xmcbench data build lf-yso-25k"
    for name in ("trn.json", "lbl.json"):
        shutil.copy(source / name, root / "lf-yso-25k")
    built = build("lf-yso-abstracts-dev", out=tmp_path / "out", allow_other_release=True)
    assert (built.card.counts["train"], built.card.counts["test"]) == (7, 4)
    (source / "lbl.json").unlink()
    with pytest.raises(DataError, match="has no lbl.json"):
        build("lf-yso-abstracts-dev", out=tmp_path / "out", indices=source)


def test_what_the_card_pins_is_built(real_data, tmp_path):
    """From the LF-YSO-25K that its card names."""
    source = real_data("LF-YSO-25K")
    card = find("lf-yso-abstracts-dev").card
    assert {name: sha256_unpacked(find_source(source, name)) for name in card.build.indices} == card.build.indices
    built = build("lf-yso-abstracts-dev", out=tmp_path / "out", indices=source)
    assert built.as_pinned
    assert replace(read_card(tmp_path / "out" / "card.toml"), build=card.build) == card
