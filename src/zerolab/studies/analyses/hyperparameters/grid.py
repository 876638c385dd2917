"""The runs of the factorial design as points: levels, time, counted work and Elo."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

from zerolab.studies.analyses.elo import standard_error
from zerolab.studies.analyses.hyperparameters.time_units import TimeUnit
from zerolab.studies.analyses.hyperparameters.work import Prices, Work, prices, work
from zerolab.studies.panels.scatter import Point
from zerolab.studies.results import PlayedTournament, Results, TrainedRun

SYMBOLS = ("I", "E", "m", "ep")
"""The four hyper-parameters [Wang2020a, Table 2]."""

OUTER, INNER = "I", ("E", "m", "ep")
"""Iterations, and what is done within one."""

RANDOM = "random"


class GridRun(NamedTuple):
    """A run whose network has played in a tournament."""

    run: TrainedRun
    tournament: str
    """The key of it: every seed has its own. Runs of one seed share nothing else."""
    levels: tuple[int, ...]
    """In the order of `SYMBOLS`."""
    elo: float
    """Above Random's rating in the same tournament, on the model's own scale."""
    error: float
    """Its standard error; that of Random's own rating is left out."""
    work: Work
    """What was counted."""

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
    prices: Prices
    """Of counted work, over all runs that are finished."""

    @property
    def by_tournament(self) -> list[list[GridRun]]:
        """The runs of every tournament that has some."""
        names = dict.fromkeys(run.tournament for run in self.runs)
        return [[run for run in self.runs if run.tournament == name] for name in names]

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

    def counted_seconds(self, run: GridRun) -> float:
        """Return the time of a run's counted work at the prices of all runs."""
        return run.work.seconds(self.prices)

    @property
    def scales(self) -> list[float]:
        """What BayesElo would multiply the Elo of every tournament by, the least first."""
        return sorted(
            self.results.tournaments[name].ratings.model.scale
            for name in dict.fromkeys(run.tournament for run in self.runs)
        )


def read_grid(results: Results) -> Grid:
    """Return what is finished; tournaments are one per seed, in the part of that seed."""
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

    BayesElo's scale depends on how often games of a tournament are drawn; the model's own scale is
    the same in all of them.
    """
    rating = played.rating(run)
    elo = rating.elo_model - played.by_name[RANDOM].elo_model
    return elo, standard_error(rating) / played.ratings.model.scale


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
