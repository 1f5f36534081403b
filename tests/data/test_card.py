import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcbench.data.card import Card, Derivation, Propensity, Recipe, read_card, write_card
from xmcbench.errors import DataError
from xmcbench.storage.locations import check_name, find_shipped

PLAIN = 'name = "X"\nslug = "x"\n'


def _read(tmp_path, text):
    path = tmp_path / "card.toml"
    path.write_text(text)
    return read_card(path)


def test_name_and_slug_are_enough(tmp_path):
    assert _read(tmp_path, PLAIN) == Card("X", "x", propensity=Propensity(0.55, 1.5), filter="none", default=False)


_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)


def _names_a_file(name):
    try:
        check_name("name", name)
    except ValueError:
        return False
    return True


_SHA = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(
    name=_TEXT.filter(_names_a_file),
    text=_TEXT,
    files=st.dictionaries(_TEXT, _SHA, max_size=3),
    default=st.booleans(),
    propensity=st.builds(Propensity, *[st.floats(0, 9, exclude_min=True)] * 2),
    derive=st.none()
    | st.builds(Derivation, _TEXT, st.integers(0, 9), st.integers(0, 9))
    | st.builds(Derivation, _TEXT, st.integers(0, 9), held_out=st.integers(0, 9)),
    build=st.none() | st.builds(Recipe, _TEXT, _TEXT, _TEXT, _TEXT, st.dictionaries(_TEXT, _SHA, max_size=2)),
)
def test_what_is_written_is_read_back(tmp_path_factory, name, text, files, default, propensity, derive, build):
    path = tmp_path_factory.mktemp("card") / "card.toml"
    card = Card(
        name,
        "x",
        text,
        license=text,
        filter="self",
        default=default,
        counts={"train": 3},
        propensity=propensity,
        files=files,
        derive=derive,
        build=build,
    )
    write_card(path, card)
    assert read_card(path) == card
    tomllib.loads(path.read_text())


def test_a_card_of_what_is_built_is_written_as_it_is_committed(tmp_path):
    """`data build` writes the card beside the files: in a checkout, that must not change it."""
    built = [path for path in sorted(find_shipped("datasets").glob("*/card.toml")) if read_card(path).build]
    assert len(built) >= 4
    for path in built:
        write_card(tmp_path / "card.toml", read_card(path))
        assert (tmp_path / "card.toml").read_bytes() == path.read_bytes(), path


def test_equal_cards_have_equal_bytes_in_whatever_order_they_were_made(tmp_path):
    def write(turn):
        counts = {"test_pairs": 4, "labels": 3, "train": 2}
        files = {"b.txt": "1" * 64, "a.txt": "2" * 64}
        indices = {"Packages": "3" * 64, "Contents": "4" * 64}
        build = Recipe("debian-packages", "bookworm", "main", "amd64", turn(indices))
        write_card(tmp_path / "card.toml", Card("X", "x", "", counts=turn(counts), files=turn(files), build=build))
        return (tmp_path / "card.toml").read_bytes()

    assert write(lambda values: values) == write(lambda values: dict(reversed(values.items())))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PLAIN + "colour = 1", "unknown field `colour`"),
        (PLAIN + "licence = 'x'", "unknown field `licence`"),
        (PLAIN + "[counts]\ntrian = 1", "Invalid enum value 'trian' - at `key` in `$.counts`"),
        (PLAIN + "[derive]\nfrom = 'y'\nlabels = 2", "labels and held_out need a seed"),
        (PLAIN + "[derive]\nfrom = 'y'\nseed = 2", "it has none of them"),
        (PLAIN + "[derive]\nfrom = 'y'\nseed = 2\nlabels = 1\nheld_out = 1", "it has labels and held_out"),
        (PLAIN + "[derive]\nfrom = 'y'\nseed = -2\nlabels = 1", "Expected `int` >= 0 - at `$.derive.seed`"),
        (PLAIN + "[derive]\nfrom = 'y'\nseed = 4294967296\nlabels = 1", "Expected `int` <= 4294967295"),
        (PLAIN + "[build]\nrecipe = 'r'", "missing required field `release` - at `$.build`"),
        (PLAIN + "[counts]\ntrain = 'many'", "Expected `int`, got `str` - at `$.counts[...]`"),
        (PLAIN + "[counts]\ntrain = -1", "Expected `int` >= 0 - at `$.counts[...]`"),
        (PLAIN + "[propensity]\na = true\nb = 1", "Expected `float`, got `bool` - at `$.propensity.a`"),
        (PLAIN + "[propensity]\na = inf\nb = 1", "Expected `float` <= 1000000.0 - at `$.propensity.a`"),
        (PLAIN + "[propensity]\na = 1\nb = 0", "Expected `float` > 0.0 - at `$.propensity.b`"),
        (PLAIN + "files = 3", "Expected `object`, got `int` - at `$.files`"),
        (PLAIN + "filter = 'some'", "Invalid enum value 'some' - at `$.filter`"),
        (PLAIN + "default = 1", "Expected `bool`, got `int` - at `$.default`"),
        ("name = 'X'", "missing required field `slug`"),
        ("slug = 3\nname = 'X'", "Expected `str`, got `int` - at `$.slug`"),
        ("slug = '../x'\nname = 'X'", "slug is '../x'"),
        ("slug = 'x'\nname = 'X/Y'", "name is 'X/Y'"),
        ("name = ", "is not a card"),
        (f"name = {'[' * 3000}{']' * 3000}", "is not a card"),
    ],
)
def test_a_broken_card_names_file_and_key(tmp_path, text, reason):
    with pytest.raises(DataError) as caught:
        _read(tmp_path, text)
    assert "card.toml" in caught.value.message
    assert reason in caught.value.message


def test_a_missing_card_is_said(tmp_path):
    with pytest.raises(DataError, match="no card at"):
        read_card(tmp_path / "card.toml")
