"""Packed records and ranks: equal to those in files of their own, mergeable, and never lost."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from xmcbench.errors import StorageError
from xmcbench.metrics import TruePairs
from xmcbench.records import Store
from xmcbench.records.packed import read_lines
from xmcbench.records.packing import loose_records, pack
from xmcbench.records.ranks import Ranks, Truth
from xmcbench.records.record import RanksFacts
from xmcbench.records.record_json import DamagedRecord
from xmcbench.storage.canonical import canonical_json

ROOT = Path(__file__).parents[2]
TRUTH = Truth(TruePairs(np.array([0, 1]), np.array([1, 2]), 2), np.array([1, 1, 1]), 2)


@pytest.fixture
def write(record):
    """Write a record with ranks as a run does."""

    def write(store, value=0.5, **parts):
        made = record(value=value, **parts)
        ranks = Ranks({"none": np.array([1, round(10 * value)], np.uint8)}, np.array([True, False, True]))
        facts = RanksFacts(
            file=store.relative(store.ranks_path(made.cell)), sha256=ranks.digest, truth_sha256=TRUTH.digest
        )
        TRUTH.save(store.truth_path(made.cell.dataset, TRUTH.digest))
        ranks.save(store.ranks_path(made.cell))
        return store.write(msgspec.structs.replace(made, ranks=facts))

    return write


@pytest.fixture
def board(tmp_path, write):
    """A board with two packed records."""
    store = Store(tmp_path / "board")
    for seed in (0, 2):
        write(store, seed=seed)
    assert pack(store) == 2
    return store


def files_of_board(store):
    (lines,) = (store.root / "records").rglob("*.jsonl")
    (archive,) = (store.root / "ranks").rglob("*.zip")
    return lines, archive


def ranks_of(store, record):
    return store.ranks(record, store.truth(record)).by_filter["none"].tolist()


def test_packed_records_and_ranks_are_those_that_were_packed(tmp_path, write):
    store = Store(tmp_path / "board")
    records = [write(store, seed / 10, seed=seed) for seed in (1, 2, 10)]
    files = {path.name: path.read_bytes() for path in (store.root / "ranks").rglob("*.npz")}
    assert not store.is_packed()
    assert pack(store) == 3
    assert store.is_packed()
    again = Store(store.root)
    assert sorted(again.records(), key=lambda record: record.cell.seed) == records
    assert [again.find(record.cell) for record in records] == records
    assert [ranks_of(again, record) for record in records] == [[1, 1], [1, 2], [1, 10]]
    lines, archive = files_of_board(store)
    cells = [json.loads(line)["cell"] for line in lines.read_text().splitlines()]
    assert [cell["seed"] for cell in cells] == [1, 10, 2]  # by name
    with zipfile.ZipFile(archive) as members:
        assert {name: members.read(name) for name in members.namelist()} == files
        assert members.namelist() == sorted(files)
    assert not [
        path for path in store.root.rglob("*") if path.suffix in (".json", ".npz") and "truth" not in path.parts
    ]
    assert again.dataset_named(records[0].cell.dataset.upper()) == records[0].cell.dataset


def test_packed_files_do_not_depend_on_the_order_in_which_records_came(tmp_path, board, write):
    other = Store(tmp_path / "other")
    for seed in (2, 0):
        write(other, seed=seed)
        pack(other)
    for one, same in zip(files_of_board(board), files_of_board(other), strict=True):
        assert one.read_bytes() == same.read_bytes()
    before = [path.stat().st_mtime_ns for path in files_of_board(board)]
    assert pack(board) == 0
    assert [path.stat().st_mtime_ns for path in files_of_board(board)] == before


def test_a_packed_record_has_the_content_of_its_file(tmp_path, write):
    store = Store(tmp_path / "board")
    record = write(store)
    path = store.record_path(record.cell)
    text = path.read_text()
    pack(store)
    ((line),) = files_of_board(store)[0].read_text().splitlines()
    assert json.loads(line) == json.loads(text)
    assert line == canonical_json(json.loads(text))


def test_a_file_of_its_own_takes_precedence_until_it_is_packed(board, write):
    before = board.records()
    better = write(board, 0.7, seed=2)
    assert loose_records(board) == [board.record_path(better.cell)]
    for _ in range(2):
        assert Store(board.root).records() == [before[0], better]
        assert board.find(better.cell) == better
        assert ranks_of(board, better) == [1, 7]
        pack(board)
    assert not loose_records(board)


def test_a_run_without_a_result_leaves_a_packed_result(board, record):
    (first, _) = board.records()
    board.write(record(seed=first.cell.seed, status="failed"))
    assert board.find(first.cell) == first
    board.record_path(first.cell).parent.mkdir(parents=True)
    board.record_path(first.cell).write_text("damaged")
    assert board.find_intact(first.cell) == first
    board.write(record(seed=first.cell.seed, status="failed"))
    assert (first in board.records(), len(board.left_out)) == (True, 1)


def test_ranks_of_a_killed_run_do_not_hide_those_of_the_packed_record(board, write):
    (first, _) = board.records()
    write(board, 0.9, seed=first.cell.seed)
    board.record_path(first.cell).unlink()  # as a run does before it moves its files
    assert board.find(first.cell) == first
    assert ranks_of(board, first) == [1, 5]
    assert pack(board) == 0
    assert ranks_of(board, first) == [1, 5]
    assert board.ranks_path(first.cell).exists()  # nobody knows whose they are


def test_ranks_that_a_merge_left_out_are_packed_when_they_are_put_beside(board):
    """Of two archives in conflict one is taken, and the members of the other one are unpacked beside it."""
    (first, second) = board.records()
    archive = files_of_board(board)[1]
    with zipfile.ZipFile(archive) as members:
        members.extractall(archive.with_suffix(""))
    archive.unlink()
    assert pack(board) == 0
    assert [ranks_of(board, record) for record in (first, second)] == [[1, 5], [1, 5]]
    assert archive.exists()
    assert not archive.with_suffix("").exists()


def test_a_cell_that_a_run_holds_stays_as_it_is(board, write):
    better = write(board, 0.7, seed=2)
    with board.claim(better.cell):
        assert pack(board) == 0
    assert (board.record_path(better.cell).exists(), board.ranks_path(better.cell).exists()) == (True, True)
    assert pack(board) == 1


def test_one_process_packs_at_a_time(board, write, monkeypatch):
    write(board, seed=1)

    def meanwhile(*_):
        with pytest.raises(StorageError, match="another process is packing"):
            pack(Store(board.root))
        return 0

    monkeypatch.setattr("xmcbench.records.packing._pack_setting", meanwhile)
    assert pack(board) == 0


STEPS = ["records.packing.write_archive", "records.packing.write_lines", "storage.atomic.os.replace"]


@pytest.mark.parametrize("done", range(4))
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_between_two_steps_loses_nothing(board, write, monkeypatch, step, done):
    """``done``: steps, or removed files, before the kill."""
    (kept, _) = board.records()
    records = [kept, write(board, 0.7, seed=2), write(board, 0.8, seed=3)]
    calls = []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) > done:
            raise KeyboardInterrupt

    remove = Path.unlink

    def kill_at_removal(path, **options):
        killed()
        remove(path, **options)

    with monkeypatch.context() as patch:
        if done:
            patch.setattr(Path, "unlink", kill_at_removal)
        else:
            patch.setattr(f"xmcbench.{step}", killed)
        with pytest.raises(KeyboardInterrupt):
            pack(board)
    for _ in range(2):
        again = Store(board.root)
        assert sorted(again.records(), key=lambda record: record.cell.seed) == records
        assert not again.left_out
        assert [ranks_of(again, record) for record in records] == [[1, 5], [1, 7], [1, 8]]
        for claim in (board.root / "logs").rglob("*.claim"):
            remove(claim)  # of the process that was killed
        pack(again)
    assert len(files_of_board(board)[0].read_bytes().splitlines()) == 3


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda line: line[: len(line) // 2], "cannot read the record {place}"),
        (lambda line: line.replace(b'"status":"ok"', b'"status":"failed"'), "{place}: checksum mismatch"),
        (lambda line: line.replace(b'"schema":2', b'"schema":3'), "{place} is not a record of schema 2"),
        (lambda line: b"<<<<<<< ours", "cannot read the record {place}"),
    ],
)
def test_a_damaged_line_is_left_out_and_named_and_stays(board, write, damage, said):
    lines, _ = files_of_board(board)
    first, second = lines.read_bytes().splitlines()
    lines.write_bytes(damage(first) + b"\n" + second + b"\n")
    (record,) = board.records()
    ((place, error),) = board.left_out.items()
    assert place == Path(f"{lines}, line 1")
    assert said.format(place=place) in str(error)
    assert record.cell.seed == 2
    write(board, seed=1)
    assert pack(board) == 1
    assert lines.read_bytes().splitlines()[2] == damage(first)
    assert [record.cell.seed for record in board.records()] == [1, 2]
    with pytest.raises(StorageError) as raised, board.noting_left_out():
        raise StorageError("nothing found")
    assert "line 3" in raised.value.__notes__[0]


def test_a_second_line_of_a_cell_and_a_line_of_another_setting_are_named(board):
    lines, _ = files_of_board(board)
    first, second = lines.read_bytes().splitlines()
    lines.write_bytes(b"\n".join([first, second, first]))
    assert len(board.records()) == 2
    assert [str(error) for error in board.left_out.values()] == [
        f"{lines}, line 3 holds another record of the cell of line 1 (delete one of the lines)"
    ]
    shutil.copy(lines, lines.with_name("full.jsonl"))
    board.records()
    assert "full.jsonl, line 1 holds a record of" in str([*board.left_out.values()])


def test_an_edited_line_is_not_taken_for_what_was_read_before(board):
    lines, _ = files_of_board(board)
    assert len(board.records()) == 2
    lines.write_bytes(lines.read_bytes().splitlines()[0])
    assert len(board.records()) == 1
    lines.unlink()
    assert board.records() == []


def test_a_checksum_covers_every_byte_of_a_line(board):
    """Also where a field that looks like the checksum comes before it."""
    lines, _ = files_of_board(board)
    line = lines.read_bytes().splitlines()[0]
    seal = b'"sha256":"' + json.loads(line)["sha256"].encode() + b'","status":"ok"'
    for place in range(0, len(line), 97):
        lines.write_bytes(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :])
        (found,) = read_lines(lines)[:1]
        assert isinstance(found.record, DamagedRecord | StorageError), (place, line[place : place + 20])
    assert line.count(seal) == 1


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_damaged_archive_is_named_and_nothing_is_packed_into_it(board, write, content):
    _, archive = files_of_board(board)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2] if content is None else content)
    (first, _) = board.records()
    with pytest.raises(StorageError, match=r"cannot read the ranks .*\.zip/tfidf-s0-"):
        ranks_of(board, first)
    better = write(board, 0.7, seed=1)
    with pytest.raises(StorageError, match=r"cannot read the ranks .*\.zip: "):
        pack(board)
    assert (board.record_path(better.cell).exists(), ranks_of(board, better)) == (True, [1, 7])


def test_a_damaged_member_harms_no_other(board):
    _, archive = files_of_board(board)
    first, second = board.records()
    content = archive.read_bytes()
    place = content.index(b"ranks+none") + 60
    archive.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(StorageError, match=f"{first.cell.path.name}.npz"):
        ranks_of(board, first)
    assert ranks_of(board, second) == [1, 5]


def test_a_member_that_is_missing_is_named(board):
    _, archive = files_of_board(board)
    with zipfile.ZipFile(archive, "w"):
        pass
    (first, _) = board.records()
    with pytest.raises(StorageError, match=f"{first.cell.path.name}.npz"):
        ranks_of(board, first)


@pytest.fixture
def git(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def run(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)

    return run


def test_two_contributions_merge_without_conflict(tmp_path, board, write, git):
    """Records that come between the same two lines as well: the union is in .gitattributes."""
    lines, _ = files_of_board(board)
    base = lines.read_bytes()
    sides = []
    for seeds in ((1, 3), (1, 4)):
        lines.write_bytes(base)
        for seed in seeds:
            write(board, seed=seed)
        pack(board)
        sides.append(tmp_path / f"{seeds[1]}.jsonl")
        shutil.copy(lines, sides[-1])
    (tmp_path / "base").write_bytes(base)
    git("merge-file", "--union", sides[0], "base", sides[1])
    shutil.copy(sides[0], lines)
    assert [record.cell.seed for record in board.records()] == [0, 1, 2, 3, 4]
    assert not board.left_out
    rule = "/leaderboards/records/**/*.jsonl merge=union"
    assert rule in (ROOT / ".gitattributes").read_text().splitlines()
