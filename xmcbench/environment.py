"""The machine and the packages a result was measured with."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


@cache
def hardware() -> dict[str, object]:
    """Processor, usable cores, memory in GiB, accelerators."""
    import psutil

    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "accelerators": accelerators(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def hardware_class(machine: dict[str, object]) -> str:
    """One line that names a class of machine; times are ranked within a class only."""
    accelerator = ", ".join(str(each) for each in machine["accelerators"]) or "no accelerator"  # type: ignore[attr-defined]
    return f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {accelerator}"


def usable_cores() -> int:
    """Cores this process may use, which on a shared machine are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


@cache
def accelerators() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs, from the driver's own tool: no framework needs to be imported."""
    if shutil.which("nvidia-smi") is None:
        return ()
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return ()  # a driver without a device
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip())


@cache
def packages() -> dict[str, str]:
    """Versions of Python and of the packages that results can depend on, as far as they are installed."""
    from packaging.requirements import Requirement

    versions = {"python": platform.python_version()}
    for requirement in map(Requirement, metadata.requires("xmcbench") or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("cpu", "gpu", "offline")):
            try:
                versions[requirement.name] = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                continue
    return versions
