import os
from pathlib import Path

import numpy as np
import pytest

from xmcbench import UsageError
from xmcbench.methods.encoder.machines import Machines, alone

SCRIPT = Path(__file__).with_name("one_machine.py")
#: What torchrun says on two machines, with one command on each.
TORCHRUN = {
    "GROUP_WORLD_SIZE": "2",
    "GROUP_RANK": "{rank}",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
TOLD = {"GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}


def test_two_machines_end_where_one_ends_also_when_killed(side_by_side, tmp_path, checkpoint, imported):
    """One process and one folder on each: two trainings, the first of them killed, and taken up from one checkpoint."""
    weights = checkpoint(dropout=0.0)
    expected, notes = imported(SCRIPT).run(tmp_path / "one", weights)
    assert [note["processes"] for note in notes] == [1, 1]
    words = [tmp_path / "machine{rank}", weights]
    statuses, _ = side_by_side(SCRIPT, [*words, "3"], TORCHRUN)
    assert all(statuses)
    held = [list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors")) for rank in "01"]
    assert [len(each) for each in held] == [1, 0]
    statuses, errors = side_by_side(SCRIPT, [*words, ""], TORCHRUN)
    assert statuses == [0, 0], errors
    for rank in "01":
        with np.load(tmp_path / f"machine{rank}" / "end.npz") as found:
            assert (int(found["processes"]), found["resumed"].tolist()) == (2, [3, 0])
            for name, each in expected.items():
                np.testing.assert_allclose(found[name], each, atol=1e-4, err_msg=name)
        assert not list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors"))


def test_the_place_of_a_process(monkeypatch):
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    found = Machines.here()
    assert found == Machines(2, 1, "first", 29501)
    assert found.environment(2, 4) == {
        "RANK": "6",
        "LOCAL_RANK": "2",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "first",
        "MASTER_PORT": "29501",
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GROUP_RANK", None, "GROUP_RANK is not set"),
        ("GROUP_RANK", "one", "GROUP_RANK = 'one' is not a number"),
        ("GROUP_RANK", "2", "GROUP_RANK = 2 must be below the number of machines, 2"),
        ("GROUP_WORLD_SIZE", "many", "GROUP_WORLD_SIZE = 'many' is not a number"),
        ("MASTER_ADDR", None, "MASTER_ADDR is not"),
        ("MASTER_PORT", "", "MASTER_PORT is not set"),
        ("LOCAL_WORLD_SIZE", "2", "torchrun started 2 commands on this machine"),
    ],
)
def test_an_environment_that_makes_no_sense(monkeypatch, name, value, message):
    for each, told in TOLD.items():
        monkeypatch.setenv(each, told)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message) as raised:
        Machines.here()
    assert raised.value.hint


def test_alone_torchrun_is_not_heard(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    with alone():
        assert "LOCAL_RANK" not in os.environ
    assert os.environ["LOCAL_RANK"] == "0"
