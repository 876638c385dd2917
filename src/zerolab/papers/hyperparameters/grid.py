"""Runs of the full grid: their levels, Elo, work and time.

Measured times belong to one machine, and are noisy because runs share it. In a fit, noise in a
regressor pulls its coefficient towards 0 and distorts the others; counts of work have no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from zerolab.papers.elo import standard_error
from zerolab.report.xy_plots import Point
from zerolab.studies.results import PlayedTournament, Results, TrainedRun
from zerolab.training.records import LearnRecord, SelfPlayRecord


class TimeUnit(NamedTuple):
    """Unit of time."""

    name: str
    seconds: float


_UNITS = (TimeUnit("s", 1.0), TimeUnit("min", 60.0), TimeUnit("h", 3600.0))
_FEWEST = 3.0


def time_unit(seconds: Iterable[float]) -> TimeUnit:
    """Return the largest unit in which the longest time is 3 or more, else seconds."""
    longest = max(seconds, default=0.0)
    fitting = [unit for unit in _UNITS if longest >= _FEWEST * unit.seconds]
    return fitting[-1] if fitting else _UNITS[0]


class Prices(NamedTuple):
    """Seconds per unit of work."""

    simulation: float
    example: float
    iteration: float
    """Fixed time of an iteration, its gate included."""


class Work(NamedTuple):
    """Work of a run in all its iterations."""

    simulations: int
    """Simulations of all searches of self-play."""
    examples: int
    """Examples seen by learning, repetitions included."""
    iterations: int

    def seconds(self, prices: Prices) -> float:
        """Return the time of the work at fixed prices."""
        return sum(count * price for count, price in zip(self, prices, strict=True))


def work(run: TrainedRun) -> Work:
    """Return the work of a run, without the games of gates."""
    return Work(
        sum(record.simulations for record in run.of(SelfPlayRecord)),
        sum(record.examples_seen for record in run.of(LearnRecord)),
        len(run.of(SelfPlayRecord)),
    )


def prices(runs: Sequence[TrainedRun]) -> Prices:
    """Return the non-negative prices that fit the work of runs to their times best.

    Self-play and learning each have a price per unit and one per iteration, fitted by least squares
    of relative errors, so that short runs count as much as long ones. Without runs, all are 0.
    """
    if not runs:
        return Prices(0.0, 0.0, 0.0)
    done = [work(run) for run in runs]
    iterations = [each.iterations for each in done]
    simulation, selfplay = _fit([each.simulations for each in done], iterations,
                                [run.seconds["selfplay"] for run in runs])  # fmt: skip
    example, learning = _fit([each.examples for each in done], iterations,
                            [run.seconds["learn"] for run in runs])  # fmt: skip
    gates = sum(run.total_seconds - run.seconds["selfplay"] - run.seconds["learn"] for run in runs)
    return Prices(simulation, example, selfplay + learning + max(0.0, gates) / sum(iterations))


def _fit(
    units: Sequence[int], iterations: Sequence[int], seconds: Sequence[float]
) -> tuple[float, float]:
    """Return the prices of a unit and of an iteration."""
    from scipy.optimize import nnls

    counts = np.array([units, iterations], np.float64).T
    scale = counts.max(axis=0, initial=1.0)
    times = np.maximum(seconds, 1e-9)  # of a stage that was skipped
    (unit, iteration), _ = nnls(counts / scale / times[:, None], np.ones(len(times)))
    return float(unit / scale[0]), float(iteration / scale[1])


def disagreement(runs: Sequence[TrainedRun], prices: Prices) -> float:
    """Return the standard deviation of log2 of measured time over that of counted work."""
    every = [math.log2(run.total_seconds / work(run).seconds(prices)) for run in runs]
    return stdev(every) if len(every) > 1 else 0.0


SYMBOLS = ("I", "E", "m", "ep")
"""Symbols of the four hyper-parameters [Wang2020a, Table 2]."""

OUTER, INNER = "I", ("E", "m", "ep")
"""Iterations, and the hyper-parameters of the work within one."""

RANDOM = "random"


class GridRun(NamedTuple):
    """Run whose network has played in a tournament."""

    run: TrainedRun
    tournament: str
    """Key of the tournament. Each seed has its own, and runs of a seed share nothing else."""
    levels: tuple[int, ...]
    """In the order of `SYMBOLS`."""
    elo: float
    """Elo above Random's in the same tournament, on the scale of the model."""
    error: float
    """Standard error of `elo`, without that of Random's rating."""
    work: Work

    @property
    def seconds(self) -> float:
        """Training time."""
        return self.run.total_seconds

    def level(self, symbol: str) -> int:
        """Return the level of a hyper-parameter."""
        return self.levels[SYMBOLS.index(symbol)]


class Grid(NamedTuple):
    """Finished runs of the factorial design."""

    results: Results
    levels: Mapping[str, Sequence[int]]
    """Levels by symbol, in increasing order."""
    runs: Sequence[GridRun]
    """Runs with an Elo."""
    prices: Prices
    """Prices of counted work, fitted to all finished runs."""

    @property
    def by_tournament(self) -> list[list[GridRun]]:
        """Runs by tournament, for tournaments with runs."""
        names = dict.fromkeys(run.tournament for run in self.runs)
        return [[run for run in self.runs if run.tournament == name] for name in names]

    def at(self, **levels: int) -> list[GridRun]:
        """Return the runs at some levels."""
        return [
            run for run in self.runs
            if all(run.level(symbol) == level for symbol, level in levels.items())
        ]  # fmt: skip

    def combinations(self) -> dict[tuple[int, ...], list[GridRun]]:
        """Return the runs by combination of levels, for combinations with runs."""
        every = product(*self.levels.values())
        found = {levels: self.at(**dict(zip(SYMBOLS, levels, strict=True))) for levels in every}
        return {levels: runs for levels, runs in found.items() if runs}

    def counted_seconds(self, run: GridRun) -> float:
        """Return the time of a run's counted work at the prices of all runs."""
        return run.work.seconds(self.prices)

    @property
    def scales(self) -> list[float]:
        """Factors by which BayesElo scales the Elo of the tournaments, the least first."""
        return sorted(
            self.results.tournaments[name].ratings.model.scale
            for name in dict.fromkeys(run.tournament for run in self.runs)
        )


def read_grid(results: Results) -> Grid:
    """Return the finished runs; there is one tournament per seed, in the part of that seed."""
    levels = {symbol: sorted(int(level) for level in results.levels(symbol)) for symbol in SYMBOLS}
    return Grid(results, levels, [*_runs(results)], prices(results.runs))


def _runs(results: Results) -> Iterable[GridRun]:
    for run in results.runs:
        played = results.tournaments.get(run.planned.part)
        if played is not None:
            levels = tuple(int(run.factors[symbol]) for symbol in SYMBOLS)
            yield GridRun(run, run.planned.part, levels, *_elo(played, run), work(run))


def _elo(played: PlayedTournament, run: TrainedRun) -> tuple[float, float]:
    """Return Elo above Random's and its standard error.

    BayesElo's scale depends on the share of draws in a tournament; the model's own scale is the
    same in all tournaments.
    """
    rating = played.rating(run)
    elo = rating.elo_model - played.by_name[RANDOM].elo_model
    return elo, standard_error(rating) / played.ratings.model.scale


def mean_point(runs: Sequence[GridRun], costs: Sequence[float], unit: TimeUnit) -> Point:
    """Return the mean of the runs of one combination; costs are in seconds."""
    elos = [run.elo for run in runs]
    return Point(
        fmean(costs) / unit.seconds,
        fmean(elos),
        combination_name(runs[0].levels),
        math.sqrt(sum(run.error**2 for run in runs)) / len(runs),
        stdev(elos) if len(elos) > 1 else 0.0,
    )


def combination_name(levels: Sequence[int]) -> str:
    """Return the name of a combination, such as ``I 75, E 30, m 25, ep 5``."""
    return ", ".join(f"{symbol} {level}" for symbol, level in zip(SYMBOLS, levels, strict=True))
