"""Runs of the sweep by hyper-parameter and value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from zerolab.papers.elo import standard_error
from zerolab.papers.hyperparameters.study import (
    DEFAULT,
    DEFAULT_HOURS,
    FACTORS,
    TOURNAMENT,
    changed,
    levels,
)
from zerolab.report.figures import Sample
from zerolab.studies.results import PlayedTournament, Results, TrainedRun
from zerolab.studies.statistics import sample_of_runs

RANDOM = "random"

PLACES = ("least value", "default", "greatest value")
"""Names of the three values of each hyper-parameter."""


class Setting(NamedTuple):
    """One value of a hyper-parameter, all others being at their defaults."""

    symbol: str
    place: int
    """0, 1 or 2, as in `PLACES`."""
    value: float
    runs: list[TrainedRun]
    """Finished ones; those of the default belong to all hyper-parameters."""

    @property
    def name(self) -> str:
        """Symbol and value, such as ``m = 200``."""
        return f"{self.symbol} = {self.value:g}"

    @property
    def published_hours(self) -> float:
        """Hours in [Wang2020a, Table 3]."""
        least, greatest = FACTORS[self.symbol].hours
        return (least, DEFAULT_HOURS, greatest)[self.place]

    @property
    def published_ratio(self) -> float:
        """Published hours over those of the default."""
        return self.published_hours / DEFAULT_HOURS


class Sweep:
    """The finished part of the sweep."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.by_symbol = {
            symbol: [
                Setting(symbol, place, value, self._runs(symbol, value))
                for place, value in enumerate(levels(results.scale, symbol))
                if place == 1 or value != levels(results.scale, symbol)[1]
            ]
            for symbol in FACTORS
        }

    def _runs(self, symbol: str, value: float) -> list[TrainedRun]:
        return self.results.where(changed=changed(self.results.scale, symbol, value))

    @property
    def default(self) -> list[TrainedRun]:
        """The runs with all defaults."""
        return self.results.where(changed=DEFAULT)

    @property
    def others(self) -> list[Setting]:
        """The settings that differ from the defaults."""
        return [each for three in self.by_symbol.values() for each in three if each.place != 1]

    @property
    def settings(self) -> list[list[TrainedRun]]:
        """The finished runs of every setting, those with all defaults once."""
        return [self.default, *(each.runs for each in self.others)]

    @property
    def tournament(self) -> PlayedTournament | None:
        """The tournament of all final networks, if it is finished."""
        return self.results.tournaments.get(TOURNAMENT)

    @property
    def complete(self) -> bool:
        """True if every setting has a finished run."""
        return bool(self.default) and all(each.runs for each in self.others)

    @cached_property
    def elos(self) -> dict[str, tuple[float, float]]:
        """Elo above Random's and its standard error, by label of the run; {} before the games.

        The error of Random's own rating, which all runs share, is left out.
        """
        played = self.tournament
        if played is None:
            return {}
        lowest = played.by_name[RANDOM].elo
        ratings = {run.planned.label: played.rating(run) for run in self.results.where()}
        return {label: (each.elo - lowest, standard_error(each)) for label, each in ratings.items()}

    def elo(self, run: TrainedRun) -> float:
        """Return a run's Elo above Random's; raise KeyError before the games."""
        return self.elos[run.planned.label][0]

    def elo_sample(self, runs: Sequence[TrainedRun]) -> Sample:
        """Return the Elo of some runs above Random's."""
        known = [self.elos[run.planned.label] for run in runs]
        return sample_of_runs([elo for elo, _ in known], [error for _, error in known])


def final_loss(run: TrainedRun) -> float:
    """Return the loss of policy plus that of value in the last epoch of the last iteration."""
    last = run.final_losses[-1]
    return last["policy"] + last["value"]


def seconds(run: TrainedRun) -> float:
    """Return the training time of a run."""
    return run.total_seconds


Measure = Callable[[TrainedRun], float]
