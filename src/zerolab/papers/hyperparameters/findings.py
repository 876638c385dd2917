"""Claims of [Wang2020a] and their statistics.

For the sweep, only the hours in Table 3 can be tested. The paper publishes losses only in figures
and ranks importance by judgement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from statistics import fmean as mean

import numpy as np

from zerolab.papers.hyperparameters.grid import INNER, OUTER, Grid
from zerolab.papers.hyperparameters.regression import fit_grid, lead_of_iterations
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.papers.hyperparameters.sweep_runs import Sweep, training_seconds
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import contrast, estimate_largest, estimate_smallest
from zerolab.studies.results import TrainedRun
from zerolab.studies.statistics import ClaimEstimate, linear_regression

_TABLE_3, _ABSTRACT = "[Wang2020a, Table 3]", "[Wang2020a, abstract]"

COSTLY = ("I", "E", "m", "rs", "ep", "n")
"""Hyper-parameters that increase training time."""
FREE = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that change the published time by at most 18 % of the default."""
MOST = "E"
"""Hyper-parameter with the largest published effect on time: a factor of 5. I is next with 2.5."""


def _exponent_claim(symbol: str, text: str, below: bool = False) -> Claim:
    return Claim(
        f"time-{symbol}",
        text,
        _TABLE_3,
        f"b in time ~ {symbol}^b, fitted to the logarithms over the runs with its three values",
        0.0,
        "below" if below else "above",
        0.1,
    )


EXPONENTS = {
    symbol: _exponent_claim(
        symbol, f"More {HYPERPARAMETERS[symbol].title} ({symbol}) cost more time."
    )
    for symbol in COSTLY
}
BATCHES = _exponent_claim("bs", "Larger batches (bs) cost less time.", below=True)
FREE_CLAIM = Claim(
    "time-free",
    f"{', '.join(FREE)} hardly change the training time.",
    _TABLE_3,
    "largest absolute difference between the mean time of a value and that of the default, relative"
    " to the default (variation between runs pooled over these values)",
    0.25,
    "below",
    0.1,
)
MOST_CLAIM = Claim(
    "time-most",
    "Among the twelve hyper-parameters, the number of games per iteration (E) has the largest"
    " effect on training time.",
    _TABLE_3,
    "doublings of time (mean of log2) from the smallest to the largest value of E minus the largest"
    " difference between two values of another hyper-parameter (variation between runs pooled over"
    " all settings)",
    0.0,
    "above",
    0.25,
)

MORE_CLAIM = Claim(
    "more-iterations",
    "More iterations train stronger players.",
    _ABSTRACT,
    "Elo per doubling of I with E, m and ep unchanged, from a fit over all runs",
    0.0,
    "above",
    10.0,
)
OUTER_CLAIM = Claim(
    "iterations-at-equal-time",
    "Time is well spent on iterations. At equal time, more iterations train stronger players.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the counted"
    " time and a constant per tournament",
    0.0,
    "above",
    10.0,
)
LEAD_CLAIMS = {
    symbol: Claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {HYPERPARAMETERS[symbol].title}. At equal time, more iterations are"
        f" worth more than more {HYPERPARAMETERS[symbol].title}.",
        _ABSTRACT,
        f"Elo per doubling of {OUTER} minus Elo per doubling of {symbol}, both at equal counted"
        " time",
        0.0,
        "above",
        10.0,
        OUTER_CLAIM.key,
    )
    for symbol in INNER
}


def sweep_statistics(sweep: Sweep) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about the sweep, or the reason why it is missing."""
    return {
        **{claim: time_exponent(sweep, symbol) for symbol, claim in EXPONENTS.items()},
        BATCHES: time_exponent(sweep, "bs"),
        FREE_CLAIM: _largest_deviation(sweep),
        MOST_CLAIM: _lead(sweep),
    }


def time_exponent(sweep: Sweep, symbol: str) -> ClaimEstimate | MissingEstimate:
    """Return the exponent b in time ~ value^b, with a confidence interval over runs."""
    sweep_values = sweep.values_by_symbol[symbol]
    if not all(sweep_value.runs for sweep_value in sweep_values):
        return MissingEstimate(sweep.results.unfinished_message())
    pairs = [
        (sweep_value.value, training_seconds(run))
        for sweep_value in sweep_values
        for run in sweep_value.runs
    ]
    x, y = np.log2(np.array(pairs)).T
    return linear_regression(x, y, [symbol])[symbol]


def _largest_deviation(sweep: Sweep) -> ClaimEstimate | MissingEstimate:
    """Return the largest relative change in time among `FREE`, selected after the fact."""
    sweep_values = [
        sweep_value
        for symbol in FREE
        for sweep_value in sweep.values_by_symbol[symbol]
        if sweep_value.value_index != 1
    ]
    if not sweep.default_runs or not all(sweep_value.runs for sweep_value in sweep_values):
        return MissingEstimate(sweep.results.unfinished_message())
    mean_default = mean(map(training_seconds, sweep.default_runs))
    default, *others = (
        [training_seconds(run) / mean_default for run in runs]
        for runs in [sweep.default_runs, *(sweep_value.runs for sweep_value in sweep_values)]
    )
    return estimate_largest(
        [
            contrast([(sign, group), (-sign, default)], [default, *others])
            for group in others for sign in (1.0, -1.0)
        ]
    )  # fmt: skip


def _lead(sweep: Sweep) -> ClaimEstimate | MissingEstimate:
    """Return the effect of E on time minus the largest effect of another hyper-parameter.

    The effects are differences in log2(time), because the variation between runs is about the same
    for all settings on a logarithmic scale.
    """
    if not sweep.is_complete:
        return MissingEstimate(sweep.results.unfinished_message())
    pooled = [_log2_seconds(runs) for runs in sweep.run_groups]
    low, *_, high = (
        _log2_seconds(sweep_value.runs) for sweep_value in sweep.values_by_symbol[MOST]
    )
    return estimate_smallest(
        [
            contrast([(1.0, high), (-1.0, low), (-1.0, one), (1.0, other)], pooled)
            for symbol, sweep_values in sweep.values_by_symbol.items() if symbol != MOST
            for one, other in permutations([_log2_seconds(each.runs) for each in sweep_values], 2)
        ]
    )  # fmt: skip


def _log2_seconds(runs: Sequence[TrainedRun]) -> list[float]:
    return [math.log2(training_seconds(run)) for run in runs]


def grid_statistics(grid: Grid) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about the grid, or the reason why it is missing."""
    claims = [MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values()]
    unfinished_message = grid.results.unfinished_message()
    if unfinished_message or not grid.runs:
        return dict.fromkeys(claims, MissingEstimate(unfinished_message or "nothing is planned"))
    fits = fit_grid(grid)
    return {
        MORE_CLAIM: fits.elo[OUTER],
        OUTER_CLAIM: fits.elo_at_equal_counted_time[OUTER],
        **{claim: lead_of_iterations(grid, symbol) for symbol, claim in LEAD_CLAIMS.items()},
    }
