import os

import pytest

from xmcbench import UsageError
from xmcbench.methods.distributed.machines import Machines, alone

TOLD = {"GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}


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
    for name in (*found.environment(2, 4), "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.setenv(name, "")  # put back afterwards
    found.join(2, 4)
    assert (os.environ["RANK"], "TORCHELASTIC_USE_AGENT_STORE" in os.environ) == ("6", False)


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
    for variable, told in TOLD.items():
        monkeypatch.setenv(variable, told)
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
