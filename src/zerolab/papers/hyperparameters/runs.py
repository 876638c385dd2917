"""Runs of the sweep and of the screening, by hyper-parameter and value, and their main effects.

The model of the effects is linear in log2 of the values, so effects are per doubling::

    measure = seed constant + pair constant + sum of b x over the twelve hyper-parameters

In the screening, a pair is a run and its mirror image. Its constant absorbs the interactions of two
hyper-parameters, which are equal in both runs [Box1951]. In the sweep, a pair consists of the runs
with the smallest and the largest value of one hyper-parameter, and its constant absorbs the
curvature. Interactions and curvature therefore neither bias the effects nor inflate the errors.
With one seed, the sweep has no degrees of freedom left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.hyperparameters.study import (
    DEFAULT_HOURS,
    DEFAULT_LEVEL,
    HYPERPARAMETERS,
    PAIR_FACTOR,
    TOURNAMENT_PART,
    changed_level,
    scaled_values,
)
from zerolab.report.figures import RunSample
from zerolab.studies.claims import MissingEstimate, estimate_unless_missing
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.joint_estimates import (
    RankedEstimate,
    RelativeSpread,
    contrast_of_means,
    estimate_largest,
    estimate_smallest,
    relative_spread,
)
from zerolab.studies.results import Results
from zerolab.studies.statistics import (
    ClaimEstimate,
    StudentEstimate,
    estimate_mean,
    linear_regression,
    run_sample,
)

RANDOM_AGENT = "random"

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
        return self.results.runs_where(changed=DEFAULT_LEVEL)

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
        return self.results.tournaments.get(TOURNAMENT_PART)

    @property
    def has_runs_of_all_values(self) -> bool:
        """True if the defaults and each changed value have a finished run."""
        return bool(self.default_runs) and all(
            sweep_value.runs for sweep_value in self.changed_values
        )

    @cached_property
    def elo_and_error_by_label(self) -> dict[str, tuple[float, float]]:
        """Elo relative to Random and its standard error, by run label.

        The dictionary is empty if the tournament is not finished. The errors include the error of
        Random's rating, which runs with the same seed share.
        """
        tournament = self.tournament
        if tournament is None:
            return {}
        return {
            run.planned.label: (
                tournament.elo_above_agent(run, RANDOM_AGENT),
                tournament.error_above_agent(run, RANDOM_AGENT),
            )
            for run in self.results.runs
        }

    def elo_above_random(self, run: TrainedRun) -> float:
        """Return a run's Elo relative to Random; raise KeyError if the run has no rating."""
        return self.elo_and_error_by_label[run.planned.label][0]

    def elo_sample_above_random(self, runs: Sequence[TrainedRun]) -> RunSample:
        """Return the Elo of `runs` relative to Random, with standard errors."""
        elos = [self.elo_and_error_by_label[run.planned.label] for run in runs]
        return run_sample([elo for elo, _ in elos], [error for _, error in elos])


RunMeasure = Callable[[TrainedRun], float]
"""Function that measures a run, such as `final_loss`."""


def final_loss(run: TrainedRun) -> float:
    """Return policy loss plus value loss in the last epoch of the last iteration."""
    return loss_after(run, len(run.last_epoch_losses))


def loss_after(run: TrainedRun, iterations: int) -> float:
    """Return policy loss plus value loss in the last epoch of an iteration, counted from 1."""
    return _sum(run.last_epoch_losses[iterations - 1])


def loss_after_percent(percent: int) -> RunMeasure:
    """Return a measure of the loss after a percentage of the iterations."""
    return lambda run: loss_after(run, math.ceil(percent * len(run.last_epoch_losses) / 100))


def loss_change_by_epochs(run: TrainedRun) -> float:
    """Return the mean change in the loss from the first to the last epoch of an iteration."""
    return fmean(_sum(epochs[-1]) - _sum(epochs[0]) for epochs in run.epoch_losses)


def _sum(losses: Mapping[str, float]) -> float:
    return losses["policy"] + losses["value"]


def training_seconds(run: TrainedRun) -> float:
    """Return the training time of a run in seconds."""
    return run.training_seconds


def log2_seconds(run: TrainedRun) -> float:
    """Return log2 of the training time of a run in seconds."""
    return math.log2(training_seconds(run))


class VariedRun(NamedTuple):
    """Finished run with the values of all twelve hyper-parameters."""

    trained_run: TrainedRun
    values: Mapping[str, float]
    """Values by symbol."""
    block: FactorLevel
    """Number of the mirrored pair in the screening; name of the part in the sweep."""


def screening_runs(results: Results) -> list[VariedRun]:
    """Return the finished runs of the screening with their values."""
    return [
        VariedRun(
            run, {symbol: float(run.factors[symbol]) for symbol in HYPERPARAMETERS},
            run.factors[PAIR_FACTOR],
        )
        for run in results.runs
    ]  # fmt: skip


def doubling_effects(runs: Sequence[VariedRun], measure: RunMeasure) -> dict[str, StudentEstimate]:
    """Return the change in a measure per doubling of each hyper-parameter, by symbol.

    Effects that the runs do not determine have infinite intervals. Raises ValueError without runs.
    """
    values = np.log2([[run.values[symbol] for symbol in HYPERPARAMETERS] for run in runs])
    constants = np.hstack([
        _indicators([run.trained_run.seed for run in runs]),
        _indicators([run.block for run in runs]),
    ])  # fmt: skip
    names = [*HYPERPARAMETERS, *(f"constant {i}" for i in range(constants.shape[1]))]
    y = [measure(run.trained_run) for run in runs]
    fitted = linear_regression(np.hstack([values, constants]), y, names)
    return {symbol: fitted[symbol] for symbol in HYPERPARAMETERS}


def range_effects(
    scale: str, runs: Sequence[VariedRun], measure: RunMeasure
) -> dict[str, StudentEstimate]:
    """Return the change in a measure from the smallest to the largest value, by symbol."""
    effects = doubling_effects(runs, measure)
    return {
        symbol: scale_estimate(effect, range_in_doublings(scale, symbol))
        for symbol, effect in effects.items()
    }


def gate_time_share(run: TrainedRun) -> float:
    """Return the share of a run's training time that its gates take."""
    return run.seconds_by_stage["gate"] / run.training_seconds


def late_loss_change(scale: str, runs: Sequence[VariedRun]) -> StudentEstimate:
    """Return the change in the loss over the last third of training, in runs with the largest I."""
    return estimate_mean(
        [
            final_loss(run) - loss_after(run, 2 * len(run.last_epoch_losses) // 3)
            for run in _longest(scale, runs)
        ]
    )


def late_loss_rise(scale: str, runs: Sequence[VariedRun]) -> RankedEstimate:
    """Return the smaller of two changes in the loss in the longest runs.

    The changes are the rise from 80 to 90 % of the iterations, and the fall from there to the end.
    """
    before, top = (loss_after_percent(percent) for percent in (80, 90))
    longest = _longest(scale, runs)
    margins = [[top(run) - other(run) for run in longest] for other in (before, final_loss)]
    return estimate_smallest([estimate_mean(each) for each in margins])


def _longest(scale: str, runs: Sequence[VariedRun]) -> list[TrainedRun]:
    """Return the runs with the largest I."""
    iterations = scaled_values(scale, "I")[2]
    return [run.trained_run for run in runs if run.values["I"] == iterations]


def differences_between_values(
    scale: str, runs: Sequence[VariedRun], measure: RunMeasure, symbol: str, index: int
) -> list[StudentEstimate | MissingEstimate]:
    """Return a measure with one value of a hyper-parameter minus that with each other value.

    `index` is the index of the value's name in `VALUE_NAMES`. In the sweep, the differences are
    between means, with the variance pooled over all settings. The screening has no runs with
    defaults. There, the only difference is the fitted one between the two ends of the range, and
    the result for the default is empty.
    """
    defaults = {each: scaled_values(scale, each)[1] for each in HYPERPARAMETERS}
    groups: dict[tuple[float, ...], list[float]] = {}
    for run in runs:
        groups.setdefault(tuple(run.values.values()), []).append(measure(run.trained_run))
    if tuple(defaults.values()) not in groups:
        effect = range_effects(scale, runs, measure)[symbol]
        return [] if index == 1 else [scale_estimate(effect, index - 1.0)]
    values = dict.fromkeys(scaled_values(scale, symbol))
    by_value = {each: groups.get(tuple({**defaults, symbol: each}.values()), []) for each in values}
    if not all(by_value.values()):
        return [MissingEstimate(f"{symbol} is not varied")]
    one = scaled_values(scale, symbol)[index]
    return [
        contrast_of_means([(1.0, by_value[one]), (-1.0, by_value[other])], [*groups.values()])
        for other in values
        if other != one
    ]


def largest_lead(
    scale: str, runs: Sequence[VariedRun], measure: RunMeasure, symbol: str, index: int | None
) -> ClaimEstimate | MissingEstimate:
    """Return the largest lead of value `index` of a hyper-parameter over another value.

    Without `index`, return the largest difference between any two values.
    """
    differences = [
        difference
        for each in ([index] if index is not None else range(len(VALUE_NAMES)))
        for difference in differences_between_values(scale, runs, measure, symbol, each)
    ]
    return estimate_unless_missing(estimate_largest, differences)


def smallest_lead_of_effects(
    effects: Mapping[str, StudentEstimate], leading: Sequence[str], sign: float
) -> RankedEstimate:
    """Return the smallest lead of the effect of a `leading` hyper-parameter over that of another.

    Leading effects are multiplied by `sign`; of the other effects, only the size counts. Effects
    are independent because the designs are orthogonal.
    """
    return estimate_smallest(
        [
            StudentEstimate(
                sign * effects[one].value - other_sign * effects[other].value,
                math.hypot(effects[one].standard_error, effects[other].standard_error),
                effects[one].degrees_of_freedom,
            )
            for one in leading
            for other in effects if other not in leading
            for other_sign in (1.0, -1.0)
        ]
    )  # fmt: skip


def relative_spread_by_values(
    runs: Sequence[VariedRun], measure: RunMeasure
) -> RelativeSpread | MissingEstimate:
    """Return a measure's spread between hyper-parameter values relative to that between seeds."""
    groups: dict[tuple[float, ...], list[float]] = {}
    for run in runs:
        groups.setdefault(tuple(run.values.values()), []).append(measure(run.trained_run))
    spread = relative_spread(list(groups.values()))
    return spread or MissingEstimate("no values have two seeds, or runs do not vary with the seed")


def range_in_doublings(scale: str, symbol: str) -> float:
    """Return log2 of the largest value divided by the smallest."""
    low, _, high = scaled_values(scale, symbol)
    return math.log2(high / low)


def scale_estimate(estimate: StudentEstimate, factor: float) -> StudentEstimate:
    """Return an estimate multiplied by a factor."""
    return StudentEstimate(
        factor * estimate.value, abs(factor) * estimate.standard_error, estimate.degrees_of_freedom
    )


def _indicators(labels: Sequence[FactorLevel]) -> NDArray[np.float64]:
    """Return dummy variables, float64[runs, distinct labels - 1].

    The first label is the baseline.
    """
    others = list(dict.fromkeys(labels))[1:]
    return np.array([[float(label == each) for each in others] for label in labels]).reshape(
        len(labels), len(others)
    )
