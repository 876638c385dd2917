"""The runs of the factorial design as points: levels, time and Elo."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

from zerolab.studies.analyses.elo import standard_error
from zerolab.studies.analyses.hyperparameters.time_units import TimeUnit
from zerolab.studies.panels.scatter import Point
from zerolab.studies.results import Results, TrainedRun

SYMBOLS = ("I", "E", "m", "ep")
"""The four hyper-parameters [Wang2020a, Table 2]."""

OUTER, INNER = "I", ("E", "m", "ep")
"""Iterations, and what is done within one."""

RANDOM = "random"


class GridRun(NamedTuple):
    """A run whose network has played the tournament of its seed."""

    run: TrainedRun
    seed: int
    levels: tuple[int, ...]
    """In the order of `SYMBOLS`."""
    elo: float
    """Above Random's rating in the same tournament."""
    error: float
    """Its standard error; that of Random's own rating is left out."""

    @property
    def seconds(self) -> float:
        """How long it was trained."""
        return self.run.total_seconds

    def level(self, symbol: str) -> int:
        """Return what a hyper-parameter was set to."""
        return self.levels[SYMBOLS.index(symbol)]


class Grid(NamedTuple):
    """What is finished of the factorial design."""

    results: Results
    levels: Mapping[str, Sequence[int]]
    """By symbol, rising."""
    runs: Sequence[GridRun]
    """Those that have an Elo."""

    @property
    def by_seed(self) -> list[list[GridRun]]:
        """The runs of every seed that has some."""
        seeds = dict.fromkeys(run.seed for run in self.runs)
        return [[run for run in self.runs if run.seed == seed] for seed in seeds]

    def at(self, **levels: int) -> list[GridRun]:
        """Return the runs that have some levels."""
        return [
            run for run in self.runs
            if all(run.level(symbol) == level for symbol, level in levels.items())
        ]  # fmt: skip

    def combinations(self) -> dict[tuple[int, ...], list[GridRun]]:
        """Return the runs of every combination of levels that has some."""
        every = product(*self.levels.values())
        found = {levels: self.at(**dict(zip(SYMBOLS, levels, strict=True))) for levels in every}
        return {levels: runs for levels, runs in found.items() if runs}


def read_grid(results: Results) -> Grid:
    """Return what is finished; tournaments are one per seed, in the part of that seed."""
    levels = {symbol: sorted(int(level) for level in results.levels(symbol)) for symbol in SYMBOLS}
    return Grid(results, levels, [*_runs(results)])


def _runs(results: Results) -> Iterable[GridRun]:
    for run in results.runs:
        played = results.tournaments.get(run.planned.part)
        if played is None:
            continue
        rating = played.rating(run)
        yield GridRun(
            run,
            int(run.factors["seed"]),
            tuple(int(run.factors[symbol]) for symbol in SYMBOLS),
            rating.elo - played.by_name[RANDOM].elo,
            standard_error(rating),
        )


def mean_point(runs: Sequence[GridRun], costs: Sequence[float], unit: TimeUnit) -> Point:
    """Return the mean of the runs of one combination, whose costs are seconds."""
    elos = [run.elo for run in runs]
    return Point(
        fmean(costs) / unit.seconds,
        fmean(elos),
        combination_name(runs[0].levels),
        math.sqrt(sum(run.error**2 for run in runs)) / len(runs),
        stdev(elos) if len(elos) > 1 else 0.0,
    )


def combination_name(levels: Sequence[int]) -> str:
    """Return such as ``I 75, E 30, m 25, ep 5``."""
    return ", ".join(f"{symbol} {level}" for symbol, level in zip(SYMBOLS, levels, strict=True))
