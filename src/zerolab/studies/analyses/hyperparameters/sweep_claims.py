"""What [Wang2020a, Table 3] says about time, as claims.

FACTORS has the numbers. The paper gives no other number of the sweep that can be tested: its losses
are figures, and its importance is by judgement.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean as mean

import numpy as np

from zerolab.studies.analyses.hyperparameters.sweep_runs import (
    Setting,
    Sweep,
    largest_ratio,
    seconds,
)
from zerolab.studies.analyses.hyperparameters.values import FACTORS
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.statistics import Estimate, bootstrap, linear_regression

_SOURCE = "[Wang2020a, Table 3]"

COSTLY = ("I", "E", "m", "rs", "ep", "n")
"""More of them cost more time."""
FREE = ("T'", "c", "lr", "d", "u")
"""They hardly change it: published hours differ from the default's by up to 18 %."""
MOST = "E"
"""Its published hours differ by a factor of 5; those of I, the next, by 2.5."""


def _exponent_claim(symbol: str, text: str, below: bool = False) -> Claim:
    return Claim(
        f"time-{symbol}",
        text,
        _SOURCE,
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
    _SOURCE,
    "the mean time of the value whose mean time differs most from the default's, over that: by how"
    " much it differs from 1",
    0.25,
    "below",
)
MOST_CLAIM = Claim(
    "time-most",
    "Of the twelve parameters, the number of games of an iteration (E) changes the time most.",
    _SOURCE,
    "log2 of the longest over the shortest mean time of the three values of E, less the largest of"
    " the other parameters",
    0.0,
    "above",
)


def sweep_findings(sweep: Sweep) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
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


def _times(settings: Sequence[Setting]) -> list[list[float]]:
    return [list(map(seconds, each.runs)) for each in settings]


def _largest_deviation(sweep: Sweep) -> Estimate | Missing:
    settings = [each for symbol in FREE for each in sweep.by_symbol[symbol] if each.place != 1]
    if not sweep.default or not all(each.runs for each in settings):
        return Missing(sweep.results.missing())

    def largest(default: Sequence[float], *groups: Sequence[float]) -> float:
        return max(abs(mean(group) / mean(default) - 1) for group in groups)

    return bootstrap(list(map(seconds, sweep.default)), *_times(settings), statistic=largest)


def _lead(sweep: Sweep) -> Estimate | Missing:
    if not sweep.complete:
        return Missing(sweep.results.missing())
    owners = [each.symbol for each in sweep.others]

    def lead(default: Sequence[float], *groups: Sequence[float]) -> float:
        by_symbol: dict[str, list[Sequence[float]]] = {}
        for symbol, group in zip(owners, groups, strict=True):
            by_symbol.setdefault(symbol, [default]).append(group)
        found = {symbol: largest_ratio(*own) for symbol, own in by_symbol.items()}
        return found.pop(MOST) - max(found.values())

    return bootstrap(list(map(seconds, sweep.default)), *_times(sweep.others), statistic=lead)
