"""Datasets of a few rows, written line by line so that any line can be broken."""

import gzip
import json
import os
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


#: A stand-in for apt. With a list of sources of its own, it has what that list says, and no other release.
_APT = """#!/bin/sh
release={machine}
for option; do case "$option" in Dir::Etc::sourcelist=*)
    sources="${{option#*=}}"
    read -r line < "$sources"
    line="${{line#*] }}"; line="${{line#* }}"; release="${{line%% *}}" ;;
esac; done
case "$*" in
*indextargets*)
    for kind in Packages Translation-en; do
        path="{folder}/archive_dists_${{release}}_main_$kind"
        created="${{kind%-en}}"; [ "$created" = Packages ] || created=Translations
        [ -e "$path" ] && printf "$created\\tDebian\\t$release\\t$release\\tmain\\t$path\\thttp://mirror/archive\\n"
    done ;;
*cat-file*) for last; do :; done; cat "$last" ;;
*download-file*)
    while [ "$1" != download-file ]; do shift; done
    if ! cp "{folder}/${{2##*/}}" "$3" 2> /dev/null; then echo 'E: no network' >&2; exit 100; fi ;;
*update*) [ -n "$sources" ] && cat "$sources" >> {log}; echo 'E: no network' >&2; exit 100 ;;
esac
"""


@pytest.fixture
def fake_apt(tmp_path, monkeypatch):
    """Put a stand-in for apt first in the path; it logs the lists of sources that it is given."""

    def install(machine, files):
        """machine: the release of the machine's sources. files: content by release_component_kind."""
        folder, log, program = tmp_path / "lists", tmp_path / "apt.log", tmp_path / "bin" / "apt-get"
        for path in (folder, program.parent):
            path.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / f"archive_dists_{name}").write_bytes(content)
        log.write_text("")
        program.write_text(_APT.format(machine=machine, folder=folder, log=log))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr("xmcbench.data.recipes.apt._HELPER", program)
        return log

    return install


@pytest.fixture
def made(tmp_path):
    """Write files into a folder, by path: text, bytes, or lines."""

    def write(files, name="set"):
        for path, content in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(f"{line}\n" for line in content) if isinstance(content, list) else content
            target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write
