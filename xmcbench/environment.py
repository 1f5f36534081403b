"""The machine and the packages a result was measured with."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from xmcbench import __version__
from xmcbench.output.quantities import format_count

#: The variables with the number of threads for OpenMP, BLAS, numba and Rust libraries.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")

#: Extras with packages that results can depend on.
_EXTRAS = ("encoders", "gensim", "gpu", "icu", "offline", "pecos")
_CPUINFO = Path("/proc/cpuinfo")
#: The word between the model of a processor and its vector instructions.
_WITH = " with "
#: Limit and use of memory of the group of processes that a container is, in both versions of cgroups.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
#: Files with the time that the group may compute in a period, and with the period: one with both in the second version.
_QUOTAS = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


#: Vector instructions of x86 processors, the fastest first, by the flag of Linux.
_VECTORS = {"amx_bf16": "AMX bf16", "avx512_bf16": "AVX-512 bf16", "avx512f": "AVX-512", "avx2": "AVX2"}


class Hardware(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine: processor, cores that a process may use, memory in GiB, names of its GPUs, operating system.

    processor: its model, with its vector instructions; old records have the model alone.
    """

    processor: str
    cores: int
    memory_gib: int
    accelerators: tuple[str, ...]
    system: str

    @property
    def kind(self) -> str:
        """The class of machine in one line; times are only compared within a class."""
        accelerator = ", ".join(self.accelerators) or "no accelerator"
        return f"{self.processor}, {format_count(self.cores, 'core')}, {self.memory_gib} GiB, {accelerator}"

    @property
    def model(self) -> str:
        """The model of the processor. Clouds have one name for processors of several generations."""
        return self.processor.partition(_WITH)[0]


class Compute(Struct, frozen=True, forbid_unknown_fields=True):
    """Devices of a cell, which are not part of its identity.

    device: ``auto`` is a CUDA GPU if there is one, else the CPU; ``mps`` is the GPU of an Apple chip. processes: of the
    cell on this machine, which train encoders and embed texts. threads: of the cell; None, in old records: not known.
    """

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    processes: Annotated[int, Meta(ge=1)] = 1
    threads: Annotated[int, Meta(ge=1)] | None = None


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """The version of xmcbench, and the commit of its checkout: with ``+`` if files differ from it, empty if unknown."""

    version: str
    commit: str


@cache
def hardware() -> Hardware:
    """Return the machine that this process runs on."""
    import psutil

    return Hardware(
        processor=_processor(),
        cores=machine_cores(),
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        accelerators=accelerators(),
        system=f"{platform.system()} {platform.machine()}",
    )


@cache
def machine() -> str:
    """Return the boot id, which identifies this machine until it restarts; empty elsewhere than on Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def machine_tag() -> str:
    """Return six characters that identify this machine, for names of files."""
    return hashlib.sha256(machine().encode()).hexdigest()[:6]


def usable_cores() -> int:
    """Return the cores that this process may use: in a cell its share; elsewhere all, or ``OMP_NUM_THREADS``."""
    told = os.environ.get(_THREADS[0], "").partition(",")[0]
    return max(1, min(machine_cores(), int(told))) if told.isdecimal() else machine_cores()


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment variables with the number of threads for every library of a process."""
    return dict.fromkeys(_THREADS, str(threads))


def machine_cores() -> int:
    """Return the cores that the processes of this machine may use together, also within the quota of a container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in _QUOTAS:
        try:
            quota, period = (int(word) for file in files for word in Path(file).read_text().split())
        except (OSError, ValueError):  # no such kind of group, or no quota ("max")
            continue
        if quota > 0:  # -1 is no quota
            cores = min(cores, max(1, math.ceil(quota / period)))
    return cores


def available_memory() -> int:
    """Return the bytes that processes can still take, also within the limit of a container."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for limit, used in _CGROUPS:
        try:
            taken = int(Path(used).read_text()) - _reclaimable(Path(used).with_name("memory.stat"))
            free = min(free, int(Path(limit).read_text()) - taken)
        except (OSError, ValueError):  # no such kind of group, or no limit
            continue
    return max(0, free)


def _reclaimable(statistics: Path) -> int:
    """Return the bytes of a group's files in memory that the system can reclaim."""
    try:
        counts = {name: int(size) for name, size in map(str.split, statistics.read_text().splitlines())}
    except (OSError, ValueError):
        return 0
    return counts.get("total_inactive_file", counts.get("inactive_file", 0))


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        lines = []  # not Linux
    said = {key.strip(): value.split() for key, _, value in (line.partition(":") for line in reversed(lines))}
    model = " ".join(said.get("model name", [])) or platform.processor() or platform.machine()
    vectors = next((name for flag, name in _VECTORS.items() if flag in said.get("flags", [])), "")
    return f"{model}{_WITH}{vectors}" if vectors else model


@cache
def accelerators() -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs, from the driver's own tool: no framework needs to be imported."""
    if shutil.which("nvidia-smi") is None:
        return ()
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return ()  # a driver without a device
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip())


@cache
def program() -> Program:
    """Return the version and the commit of the running xmcbench."""
    return Program(__version__, _commit())


def _commit() -> str:
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists() and shutil.which("git"):
        try:
            head, changes = (
                subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, timeout=20, check=True)
                for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
            )
        except (subprocess.SubprocessError, OSError):
            return ""
        return head.stdout.strip() + ("+" if changes.stdout.strip() else "")
    return str(install_note().get("vcs_info", {}).get("commit_id", ""))


@cache
def install_note() -> Mapping[str, Any]:
    """Return what pip noted about the source that xmcbench was installed from (PEP 610); empty if nothing."""
    try:
        note: dict[str, Any] = json.loads(metadata.distribution("xmcbench").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return note


@cache
def packages() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that results can depend on."""
    from packaging.requirements import Requirement

    versions = {"python": platform.python_version()}
    for requirement in map(Requirement, metadata.requires("xmcbench") or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
            try:
                versions[requirement.name] = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                continue
    return versions


def package_versions(imports: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed packages by import name."""
    return {name: version for name in imports if (version := _version(name))}


def distribution_versions(imports: Iterable[str]) -> dict[str, str]:
    """Return the versions of imported packages by the names under which they are installed."""
    return {name: metadata.version(name) for imported in imports for name in sorted(_names(imported))}


@cache
def _version(import_name: str) -> str:
    return ", ".join(sorted({metadata.version(name) for name in _names(import_name)}))


@cache
def _names(import_name: str) -> frozenset[str]:
    """Return the names under which the packages with a module are installed."""
    try:
        return frozenset({metadata.distribution(import_name).name})
    except metadata.PackageNotFoundError:
        return frozenset(distributions().get(import_name, ()))


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return module -> names of installed packages with it. The first call is slow: it reads all their metadata."""
    return metadata.packages_distributions()
