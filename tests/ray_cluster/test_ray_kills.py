"""Kills while cells run on a Ray cluster: every cell ends once, and nothing stays. Run by `tox -e ray`."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from remains import carriers, cells

from xmcbench.environment import Compute
from xmcbench.errors import UsageError
from xmcbench.setting import Setting

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

EZ = Setting.of("ez")


class Later:
    """A ``watch`` that acts once: when ``running`` cells have been in ``fit`` for up to a second, drawn by a seed."""

    def __init__(self, seed, running, act):
        self._delay, self._running, self._act = random.Random(seed).uniform(0, 1), running, act
        self._since, self.done = None, False

    def __call__(self, running):
        ready = sum(bool(cell.report and cell.report.phase == "fit") for cell in running) >= self._running
        if ready and self._since is None:
            self._since = time.monotonic()
        if ready and not self.done and time.monotonic() - self._since > self._delay:
            self.done = self._act() is not False


def kill_a_carrier():
    found = carriers()
    if not found:
        return False
    found[0].kill()
    return True


@pytest.mark.usefixtures("connected")
def test_a_killed_worker(there, noted, capsys, trial):
    killed = Later(trial, 1, kill_a_carrier)
    there(EZ, methods=["plain"], seeds=range(4), overrides={"plain": {"sleep": 2}}, watch=killed)
    assert killed.done
    assert "was lost and is run again" in capsys.readouterr().err
    assert sorted(noted.read_text().split("\n")[:-1]) == [f"predicted {seed}" for seed in range(4)]


def test_a_killed_node(connected, there, capsys, trial):
    def kill():
        (other,) = connected.worker_nodes
        connected.remove_node(other, allow_graceful=False)

    killed = Later(trial, 2, kill)
    there(EZ, methods=["plain"], seeds=range(3), overrides={"plain": {"sleep": 4}}, watch=killed)
    assert killed.done
    assert "was lost and is run again" in capsys.readouterr().err


def test_the_gpu_of_a_cluster_is_lost(connected, there, capsys, monkeypatch, trial):
    from xmcbench.runner.executors.ray import driver

    monkeypatch.setattr(driver, "_PATIENCE_S", 5.0)
    other = connected.add_node(**connected.arguments, num_gpus=1)
    killed = Later(trial, 1, lambda: connected.remove_node(other, allow_graceful=False))
    # The first cell is killed long before it would end, even where this process is slow to look.
    wanted = {"methods": ["cuda"], "seeds": range(2), "overrides": {"cuda": {"sleep": 60}}, "compute": Compute("cuda")}
    ended = there(EZ, **wanted, watch=killed, status="failed")
    assert killed.done
    assert all("no machine of the cluster has 1 cores and 1 GPUs anymore" in record.reason for record in ended)
    with pytest.raises(UsageError, match="asks for a GPU, and no machine of the Ray cluster has that"):
        there(EZ, **wanted)


@pytest.fixture
def driver(cluster, tiny, learner, tmp_path):
    """Start a command that runs six cells on the cluster."""
    settings = ["--setting", "ez", "--methods", "plain", "--seed", "0,1,2,3,4,5", "--set", "plain.sleep=1"]
    words = [sys.executable, "-m", "xmcbench", "run", "--dataset", tiny, *settings, "--plugin", learner]
    # Ray names this machine by its address in the network, which tests otherwise do not reach.
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": ""}

    def start(on="ray"):
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*map(str, words), "--on", on], cwd=tmp_path, env=environment, **pipes)

    return start


def list_records(runs):
    """The records that are there, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in runs.glob("records/*/*/*.json")}


def after(records, process, runs):
    """The process, when there are so many records."""
    while len(list_records(runs)) < records and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]
    return process


def have_ended():
    """Wait up to a minute for the processes of the cells to end; False where some stay."""
    deadline = time.monotonic() + 60
    while cells() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not cells()


def check_completed(runs, processes, kept):
    """These drivers end well, all cells have a record, those of before the same one, and nothing else is left."""
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    records = list_records(runs)
    assert len(records) == 6
    assert {path: records[path] for path in kept} == kept
    assert not [*runs.rglob("*.claim*"), *runs.rglob(".*.tmp")]
    assert have_ended()


def test_a_driver_outside_of_the_cluster(cluster, driver, tmp_path):
    """Connected by ``ray://``, interrupted, and started again."""
    runs = tmp_path / "runs"
    interrupted = after(1, driver(cluster.outside), runs)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=120)
    assert interrupted.returncode == 130, err
    assert have_ended()
    check_completed(runs, [driver(cluster.outside)], list_records(runs))


def test_a_killed_driver_that_is_started_again(driver, tmp_path, trial):
    runs, rng = tmp_path / "runs", random.Random(trial)
    killed = after(rng.randrange(4), driver(), runs)
    time.sleep(rng.uniform(0, 1))
    killed.kill()
    killed.communicate()
    assert have_ended()
    kept = list_records(runs)
    check_completed(runs, [driver()], kept)


def test_drivers_that_are_interrupted_killed_and_two_at_once(driver, tmp_path):
    runs = tmp_path / "runs"
    interrupted = after(1, driver(), runs)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=120)
    assert interrupted.returncode == 130, err
    assert have_ended()
    kept = list_records(runs)
    assert 1 <= len(kept) < 6
    killed = after(len(kept) + 1, driver(), runs)
    killed.kill()
    killed.communicate()
    assert have_ended()
    check_completed(runs, [driver(), driver()], kept)
