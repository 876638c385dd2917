"""Claims of [Wang2020a] and their statistics.

For the sweep, only the hours in Table 3 can be tested. The paper publishes losses only as figures,
and ranks importance by judgement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from statistics import fmean as mean

import numpy as np

from zerolab.papers.hyperparameters.grid import INNER, OUTER, Grid
from zerolab.papers.hyperparameters.regression import fit, lead
from zerolab.papers.hyperparameters.study import FACTORS
from zerolab.papers.hyperparameters.sweep_runs import Sweep, seconds
from zerolab.report.claims import Claim
from zerolab.studies.claims import Missing
from zerolab.studies.joint_estimates import contrast, largest, smallest
from zerolab.studies.results import TrainedRun
from zerolab.studies.statistics import Estimate, linear_regression

_TABLE_3, _ABSTRACT = "[Wang2020a, Table 3]", "[Wang2020a, abstract]"

COSTLY = ("I", "E", "m", "rs", "ep", "n")
"""Hyper-parameters that increase training time."""
FREE = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that change the published time by at most 18 % of the default."""
MOST = "E"
"""Hyper-parameter with the largest published effect on time, a factor of 5 (next is I with 2.5)."""


def _exponent_claim(symbol: str, text: str, below: bool = False) -> Claim:
    return Claim(
        f"time-{symbol}",
        text,
        _TABLE_3,
        f"b in time ~ {symbol}^b, fitted to the logarithms over the runs with its three values",
        0.0,
        "below" if below else "above",
    )


EXPONENTS = {
    symbol: _exponent_claim(symbol, f"More {FACTORS[symbol].title} ({symbol}) cost more time.")
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
)

MORE_CLAIM = Claim(
    "more-iterations",
    "More iterations train stronger players.",
    _ABSTRACT,
    "Elo per doubling of I with E, m and ep unchanged, from a fit over all runs",
    0.0,
    "above",
)
OUTER_CLAIM = Claim(
    "iterations-at-equal-time",
    "Time is well spent on iterations. At equal time, more iterations train stronger players.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the counted"
    " time and a constant per tournament",
    0.0,
    "above",
)
LEAD_CLAIMS = {
    symbol: Claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {FACTORS[symbol].title}. At equal time, more iterations are worth more"
        f" than more {FACTORS[symbol].title}.",
        _ABSTRACT,
        f"Elo per doubling of {OUTER} minus Elo per doubling of {symbol}, both at equal counted"
        " time",
        0.0,
        "above",
    )
    for symbol in INNER
}


def sweep_findings(sweep: Sweep) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of each claim about the sweep, or the reason why it is missing."""
    return {
        **{claim: time_exponent(sweep, symbol) for symbol, claim in EXPONENTS.items()},
        BATCHES: time_exponent(sweep, "bs"),
        FREE_CLAIM: _largest_deviation(sweep),
        MOST_CLAIM: _lead(sweep),
    }


def time_exponent(sweep: Sweep, symbol: str) -> Estimate | Missing:
    """Return the exponent b in time ~ value^b, with a confidence interval over runs."""
    settings = sweep.by_symbol[symbol]
    if not all(setting.runs for setting in settings):
        return Missing(sweep.results.missing_message())
    pairs = [(setting.value, seconds(run)) for setting in settings for run in setting.runs]
    x, y = np.log2(np.array(pairs)).T
    return linear_regression(x, y, [symbol])[symbol]


def _largest_deviation(sweep: Sweep) -> Estimate | Missing:
    """Return the largest relative change in time for `FREE`, selected after the fact."""
    settings = [
        setting for symbol in FREE for setting in sweep.by_symbol[symbol] if setting.place != 1
    ]
    if not sweep.default or not all(setting.runs for setting in settings):
        return Missing(sweep.results.missing_message())
    mean_default = mean(map(seconds, sweep.default))
    default, *others = (
        [seconds(run) / mean_default for run in runs]
        for runs in [sweep.default, *(setting.runs for setting in settings)]
    )
    return largest(
        [
            contrast([(sign, group), (-sign, default)], [default, *others])
            for group in others for sign in (1.0, -1.0)
        ]
    )  # fmt: skip


def _lead(sweep: Sweep) -> Estimate | Missing:
    """Return the effect of E on time minus the largest effect of another hyper-parameter.

    The effects are differences in log2(time), because the variation between runs is about the same
    for all settings on a logarithmic scale.
    """
    if not sweep.complete:
        return Missing(sweep.results.missing_message())
    pooled = [_log2_seconds(runs) for runs in sweep.settings]
    low, *_, high = (_log2_seconds(setting.runs) for setting in sweep.by_symbol[MOST])
    return smallest(
        [
            contrast([(1.0, high), (-1.0, low), (-1.0, one), (1.0, other)], pooled)
            for symbol, settings in sweep.by_symbol.items() if symbol != MOST
            for one, other in permutations([_log2_seconds(each.runs) for each in settings], 2)
        ]
    )  # fmt: skip


def _log2_seconds(runs: Sequence[TrainedRun]) -> list[float]:
    return [math.log2(seconds(run)) for run in runs]


def grid_findings(grid: Grid) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of each claim about the grid, or the reason why it is missing."""
    claims = [MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values()]
    missing_message = grid.results.missing_message()
    if missing_message or not grid.runs:
        return dict.fromkeys(claims, Missing(missing_message or "nothing is planned"))
    fits = fit(grid)
    return {
        MORE_CLAIM: fits.elo[OUTER],
        OUTER_CLAIM: fits.equal_work[OUTER],
        **{claim: lead(grid, symbol) for symbol, claim in LEAD_CLAIMS.items()},
    }
