import os
import shutil
from pathlib import Path

import pytest

from xmcbench.data import known_datasets, load_dataset
from xmcbench.data.catalog import default_dataset, load_documents
from xmcbench.errors import DataError, UnknownName, UsageError

CARD = 'name = "Tea-3"\nslug = "tea-3"\nhomepage = "https://example.org/tea"\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of the user's own datasets."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("XMCBENCH_DATASETS", str(folder))
    return folder


def _find(slug):
    return next(listing for listing in known_datasets() if listing.slug == slug)


def test_the_bundled_datasets_are_find():
    listed = {listing.slug: listing for listing in known_datasets()}
    assert not listed["lf-debian-20k"].problem
    assert not listed["lf-debian-2k"].problem
    for name in ("lf-amazon-131k", "lf-wikiseealso-320k", "lf-wikipedia-500k", "lf-amazon-1m"):
        assert "not on this machine" in listed[name].problem
        assert "https://" in listed[name].hint or "http://" in listed[name].hint


def test_a_name_is_found_in_any_case(root, write_folder):
    shutil.move(write_folder(card__toml=CARD), root / "anything")
    for name in ("tea-3", "Tea-3", "TEA-3"):
        assert load_dataset(name).name == "Tea-3"


def test_a_folder_without_a_card_is_listed_too(root, write_folder):
    shutil.move(write_folder(), root / "My Tea")
    assert _find("my-tea").place.path == root / "My Tea"
    assert load_dataset("my tea").counts()["labels"] == 3


def test_a_folder_has_the_propensity_of_the_known_dataset_of_its_name(root, write_folder, tmp_path):
    """A board knows no more of a dataset than its name, and computes the same figures by it."""
    folder = shutil.move(write_folder(), tmp_path / "lf-amazon-131k")
    dataset = load_dataset(folder)
    assert (dataset.name, dataset.slug, dataset.propensity) == ("LF-Amazon-131K", "lf-amazon-131k", (0.6, 2.6))
    other = load_dataset(shutil.move(write_folder(), tmp_path / "my-tea"))
    assert (other.name, other.propensity) == ("my-tea", (0.55, 1.5))


def test_a_folder_here_is_meant_where_the_name_has_a_card_alone(root, write_folder, monkeypatch):
    shutil.move(write_folder(), root.parent / "LF-Amazon-131K")
    monkeypatch.chdir(root.parent)
    assert load_dataset("LF-Amazon-131K").counts()["labels"] == 3
    with pytest.raises(DataError, match="LF-Amazon-1M is not on this machine"):
        load_dataset("LF-Amazon-1M")


def test_names_in_any_script_are_names(root, write_folder):
    for name in ("日本", "中国", "Чай 3"):
        shutil.move(write_folder(), root / name)
    assert {"日本", "中国", "чай-3"} <= {listing.slug for listing in known_datasets()}
    assert load_dataset("中国").name == "中国"


def test_two_folders_of_one_name_are_not_taken_for_each_other(root, write_folder):
    """One of them was listed, and loaded for either name."""
    for name in ("My_Tea", "my-tea"):
        shutil.move(write_folder(), root / name)
    said = f"{root / 'My_Tea'} and my-tea beside it have the same name my-tea: rename one"
    assert _find("my-tea").problem == said
    with pytest.raises(DataError, match="rename one"):
        load_dataset("my-tea")
    assert load_dataset(root / "My_Tea").counts()["labels"] == 3
    shutil.move(root / "my-tea", root / "green")
    assert load_dataset("my-tea").counts()["labels"] == 3


def test_a_folder_that_may_not_be_read_is_passed_over(root, write_folder, monkeypatch):
    shutil.move(write_folder(), root / "mine")
    (root / "private").mkdir()
    real = Path.is_file

    def is_file(path):
        if path.parent.name == "private":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert load_dataset("mine").counts()["labels"] == 3
    assert "private" not in {listing.slug for listing in known_datasets()}


def test_an_unknown_name_is_answered_with_the_nearest(root):
    with pytest.raises(UnknownName, match=r"unknown dataset 'lf-debiann-2k' \(did you mean 'lf-debian-2k'"):
        load_dataset("lf-debiann-2k")


def test_a_folder_that_is_not_there_is_not_an_unknown_name(tmp_path):
    with pytest.raises(UsageError, match="no folder at"):
        load_dataset(tmp_path / "none")
    for name in ("./lf-debian-2k", "~nobody-of-this-name/data"):
        with pytest.raises(UsageError, match="no folder at"):
            load_dataset(name)


def test_a_name_takes_few_options_and_says_which(root, write_folder):
    write_folder("own/tea")
    with pytest.raises(UsageError, match=r"tea is a name, which .* \(options of a name are dev, limit and documents\)"):
        load_dataset("tea?test_share=0.3")


def test_a_name_that_no_path_can_have_is_unknown(root):
    with pytest.raises(UnknownName, match="unknown dataset 'aaa"):
        load_dataset("a" * 300)
    with pytest.raises(UsageError, match="no folder at"):
        load_dataset(f"./{'a' * 300}?limit=5")


def test_documents_may_have_a_name_that_is_no_text(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    path.write_text("one\ntwo\n")
    assert [*load_documents(path)[0]] == ["one", "two"]


def test_a_folder_here_is_found_without_a_slash(write_folder, monkeypatch):
    monkeypatch.chdir(write_folder("some-tea").parent)
    assert load_dataset("some-tea").slug == "some-tea"


def test_data_that_are_not_here_say_where_to_get_them(root):
    with pytest.raises(DataError, match="LF-Amazon-131K is not on this machine") as caught:
        load_dataset("LF-Amazon-131K")
    assert "XMLRepository" in caught.value.hint
    assert str(root / "lf-amazon-131k") in caught.value.hint


def test_data_and_card_may_lie_in_different_folders(root, write_folder):
    shutil.move(write_folder(), root / "LF-Amazon-131K")
    listing = _find("lf-amazon-131k")
    assert (listing.place.path, listing.problem) == (root / "LF-Amazon-131K", "")
    assert load_dataset("lf-amazon-131k").propensity == (0.6, 2.6)


def test_the_users_folder_goes_before_the_bundled_one(root, write_folder):
    card = 'name = "LF-Debian-20K"\nslug = "lf-debian-20k"\n'
    shutil.move(write_folder(card__toml=card), root / "lf-debian-20k")
    assert load_dataset("lf-debian-20k").counts()["labels"] == 3


def test_a_broken_card_is_a_row_with_its_reason(root):
    (root / "broken").mkdir()
    (root / "broken" / "card.toml").write_text("nmae = 'x'")
    assert "unknown field `nmae`" in _find("broken").problem
    with pytest.raises(DataError, match="unknown field `nmae`"):
        load_dataset("broken")


def test_a_card_without_data_says_how_to_build_them(root):
    (root / "tea").mkdir()
    build = '[build]\nrecipe = "debian-packages"\nrelease = "r"\ncomponent = "c"\narchitecture = "a"\n'
    (root / "tea" / "card.toml").write_text(CARD + build)
    assert "xmcbench data build tea-3" in _find("tea-3").hint


def test_a_folder_that_does_not_exist_is_passed_over(root, monkeypatch):
    monkeypatch.setenv("XMCBENCH_DATASETS", str(root / "none"))
    assert _find("lf-debian-2k")


def test_an_installed_package_finds_its_data_under_share(tmp_path, monkeypatch):
    """Beside an installed package, a folder called datasets is somebody else's package."""
    module = tmp_path / "lib" / "xmcbench" / "storage" / "shipped.py"
    for folder in (module.parent, tmp_path / "lib" / "datasets", tmp_path / "share" / "xmcbench" / "datasets" / "x"):
        folder.mkdir(parents=True)
    (tmp_path / "share" / "xmcbench" / "datasets" / "x" / "card.toml").write_text(CARD)
    monkeypatch.setattr("xmcbench.storage.locations.__file__", str(module))
    monkeypatch.setattr("xmcbench.storage.locations.sysconfig.get_path", lambda *_: str(tmp_path))
    assert [listing.slug for listing in known_datasets()] == ["tea-3"]


def test_the_default_is_the_dataset_whose_card_says_so(root):
    """The first of them in alphabetical order, where several do."""
    assert default_dataset() == "lf-debian-2k"
    (root / "tea").mkdir()
    (root / "tea" / "card.toml").write_text(CARD + "default = true\n")
    assert default_dataset() == "lf-debian-2k"
    (root / "tea" / "card.toml").write_text('name = "A"\nslug = "a"\ndefault = true\n')
    assert default_dataset() == "a"


def test_without_a_default_a_dataset_must_be_named(root, monkeypatch):
    monkeypatch.setattr("xmcbench.data.catalog.find_bundled", list)
    (root / "tea").mkdir()
    (root / "tea" / "card.toml").write_text(CARD)
    with pytest.raises(UsageError, match=r"no dataset is given \(--dataset NAME\|FOLDER"):
        default_dataset()


def test_two_cards_of_one_name_are_not_taken_for_each_other(root):
    """As where the card of another dataset was copied; also of a derived dataset, which has no data of its own."""
    for folder in ("mine", "copy"):
        (root / folder).mkdir()
        (root / folder / "card.toml").write_text(CARD)
    assert _find("tea-3").problem == f"{root / 'copy'} and mine beside it have the same name tea-3: rename one"
    with pytest.raises(DataError, match="rename one"):
        load_dataset("tea-3")


@pytest.mark.parametrize("source", ["tea-3", "Tea-3", "TEA-3", "green leaves"])
def test_the_source_of_a_derived_dataset_is_found_in_any_case(root, write_folder, source):
    card = CARD.replace('"Tea-3"', '"Green leaves"') if "green" in source else CARD
    shutil.move(write_folder(card__toml=card), root / "anything")
    (root / "few").mkdir()
    (root / "few" / "card.toml").write_text(
        f'name = "Few"\nslug = "few"\n[derive]\nfrom = "{source}"\nlabels = 2\nseed = 0\n'
    )
    assert load_dataset("few").counts()["labels"] == 2


def test_the_home_of_an_unknown_user_is_a_folder_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("XMCBENCH_DATASETS", "~nosuchuser/x")
    assert _find("lf-debian-20k").place
