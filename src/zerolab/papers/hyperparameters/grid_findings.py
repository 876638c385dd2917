"""Claims of [Wang2020a, section 6.2] about four hyper-parameters together."""

from __future__ import annotations

from zerolab.papers.hyperparameters.grid import INNER, OUTER, SYMBOLS, Grid
from zerolab.papers.hyperparameters.regression import (
    elo_of_late_epochs,
    fit_grid,
    last_step_of_epochs,
    lead_of_iterations,
    leads_of_fewest_epochs,
    leads_of_iterations_and_games,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate

_ABSTRACT, _FIG_4 = "[Wang2020a, abstract]", "[Wang2020a, section 6.2, Fig. 4]"

MORE_CLAIM = Claim(
    "more-of-each",
    "Higher values of all four hyper-parameters (I, E, m, ep) lead to higher playing strength.",
    "[Wang2020a, conclusion]",
    "Elo per doubling of a hyper-parameter with the others unchanged, from a fit over all runs,"
    " smallest of four",
    0.0,
    "above",
    10.0,
    figure="doubling",
)
SUBSUMED_CLAIM = Claim(
    "iterations-subsume",
    "Iterations subsume games, simulations and epochs. At equal time, more iterations are worth"
    " more than more of any of these.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} minus Elo per doubling of {', '.join(INNER)}, each at equal"
    " counted time, smallest difference",
    0.0,
    "above",
    10.0,
    figure="doubling",
)

EACH_CLAIMS = {
    symbol: Claim(
        f"more-{HYPERPARAMETERS[symbol].title.replace(' ', '-')}",
        f"More {HYPERPARAMETERS[symbol].title} ({symbol}) train stronger players.",
        _FIG_4,
        f"Elo per doubling of {symbol} with the others unchanged, from a fit over all runs",
        0.0,
        "above",
        10.0,
        MORE_CLAIM.key,
        "doubling",
    )
    for symbol in SYMBOLS
}
OVERTRAINED_CLAIM = Claim(
    "too-many-epochs",
    "Sometimes more training makes players weaker: with the largest I, E and m, the largest number"
    " of epochs is worse than the middle one.",
    _FIG_4,
    "mean Elo with the largest ep minus that with the middle ep, at the largest I, E and m",
    0.0,
    "below",
    30.0,
    MORE_CLAIM.key,
    "elo",
)
SATURATED_CLAIM = Claim(
    "epochs-bring-nothing",
    "With the largest I and E, more epochs within an iteration do not improve Elo.",
    "[Wang2020a, Fig. 6]",
    "Elo per doubling of ep with m unchanged, over the runs with the largest I and E",
    0.0,
    "not above",
    20.0,
    MORE_CLAIM.key,
    "elo",
)
FEWEST_EPOCHS_CLAIM = Claim(
    "fewest-epochs-best",
    "In long sessions, with the largest I and E, the fewest epochs reach the highest Elo.",
    "[Wang2020a, section 6.2, Fig. 6]",
    "mean Elo with the smallest ep minus that with each larger ep, at the largest I and E, over all"
    " m, smallest difference",
    0.0,
    "above",
    20.0,
    MORE_CLAIM.key,
    "front-most",
)
OUTER_MATTERS_CLAIM = Claim(
    "iterations-and-games-matter-more",
    "Iterations and games per iteration are more important for Elo than simulations and epochs.",
    _FIG_4,
    "Elo per doubling of I and of E minus Elo per doubling of m and of ep, with the others"
    " unchanged, smallest of four differences",
    0.0,
    "above",
    10.0,
    MORE_CLAIM.key,
    "doubling",
)
OUTER_CLAIM = Claim(
    "iterations-at-equal-time",
    "Within a limited budget, time is well spent on iterations. At equal time, more iterations"
    " train stronger players.",
    "[Wang2020a, conclusion]",
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the counted"
    " time and a constant per tournament",
    0.0,
    "above",
    10.0,
    SUBSUMED_CLAIM.key,
    "doubling",
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
        SUBSUMED_CLAIM.key,
        "doubling",
    )
    for symbol in INNER
}
GRID_CLAIMS = (
    MORE_CLAIM, SUBSUMED_CLAIM, *EACH_CLAIMS.values(), OVERTRAINED_CLAIM, SATURATED_CLAIM,
    FEWEST_EPOCHS_CLAIM, OUTER_MATTERS_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values(),
)  # fmt: skip
"""All claims about the grid."""


def grid_statistics(grid: Grid) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about the grid, or the reason why it is missing."""
    unfinished_message = grid.results.unfinished_message()
    if unfinished_message or not grid.runs:
        return dict.fromkeys(
            GRID_CLAIMS, MissingEstimate(unfinished_message or "nothing is planned")
        )
    fits = fit_grid(grid)
    leads = {symbol: lead_of_iterations(grid, fits, symbol) for symbol in LEAD_CLAIMS}
    return {
        MORE_CLAIM: estimate_smallest([fits.elo[symbol] for symbol in SYMBOLS]),
        SUBSUMED_CLAIM: _smallest_lead(list(leads.values())),
        **{claim: fits.elo[symbol] for symbol, claim in EACH_CLAIMS.items()},
        OVERTRAINED_CLAIM: last_step_of_epochs(grid),
        SATURATED_CLAIM: elo_of_late_epochs(grid),
        FEWEST_EPOCHS_CLAIM: estimate_smallest(leads_of_fewest_epochs(grid)),
        OUTER_MATTERS_CLAIM: estimate_smallest(leads_of_iterations_and_games(grid)),
        OUTER_CLAIM: fits.elo_at_equal_counted_time[OUTER],
        **{claim: leads[symbol] for symbol, claim in LEAD_CLAIMS.items()},
    }


def _smallest_lead(
    leads: list[StudentEstimate | MissingEstimate],
) -> ClaimEstimate | MissingEstimate:
    known = [lead for lead in leads if isinstance(lead, StudentEstimate)]
    missing = [lead for lead in leads if isinstance(lead, MissingEstimate)]
    return missing[0] if missing else estimate_smallest(known)
