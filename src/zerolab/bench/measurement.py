"""Alternating measurements of a subject and its limit."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

GAMES = ("connect_four:6x7", "othello:6x6", "gobang:6x6")

Work = Callable[[], float]
"""Function that does some work and returns the number of units."""


@dataclass(frozen=True)
class Measurement:
    """Speed of a subject and of a limit measured in the same run."""

    name: str
    unit: str
    median: float
    limit: float
    limit_of: str
    """Description of the work measured as the limit."""
    shares: dict[str, float] = field(default_factory=dict)
    """Shares of the subject's time by part."""
    note: str = ""
    """Additional remarks."""

    @property
    def ratio(self) -> float:
        """Speed divided by the limit."""
        return self.median / self.limit

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, rounded to reproducible digits."""
        entry = {
            "name": self.name,
            "unit": self.unit,
            "median": float(f"{self.median:.4g}"),
            "limit": float(f"{self.limit:.4g}"),
            "ratio": round(self.ratio, 3),
            "limit_of": self.limit_of,
        }
        shares = {part: round(share, 3) for part, share in self.shares.items()}
        note = {"note": self.note} if self.note else {}
        return entry | ({"shares": shares} if shares else {}) | note


def timed(work: Work) -> float:
    """Return units per second."""
    began = perf_counter()
    units = work()
    return units / (perf_counter() - began)


def in_turns(subject: Work, limit: Work, rounds: int) -> tuple[float, float]:
    """Return the median rates of subject and limit after a warm-up.

    The two alternate, so that machine noise affects both equally.
    """
    subject()
    limit()
    limits, subjects = [], []
    for _ in range(rounds):
        limits.append(timed(limit))
        subjects.append(timed(subject))
    return statistics.median(subjects), statistics.median(limits)


SUITES = {
    "tree": "kernels:measure_trees",
    "playout": "kernels:measure_playouts",
    "solve": "kernels:measure_solving",
    "selfplay": "selfplay:measure_self_play",
    "service": "selfplay:measure_service",
    "single-root": "selfplay:measure_single_root",
    "warm-start": "selfplay:measure_warm_start",
    "replay": "learning:measure_replay",
    "learn": "learning:measure_learning",
    "heads": "networks:measure_heads",
    "train": "learning:measure_training",
    "tournament": "tournaments:measure_tournament",
    "league": "tournaments:measure_league",
    "int8": "networks:measure_int8",
    "startup": "programs:measure_startup",
    "memory": "programs:measure_memory",
    "web": "programs:measure_web",
    "studies": "programs:measure_studies",
}
"""Modules of zerolab.bench and their functions, by suite name."""


def run_suite(suite: str, rounds: int) -> Iterator[Measurement]:
    """Yield the measurements of a suite, each taken over `rounds` rounds."""
    module, _, function = SUITES[suite].partition(":")
    measure: Callable[[int], Iterator[Measurement]]
    measure = getattr(importlib.import_module(f"zerolab.bench.{module}"), function)
    return measure(rounds)
