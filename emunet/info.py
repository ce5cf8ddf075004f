"""The machine, the build of the engine and the libraries: for `emunet info` and for the trace."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from emunet import __version__
from emunet._core import is_checked

LIBRARIES = ("numpy", "numba", "llvmlite", "h5py", "pandas", "pydantic", "hdf5plugin")


def build_facts() -> dict[str, Any]:
    """Version, build of the engine and versions of the libraries, as text and numbers.

    `build_type` is ``release``, ``checked`` (assertions at every event, slower), or ``none`` when
    the engine is not compiled.
    """
    facts: dict[str, Any] = {"emunet": __version__, "python": platform.python_version()}
    try:
        from emunet._core import _build
    except ImportError:
        facts["build_type"] = "none"
    else:
        facts["build_type"] = "checked" if is_checked() else "release"
        facts["compiler"] = _build.COMPILER
        facts["flags"] = f"{_build.FLAGS} {_build.CHECKED_FLAGS}" if is_checked() else _build.FLAGS
        facts["openmp"] = _build.OPENMP
        facts["cython"] = _build.CYTHON
    for name in LIBRARIES:
        facts[name] = _version(name)
    return facts


def machine_facts() -> dict[str, Any]:
    """Processor, memory and system of this machine."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": available_cpus(),
        "memory_bytes": _memory_bytes(),
    }


def available_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_rss_bytes() -> int:
    """Greatest resident memory of this process so far; 0 where the system does not tell.

    On Linux of this program alone: `ru_maxrss` begins with the memory of the process that
    started it.
    """
    with suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text().splitlines()
        peak_kib = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
        return int(peak_kib) * 1024
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def hdf5_version() -> str:
    """Version of the HDF5 library."""
    import h5py

    return h5py.version.hdf5_version


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
