from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.slow
def test_two_machines_end_where_one_ends_also_when_killed(side_by_side, tmp_path, checkpoint, imported):
    """One process and one folder on each: two trainings, the first of them killed, and taken up from one checkpoint.

    Then they share the texts that are embedded.
    """
    weights = checkpoint(dropout=0.0)
    expected, notes = imported(SCRIPT).run(tmp_path / "one", weights)
    assert [note["processes"] for note in notes] == [1, 1]
    words = [tmp_path / "machine{rank}", weights]
    statuses, _ = side_by_side(SCRIPT, [*words, "3"], TORCHRUN)
    assert all(statuses)
    held = [list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors")) for rank in "01"]
    assert [len(files) for files in held] == [1, 0]
    statuses, errors = side_by_side(SCRIPT, [*words, ""], TORCHRUN)
    assert statuses == [0, 0], errors
    for rank in "01":
        with np.load(tmp_path / f"machine{rank}" / "end.npz") as found:
            assert (int(found["processes"]), found["resumed"].tolist()) == (2, [3, 0])
            for name, array in expected.items():
                np.testing.assert_allclose(found[name], array, atol=1e-4, err_msg=name)
        assert not list((tmp_path / f"machine{rank}").rglob("checkpoint.safetensors"))
