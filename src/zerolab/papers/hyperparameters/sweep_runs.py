"""Runs of the sweep, by hyper-parameter and value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from zerolab.papers.elo import standard_error
from zerolab.papers.hyperparameters.main_effects import VariedRun
from zerolab.papers.hyperparameters.study import (
    DEFAULT,
    DEFAULT_HOURS,
    HYPERPARAMETERS,
    TOURNAMENT,
    changed_level,
    scaled_values,
)
from zerolab.report.figures import RunSample
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import plot_sample

RANDOM = "random"

VALUE_NAMES = ("least value", "default", "greatest value")
"""Names of the three values of each hyper-parameter, in ascending order of the values."""


class SweepValue(NamedTuple):
    """Value of one hyper-parameter in the sweep, with all others at their defaults."""

    symbol: str
    value_index: int
    """Index of the value's name in `VALUE_NAMES`."""
    value: float
    runs: list[TrainedRun]
    """Finished runs. The default values of all hyper-parameters share the same runs."""

    @property
    def name(self) -> str:
        """Symbol and value, such as ``m = 200``."""
        return f"{self.symbol} = {self.value:g}"

    @property
    def published_hours(self) -> float:
        """Published hours of training [Wang2020a, Table 3]."""
        low, high = HYPERPARAMETERS[self.symbol].published_hours
        return (low, DEFAULT_HOURS, high)[self.value_index]

    @property
    def published_hours_ratio(self) -> float:
        """Published hours divided by the published hours of the default."""
        return self.published_hours / DEFAULT_HOURS


class Sweep:
    """Finished runs and tournament of the sweep."""

    def __init__(self, results: Results) -> None:
        self.results = results
        scale = results.scale
        self.values_by_symbol = {
            symbol: [
                SweepValue(
                    symbol,
                    value_index,
                    value,
                    results.runs_where(changed=changed_level(scale, symbol, value)),
                )
                for value_index, value in enumerate(scaled_values(scale, symbol))
                if value_index == 1 or value != scaled_values(scale, symbol)[1]
            ]
            for symbol in HYPERPARAMETERS
        }

    @property
    def default_runs(self) -> list[TrainedRun]:
        """Runs with default settings."""
        return self.results.runs_where(changed=DEFAULT)

    @property
    def changed_values(self) -> list[SweepValue]:
        """All values that differ from the defaults."""
        return [
            sweep_value
            for sweep_values in self.values_by_symbol.values()
            for sweep_value in sweep_values
            if sweep_value.value_index != 1
        ]

    @property
    def run_groups(self) -> list[list[TrainedRun]]:
        """Finished runs with the defaults, followed by those of each changed value."""
        return [self.default_runs, *(sweep_value.runs for sweep_value in self.changed_values)]

    @property
    def varied_runs(self) -> list[VariedRun]:
        """All finished runs with their values."""
        default = {
            symbol: scaled_values(self.results.scale, symbol)[1] for symbol in HYPERPARAMETERS
        }
        return [
            *(VariedRun(run, default, run.planned.part) for run in self.default_runs),
            *(
                VariedRun(run, {**default, each.symbol: each.value}, each.symbol)
                for each in self.changed_values for run in each.runs
            ),
        ]  # fmt: skip

    @property
    def tournament(self) -> PlayedTournament | None:
        """Tournament between all final networks, or None if it is not finished."""
        return self.results.tournaments.get(TOURNAMENT)

    @property
    def is_complete(self) -> bool:
        """True if the defaults and each changed value have a finished run."""
        return bool(self.default_runs) and all(
            sweep_value.runs for sweep_value in self.changed_values
        )

    @cached_property
    def elo_and_error_by_label(self) -> dict[str, tuple[float, float]]:
        """Elo relative to Random and its standard error, by run label.

        The dictionary is empty if the tournament is not finished. The errors exclude the error of
        Random's own rating, which is common to all runs.
        """
        tournament = self.tournament
        if tournament is None:
            return {}
        return {
            run.planned.label: (
                tournament.elo_above_agent(run, RANDOM),
                standard_error(tournament.final_rating(run)),
            )
            for run in self.results.runs
        }

    def elo_above_random(self, run: TrainedRun) -> float:
        """Return a run's Elo relative to Random; a run without a rating raises KeyError."""
        return self.elo_and_error_by_label[run.planned.label][0]

    def elo_sample_above_random(self, runs: Sequence[TrainedRun]) -> RunSample:
        """Return the Elo of `runs` relative to Random, with standard errors."""
        elos = [self.elo_and_error_by_label[run.planned.label] for run in runs]
        return plot_sample([elo for elo, _ in elos], [error for _, error in elos])
