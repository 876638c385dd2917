"""Memory use, processor quotas, thread settings, device names and compilation observers.

This module imports almost nothing, so that a command can register an observer before it imports
numba.
"""

from __future__ import annotations

import math
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

_MIB = 1 << 20
_PEAK_UNITS_IN_MIB = _MIB if sys.platform == "darwin" else 1 << 10


def current_memory_mib() -> float:
    """Return the current memory use of this process, in MiB."""
    return float(_memory_info().rss) / _MIB


def peak_memory_mib() -> int:
    """Return the peak memory use of this process so far, in whole MiB."""
    try:
        import resource  # noqa: PLC0415  only on Unix, where psutil reports no peak
    except ModuleNotFoundError:
        return int(_memory_info().peak_wset // _MIB)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _PEAK_UNITS_IN_MIB)


def _memory_info() -> Any:
    """Return psutil's counters of this process, in bytes."""
    import psutil  # noqa: PLC0415  few commands need it

    return psutil.Process().memory_info()


@cache  # a study resolves the settings of hundreds of runs
def cpu_quotas(root: Path = Path("/")) -> tuple[float, ...]:
    """Return the limits, in cores, of this process's control groups and their ancestors.

    The limits are read once and cached.
    """
    return tuple(_read_cpu_quotas(root))


def _read_cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the limits under the system folder `root`.

    With cgroups v2, a process belongs to one group; with v1, to one group per controller hierarchy.
    Some systems use both versions. In a container, the group of the process may be mounted at the
    root but listed with its path outside the container. The folders of that path then do not exist,
    and the limits of the root apply.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mounts = root / "sys/fs/cgroup"
    for _, resources, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not resources:
            yield from _quotas_up(mounts, group, _quota_of_version_2)
        elif "cpu" in resources.split(","):
            for name in {resources, "cpu"}:  # often two names for the same folder
                yield from _quotas_up(mounts / name, group, _quota_of_version_1)


def _quotas_up(mount: Path, group: str, read: Callable[[Path], float]) -> Iterator[float]:
    """Yield the finite quotas of a group and its ancestors, as returned by `read`."""
    group_folder = mount / group.strip("/")
    for folder in (group_folder, *group_folder.parents):
        if not folder.is_relative_to(mount):
            return
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota = read(folder)
            if 0 < quota < math.inf:
                yield quota


def _quota_of_version_2(folder: Path) -> float:
    quota, period = (folder / "cpu.max").read_text().split()
    return float(quota.replace("max", "inf")) / int(period)


def _quota_of_version_1(folder: Path) -> float:
    """Return the limit in cores; negative if there is none."""
    quota, period = (
        int((folder / name).read_text()) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    return quota / period


class ThreadSetting:
    """Setting with a value per thread; new threads start with the value set last in any thread."""

    def __init__(self, read: Callable[[], int], write: Callable[[int], None]) -> None:
        """Read and change the calling thread's setting with the given functions."""
        self._read = read
        self._write = write
        self._lock = threading.Lock()
        self._open: list[tuple[int, int]] = []
        """Thread and value of each open context."""
        self._usual = 0
        """Setting when no context was open."""

    @contextmanager
    def override(self, value: int) -> Iterator[None]:
        """Change the calling thread's setting inside the context.

        Once overlapping contexts in several threads have ended, new threads have the value from
        before the first of these contexts.
        """
        thread = threading.get_ident()
        with self._lock:
            previous = self._read()
            is_nested = thread in (each for each, _ in self._open)
            if not self._open:
                self._usual = previous
            elif not is_nested and previous in (each for _, each in self._open):
                previous = self._usual  # it was inherited from another thread's context
            self._open.append((thread, value))
        self._write(value)
        try:
            yield
        finally:
            self._write(previous)
            with self._lock:
                self._open.remove((thread, value))


class CompilationObserver(Protocol):
    """Observer of compilations, which can be nested."""

    def on_start(self) -> None:
        """Note that a compilation begins."""

    def on_end(self) -> None:
        """Note that the innermost compilation has ended."""


compilation_observers: list[CompilationObserver] = []
"""Observers of all compilations in this process; kernels loaded from the cache are not compiled."""


ProgressBarFactory = Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]]
"""Function that creates progress displays for long-running work.

It is called with a title, the total number of units and the name of a unit. It returns a context
manager that yields a function to call with the number of completed units and a note to display.
"""


DEVICE_VARIABLE = "ZEROLAB_DEVICE"
"""Environment variable that names the device to use for ``auto``."""


def checked_device_name(name: str) -> str:
    """Return `name`; raise ValueError unless it is a valid name of a device, such as ``cuda:1``.

    The device need not exist on this machine.
    """
    from zerolab.core.errors import quoted  # noqa: PLC0415  see the top of this module

    if not re.fullmatch(r"auto|cpu|mps|cuda(:(0|[1-9][0-9]{0,3}))?", name):
        raise ValueError(f"{quoted(name)} is unknown: expected auto, cpu, cuda, cuda:N or mps")
    return name


def processor_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor model on Linux, or the architecture on other systems."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())
