"""Claims of [Wang2020a, section 6.2] about four hyper-parameters together."""

from __future__ import annotations

from zerolab.papers.hyperparameters.grid import INNER, OUTER, Grid
from zerolab.papers.hyperparameters.regression import fit_grid, lead_of_iterations
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.statistics import ClaimEstimate

_ABSTRACT = "[Wang2020a, abstract]"

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
