"""Remains of a run on the cluster: its results, and the processes that still run."""

import os

import psutil

from xmcbench.records import as_json

#: The name that Ray gives to a process that runs our function.
CARRIES = "ray::run_remotely"


def result(record):
    """A record without what was measured."""
    values = as_json(record)
    for name in ("measured", "sha256"):
        values.pop(name, None)
    values["environment"]["compute"].pop("threads")
    return values


def files(runs, kind):
    """The .npz files of a kind in a runs folder: their bytes by relative path."""
    return {path.relative_to(runs).as_posix(): path.read_bytes() for path in runs.glob(f"{kind}/**/*.npz")}


def artifacts(runs):
    """The folders of the artifacts in a runs folder."""
    found = (path for pattern in ("artifacts/*/*", "trained/*/*/*") for path in runs.glob(f"{pattern}/cost.json"))
    return {path.parent.relative_to(runs) for path in found}


def cells():
    """The processes of cells on the nodes that are there."""
    found = psutil.process_iter(["cmdline", "environ"])
    workers = [process for process in found if "xmcbench.runner.worker" in (process.info["cmdline"] or [])]
    return [process for process in workers if (process.info["environ"] or {}).get("NOTED") == os.environ["NOTED"]]


def carriers():
    """The processes of Ray that run a cell now."""
    return [process for process in psutil.process_iter(["cmdline"]) if CARRIES in (process.info["cmdline"] or [""])]
