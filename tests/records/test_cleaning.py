import os
import time

import numpy as np
import pytest
from msgspec.structs import replace

from xmcbench import Artifacts
from xmcbench.records import Store, cleaning
from xmcbench.records.cleaning import count_freed_bytes, items, remove
from xmcbench.records.record import SubsetFacts
from xmcbench.setting import Setting, draw
from xmcbench.storage.arrays import Pattern
from xmcbench.storage.artifact_store import CONTENT

LARGE = b"x" * (1 << 20)
FEW = Setting.of("fs", 0.5)
DIAGONAL = Pattern(np.arange(5), np.arange(4), 4)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def artifact(store, kind, content=b"x", **identity):
    """Its name and its folder; nothing holds it afterwards."""

    def build(folder):
        (folder / "file").write_bytes(content)

    artifacts = Artifacts(store.artifacts)
    folder = artifacts.get(kind, identity, build)
    return artifacts.used[0], folder


def touch(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def find(store, kind=None):
    return {item.path: item for item in items(store) if kind in (None, item.kind)}


def test_the_kinds_are_those_of_records_and_those_that_a_folder_had(store):
    general = {"unfinished", "unfinished-judgments", "predictions", "logs", "subsets"}
    assert cleaning.kinds(store) == general
    artifact(store, "tokens")
    Artifacts(store.artifacts, own=store.training("a" * 32)).get("ranking", {}, lambda folder: None, own=True)
    assert cleaning.kinds(store) == general | {"tokens", "ranking"}
    assert remove(store, items(store)) == []
    assert cleaning.kinds(store) == general | {"tokens", "ranking"}


def test_a_folder_without_anything(store):
    assert items(store) == []


def test_what_records_need(store, record):
    one, needed = artifact(store, "tokens", data="a")
    two, shared = artifact(store, "training", data="a")
    _, left = artifact(store, "tokens", data="b")
    first = store.write(replace(record("a"), artifacts=(one, two)))
    second = store.write(replace(record("b"), artifacts=(two,)))
    whose = {path: (item.kind, sorted(item.records)) for path, item in find(store).items()}
    both = sorted(str(record.cell.path) for record in (first, second))
    assert whose == {needed: ("tokens", [str(first.cell.path)]), shared: ("training", both), left: ("tokens", [])}


def test_what_trainings_keep_is_listed_by_its_kind(store, record):
    def build(folder):
        (folder / "file").write_bytes(LARGE)

    artifacts = Artifacts(store.artifacts, own=store.training("a" * 32))
    folder = artifacts.get("ranking", {}, build, own=True)
    done = store.write(replace(record(), artifacts=tuple(artifacts.used)))
    del artifacts  # which holds it
    (item,) = items(store)
    assert (item.kind, item.path, item.records) == ("ranking", folder, (str(done.cell.path),))
    assert item.size == count_freed_bytes(store, [item]) > len(LARGE)
    assert remove(store, [item]) == []
    assert not folder.exists()


def test_the_files_of_records_by_kind(store, record):
    """Records, ranks and true pairs are results: they are not even listed."""
    done, failed = store.write(record("a")), store.write(record("b", status="failed"))
    pairs = draw(DIAGONAL, FEW, 0)
    few = store.write(
        replace(
            record("c", setting=FEW),
            subset=SubsetFacts(name=pairs.name, sha256=pairs.digest, pairs=2, labels=2, instances=2),
        )
    )
    with store.subset("tiny", pairs) as subset:
        pass
    for ran in (done, failed, few):
        for place in (store.predictions_path, store.log_path, store.ranks_path):
            touch(place(ran.cell))
    touch(store.truth_path("Tiny", "0" * 64))
    touch(store.root / "tiny.md")
    nobodys = touch(store.root / "subsets" / "tiny" / "fs-label-0.5-s9-000000000000.npz")
    counts = {path: (item.kind, len(item.records)) for path, item in find(store).items()}
    assert counts == {
        store.predictions_path(done.cell): ("predictions", 1),
        store.predictions_path(failed.cell): ("predictions", 0),
        store.predictions_path(few.cell): ("predictions", 1),
        store.log_path(done.cell): ("logs", 0),
        store.log_path(failed.cell): ("logs", 1),
        store.log_path(few.cell): ("logs", 0),
        subset: ("subsets", 1),
        nobodys: ("subsets", 0),
    }
    assert remove(store, items(store)) == []
    left = {path.relative_to(store.root).parts[0] for path in store.root.rglob("*") if path.is_file()}
    assert left == {"records", "ranks", "truth", "tiny.md"}
    assert len(store.records()) == 3


def test_sizes_count_a_shared_file_once(store):
    artifact(store, "embeddings", LARGE, seed=0)
    artifact(store, "embeddings", LARGE, seed=1)
    artifact(store, "tokens", b"y" * 1000)
    sizes = sorted(item.size // 10_000 for item in items(store))
    assert sizes == [0, 0, 104]


def test_what_is_freed_goes_with_the_last_link(store, record):
    """A ranking for other methods is a link to the predictions of the cell."""
    artifact(store, "embeddings", LARGE, seed=0)
    artifact(store, "embeddings", LARGE, seed=1)
    done = store.write(record())
    path = store.predictions_path(done.cell)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 2_000_000)
    _, folder = artifact(store, "ranking", b"")
    os.link(path, folder / "ranking.npz")
    groups = {}
    for item in items(store):
        groups.setdefault(item.kind, []).append(item)
    of_kind = {kind: count_freed_bytes(store, group) // 1_000_000 for kind, group in groups.items()}
    assert of_kind == {"embeddings": 1, "ranking": 0, "predictions": 0}
    assert count_freed_bytes(store, groups["embeddings"][:1]) < 1000
    assert count_freed_bytes(store, [*groups["ranking"], *groups["predictions"]]) // 1_000_000 == 2
    everything = [item for group in groups.values() for item in group]
    kept = {path.stat().st_ino: path.stat().st_size for path in store.root.rglob("*") if path.is_file()}
    records = sum(path.stat().st_size for path in store.record_files())
    assert sum(item.size for item in everything) == count_freed_bytes(store, everything) == sum(kept.values()) - records


def test_the_age_is_that_of_the_last_use(store):
    def age():
        (item,) = items(store)
        return item.age_days

    _, folder = artifact(store, "tokens")
    assert age() < 0.1
    long_ago = time.time() - 10 * 86400
    os.utime(folder / "cost.json", (long_ago, long_ago))
    assert age() == pytest.approx(10, abs=0.1)
    artifact(store, "tokens")  # taken from the store
    assert age() < 0.1


def test_a_shared_file_goes_with_the_last_that_links_to_it(store):
    for seed in (0, 1):
        artifact(store, "embeddings", LARGE, seed=seed)
    (content,) = (store.artifacts / CONTENT).iterdir()
    first, second = items(store)
    assert remove(store, [first]) == []
    assert not first.path.exists()
    assert content.exists()
    assert (second.path / "file").read_bytes() == LARGE
    assert remove(store, [second]) == []
    assert not content.exists()
    assert not list(store.artifacts.rglob("*.lock"))


def test_what_a_running_cell_uses_stays(store, record):
    artifacts = Artifacts(store.artifacts)
    artifacts.get("tokens", {}, lambda folder: None)
    state = artifacts.unfinished("training", {})
    touch(state / "checkpoint.safetensors")
    running = record("running")
    touch(store.predictions_path(running.cell))
    touch(store.log_path(running.cell))
    subset = draw(DIAGONAL, FEW, 0)
    with store.claim(running.cell), store.subset("tiny", subset):
        kinds = {item.kind: item for item in items(store)}
        assert set(kinds) == {"tokens", "unfinished", "predictions", "logs", "subsets"}
        assert remove(store, kinds.values()) == [*kinds.values()]
        assert all(item.path.exists() for item in kinds.values())
    del artifacts
    assert remove(store, kinds.values()) == []
    assert not any(item.path.exists() for item in kinds.values())


def test_what_is_being_made_stays_and_what_was_left_behind_goes(store):
    """Folders with hidden names: an artifact before it has its name, and a temporary folder."""
    seen = []

    def build(folder):
        (folder / "inner").mkdir()
        (folder / "half").write_bytes(LARGE)
        with artifacts.temporary() as temporary:
            touch(temporary / "inner" / "embeddings.bin")
            listed = find(store)
            assert set(listed) == {folder, temporary}
            assert {item.kind for item in listed.values()} == {"unfinished"}
            assert listed[folder].size == len(LARGE)
            seen.extend(listed.values())
            assert remove(store, seen) == seen
        raise KeyboardInterrupt

    artifacts = Artifacts(store.artifacts)
    with pytest.raises(KeyboardInterrupt):
        artifacts.get("embeddings", {}, build)
    for item in seen:  # as a process leaves them that is killed
        touch(item.path / "half")
    assert set(find(store, "unfinished")) == {item.path for item in seen}
    assert remove(store, items(store)) == []
    assert items(store) == []


def test_files_of_others_are_not_listed_and_stay(store, record):
    """A runs folder may be that of a project, which has folders of the same names."""
    own = store.write(record())
    ours = [touch(store.predictions_path(own.cell)), touch(store.log_path(own.cell))]
    _, folder = artifact(store, "tokens")
    work = store.artifacts / "unfinished" / f"training-{'a' * 32}"
    touch(work / "checkpoint.safetensors")
    name, key, cell = "e" * 32, "0123456789ab", "tiny/ez/tfidf-s0"
    others = [
        touch(store.root / file)
        for file in (
            "logs/my.log",
            "logs/project/train.log",
            "logs/tiny/ez/train.log",
            f"logs/tiny/other/tfidf-s0-{key}.log",
            f"logs/{cell}-{key}/inner.log",
            f"logs/{cell}-{key}.txt",
            f"logs/project/{cell}-{key}.log",
            "predictions/my.npz",
            "predictions/tiny/ez/my.npz",
            f"predictions/{cell}-{key}.csv",
            f"predictions/{cell}-seven.npz",
            "subsets/my.npz",
            "subsets/tiny/my.npz",
            f"subsets/tiny/ez-s0-{key}.npz",
            f"subsets/tiny/fs-label-0.5-{key}.npz",
            "artifacts/mine/deep/p.txt",
            "artifacts/content/p.txt",
            f"artifacts/mine/{name}/p.txt",  # MLflow names runs so; an artifact of ours has noted what it cost
            f"artifacts/mine/{name}x/cost.json",
            "artifacts/mine/.deep.0a1b2c3d.tmp/p.txt",
            f"artifacts/mine/.{name}.0a1b2c3d.tmp/p.txt",
            "artifacts/.mine.tmp/p.txt",
            f"artifacts/.mine/{name}/cost.json",
            "artifacts/unfinished/mine/p.txt",
        )
    ]
    assert set(find(store)) == {*ours, folder, work}
    assert remove(store, items(store)) == []
    assert [path for path in others if not path.exists()] == []
    assert not any(path.exists() for path in (*ours, folder, work))


def test_everything_that_is_named_as_we_do_is_listed(store, record):
    """Any dataset, setting, method and seed that a run accepts."""
    settings = [Setting.of("ez"), Setting.of("full"), FEW, Setting.of("fs", 1e-05, "pair")]
    cells = [
        replace(record(method, seed=seed, setting=setting).cell, dataset=dataset)
        for dataset, method, seed in (("Tiny.v1", "my.method", 0), ("pretraining", "a-s0", 2**32 - 1))
        for setting in settings
    ]
    files = [touch(path(cell)) for cell in cells for path in (store.predictions_path, store.log_path)]
    for pairs in (draw(DIAGONAL, setting, 7) for setting in (Setting.of("full"), FEW, Setting.of("fs", 0.5, "pair"))):
        with store.subset("tiny.v1", pairs) as subset:
            files.append(subset)
    assert set(find(store)) == {*files}


def test_what_is_gone_already_is_removed(store):
    artifact(store, "tokens")
    (item,) = items(store)
    assert remove(store, [item]) == []
    assert remove(store, [item]) == []
    assert items(store) == []


@pytest.mark.parametrize("target", ["gone.npz", "itself"])
def test_a_link_to_what_is_gone_is_removed(store, record, target):
    cell = record("a").cell
    whole, link = (store.predictions_path(replace(cell, seed=seed)) for seed in (0, 1))
    touch(whole)
    link.symlink_to(link if target == "itself" else target)
    assert {*find(store)} == {whole, link}
    assert remove(store, items(store)) == []
    assert not link.is_symlink()


def test_the_age_of_what_was_used(monkeypatch, tmp_path):
    monkeypatch.setattr(cleaning.time, "time", lambda: 1_000_000.0)

    def age(used):
        return cleaning.Item("tokens", tmp_path, 1, used, 0, tmp_path).age_days

    assert age(1_000_000.0 - 86400) == 1.0
    assert age(1_000_000.0 - 43200) == 0.5
    assert age(1_000_001.0) == age(1_000_000.0) == 0.0  # a clock that was set back
