"""Claims of [Wang2020a, section 6], for the sweep, the screening and the full grid.

For three hyper-parameters, the section names the iteration (of 100) in which one value has the
smallest loss: 70 for m, 85 for bs and about 80 for lr. The claims about these three concern the
loss after that share of the iterations; all others concern the loss at the end.

The section contradicts itself twice. According to the text, the loss finally goes down with 100
games per iteration, but Table 4 names 10 as the best value; the claim follows the text. The text
calls u = 0.7 too high, but concludes that u makes no significant difference to the loss; the claim
follows the conclusion. The paper does not say which hyper-parameter has the largest effect on time,
so there is no claim about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zerolab.papers.hyperparameters.grid import INNER, OUTER, SYMBOLS, Grid
from zerolab.papers.hyperparameters.regression import (
    elo_in_long_sessions,
    elo_per_work,
    fit_grid,
    last_step_of_epochs,
    lead_at_equal_time,
    lead_of_iterations,
    lead_over_costly_runs,
    leads_of_fewest_epochs,
    leads_of_iterations_and_games,
)
from zerolab.papers.hyperparameters.runs import (
    VariedRun,
    change_by_epochs,
    doubling_effects,
    final_loss,
    late_change,
    log2_seconds,
    loss_after,
    loss_after_percent,
    range_effects,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.report.claims import Claim, Direction
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest, unless_missing
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of

TIME_SIGNS: Mapping[str, float] = {
    **dict.fromkeys(("I", "E", "m", "rs", "ep", "n"), 1.0), "bs": -1.0
}  # fmt: skip
"""Sign of the effect on time of the hyper-parameters that Table 3 calls time-sensitive.

The text lists ep among those without a significant effect; Table 4 does not."""
TIME_FRIENDLY = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that Table 3 calls time-friendly: they change the hours by at most 18 %."""

TIME_FIGURE, LOSS_FIGURE = "training-time", "training-loss"
"""Figures that show the effects on time and on the loss, in the sweep and in the screening."""

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
    f"{', '.join(TIME_FRIENDLY)} hardly change the training time.",
    "[Wang2020a, Table 3]",
    "largest absolute change in log2 of time from the smallest to the largest value of one of"
    f" these, {_FIT}",
    0.25,
    "below",
    0.1,
    figure=TIME_FIGURE,
)


_PERCENT_OF_ITERATIONS: Mapping[str, int] = {"m": 70, "bs": 85, "lr": 80}
"""Percentage of the iterations after which the loss is compared, if not at the end."""


def _percent_of(symbol: str) -> int:
    """Return the percentage of the iterations after which a claim compares the loss."""
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
    " training it rises unexpectedly, and then decreases further.",
    "[Wang2020a, section 6.1, Fig. 3(a)]",
    "policy loss plus value loss at the end minus that after two thirds of the iterations, mean"
    " over the runs with the largest I",
    0.0,
    "not above",
    0.1,
    TIME_CLAIM.key,
    LOSS_FIGURE,
)
EPOCHS_CLAIM = Claim(
    "loss-falls-with-epochs",
    "In each iteration, the training loss decreases with the epochs.",
    "[Wang2020a, section 6, Fig. 2]",
    "policy loss plus value loss in the last epoch of an iteration minus that in the first, mean"
    " over the iterations and runs",
    0.0,
    "below",
    0.1,
    TIME_CLAIM.key,
    LOSS_FIGURE,
)
ITERATIONS_CLAIM = Claim(
    "loss-falls-with-iterations",
    "The training loss decreases with the iterations, too.",
    "[Wang2020a, section 6, Fig. 2]",
    "policy loss plus value loss at the end minus that after the first iteration, mean over the"
    " runs",
    0.0,
    "below",
    0.1,
    TIME_CLAIM.key,
    LOSS_FIGURE,
)
SENSITIVE_CLAIM = Claim(
    "sensitive",
    "Training is highly sensitive to the values of hyper-parameters.",
    "[Wang2020a, abstract]",
    "policy loss plus value loss at the end: standard deviation between different values of the"
    " twelve divided by that between seeds",
    1.0,
    "above",
    0.25,
    TIME_CLAIM.key,
    LOSS_FIGURE,
)
_LOSSES: Sequence[tuple[str, str, Direction, str]] = (
    ("E", "With more games per iteration, the training loss finally goes down (but Table 4 names"
     " the fewest games as best).", "below", "Fig. 3(b)"),
    ("T'", "A small step threshold T' leads to a lower training loss.", "above", "Fig. 3(c)"),
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

    `runs` are the finished runs of the sweep or the screening, with their values.
    """
    if not runs or len(runs) < len(results.design.runs):
        missing = MissingEstimate(results.unfinished_message() or "nothing is planned")
        claims = [TIME_CLAIM, FREE_CLAIM, EPOCHS_CLAIM, ITERATIONS_CLAIM, STABLE_CLAIM]
        return dict.fromkeys([*claims, *LOSS_CLAIMS.values()], missing)
    exponents = doubling_effects(runs, log2_seconds)
    changes = range_effects(results.scale, runs, log2_seconds)
    losses = {
        percent: range_effects(results.scale, runs, loss_after_percent(percent))
        for percent in {_percent_of(symbol) for symbol in LOSS_CLAIMS}
    }
    return {
        TIME_CLAIM: estimate_smallest(
            [_signed(exponents[symbol], sign) for symbol, sign in TIME_SIGNS.items()]
        ),
        FREE_CLAIM: estimate_largest(
            [_signed(changes[symbol], sign) for symbol in TIME_FRIENDLY for sign in (1.0, -1.0)]
        ),
        EPOCHS_CLAIM: mean_of([change_by_epochs(run.trained_run) for run in runs]),
        ITERATIONS_CLAIM: mean_of(
            [final_loss(run.trained_run) - loss_after(run.trained_run, 1) for run in runs]
        ),
        STABLE_CLAIM: late_change(results.scale, runs),
        **{claim: losses[_percent_of(symbol)][symbol] for symbol, claim in LOSS_CLAIMS.items()},
    }


def _signed(estimate: StudentEstimate, sign: float) -> StudentEstimate:
    return estimate._replace(value=sign * estimate.value)


_ABSTRACT, _FIG_4 = "[Wang2020a, abstract]", "[Wang2020a, section 6.2, Fig. 4]"


def _grid_claim(
    key: str,
    text: str,
    source: str,
    statistic: str,
    figure: str,
    opened_by: Claim | None = None,
    direction: Direction = "above",
    smallest: float = 10.0,
) -> Claim:
    opener = opened_by.key if opened_by else ""
    return Claim(key, text, source, statistic, 0.0, direction, smallest, opener, figure)


MORE_CLAIM = _grid_claim(
    "more-of-each",
    "Higher values of all four hyper-parameters (I, E, m, ep) lead to higher playing strength.",
    "[Wang2020a, conclusion]",
    "Elo per doubling of a hyper-parameter with the others unchanged, from a fit over all runs,"
    " smallest of four",
    "doubling",
)
SUBSUMED_CLAIM = _grid_claim(
    "iterations-subsume",
    "Iterations subsume games, simulations and epochs. At equal time, more iterations are worth"
    " more than more of any of these.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} minus Elo per doubling of {', '.join(INNER)}, each at equal"
    " counted time, smallest difference",
    "doubling",
)
EACH_CLAIMS = {
    symbol: _grid_claim(
        f"more-{HYPERPARAMETERS[symbol].title.replace(' ', '-')}",
        f"More {HYPERPARAMETERS[symbol].title} ({symbol}) train stronger players.",
        _FIG_4,
        f"Elo per doubling of {symbol} with the others unchanged, from a fit over all runs",
        "doubling",
        MORE_CLAIM,
    )
    for symbol in SYMBOLS
}
OVERTRAINED_CLAIM = _grid_claim(
    "too-many-epochs",
    "Sometimes more training makes players weaker: with the largest I, E and m, the largest number"
    " of epochs is worse than the middle one.",
    _FIG_4,
    "mean Elo with the largest ep minus that with the middle ep, at the largest I, E and m",
    "elo", MORE_CLAIM, "below", 30.0,
)  # fmt: skip
SATURATED_CLAIM = _grid_claim(
    "epochs-bring-nothing",
    "With the largest I and E, more epochs within an iteration do not improve Elo.",
    "[Wang2020a, Fig. 6]",
    "Elo per doubling of ep with m unchanged, over the runs with the largest I and E",
    "elo", MORE_CLAIM, "not above", 20.0,
)  # fmt: skip
LONG_SEARCH_CLAIM = _grid_claim(
    "simulations-help-long-sessions",
    "With the largest I and E, more simulations per move generally improve Elo.",
    "[Wang2020a, Fig. 6]",
    "Elo per doubling of m with ep unchanged, over the runs with the largest I and E",
    "elo", MORE_CLAIM, smallest=20.0,
)  # fmt: skip
FEWEST_EPOCHS_CLAIM = _grid_claim(
    "fewest-epochs-best",
    "In long sessions, with the largest I and E, the fewest epochs reach the highest Elo.",
    "[Wang2020a, section 6.2, Fig. 6]",
    "mean Elo with the smallest ep minus that with each larger ep, at the largest I and E, over all"
    " m, smallest difference",
    "front-most", MORE_CLAIM, smallest=20.0,
)  # fmt: skip
WORK_CLAIM = _grid_claim(
    "more-time-helps",
    "In general, spending more time in self-play and in training gives higher Elo.",
    "[Wang2020a, section 6.2, Fig. 5]",
    "Elo per doubling of all self-play simulations and Elo per doubling of all training examples,"
    " from one fit over all runs, smaller of the two",
    "elo-both-times",
    MORE_CLAIM,
)
CHEAP_CLAIM = _grid_claim(
    "high-elo-at-low-cost",
    "Combinations with little self-play and training time reach a high Elo: many iterations with"
    " few epochs and simulations.",
    "[Wang2020a, section 6.2, Fig. 5]",
    "Elo with the largest I and the smallest m and ep, over all E, minus that of all other runs at"
    " equal counted time, from a fit with log2 of the counted time and a constant per tournament",
    "elo-both-times", MORE_CLAIM, smallest=20.0,
)  # fmt: skip
FRUGAL_CLAIM = _grid_claim(
    "long-sessions-need-little",
    "Long sessions with many iterations can get by with few epochs and simulations.",
    "[Wang2020a, conclusion]",
    "mean Elo with the smallest m and ep minus that with the largest, at the largest I, over all E",
    "elo", MORE_CLAIM, "not below", 50.0,
)  # fmt: skip
OUTER_MATTERS_CLAIM = _grid_claim(
    "iterations-and-games-matter-more",
    "Iterations and games per iteration are more important for Elo than simulations and epochs.",
    _FIG_4,
    "Elo per doubling of I and of E minus Elo per doubling of m and of ep, with the others"
    " unchanged, smallest of four differences",
    "doubling",
    MORE_CLAIM,
)
OUTER_CLAIM = _grid_claim(
    "iterations-at-equal-time",
    "Within a limited budget, time is well spent on iterations. At equal time, more iterations"
    " train stronger players.",
    "[Wang2020a, conclusion]",
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the counted"
    " time and a constant per tournament",
    "doubling",
    SUBSUMED_CLAIM,
)
LEAD_CLAIMS = {
    symbol: _grid_claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {HYPERPARAMETERS[symbol].title}. At equal time, more iterations are"
        f" worth more than more {HYPERPARAMETERS[symbol].title}.",
        _ABSTRACT,
        f"Elo per doubling of {OUTER} minus Elo per doubling of {symbol}, both at equal counted"
        " time",
        "doubling",
        SUBSUMED_CLAIM,
    )
    for symbol in INNER
}
GRID_CLAIMS = (
    MORE_CLAIM, SUBSUMED_CLAIM, *EACH_CLAIMS.values(), OVERTRAINED_CLAIM, SATURATED_CLAIM,
    LONG_SEARCH_CLAIM, WORK_CLAIM, FEWEST_EPOCHS_CLAIM, CHEAP_CLAIM, FRUGAL_CLAIM,
    OUTER_MATTERS_CLAIM, OUTER_CLAIM,
    *LEAD_CLAIMS.values(),
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
        SUBSUMED_CLAIM: unless_missing(estimate_smallest, [*leads.values()]),
        **{claim: fits.elo[symbol] for symbol, claim in EACH_CLAIMS.items()},
        OVERTRAINED_CLAIM: last_step_of_epochs(grid),
        SATURATED_CLAIM: elo_in_long_sessions(grid, "ep", "m"),
        LONG_SEARCH_CLAIM: elo_in_long_sessions(grid, "m", "ep"),
        WORK_CLAIM: estimate_smallest(elo_per_work(grid)),
        FEWEST_EPOCHS_CLAIM: estimate_smallest(leads_of_fewest_epochs(grid)),
        CHEAP_CLAIM: lead_at_equal_time(grid),
        FRUGAL_CLAIM: lead_over_costly_runs(grid),
        OUTER_MATTERS_CLAIM: estimate_smallest(leads_of_iterations_and_games(grid)),
        OUTER_CLAIM: fits.elo_at_equal_counted_time[OUTER],
        **{claim: leads[symbol] for symbol, claim in LEAD_CLAIMS.items()},
    }
