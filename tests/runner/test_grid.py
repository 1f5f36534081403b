import pytest

from xmcbench import UsageError
from xmcbench.errors import UnknownName
from xmcbench.plugins.registry import Registry
from xmcbench.records import Store
from xmcbench.runner.grid import Grid, curve_grids, requests_of
from xmcbench.runner.plan import plan
from xmcbench.runner.rows import resolve
from xmcbench.runner.schedule import Estimate, shared_work, similar_records
from xmcbench.setting import Setting, settings

PLUGIN = """
    from xmcbench import Method, TopK

    class Free(Method):
        supervision = "unused"
        size: int = 1
        rate: float = 0.5
        def fit(self, raw_X, raw_Y, pairs=None): ...
        def predict(self, raw_X, k=100): ...

    class Either(Free):
        supervision = "optional"
        def pretrain(self, raw_X, raw_Y): ...

    class Needy(Free):
        supervision = "required"
"""
EZ, FULL, HALF = Setting.of("ez"), Setting.of("full"), Setting.of("fs", 0.5)


@pytest.fixture
def registry(plugin):
    return Registry([plugin(PLUGIN)])


@pytest.fixture
def planned(tiny, registry, tmp_path):
    def make(*grids):
        return plan(requests_of(grids), registry, Store(tmp_path / "runs"))

    return make


def test_settings_are_a_product_of_what_they_have():
    assert settings(["ez", "fs", "full", "fs"], [0.5, 0.1], ["pair", "label"]) == (
        EZ,
        Setting.of("fs", 0.5, "pair"),
        Setting.of("fs", 0.1, "pair"),
        HALF,
        Setting.of("fs", 0.1),
        FULL,
    )
    assert settings(["fs"], [0.5]) == (HALF,)
    for kinds, ratios, by in ((["fs"], [], []), (["ez"], [0.5], []), (["full"], [], ["pair"]), (["no"], [0.5], [])):
        with pytest.raises(UsageError):
            settings(kinds, ratios, by)
    assert [setting.share for setting in (EZ, HALF, FULL)] == [0, 0.5, 1]


def test_a_grid_is_every_dataset_in_every_setting(tiny, planned):
    grid = Grid([str(tiny), str(tiny)], [EZ, HALF], ["either", "free"], None, {"either": {"size": [2, 3]}}, [0, 1])
    assert [(request.dataset, request.setting) for request in grid.requests()] == [(str(tiny), EZ), (str(tiny), HALF)]
    made = planned(grid, Grid([str(tiny)], [HALF, FULL], ["free"]))
    names = [(cell.name, cell.cell.setting.slug, cell.cell.seed) for cell in made.cells]
    rows = ["either (size=2)", "either (size=3)", "free"]
    assert names == [
        *((row, slug, seed) for slug in ("ez", "fs-label-0.5") for row in rows for seed in (0, 1)),
        ("free", "full", 0),
    ]
    assert len({cell.cell.key for cell in made.cells}) == len(names)


def test_a_dataset_is_one_however_its_name_is_spelled(tiny):
    names = [str(tiny), "lf-debian-2k", "LF-Debian-2K", "no-such-name"]
    made = Grid(names, [EZ]).requests()
    assert [request.dataset for request in made] == [str(tiny), "lf-debian-2k", "no-such-name"]


def test_several_values_of_several_parameters_are_a_product(tiny, planned):
    made = planned(Grid([str(tiny)], [EZ], ["free"], None, {"free": {"size": [2, "3"], "rate": (0.1, 0.2)}}))
    values = [(cell.cell.parameters["size"], cell.cell.parameters["rate"]) for cell in made.cells]
    assert values == [(2, 0.1), (2, 0.2), (3, 0.1), (3, 0.2)]
    for wrong in ([], ["no"], [2, "no"]):
        with pytest.raises(UsageError):
            planned(Grid([str(tiny)], [EZ], ["free"], None, {"free": {"size": wrong}}))


def test_what_needs_pairs_is_left_out_where_there_are_none(tiny, planned, registry):
    made = planned(Grid([str(tiny)], [EZ, HALF], ["needy", "free"]))
    assert [cell.cell.method for cell in made.cells] == ["free", "needy", "free"]
    (left_out,) = made.skipped
    assert str(left_out).startswith("needy is left out of ez: it needs pairs")
    assert not left_out.named
    with pytest.raises(UsageError, match="needy needs pairs"):
        resolve(requests_of([Grid([str(tiny)], [EZ], ["needy"]), Grid([str(tiny)], [FULL], ["free"])]), registry)
    (everywhere,) = [skipped for skipped in planned(Grid([str(tiny)], [EZ])).skipped if skipped.method == "needy"]
    assert everywhere.where == ()


def test_a_curve_runs_what_looks_at_no_pairs_once(tiny, registry):
    grid = Grid([str(tiny)], [EZ, HALF, FULL], ["either", "free", "needy:x"], seeds=[3, 4])
    made = [(part.methods, part.settings, part.seeds) for part in curve_grids(grid, registry)]
    assert made == [
        (("free",), [EZ], [3]),
        (("either",), [EZ], [3, 4]),
        (("either", "needy:x"), [HALF], [3, 4]),
        (("either", "needy:x"), [FULL], [3, 4]),
    ]
    with pytest.raises(UsageError, match="there are no pairs to learn from"):
        curve_grids(Grid([str(tiny)], [EZ], ["needy"]), registry)
    with pytest.raises(UnknownName):
        curve_grids(Grid([str(tiny)], [EZ], ["nedy"]), registry)


def test_what_cells_share(tiny, planned):
    settings_and_seeds = {"settings": [EZ, HALF, FULL], "seeds": [0, 1]}
    made = planned(Grid([str(tiny)], methods=["free", "either"], **settings_and_seeds))
    shared = shared_work(made.cells)
    keys = {seed: [cell.cell.key for cell in made.cells if cell.cell.seed == seed] for seed in (0, 1)}
    assert [(work.method, work.seed) for work in shared] == [("either", 0), ("either", 1)]
    assert [len(work.cells) for work in shared] == [3, 3]
    for work in shared:
        assert set(work.cells) < set(keys[work.seed])
    alone = planned(Grid([str(tiny)], [EZ], ["either"], None, {"either": {"size": [1, 2]}}))
    assert shared_work(alone.cells) == []


def test_a_cell_is_estimated_by_the_one_most_like_it(tiny, planned, tmp_path, record, altered):
    store = Store(tmp_path / "runs")
    target, other = planned(Grid([str(tiny)], [EZ], ["free", "either"])).cells

    def ran(setting, day, seconds, **parameters):
        made = record("free", setting=setting, **{**target.cell.parameters, **parameters})
        at = (("measured", "started"), f"2026-01-0{day}T00:00:00+00:00"), (("measured", "total_s"), seconds)
        data = (("cell", "dataset"), "tiny"), (("cell", "dataset_sha256"), target.cell.dataset_sha256)
        store.write(altered(made, *at, *data))

    def last():
        return similar_records([target, other], store).get(target.cell.key)

    assert last() is None
    for setting, day, seconds, parameters in (
        (EZ, 2, 1.0, {"size": 7}),
        (EZ, 3, 2.0, {"size": 8}),  # later
        (FULL, 1, 3.0, {}),  # the same parameters
        (EZ, 1, 4.0, {}),  # and the same setting
    ):
        ran(setting, day, seconds, **parameters)
        assert last().measured.total_s == seconds
    estimate = Estimate.of(planned(Grid([str(tiny)], [EZ], ["free", "either"], seeds=[5])), store)
    assert (estimate.total_s, estimate.unmeasured) == (4.0, 1)
