"""Runs of the sweep, by hyper-parameter and value."""

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
    """Value of one hyper-parameter, with all others at their defaults."""

    symbol: str
    place: int
    """Index in `PLACES`."""
    value: float
    runs: list[TrainedRun]
    """Finished runs. The default setting of each hyper-parameter has the same runs."""

    @property
    def name(self) -> str:
        """Symbol and value, such as ``m = 200``."""
        return f"{self.symbol} = {self.value:g}"

    @property
    def published_hours(self) -> float:
        """Published hours [Wang2020a, Table 3]."""
        low, high = FACTORS[self.symbol].hours
        return (low, DEFAULT_HOURS, high)[self.place]

    @property
    def published_ratio(self) -> float:
        """Published hours divided by the published hours of the default."""
        return self.published_hours / DEFAULT_HOURS


class Sweep:
    """Finished runs and tournament of the sweep."""

    def __init__(self, results: Results) -> None:
        self.results = results
        scale = results.scale
        self.by_symbol = {
            symbol: [
                Setting(symbol, place, value, results.where(changed=changed(scale, symbol, value)))
                for place, value in enumerate(levels(scale, symbol))
                if place == 1 or value != levels(scale, symbol)[1]
            ]
            for symbol in FACTORS
        }

    @property
    def default(self) -> list[TrainedRun]:
        """Runs with default settings."""
        return self.results.where(changed=DEFAULT)

    @property
    def others(self) -> list[Setting]:
        """Settings that differ from the defaults."""
        return [
            setting
            for settings in self.by_symbol.values()
            for setting in settings
            if setting.place != 1
        ]

    @property
    def settings(self) -> list[list[TrainedRun]]:
        """Finished runs of each setting, starting with the default."""
        return [self.default, *(setting.runs for setting in self.others)]

    @property
    def tournament(self) -> PlayedTournament | None:
        """Tournament between all final networks, or None if it is not finished."""
        return self.results.tournaments.get(TOURNAMENT)

    @property
    def complete(self) -> bool:
        """True if each setting has a finished run."""
        return bool(self.default) and all(setting.runs for setting in self.others)

    @cached_property
    def elos(self) -> dict[str, tuple[float, float]]:
        """Elo relative to Random and its standard error, by run label.

        The dictionary is empty if the tournament is not finished. The errors exclude the error of
        Random's own rating, which is common to all runs.
        """
        tournament = self.tournament
        if tournament is None:
            return {}
        random_elo = tournament.by_name[RANDOM].elo
        ratings = {run.planned.label: tournament.rating(run) for run in self.results.where()}
        return {
            label: (rating.elo - random_elo, standard_error(rating))
            for label, rating in ratings.items()
        }

    def elo(self, run: TrainedRun) -> float:
        """Return a run's Elo relative to Random; unrated runs raise KeyError."""
        return self.elos[run.planned.label][0]

    def elo_sample(self, runs: Sequence[TrainedRun]) -> Sample:
        """Return the Elo of `runs` relative to Random."""
        elos = [self.elos[run.planned.label] for run in runs]
        return sample_of_runs([elo for elo, _ in elos], [error for _, error in elos])


def final_loss(run: TrainedRun) -> float:
    """Return policy loss plus value loss in the last epoch of the last iteration."""
    losses = run.final_losses[-1]
    return losses["policy"] + losses["value"]


def seconds(run: TrainedRun) -> float:
    """Return the training time of a run in seconds."""
    return run.total_seconds


Measure = Callable[[TrainedRun], float]
