"""Test instances on the page of a dataset, with the ranks of their true labels."""

from pathlib import Path

import pytest

from xmcbench.data import load_dataset
from xmcbench.errors import StorageError
from xmcbench.leaderboard.blocks import Heading
from xmcbench.leaderboard.examples import Examples
from xmcbench.leaderboard.pages import pages
from xmcbench.leaderboard.tables import Table
from xmcbench.records import Store
from xmcbench.runner.scoring import StoredScores

BOARD = Path(__file__).parents[2] / "leaderboards"
STORE = Store(BOARD)


@pytest.fixture(scope="module")
def german():
    """The records of the smallest dataset with instances."""
    return [record for record in STORE.records() if record.cell.dataset == "LF-Debian-de"]


def section(page):
    place = page.blocks.index(Heading(2, "Test instances"))
    return page.blocks[place + 1 : page.blocks.index(Heading(2, "Instances, labels and pairs"))]


def page_of(records, files):
    made = pages(records, (), scores=StoredScores(STORE), examples=Examples(STORE, files))
    return next(page for page in made if page.name == "lf-debian-de")


@pytest.mark.parametrize("name", sorted(path.stem for path in (BOARD / "examples").glob("*.toml")))
def test_the_texts_are_those_of_the_dataset(name):
    dataset, (_, instances) = load_dataset(name), Examples.of(STORE).files[name]
    assert len(instances) == 3
    labels, pairs = dataset.labels, dataset.test_pairs()
    for instance in instances:
        assert (dataset.test.titles[instance.row], dataset.test.contents[instance.row]) == (
            instance.title,
            instance.content,
        )
        assert instance.labels == {int(label): labels.titles[int(label)] for label in pairs[instance.row].indices}


def test_a_page_shows_the_ranks_of_the_best_methods(german):
    files = {"lf-debian-de": Examples.of(STORE).files["lf-debian-de"]}
    explained, *blocks = section(page_of(german, files))
    assert "does not hold predictions" in explained
    texts, tables = blocks[::2], [block for block in blocks if isinstance(block, Table)]
    assert len(tables) == len(texts) == 3
    assert texts[0].startswith("**csoundqt - Frontend")
    names = [column.text for column in tables[0].columns]
    assert names == ["Hybrid", "Label expansion", "TF-IDF"]
    assert tables[0].caption.endswith("test instance 118: ranks in Hybrid (small), Label expansion, TF-IDF")
    record = next(made for made in german if made.name == "TF-IDF" and made.cell.setting.kind == "ez")
    truth = STORE.truth(record)
    ranks = STORE.ranks(record, truth).by_filter[record.protocol.filter]
    for instance, table in zip(files["lf-debian-de"][1], tables, strict=True):
        own = truth.pairs.rows == instance.row
        shown = dict(zip(instance.labels.values(), (line.cells[2].text for line in table.lines), strict=True))
        assert [line.name for line in table.lines] == [*shown]
        pairs = zip(truth.pairs.labels[own].tolist(), ranks[own].tolist(), strict=True)
        assert shown == {instance.labels[label]: str(rank or "") for label, rank in pairs}


def test_a_file_is_called_as_its_dataset_in_any_case(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "LF-Debian-de.toml").write_text("instance = []")
    assert [*Examples.of(Store(tmp_path)).files] == ["lf-debian-de"]


def test_files_that_do_not_fit_are_refused(german, tmp_path):
    path, instances = Examples.of(STORE).files["lf-debian-de"]
    for files, said in (
        ({"nowhere": (path, instances)}, "is about a dataset without results"),
        ({"lf-debian-de": (path, Examples.of(STORE).files["lf-debian-20k"][1])}, "wrong labels of row 850"),
    ):
        with pytest.raises(StorageError, match=said):
            page_of(german, files)
    (tmp_path / "examples").mkdir()
    for text in ("[[instance]]\nrow = 1\n", "instance = 1", "x ="):
        (tmp_path / "examples" / "a.toml").write_text(text)
        with pytest.raises(StorageError, match=r"a\.toml does not hold test instances"):
            Examples.of(Store(tmp_path))
