"""Speed benchmark: suites of measurements, each with a limit measured in the same run."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

GAMES = ("connect_four:6x7", "othello:6x6", "gobang:6x6")

Work = Callable[[], float]
"""Function that does some work and returns the number of units of work."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Measurement of a subject, and of a limit in the same run."""

    name: str
    unit: str
    """Unit of `median` and `limit`, such as ``simulations/s``."""
    median: float
    """Median of the subject over the rounds."""
    limit: float
    """Median of the limit over the rounds."""
    limit_of: str
    """Description of the limit."""
    time_shares: dict[str, float] = field(default_factory=dict)
    """Share of the subject's time by part, in [0, 1]."""
    note: str = ""
    """Additional remarks."""

    @property
    def ratio(self) -> float:
        """Result of the subject divided by that of the limit."""
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
        shares = {part: round(share, 3) for part, share in self.time_shares.items()}
        note = {"note": self.note} if self.note else {}
        return entry | ({"shares": shares} if shares else {}) | note


def measure_rate(work: Work) -> float:
    """Do some work and return the units of work per second."""
    began = perf_counter()
    units = work()
    return units / (perf_counter() - began)


def alternating_rates(subject: Work, limit: Work, rounds: int) -> tuple[float, float]:
    """Return the median rates of subject and limit, in units per second, after a warm-up.

    Subject and limit alternate, so that noise from the machine affects both equally.
    """
    subject()
    limit()
    limits, subjects = [], []
    for _ in range(rounds):
        limits.append(measure_rate(limit))
        subjects.append(measure_rate(subject))
    return statistics.median(subjects), statistics.median(limits)


SUITES = {
    "tree": "kernels:measure_tree_search",
    "playout": "kernels:measure_playouts",
    "solve": "kernels:measure_solving",
    "selfplay": "selfplay:measure_self_play",
    "service": "selfplay:measure_search_service",
    "single-root": "selfplay:measure_single_root",
    "warm-start": "selfplay:measure_warm_start",
    "replay": "learning:measure_replay",
    "learn": "learning:measure_learning",
    "heads": "learning:measure_convolutional_heads",
    "train": "learning:measure_run",
    "tournament": "tournaments:measure_tournament",
    "league": "tournaments:measure_league",
    "int8": "learning:measure_int8",
    "startup": "programs:measure_startup",
    "memory": "programs:measure_memory",
    "web": "programs:measure_web_server",
    "studies": "programs:measure_study_workers",
}
"""Module of zerolab.bench and function in it, by suite name."""


def run_suite(suite: str, rounds: int) -> Iterator[BenchmarkResult]:
    """Yield the results of a suite, measured in `rounds` rounds."""
    module, _, function = SUITES[suite].partition(":")
    measure: Callable[[int], Iterator[BenchmarkResult]]
    measure = getattr(importlib.import_module(f"zerolab.bench.{module}"), function)
    return measure(rounds)
