"""The executor of a Ray cluster, with a fake in place of Ray: what it sends, and what it does when that is lost."""

import builtins
import shutil
import socket
import sys
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from xmcbench.environment import Compute
from xmcbench.errors import StorageError, Unavailable, UsageError
from xmcbench.processes.supervisor import Ending
from xmcbench.progress import Report
from xmcbench.runner import job as jobs
from xmcbench.runner.executors.base import Machine, Needs, Room, Task
from xmcbench.runner.executors.ray import connection, driver, remote_task
from xmcbench.runner.executors.ray.connection import Cluster, connect
from xmcbench.runner.executors.ray.remote_task import Driver, Result, Versions
from xmcbench.runner.executors.ray.rpc import Failure, Message, Request, Started
from xmcbench.runner.job import Job, Outcome, TextFile
from xmcbench.storage.artifact_store import examine, list_stores, locate
from xmcbench.storage.artifacts import Artifacts
from xmcbench.storage.canonical import sha256_file
from xmcbench.storage.source import plugin_files

GOOD = Ending(0, False, False, 7)
TRAINING = "0" * 32


class RayError(Exception):
    pass


class NodeDied(RayError):
    pass


class Canceled(RayError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__("a traceback")
        self.cause = cause


class Reference:
    def __init__(self):
        self.answer = Future()

    def future(self):
        return self.answer


class Remote:
    """A stand-in for the value of ``ray.remote``, for a function or for the actor."""

    def __init__(self, ray, thing, options):
        self.ray, self.thing, self.given = ray, thing, options

    def options(self, **options):
        return Remote(self.ray, self.thing, options)

    def remote(self, *arguments):
        if self.thing is driver.Rpc:
            return SimpleNamespace(
                take=SimpleNamespace(remote=self.ray.take),
                answer=SimpleNamespace(remote=lambda number, answer: self.ray.answers.update({number: answer})),
            )
        self.ray.sent.append(SimpleNamespace(task=arguments[0], options=self.given, reference=Reference()))
        return self.ray.sent[-1].reference


class FakeRay:
    """A cluster on which a test ends tasks, and says what they say."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, ActorDiedError=NodeDied, ActorUnavailableError=NodeDied
    )

    def __init__(self):
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, **options: (node, options))
        self.util = SimpleNamespace(scheduling_strategies=strategies)
        self.sent, self.answers, self.canceled, self.alive = [], {}, [], [self.node("a"), self.node("b", gpus=2)]

    @staticmethod
    def node(name, cores=4, gpus=0):
        resources = {"CPU": float(cores), "GPU": float(gpus), "memory": 100.0}
        return {
            "NodeID": name,
            "NodeManagerHostname": f"host-{name}",
            "Alive": True,
            "Resources": resources,
            "RayletSocketName": f"/tmp/ray/session-{name}/sockets/raylet",
        }

    def nodes(self):
        return self.alive

    def remote(self, thing):
        return Remote(self, thing, {})

    def take(self):
        self.taking = Reference()
        return self.taking

    def say(self, *messages):
        self.taking.answer.set_result([*messages])

    def cancel(self, reference, force):
        self.canceled.append((reference, force))
        reference.answer.set_exception(Canceled())

    def kill(self, _):
        self.killed = True

    def put(self, data):
        return bytes(data)

    def get(self, reference):
        return reference


@pytest.fixture
def job(tmp_path):
    """A job whose files are there."""
    paths = {}
    for name in ("train", "labels", "test", "pairs"):
        paths[name] = tmp_path / "data" / f"{name}.bin"
        paths[name].parent.mkdir(exist_ok=True)
        paths[name].write_bytes(name.encode() * 10)
    (tmp_path / "runs" / "artifacts").mkdir(parents=True)
    texts = {name: TextFile(str(paths[name]), f"digest of {name}") for name in ("train", "labels", "test")}
    return Job(
        **texts,
        pairs=str(paths["pairs"]),
        pairs_sha256="p",
        k=5,
        method="plain",
        source_sha256="s",
        plugins=(),
        parameters={},
        seed=0,
        compute=Compute(),
        predictions=str(tmp_path / "runs" / "staged" / "predictions.npz"),
        outcome="",
        artifacts=str(tmp_path / "runs" / "artifacts"),
        trainings={"plain": str(tmp_path / "runs" / "trained" / TRAINING)},
        hidden=("/driver/pairs",),
    )


@pytest.fixture
def ray():
    return FakeRay()


@pytest.fixture
def executor(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_GRACE_S", 0.0)
    with driver.Ray(Cluster(ray, "a"), 3, 2, tmp_path / "runs") as made:
        yield made
    assert ray.killed
    assert not [*(tmp_path / "runs").glob(".*.tmp")]


@pytest.fixture
def task(job, tmp_path):
    def make(key="cell", needs=None, **changes):
        changed = msgspec.structs.replace(job, **changes)
        return Task(key, changed, tmp_path / "runs" / "logs" / f"{key}.log", needs or Needs())

    return make


def result(**files):
    return Result(Outcome(status="ok"), GOOD, Machine.current(), files)


def test_a_task_goes_out_and_its_files_come_back(ray, executor, task):
    assert executor.room == Room(8, 4, 2)
    one = task(needs=Needs(2, 1, 500))
    executor.submit(one)
    (sent,) = ray.sent
    assert sent.options["num_cpus"] == 2
    assert sent.options["num_gpus"] == 0.5  # two cells may share one
    assert sent.options["memory"] == 100  # more than any machine has would wait for ever
    assert sent.options["max_retries"] == 0
    assert sent.task.files == {path: sha256_file(Path(path)) for path in sent.task.files}
    assert {Path(path).stem for path in sent.task.files} == {"train", "labels", "test", "pairs"}
    assert sent.task.hidden == ("/tmp/ray/session-a", "/tmp/ray/session-b")
    assert sent.task.is_shared
    assert executor.host("cell") is None
    attempt = sent.task.attempt
    ray.say(Message(attempt, Started("boot")), Message(attempt, Report("fit", 3)))
    assert executor.watch(5.0) == []
    assert (executor.host("cell"), executor.report("cell")) == ("boot", Report("fit", 3))
    sent.reference.answer.set_result(result(log=b"said", predictions=b"best"))
    (ended,) = executor.watch(5.0)
    assert (ended.task, ended.outcome.status, ended.ending, ended.machine) == (one, "ok", GOOD, Machine.current())
    assert one.log.read_bytes() == b"said"
    assert Path(one.job.predictions).read_bytes() == b"best"
    assert executor.watch(0.0) == []


def test_room_in_a_cluster(ray, executor, task):
    assert executor.fits(Needs(99, 9))  # nothing runs: it starts, or no machine has it
    executor.submit(task("one", Needs(4, 2)))
    assert executor.fits(Needs(4, 2))
    assert not executor.fits(Needs(5))
    assert not executor.fits(Needs(1, 3))
    executor.submit(task("two"))
    executor.submit(task("three"))
    assert not executor.fits(Needs(0))  # slots
    ray.sent[1].reference.answer.set_result(result())
    (ended,) = executor.watch(5.0)
    assert ended.task.key == "two"
    assert executor.fits(Needs(0))


def test_a_lost_task_is_sent_again_and_then_fails(ray, executor, task, capsys):
    executor.submit(task())
    for number in range(2):
        ray.sent[number].reference.answer.set_exception(NodeDied("its node\nis gone"))
        assert executor.watch(5.0) == []
        assert len(ray.sent) == number + 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["xmcbench: cell cell was lost and is run again: NodeDied: its node"] * 2
    assert len({sent.task.attempt for sent in ray.sent}) == 3
    ray.sent[2].reference.answer.set_exception(RayTaskError(NodeDied("the actor")))
    (ended,) = executor.watch(5.0)
    assert ended.outcome.status == "failed"
    assert ended.outcome.reason == "lost 3 times by the Ray cluster, most recently with NodeDied: the actor"
    assert not ended.task.log.exists()


def test_an_error_on_a_machine_is_not_tried_again(ray, executor, task):
    executor.submit(task())
    ray.sent[0].reference.answer.set_exception(RayTaskError(StorageError("no space left", "free some")))
    (ended,) = executor.watch(5.0)
    assert (ended.outcome.reason, len(ray.sent)) == ("no space left (free some)", 1)
    assert ended.task.log.read_text() == "a traceback"


def test_an_abandoned_attempt_changes_nothing(ray, executor, task):
    executor.submit(task())
    old = ray.sent[0].task.attempt
    ray.sent[0].reference.answer.set_exception(NodeDied("a moment ago"))
    executor.watch(5.0)
    new = ray.sent[1].task.attempt
    request = Request("lacking", ([],))
    ray.say(Message(old, request, 1), Message(old, Report("fit")), Message(new, request, 2))
    executor.watch(5.0)
    assert ray.answers == {1: Failure("the driver has given up on this attempt"), 2: []}
    assert executor.report("cell") is None
    ray.taking.answer.set_exception(NodeDied("the actor"))  # which is restarted
    executor.watch(5.0)
    ray.say(Message(new, Report("predict")))
    executor.watch(5.0)
    assert executor.report("cell") == Report("predict")


def test_a_task_that_no_machine_can_run_anymore(ray, executor, task, monkeypatch):
    monkeypatch.setattr(driver, "_POLL_S", 0.0)
    executor.submit(task(needs=Needs(1, 1)))
    assert executor.watch(0.0) == []
    ray.alive = [ray.node("a")]
    assert executor.watch(0.0) == []
    monkeypatch.setattr(driver, "_PATIENCE_S", 0.0)
    (ended,) = executor.watch(0.0)
    assert ended.outcome.reason == "no machine of the cluster has 1 cores and 1 GPUs anymore"


def test_what_still_runs_is_canceled(ray, tmp_path, task, monkeypatch):
    with driver.Ray(Cluster(ray, "a"), 3, 1, tmp_path / "runs") as executor:
        executor.submit(task())
    assert ray.canceled == [(ray.sent[0].reference, False)]


@pytest.fixture
def far(tmp_path, monkeypatch, executor, ray, task):
    """Another machine: its connection to the driver, and a cache of its own."""
    monkeypatch.setenv("XMCBENCH_CACHE", str(tmp_path / "far"))
    server = executor._server

    class Direct(Driver):
        def __init__(self):
            self.ray, self.asked = ray, []

        def ask(self, method, *arguments):
            self.asked.append((method, *arguments))
            return server.answer(Request(method, arguments))

    made = SimpleNamespace(driver=Direct(), server=server, folder=tmp_path / "scratch")
    made.folder.mkdir()

    def send(**changes):
        executor.submit(task(**changes))
        return replace(ray.sent[-1].task, token=("", ""))

    made.send = send
    return made


def test_files_are_fetched_once_by_content(far, job, tmp_path):
    sent = far.send()
    placed = remote_task._localize(sent, far.driver, far.folder)
    for name in ("train", "labels", "test"):
        assert Path(getattr(placed, name).path).read_bytes() == name.encode() * 10
        assert tmp_path / "far" in Path(getattr(placed, name).path).parents
    assert Path(placed.pairs).read_bytes() == b"pairs" * 10
    assert placed.artifacts == str(tmp_path / "far" / "received" / "artifacts")
    assert placed.trainings == {"plain": str(tmp_path / "far" / "received" / "trained" / TRAINING)}
    assert Path(placed.trainings["plain"]).is_dir()
    assert placed.hidden[:2] == ("/driver/pairs", "/tmp/ray/session-a")
    assert str(tmp_path / "far") in placed.hidden
    assert [method for method, _ in far.driver.asked] == ["file"] * 4
    (tmp_path / "again").mkdir()
    remote_task._localize(sent, far.driver, tmp_path / "again")
    assert len(far.driver.asked) == 4


def test_a_plugin_comes_with_what_it_imports(far, tmp_path):
    files = {
        "m.py": "import nearby_of_cluster\nimport inner.deep\n",
        "nearby_of_cluster.py": "import json\n",
        "unrelated.py": "",
        "inner/deep.py": "",
    }
    for name, text in files.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(text)
    plugin = tmp_path / "own" / "m.py"
    assert {file.name for file in plugin_files(plugin)} == {"m.py", "nearby_of_cluster.py", "deep.py"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "m.py").write_text("1")
    sent = far.send(plugins=(str(plugin), str(tmp_path / "other" / "m.py")))
    first, second = map(Path, remote_task._localize(sent, far.driver, far.folder).plugins)
    assert (second.read_text(), second.parent != first.parent) == ("1", True)
    received = first.parent
    assert received != plugin.parent
    assert {file.relative_to(received).as_posix() for file in received.rglob("*.py")} == {*files} - {"unrelated.py"}


def test_damage_on_the_way_is_found(far, ray, monkeypatch):
    monkeypatch.setattr(ray, "get", lambda references: [data.upper() for data in references])
    with pytest.raises(StorageError, match="checksum mismatch"):
        remote_task._localize(far.send(), far.driver, far.folder)


def test_artifacts_travel_both_ways(far, job, tmp_path):
    """One that is made there is kept here; one that is here is brought there, and not made."""
    there = msgspec.structs.replace(job, artifacts=str(tmp_path / "there" / "artifacts"))
    built = []

    def build(folder):
        built.append(folder)
        (folder / "numbers").write_bytes(b"7" * 40)
        (folder / "empty").touch()

    store = Artifacts(tmp_path / "there" / "artifacts", own=tmp_path / "there" / "trained" / TRAINING)
    store.put("kind", {"a": 1}, build, wall_s=1000.0)
    store.put("kind", {"a": 1}, build, wall_s=1000.0, own=True)
    remote_task._send_artifacts(store.used, there, far.driver)
    assert [locate(Path("runs"), name).parts[:-1] for name in store.used] == [
        ("runs", "artifacts", "kind"),
        ("runs", "trained", TRAINING, "kind"),
    ]
    for name in store.used:
        here, made = (locate(tmp_path / root, name) for root in ("runs", "there"))
        assert {path.name: path.read_bytes() for path in here.iterdir()} == {
            path.name: path.read_bytes() for path in made.iterdir()
        }
    for root in list_stores(tmp_path / "runs"):
        assert [problem for _, problem in examine(root)] == [""]
    asked = len(far.driver.asked)
    remote_task._send_artifacts([*store.used, "../outside"], there, far.driver)
    assert far.driver.asked[asked:] == [("lacking", store.used)]
    own = tmp_path / "third" / "trained" / TRAINING
    third = msgspec.structs.replace(job, artifacts=str(tmp_path / "third" / "artifacts"), trainings={"plain": str(own)})

    def open_store(own):
        return Artifacts(
            tmp_path / "third" / "artifacts", lambda name: remote_task._fetch_artifact(name, third, far.driver), own=own
        )

    elsewhere = open_store(own)
    assert (elsewhere.get("kind", {"a": 1}, build) / "numbers").read_bytes() == b"7" * 40
    assert (elsewhere.get("kind", {"a": 1}, build, own=True) / "numbers").read_bytes() == b"7" * 40
    assert len(built) == 2
    assert 1900 < elsewhere.reused_s <= 2000
    elsewhere.get("kind", {"a": 2}, build)  # nobody has this one
    assert len(built) == 3
    shutil.rmtree(own)
    third = msgspec.structs.replace(third, trainings={"plain": str(own.with_name("1" * 32))})
    open_store(own).get("kind", {"a": 1}, build, own=True)  # of another training, which is not brought
    assert len(built) == 4


@pytest.mark.parametrize(
    "request_",
    [
        Request("file", ("unknown",)),
        Request("artifact", ("../secrets",)),
        Request("keep", ("../outside", {"file": b""})),
        Request("keep", ("kind/" + "0" * 32, {"../outside": b""})),
        Request("keep", ("kind/" + "0" * 32, {"/outside": b""})),
    ],
)
def test_the_driver_gives_and_takes_nothing_else(far, request_, tmp_path):
    with pytest.raises(StorageError):
        far.server.answer(request_)
    assert not [*tmp_path.rglob("outside")]


def test_a_cell_asks_for_artifacts_by_files(tmp_path, monkeypatch):
    asked = []

    def look(_):
        for name, answered in jobs.find_requests(tmp_path):
            asked.append(name)
            answered()

    monkeypatch.setattr(jobs, "time", SimpleNamespace(sleep=look))
    jobs.request_artifact(tmp_path, "kind/" + "0" * 32)
    assert asked == ["kind/" + "0" * 32]
    assert not [*tmp_path.iterdir()]


def versions(**changes):
    return msgspec.structs.replace(Versions("here", "3.11", "1.0, code a", "a"), **changes)


def test_other_versions_are_refused_and_both_named():
    versions().check(versions(host="there"))
    with pytest.raises(UsageError, match="there of the Ray cluster has Python 3.12, and this machine 3.11"):
        versions().check(versions(host="there", python="3.12"))
    with pytest.raises(UsageError, match="has xmcbench 1.1, code b, and this machine 1.0, code a"):
        versions().check(versions(host="there", xmcbench="1.1, code b", code="b"))
    assert Versions.current().python == ".".join(map(str, sys.version_info[:2]))
    assert len(Versions.current().code) == 64


def test_other_presets_are_other_code(monkeypatch):
    """They are a data file: a machine with others would run other parameters under the same names."""
    before, read = remote_task._code_digest(), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == "presets.toml"))
    assert remote_task._code_digest() != before


def test_what_is_asked_for_must_be_there(ray, monkeypatch):
    cells = [SimpleNamespace(needs={"gpu": 1}, name="Trained"), SimpleNamespace(needs={}, name="Plain")]
    cluster = Cluster(ray, "a")
    cluster.check_room(Compute("cuda", 2), cells)
    with pytest.raises(UsageError, match="Trained asks for 3 GPUs, and no machine of the Ray cluster has that"):
        cluster.check_room(Compute("cuda", 3), cells)
    ray.alive = [ray.node("a")]
    with pytest.raises(UsageError, match="Trained asks for a GPU"):
        cluster.check_room(Compute("cuda"), cells)
    cluster.check_room(Compute("auto"), cells)
    cluster.check_room(Compute("cuda"), cells[1:])
    ray.alive = [ray.node("a", cores=0)]
    with pytest.raises(UsageError, match="no machine of the Ray cluster has a core"):
        cluster.check_room(Compute(), cells)


class Probed(FakeRay):
    """A cluster whose machines answer as ``says`` has it; those in ``lost`` die while they are asked."""

    def __init__(self, says, lost=()):
        super().__init__()
        self.says, self.lost = says, lost

    def remote(self, thing):
        def options(scheduling_strategy, **_):
            return SimpleNamespace(remote=lambda: scheduling_strategy[0])

        return SimpleNamespace(options=options)

    def wait(self, asked, num_returns, timeout):
        self.alive = [node for node in self.alive if node["NodeID"] not in self.lost]
        return [node for node in asked if node in self.says], [node for node in asked if node not in self.says]

    def get(self, node):
        if isinstance(self.says[node], Exception):
            raise self.says[node]
        return self.says[node]


@pytest.mark.parametrize("second", [{}, {"b": RayError("its node does not exist")}], ids=["silent", "refused"])
def test_a_machine_that_is_lost_while_it_is_asked_does_not_matter(second):
    says = {"a": Versions.current(), **second}
    Cluster(Probed(says, lost=("b",)), "a").check_versions()
    with pytest.raises(UsageError, match="host-b of the Ray cluster (did not answer|cannot be used: its node)"):
        Cluster(Probed(says), "a").check_versions()


def test_a_machine_of_another_version_is_refused():
    Cluster(Probed({"a": Versions.current(), "b": Versions.current()}), "a").check_versions()
    absent = RayTaskError(RuntimeError("ModuleNotFoundError: No module named 'xmcbench'"))
    with pytest.raises(UsageError, match=r"host-b of the Ray cluster cannot be used: ModuleNotFoundError: No module"):
        Cluster(Probed({"a": Versions.current(), "b": absent}), "a").check_versions()
    with pytest.raises(UsageError, match="has xmcbench 0.0, and this machine"):
        Cluster(
            Probed({"a": Versions.current(), "b": versions(python=Versions.current().python, xmcbench="0.0")}), "a"
        ).check_versions()


def test_without_ray(monkeypatch):
    whole = builtins.__import__

    def import_without_ray(name, *arguments):
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return whole(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", import_without_ray)
    with pytest.raises(Unavailable, match="Ray is not installed") as caught, connect("ray"):
        pass
    assert caught.value.hint == "pip install 'xmcbench[ray]'"


def test_an_address_that_does_not_answer(ray, monkeypatch):
    ray.is_initialized = lambda: False
    ray.shutdown = lambda: None
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", ray.util)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", ray.util.scheduling_strategies)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for on, variable in ((f"ray://127.0.0.1:{port}", ""), ("ray", f"127.0.0.1:{port}")):
        monkeypatch.setenv("RAY_ADDRESS", variable)
        with pytest.raises(UsageError, match=f"no Ray cluster answers at .*127.0.0.1:{port}"), connect(on):
            pass
    with pytest.raises(UsageError, match="is not ray://HOST:PORT"), connect("ray://nowhere"):
        pass

    def init(**_):
        raise RuntimeError("Version mismatch: The cluster was started with:\n  Ray: 2.1\n  Python: 3.9")

    ray.init = init
    monkeypatch.setenv("RAY_ADDRESS", "")
    with (
        pytest.raises(UsageError, match="at local cannot be used: Version mismatch: .* Python: 3.9$"),
        connect("ray"),
    ):
        pass
    assert connection.os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize(("failures", "tried"), [(2, 3), (3, 3)])
def test_a_server_for_the_client_that_ends_at_once(failures, tried):
    """Ray starts a process for each client, which may die; another attempt gets another process."""
    attempts = []

    def init(**_):
        attempts.append(None)
        if len(attempts) <= failures:
            raise ConnectionAbortedError("Initialization failure from server:\nStarting Ray client server failed")

    with nullcontext() if failures < tried else pytest.raises(UsageError, match="Starting Ray client server failed"):
        connection._init(SimpleNamespace(init=init), "ray://127.0.0.1:10001")
    assert len(attempts) == tried
