"""Where results come from, in one line that names neither folders nor machines."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from zerolab.core.threads import available_cores
from zerolab.core.version import __version__

_LIBRARIES = ("torch", "numpy", "numba")
_RANGES = 4  # of seeds: more are not listed
_DIGITS = 16  # of a digest


@dataclass(frozen=True)
class Provenance:
    """Everything that says which runs a report is made of, and what made them."""

    runs: int
    digests: Sequence[str]
    """One per run, of whatever decides its outcome and what came of it."""
    versions: Mapping[str, str]
    """Of zerolab, Python and libraries."""
    seeds: Sequence[int]
    machine: str
    """Such as ``AMD EPYC 9654, 2 cores``."""
    hours: float
    """Of training, of all runs together; games of tournaments are not counted."""

    @property
    def digest(self) -> str:
        """The digest of all digests, in whatever order they are."""
        text = "\n".join(sorted(self.digests))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def line(self) -> str:
        """Return everything in one line; without runs, what made the games."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        if not self.runs:
            return f"No runs; {versions}; {self.machine}."
        runs = f"{self.runs} run" if self.runs == 1 else f"{self.runs} runs"
        return (
            f"{runs}, digest {self.digest}; {versions}; seeds {_ranges(self.seeds)};"
            f" {self.machine}; {self.hours:.3g} hours of training."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "runs": self.runs,
            "digest": self.digest,
            "versions": dict(self.versions),
            "seeds": sorted(set(self.seeds)),
            "machine": self.machine,
            "hours": self.hours,
        }


def current_versions() -> dict[str, str]:
    """Return the versions of zerolab, Python and the libraries that results may depend on."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"zerolab": __version__, "python": platform.python_version(), **libraries}


def this_machine(gpu: str = "") -> str:
    """Return the model of this machine's processor, the cores there are, and the GPU if any."""
    cores = available_cores()
    parts = [_processor(), f"{cores} core" if cores == 1 else f"{cores} cores", gpu]
    return ", ".join(part for part in parts if part)


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's model where Linux tells it, its architecture elsewhere."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())


def _ranges(numbers: Iterable[int]) -> str:
    """Return 0, 1, 2, 5 as ``0 to 2, 5``, many ranges as one; ``none`` without numbers."""
    found = sorted(set(numbers))
    parts: list[list[int]] = []
    for number in found:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    if len(parts) > _RANGES:
        return f"{len(found)} between {found[0]} and {found[-1]}"
    texts = (f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return ", ".join(texts) or "none"
