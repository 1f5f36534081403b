"""A damaged dataset ends `xmcbench run` in one line that names file and place, with exit code 1."""

import gzip
import json

import pytest


def lines(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def rewrite(path, change):
    path.write_bytes(gzip.compress(("\n".join(change(lines(path))) + "\n").encode()))


def with_target(line, target):
    return json.dumps({**json.loads(line), "target_ind": target})


DAMAGE = {
    "missing": (lambda folder: (folder / "lbl.json.gz").unlink(), "lbl.json"),
    "truncated": (
        lambda folder: (folder / "trn.json.gz").write_bytes((folder / "trn.json.gz").read_bytes()[:-20]),
        "trn.json.gz",
    ),
    "no gzip": (lambda folder: (folder / "trn.json.gz").write_text("hello"), "trn.json.gz"),
    "no json": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: [*all_[:4], "{no}", *all_[5:]]), "line 5"),
    "out of range": (
        lambda folder: rewrite(folder / "tst.json.gz", lambda all_: [*all_[:2], with_target(all_[2], [10]), *all_[3:]]),
        "line 3",
    ),
    "duplicate uid": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: [*all_, all_[0]]), "0000"),
    "empty": (lambda folder: rewrite(folder / "trn.json.gz", lambda all_: []), "trn.json.gz"),
    "label without text": (
        lambda folder: rewrite(folder / "lbl.json.gz", lambda all_: ['{"uid": "x", "title": ""}', *all_[1:]]),
        "line 1",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_is_one_line_with_a_hint(inside, tiny, tmp_path, damage):
    damaging, message = DAMAGE[damage]
    damaging(tiny)
    ended = inside("run", "--dataset", tiny, "--setting", "ez", "--methods", "tfidf")
    assert ended.returncode == 1, ended.stdout
    assert message in ended.stderr
    assert ended.stderr.startswith("xmcbench: error: ")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()
