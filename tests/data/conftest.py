"""Datasets of a few rows, written line by line so that any line can be broken."""

import gzip
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LABELS = [{"uid": "B1", "title": "red tea"}, {"uid": "B2", "title": "green tea"}, {"uid": "0007", "title": "a cup"}]
TRAIN = [
    {"uid": "A1", "title": "tea &#8212; red", "content": "A red tea.", "target_ind": [2, 0], "target_rel": [1.0, 1.0]},
    {"uid": "0000031895", "title": "a pot", "content": "", "target_ind": [], "target_rel": []},
    {"uid": "A3", "title": "green", "content": "Two\nlines\tof it.", "target_ind": [1], "target_rel": [1.0]},
]
TEST = [
    {"uid": "B2", "title": "green tea", "content": "It is green.", "target_ind": [2], "target_rel": [1.0]},
    {"uid": "T2", "title": "saucer", "content": "", "target_ind": [2, 1], "target_rel": [1.0, 1.0]},
]


@pytest.fixture
def things():
    """The rows of the folder that is written where no others are given, by side."""
    return {"trn": [*TRAIN], "tst": [*TEST], "lbl": [*LABELS]}


@pytest.fixture
def write_folder(tmp_path):
    """Write a folder in the XC raw layout; rows are dicts, or bytes taken as they are."""

    def write(name="Tea Things", suffix=".json.gz", trn=TRAIN, tst=TEST, lbl=LABELS, **files):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for side, rows in (("trn", trn), ("tst", tst), ("lbl", lbl)):
            lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
            content = b"".join(line + b"\n" for line in lines)
            (folder / f"{side}{suffix}").write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder

    return write
