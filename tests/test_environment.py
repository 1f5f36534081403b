import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from xmcbench import environment
from xmcbench.environment import (
    available_memory,
    hardware,
    machine,
    machine_cores,
    machine_tag,
    packages,
    program,
    thread_variables,
    usable_cores,
)
from xmcbench.storage import locations


def test_the_cores_of_a_process_are_those_that_it_is_told(monkeypatch):
    monkeypatch.setattr(environment, "machine_cores", lambda: 8)
    for told, cores in ((None, 8), ("3", 3), ("4,2", 4), ("99", 8), ("0", 1), ("many", 8)):
        if told is None:
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        else:
            monkeypatch.setenv("OMP_NUM_THREADS", told)
        assert usable_cores() == cores


@pytest.mark.parametrize(
    ("texts", "cores"),
    [
        (["200000 100000\n"], 2),
        (["150000 100000\n"], 2),  # as many threads as can be at work at some time
        (["50000 100000\n"], 1),
        (["900000 100000\n"], 4),
        (["max 100000\n"], 4),
        (["300000\n", "100000\n"], 3),
        (["-1\n", "100000\n"], 4),
    ],
)
def test_cores_within_a_container(tmp_path, monkeypatch, texts, cores):
    files = [tmp_path / str(number) for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    monkeypatch.setattr(environment, "_QUOTAS", ((tmp_path / "none",), files))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6, 7})
    assert machine_cores() == cores


def test_every_library_is_told_its_threads():
    told = thread_variables(3)
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"} <= told.keys()
    assert {*told.values()} == {"3"}


@pytest.mark.parametrize(("limit", "used", "free"), [("500", "200", 300), ("max", "200", 1000), ("100", "200", 0)])
def test_memory_within_a_container(tmp_path, monkeypatch, limit, used, free):
    files = [tmp_path / "limit", tmp_path / "used"]
    for file, text in zip(files, (limit, used), strict=True):
        file.write_text(text + "\n")
    monkeypatch.setattr(environment, "_CGROUPS", ((tmp_path / "none", tmp_path / "none"), files))
    memory = psutil.virtual_memory()._replace(available=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    assert available_memory() == free


def test_a_machine_is_told_from_others():
    assert len(machine()) == 36
    assert len(machine_tag()) == 6
    assert int(machine_tag(), 16) >= 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("fpu avx avx2 fma", " with AVX2"),
        ("fpu avx2 avx512f", " with AVX-512"),
        ("avx512_bf16 avx2 avx512f", " with AVX-512 bf16"),
        ("avx2 avx512f avx512_bf16 amx_bf16 amx_tile", " with AMX bf16"),
        ("fpu", ""),
    ],
)
def test_processors_of_one_name_are_told_apart(tmp_path, monkeypatch, flags, said):
    """A cloud calls several generations "AMD EPYC"; one of them trains twice as fast as another."""
    cores = [f"processor : {core}\nmodel name\t: A   Processor: fast\nflags\t\t: {flags}" for core in (0, 1)]
    (tmp_path / "cpuinfo").write_text("\n\n".join(cores))
    monkeypatch.setattr("xmcbench.environment._CPUINFO", tmp_path / "cpuinfo")
    hardware.cache_clear()
    assert (hardware().processor, hardware().model) == (f"A Processor: fast{said}", "A Processor: fast")
    assert hardware().kind.startswith(f"A Processor: fast{said}, ")
    monkeypatch.setattr("xmcbench.environment._CPUINFO", tmp_path / "missing")
    hardware.cache_clear()
    assert hardware().processor
    hardware.cache_clear()


def test_packages_are_those_that_a_result_can_depend_on(monkeypatch):
    required = ["numpy", "torch; extra == 'encoders'", "pytest; extra == 'dev'", "rich; python_version < '3'"]
    monkeypatch.setattr(environment.metadata, "requires", lambda name: required)
    monkeypatch.setattr(environment.metadata, "version", lambda name: "1.0")
    assert packages.__wrapped__().keys() == {"python", "numpy", "torch"}


@pytest.mark.parametrize(
    ("note", "commit", "checkout"),
    [
        ('{"url": "file:///a%20b"}', "", Path("/a b")),
        ('{"url": "https://x.org/y.git", "vcs_info": {"commit_id": "c0ffee"}}', "c0ffee", None),
        (None, "", None),
        ("{", "", None),
    ],
)
def test_the_source_of_an_installation_is_as_pip_noted_it(monkeypatch, tmp_path, note, commit, checkout):
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "xmcbench" / "environment.py"))
    monkeypatch.setattr(environment.metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: note))
    uncached = environment.install_note.__wrapped__
    for module in (environment, locations):
        monkeypatch.setattr(module, "install_note", uncached)
    assert (program.__wrapped__().commit, locations._source_checkout()) == (commit, checkout)


def test_a_machine_without_the_files_of_linux(tmp_path, monkeypatch):
    def fail(path, *arguments, **named):
        raise FileNotFoundError(path)

    monkeypatch.setattr(environment.Path, "read_text", fail)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    machine.cache_clear()
    try:
        assert machine() == ""
        assert machine_cores() == 7
        assert available_memory() > 0
    finally:
        machine.cache_clear()
