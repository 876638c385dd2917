"""Findings of [Wang2020a] as claims, with their statistics and thresholds.

Of the sweep, only the hours of Table 3 can be tested: losses are published as figures, and
importance by judgement.
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
"""Hyper-parameters whose larger values cost more time."""
FREE = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that hardly change the time: by up to 18 % of the default's published hours."""
MOST = "E"
"""The hyper-parameter whose published hours differ most, by a factor of 5; the next is I, 2.5."""


def _exponent_claim(symbol: str, text: str, below: bool = False) -> Claim:
    return Claim(
        f"time-{symbol}",
        text,
        _TABLE_3,
        f"b in time ~ {symbol}^b, fitted to the logarithms over the runs of its three values",
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
    f"{', '.join(FREE)} hardly change the time.",
    _TABLE_3,
    "largest difference, up or down, between the mean time of a value and that of the default,"
    " relative to the latter; the spread between runs is pooled over these values",
    0.25,
    "below",
)
MOST_CLAIM = Claim(
    "time-most",
    "Of the twelve parameters, the number of games of an iteration (E) changes the time most.",
    _TABLE_3,
    "doublings of time (mean of log2) from the least to the greatest value of E, minus the largest"
    " difference between two values of another parameter; the spread between runs is pooled over"
    " all settings",
    0.0,
    "above",
)

MORE_CLAIM = Claim(
    "more-iterations",
    "More iterations train stronger players.",
    _ABSTRACT,
    "Elo per doubling of I, all others equal, from a fit over all runs with E, m and ep",
    0.0,
    "above",
)
OUTER_CLAIM = Claim(
    "iterations-at-equal-time",
    "Time is well spent on iterations: at equal time, more of them train stronger players.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the time of"
    " counted work and a constant per tournament",
    0.0,
    "above",
)
LEAD_CLAIMS = {
    symbol: Claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {FACTORS[symbol].title}: at equal time, more iterations are worth more"
        f" than more {FACTORS[symbol].title}.",
        _ABSTRACT,
        f"Elo per doubling of {OUTER}, minus that of {symbol}, both at equal time by counted work",
        0.0,
        "above",
    )
    for symbol in INNER
}


def sweep_findings(sweep: Sweep) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim about the sweep."""
    found: dict[Claim, Estimate | Missing] = {
        claim: time_exponent(sweep, symbol) for symbol, claim in EXPONENTS.items()
    }
    found[BATCHES] = time_exponent(sweep, "bs")
    found[FREE_CLAIM] = _largest_deviation(sweep)
    found[MOST_CLAIM] = _lead(sweep)
    return found


def time_exponent(sweep: Sweep, symbol: str) -> Estimate | Missing:
    """Return b of time ~ value^b, with an interval over the runs of three values."""
    settings = sweep.by_symbol[symbol]
    if not all(each.runs for each in settings):
        return Missing(sweep.results.missing())
    pairs = [(each.value, seconds(run)) for each in settings for run in each.runs]
    x, y = np.log2(np.array(pairs)).T
    return linear_regression(x, y, [symbol])[symbol]


def _largest_deviation(sweep: Sweep) -> Estimate | Missing:
    """Return the largest deviation, in either direction; which value it is was not known."""
    settings = [each for symbol in FREE for each in sweep.by_symbol[symbol] if each.place != 1]
    if not sweep.default or not all(each.runs for each in settings):
        return Missing(sweep.results.missing())
    mean_default = mean(map(seconds, sweep.default))
    default, *others = (
        [seconds(run) / mean_default for run in runs]
        for runs in [sweep.default, *(each.runs for each in settings)]
    )
    return largest(
        [
            contrast([(sign, group), (-sign, default)], [default, *others])
            for group in others for sign in (1.0, -1.0)
        ]
    )  # fmt: skip


def _lead(sweep: Sweep) -> Estimate | Missing:
    """Return the lead of E over the largest difference, up or down, within another parameter.

    In logarithms, because their spread is the same for all settings; that of times is not.
    """
    if not sweep.complete:
        return Missing(sweep.results.missing())
    alike = [_doublings(runs) for runs in sweep.settings]
    least, *_, greatest = (_doublings(each.runs) for each in sweep.by_symbol[MOST])
    return smallest(
        [
            contrast([(1.0, greatest), (-1.0, least), (-1.0, one), (1.0, other)], alike)
            for symbol, settings in sweep.by_symbol.items() if symbol != MOST
            for one, other in permutations([_doublings(each.runs) for each in settings], 2)
        ]
    )  # fmt: skip


def _doublings(runs: Sequence[TrainedRun]) -> list[float]:
    return [math.log2(seconds(run)) for run in runs]


def grid_findings(grid: Grid) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim about the grid."""
    claims = [MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values()]
    missing = grid.results.missing()
    if missing or not grid.runs:
        return dict.fromkeys(claims, Missing(missing or "nothing is planned"))
    found = fit(grid)
    return {
        MORE_CLAIM: found.elo[OUTER],
        OUTER_CLAIM: found.equal_work[OUTER],
        **{claim: lead(grid, symbol) for symbol, claim in LEAD_CLAIMS.items()},
    }
