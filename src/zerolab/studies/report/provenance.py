"""Where results come from, in one line that names neither folders nor machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerolab.core.threads import available_cores
from zerolab.store.environments import Environment
from zerolab.training.environment import processor_model

_RANGES = 4  # of seeds: more are not listed
_DIGITS = 16  # of a digest


@dataclass(frozen=True)
class Provenance:
    """Everything that says which runs a report is made of, and what made them."""

    runs: int
    digests: Sequence[str]
    """One per run, of whatever decides its outcome and what came of it."""
    versions: Mapping[str, str]
    """Of zerolab, Python and libraries; where runs differ in one, all of them."""
    seeds: Sequence[int]
    machine: str
    """Such as ``AMD EPYC 9654, x86_64, bfloat16, 1 core per run``; all where runs differ."""
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


def this_machine(gpu: str = "") -> str:
    """Return the model of this machine's processor, the cores there are, and the GPU if any."""
    return _joined(processor_model(), _cores(available_cores()), gpu)


def machine_of(environment: Environment) -> str:
    """Return on what a run was trained; the device is the architecture or the GPU."""
    machine = _joined(environment.processor, environment.device, environment.precision)
    return f"{machine}, {_cores(environment.threads)} per run"


def _joined(*parts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def distinct(texts: Iterable[str]) -> str:
    """Return different texts, each once, as ``2.12.0 and 2.13.0``."""
    return " and ".join(dict.fromkeys(texts))


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
