"""Claims of [Wang2020a, section 6], for the sweep, the screening and the full grid.

For three hyper-parameters, the section names the iteration, of 100, in which a value has the
smallest loss: 70 for m, 85 for bs and about 80 for lr. Their claims are about the loss after that
share of the iterations, the others about the loss at the end.

The section contradicts itself twice. With 100 games per iteration the loss goes down in the end,
but Table 4 names 10 as the best value; the claim follows the text. The text calls u = 0.7 too high,
but concludes that u makes no significant difference to the loss; the claim follows the conclusion.
The paper does not say which hyper-parameter has the largest effect on time, so no claim does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from zerolab.papers.hyperparameters.grid import INNER, OUTER, SYMBOLS, Grid
from zerolab.papers.hyperparameters.regression import (
    elo_of_late_epochs,
    fit_grid,
    last_step_of_epochs,
    lead_of_iterations,
    leads_of_fewest_epochs,
    leads_of_iterations_and_games,
)
from zerolab.papers.hyperparameters.runs import (
    RunMeasure,
    VariedRun,
    doubling_effects,
    final_loss,
    log2_seconds,
    loss_after,
    range_effects,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS, scaled_values
from zerolab.report.claims import Claim, Direction
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of

TIME_SIGNS: Mapping[str, float] = {
    **dict.fromkeys(("I", "E", "m", "rs", "ep", "n"), 1.0), "bs": -1.0
}  # fmt: skip
"""Sign of the effect on time of the hyper-parameters that Table 3 calls time-sensitive.

The text counts ep among those without a significant effect, Table 4 does not."""
FREE = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that Table 3 calls time-friendly, with at most 18 % of the default hours."""

TIME_FIGURE, LOSS_FIGURE = "training-time", "training-loss"
"""Figures of either design that show the effects on time and on the loss."""

_FIT = "from a linear fit on log2 of all twelve values"

TIME_CLAIM = Claim(
    "time-sensitive",
    "Larger values of I, E, m, rs, ep and n cost more training time, and larger batches (bs) less.",
    "[Wang2020a, Table 3]",
    f"smallest of seven exponents b in time ~ value^b, with the sign reversed for bs, {_FIT}",
    0.0,
    "above",
    0.1,
    figure=TIME_FIGURE,
)
FREE_CLAIM = Claim(
    "time-free",
    f"{', '.join(FREE)} hardly change the training time.",
    "[Wang2020a, Table 3]",
    "largest absolute change in log2 of time from the smallest to the largest value of one of"
    f" these, {_FIT}",
    0.25,
    "below",
    0.1,
    figure=TIME_FIGURE,
)


_PERCENT_OF_ITERATIONS: Mapping[str, int] = {"m": 70, "bs": 85, "lr": 80}
"""Iterations after which the loss is compared, where that is not the end."""


def _percent_of(symbol: str) -> int:
    """Return the percentage of the iterations after which the claim compares the loss."""
    return _PERCENT_OF_ITERATIONS.get(symbol, 100)


def _loss_claim(symbol: str, text: str, direction: Direction, place: str) -> Claim:
    percent = _percent_of(symbol)
    when = "at the end" if percent == 100 else f"after {percent} % of the iterations"
    return Claim(
        f"loss-{HYPERPARAMETERS[symbol].title.replace(' ', '-')}",
        text,
        f"[Wang2020a, section 6.1, {place}]",
        f"policy loss plus value loss {when}, change from the smallest to the largest {symbol},"
        f" {_FIT}",
        0.0,
        direction,
        0.1,
        TIME_CLAIM.key,
        LOSS_FIGURE,
    )


STABLE_CLAIM = Claim(
    "loss-stable",
    "The training loss decreases to a relatively stable level: in the last third of the longest"
    " training it ends where it began.",
    "[Wang2020a, section 6.1, Fig. 3(a)]",
    "policy loss plus value loss at the end minus that after two thirds of the iterations, mean"
    " over the runs with the largest I",
    0.0,
    "equal to",
    0.1,
    TIME_CLAIM.key,
    LOSS_FIGURE,
)
_LOSSES: Sequence[tuple[str, str, Direction, str]] = (
    ("E", "With more games per iteration, the training loss goes down in the end (but Table 4 names"
     " the fewest games as best).", "below", "Fig. 3(b)"),
    ("T'", "A small step threshold T' ends with a lower training loss.", "above", "Fig. 3(c)"),
    ("m", "After 70 % of the iterations, the most simulations have the smallest training loss (at"
     " the end they are level with half as many).", "below", "Fig. 3(d)"),
    ("c", "More exploitation, a small c, leads to a smaller training loss.", "above", "Fig. 3(e)"),
    ("rs", "Training on the examples of a single iteration leads to the smallest training"
     " loss.", "above", "Fig. 3(f)"),
    ("ep", "The training loss decreases with the number of epochs.", "below", "Fig. 3(g)"),
    ("bs", "After 85 % of the iterations, the largest batches have the smallest training loss.",
     "below", "Fig. 3(h)"),
    ("lr", "After 80 % of the iterations, the smallest learning rate has the lowest training loss.",
     "above", "Fig. 3(i)"),
    ("d", "Dropout makes no significant difference to the training loss.", "equal to", "Fig. 3(j)"),
    ("n", "The number of gate games makes no significant difference to the training loss.",
     "equal to", "Fig. 3(k)"),
    ("u", "The gate threshold makes no significant difference to the training loss (but according"
     " to the text on Fig. 3(l), 0.7 is too high).", "equal to", "Table 4"),
)  # fmt: skip
"""Symbol, finding, direction of the effect and place in the section."""
LOSS_CLAIMS = {each[0]: _loss_claim(*each) for each in _LOSSES}
"""Claims about the effect of a hyper-parameter on the loss."""


def effect_statistics(
    results: Results, runs: Sequence[VariedRun]
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing.

    `runs` are the finished runs of either design, with their values.
    """
    if not runs or len(runs) < len(results.design.runs):
        missing = MissingEstimate(results.unfinished_message() or "nothing is planned")
        return dict.fromkeys([TIME_CLAIM, FREE_CLAIM, STABLE_CLAIM, *LOSS_CLAIMS.values()], missing)
    exponents = doubling_effects(runs, log2_seconds)
    changes = range_effects(results.scale, runs, log2_seconds)
    losses = {
        percent: range_effects(results.scale, runs, _loss_after_percent(percent))
        for percent in {_percent_of(symbol) for symbol in LOSS_CLAIMS}
    }
    return {
        TIME_CLAIM: estimate_smallest(
            [_signed(exponents[symbol], sign) for symbol, sign in TIME_SIGNS.items()]
        ),
        FREE_CLAIM: estimate_largest(
            [_signed(changes[symbol], sign) for symbol in FREE for sign in (1.0, -1.0)]
        ),
        STABLE_CLAIM: _late_change(results.scale, runs),
        **{claim: losses[_percent_of(symbol)][symbol] for symbol, claim in LOSS_CLAIMS.items()},
    }


def _loss_after_percent(percent: int) -> RunMeasure:
    """Return a measure of the loss after a share of the iterations."""
    return lambda run: loss_after(run, math.ceil(percent * len(run.last_epoch_losses) / 100))


def _signed(estimate: StudentEstimate, sign: float) -> StudentEstimate:
    return estimate._replace(value=sign * estimate.value)


def _late_change(scale: str, runs: Sequence[VariedRun]) -> StudentEstimate:
    """Return the change of the loss in the last third of the runs with the largest I."""
    longest = scaled_values(scale, "I")[2]
    return mean_of(
        [
            final_loss(run.trained_run)
            - loss_after(run.trained_run, 2 * len(run.trained_run.last_epoch_losses) // 3)
            for run in runs if run.values["I"] == longest
        ]
    )  # fmt: skip


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
