"""Runs that a comparison takes: those that belong together."""

import msgspec
import pytest

from xmcbench.errors import NoResult, UnknownName, UsageError
from xmcbench.records import Staleness, Store
from xmcbench.records.selection import Conditions, choose, choose_row, places
from xmcbench.setting import Setting

FEW = Setting.of("fs", 0.1)


@pytest.fixture
def chosen(record, tmp_path):
    """Write rows, (method, seeds, what else) each, and choose the first two by their names."""

    def choose_from(*rows, **choice):
        store = Store(tmp_path / "runs")
        for method, seeds, more in rows:
            for seed in seeds:
                store.write(record(method, seed, **{"setting": FEW, **more}))
        return choose(store, rows[0][0], rows[1][0], Conditions(**choice))

    return choose_from


def test_runs_that_saw_other_subsets_than_the_other_side_are_left_out(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1, 2, 3), {}))
    assert first.seeds == second.seeds == [1, 2]
    assert first.subsets == second.subsets
    assert None not in first.subsets


def test_without_a_common_subset_all_runs_stay(chosen):
    first, second = chosen(("a", (0, 1), {}), ("b", (2, 3), {}))
    assert (first.seeds, second.seeds) == ([0, 1], [2, 3])


def test_a_side_that_depends_on_no_seed_leaves_the_other_all_of_its_runs(chosen):
    flat = {"deterministic": True, "supervision": "unused"}
    first, second = chosen(("a", (0, 1, 2), {}), ("flat", (0,), flat))
    assert (first.seeds, second.seeds) == ([0, 1, 2], [0])
    assert (first.deterministic, second.deterministic) == (False, True)


def test_a_method_without_chance_depends_on_the_draw_of_its_pairs(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1,), {"deterministic": True}))
    assert (first.seeds, second.seeds) == ([1], [1])
    assert not second.deterministic
    full = {"setting": Setting.of("full"), "deterministic": True}
    first, second = chosen(("c", (0, 1), {"setting": Setting.of("full")}), ("d", (0,), full))
    assert (first.seeds, second.seeds) == ([0, 1], [0])
    assert second.deterministic


def test_at_zero_shot_no_run_is_left_out(chosen):
    ez = {"setting": Setting.of("ez")}
    first, second = chosen(("a", (0, 1, 2), ez), ("b", (1, 3), ez))
    assert (first.seeds, second.seeds) == ([0, 1, 2], [1, 3])
    assert {*first.subsets, *second.subsets} == {None}


def test_seeds_that_are_asked_for_are_taken(chosen):
    first, second = chosen(("a", (0, 1, 2), {}), ("b", (1, 2, 3), {}), seeds=(2, 3))
    assert first.seeds == second.seeds == [2]
    with pytest.raises(UsageError, match="a has no result with this dataset, setting and seed"):
        chosen(("a", (0,), {}), ("b", (9,), {}), seeds=(9,))


def test_a_run_that_no_seed_changes_is_taken_for_every_seed(chosen):
    """Only the first seed that was asked for is run."""
    flat = {"deterministic": True, "supervision": "unused"}
    first, second = chosen(("a", (1, 2), {}), ("flat", (1,), flat), seeds=(2,))
    assert (first.seeds, second.seeds) == ([2], [1])
    first, second = chosen(("c", (1, 2), {}), ("earlier", (1, 2), flat), seeds=(2,))
    assert (first.seeds, second.seeds) == ([2], [2])
    with pytest.raises(UsageError, match="fixed has no result with this dataset, setting and seed"):
        chosen(("d", (1, 2), {}), ("fixed", (1,), {"deterministic": True}), seeds=(2,))  # its pairs are drawn


def test_each_word_names_the_one_place_it_has_results_in(chosen):
    """Two settings of two methods: there is no common place, and no doubt either."""
    first, second = chosen(("a", (0,), {}), ("b", (0,), {"setting": Setting.of("ez")}))
    assert (first.records[0].cell.setting.kind, second.records[0].cell.setting.kind) == ("fs", "ez")


def test_several_places_or_none_in_common_are_named(chosen):
    ez, full = {"setting": Setting.of("ez")}, {"setting": Setting.of("full")}
    with pytest.raises(UsageError, match="a and b have several results in common ") as refused:
        chosen(("a", (0,), ez), ("b", (0,), ez), ("a", (0,), {}), ("b", (0,), {}))
    assert str(refused.value).endswith("(choose one)\n  --setting ez\n  --setting fs --by label --ratio 0.1")
    with pytest.raises(
        UsageError, match=r"c and d have no .* in common \(c: Tiny ez, Tiny full; d: Tiny fs-label-0.1\)"
    ):
        chosen(("c", (0,), ez), ("d", (0,), {}), ("c", (0,), full))


@pytest.fixture
def stored(record, tmp_path):
    """Write the rows a and b of these datasets, with these digests; returns the runs folder."""

    def write(*datasets):
        store = Store(tmp_path / "runs")
        for name, digest in datasets:
            for method in "ab":
                made = record(method, 0, setting=FEW)
                cell = msgspec.structs.replace(made.cell, dataset=name, dataset_sha256=digest * 64)
                store.write(msgspec.structs.replace(made, cell=cell, key=cell.key))
        return store

    return write


def test_what_tells_places_apart_is_named(stored):
    store = stored(("Other", "a"), ("Tiny", "a"))
    for select in (lambda: choose(store, "a", "b", Conditions()), lambda: choose_row(store, "a", Conditions())):
        with pytest.raises(UsageError) as refused:
            select()
        assert refused.value.choices == ("--dataset Other", "--dataset Tiny")


def test_versions_of_the_data_are_told_apart_by_keys(stored):
    store = stored(("Tiny", "a"), ("Tiny", "c"))
    said = r"name rows by their keys, or give the place of the data: --dataset PLACE"
    with pytest.raises(UsageError, match=said) as refused:
        choose(store, "a", "b", Conditions())
    for digest in "ac":
        rows = {record.cell.method: record for record in store.records() if record.cell.dataset_sha256[0] == digest}
        keys = [rows[name].key[:12] for name in "ab"]
        assert f"Tiny fs-label-0.1: {keys[0]} {keys[1]}" in refused.value.choices
        first, second = choose(store, *keys, Conditions())
        assert first.records[0].cell.dataset_sha256[0] == second.records[0].cell.dataset_sha256[0] == digest
        with pytest.raises(UsageError, match=keys[0]):
            choose_row(store, "a", Conditions())


def test_a_common_place_goes_before_others(chosen):
    ez = {"setting": Setting.of("ez")}
    first, second = chosen(("a", (0,), ez), ("b", (0,), ez), ("a", (0,), {}))
    assert {row.records[0].cell.setting.kind for row in (first, second)} == {"ez"}


def test_a_dataset_that_is_not_here_is_taken_by_its_name(chosen):
    first, _ = chosen(("a", (0,), {}), ("b", (0,), {}), dataset="tiny")
    assert first.records[0].cell.dataset == "Tiny"
    with pytest.raises(UsageError, match="a has no result with this dataset, setting and seed"):
        chosen(("a", (0,), {}), ("b", (0,), {}), dataset="other")


def test_a_word_that_names_several_rows_is_told_what_names_each(chosen, tmp_path, record):
    changed = [{"ngrams": 1}, {"ngrams": 2}, {"ngrams": 1, "df": 1}]
    with pytest.raises(UsageError, match=r"a matches 3 rows \(choose one\)") as refused:
        chosen(("a", (0, 1), changed[0]), ("b", (0, 1), {}), *(("a", (0, 1), more) for more in changed[1:]))
    assert refused.value.choices == ("'a:ngrams=1, df=1'", "a:ngrams=1", "a:ngrams=2")
    for word, more in zip(refused.value.choices, (changed[2], *changed[:2]), strict=True):
        first, _ = choose(Store(tmp_path / "runs"), word.strip("'"), "b", Conditions())
        assert first.keys == [record("a", seed, setting=FEW, **more).key for seed in (0, 1)]


def test_rows_of_one_variant_are_told_apart_by_keys(record, altered, tmp_path):
    """As of a preset whose values have changed since."""
    store, both = Store(tmp_path / "runs"), []
    for steps in (20, 60):
        both.append(altered(record("ict", steps=steps), (("method", "variant"), "small")))
        store.write(both[-1])
    store.write(altered(record("ict", steps=5), (("method", "variant"), "")))
    with pytest.raises(
        UsageError, match=r"ict:small matches 2 rows \(choose one; a key selects a single seed\)"
    ) as refused:
        choose_row(store, "ict:small", Conditions())
    assert refused.value.choices == tuple(sorted(f"{made.key[:12]}  {made.name}" for made in both))
    assert choose_row(store, "ict:", Conditions()).records[0].cell.parameters["steps"] == 5


def test_a_bare_name_means_the_row_without_changed_parameters(chosen):
    first, _ = chosen(("a", (0, 1), {}), ("b", (0,), {}), ("a", (0, 1), {"ngrams": 2}))
    assert {record.name for record in first.records} == {"A"}


def test_a_preset_means_the_row_with_its_values(record, altered, tmp_path):
    """The variant says steps in words, for every number of them."""
    store = Store(tmp_path / "runs")
    for steps in (20, 60):
        store.write(altered(record("ict", steps=steps), (("method", "variant"), f"small, {steps} steps")))
    today = Staleness(presets={"ict": {"": {"steps": 20}, "small": {"steps": 60}}})
    for word in ("ict", "ict:small"):
        chosen = choose_row(store, word, Conditions(staleness=today))
        assert [record.cell.parameters["steps"] for record in chosen.records] == [60]
        with pytest.raises(UsageError, match=f"{word} matches 2 rows"):
            choose_row(store, word, Conditions())
    assert choose_row(store, "ict:20 steps", Conditions(staleness=today)).records[0].cell.parameters["steps"] == 20


def test_a_name_that_is_not_there_is_answered_with_those_that_are(chosen, tmp_path):
    chosen(("tfidf", (0,), {"ngrams": 2}), ("b", (0,), {}))
    with pytest.raises(UnknownName, match="did you mean 'tfidf'"):
        choose(Store(tmp_path / "runs"), "tfdif", "b", Conditions())
    with pytest.raises(UnknownName, match="did you mean 'tfidf:ngrams=2'"):
        choose(Store(tmp_path / "runs"), "tfidf:ngrams=3", "b", Conditions())


def test_a_dataset_is_taken_by_its_name_in_any_case(tmp_path, record):
    """The folder of a name in lower case need not have its folded name, by which datasets are compared."""
    store = Store(tmp_path)
    for name in ("Straße", "other"):
        made = record("tfidf")
        cell = msgspec.structs.replace(made.cell, dataset=name)
        store.write(msgspec.structs.replace(made, cell=cell, key=cell.key))
    for given in ("Straße", "STRASSE"):
        assert [dataset for dataset, _, _ in places(store, Conditions(given))] == ["Straße"]


def test_a_name_that_other_settings_have_is_no_unknown_name(chosen, tmp_path):
    chosen(("tfidf", (0,), {}), ("b", (0,), {"setting": Setting.of("ez")}))
    store = Store(tmp_path / "runs")
    with pytest.raises(NoResult, match="tfidf has no result with this dataset, setting and seed"):
        choose_row(store, "tfidf", Conditions("tiny", Setting.of("ez")))
    with pytest.raises(UnknownName, match="did you mean 'tfidf'"):
        choose_row(store, "tfdif", Conditions("tiny", Setting.of("ez")))


def test_the_file_of_a_record_names_its_runs_folder(chosen, tmp_path):
    first, _ = chosen(("a", (0,), {}), ("b", (0,), {}))
    file = first.store.record_path(first.records[0].cell)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    one, other = choose(Store(elsewhere), str(file), str(file), Conditions())
    assert one.store.root == other.store.root == tmp_path / "runs"
    assert one.keys == first.keys
    with pytest.raises(UsageError, match="no record at .*missing.json"):
        choose(Store(elsewhere), str(tmp_path / "missing.json"), str(file), Conditions())


def test_a_row_is_named_by_its_key_or_its_variant(chosen, tmp_path, record):
    chosen(("a", (0,), {"ngrams": 2, "df": 1}), ("b", (0,), {}))
    runs, key = tmp_path / "runs", record("a", 0, setting=FEW, ngrams=2, df=1).key
    for word in (key, key[:12], key[:4], "a:ngrams=2", "a:df=1", "a:ngrams=2, df=1"):
        first, _ = choose(Store(runs), word, "b:", Conditions())
        assert first.keys == [key]
    for word in ("a:", "a:df=2", "b:df=1", "c", "0" * 12, key[:3]):
        with pytest.raises(UnknownName):
            choose(Store(runs), word, "b", Conditions())


def test_a_whole_variant_goes_before_a_part_of_another(chosen, tmp_path, record):
    """The error about several rows says to name one so."""
    chosen(("b", (0,), {}), ("c", (0,), {}), ("a", (0,), {"df": 1}), ("a", (0,), {"df": 1, "ngrams": 2}))
    for word, more in (("a:df=1", {"df": 1}), ("a:ngrams=2", {"df": 1, "ngrams": 2})):
        first, _ = choose(Store(tmp_path / "runs"), word, "b", Conditions())
        assert first.keys == [record("a", 0, setting=FEW, **more).key]


def test_a_row_is_whole_however_its_runs_were_called(chosen, tmp_path, record, altered):
    """One was run by a preset and one by the parameters that it has: tables show one row, `compare` had half of it."""
    chosen(("a", (0,), {"mixed": True}), ("b", (0, 1), {}))
    store = Store(tmp_path / "runs")
    store.write(altered(record("a", 1, setting=FEW, mixed=True), (("method", "variant"), "by-preset")))
    for word in ("a", "a:by-preset", "a:mixed=True"):
        first, second = choose(store, word, "b", Conditions())
        assert (first.seeds, second.seeds) == ([0, 1], [0, 1])
    assert choose_row(store, "a:by-preset", Conditions(seeds=(0,))).seeds == [0]
