"""Claims of [Wang2020a, section 6] for the sweep and the screening.

For three hyper-parameters, the section names the iteration (of 100) in which one value has the
smallest loss: 70 for m, 85 for bs and about 80 for lr. The claims about these three concern the
loss after that share of the iterations; all others concern the loss at the end.

The section contradicts itself. According to the text, the loss finally goes down with 100 games per
iteration, but Table 4 names 10 as the best value; the claim follows the text. The text calls
u = 0.7 too high, but concludes that u makes no significant difference to the loss; both are tested.
The abstract calls I, E, m and ep the important hyper-parameters, but in Table 3 rs and n change the
time more than ep. The paper does not say which hyper-parameter has the largest effect on time, so
there is no claim about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from zerolab.papers.hyperparameters.grid import GRID_SYMBOLS
from zerolab.papers.hyperparameters.runs import (
    VariedRun,
    differences_between_values,
    doubling_effects,
    final_loss,
    gate_time_share,
    largest_lead,
    late_loss_change,
    late_loss_rise,
    log2_seconds,
    loss_after,
    loss_after_percent,
    loss_change_by_epochs,
    range_effects,
    scale_estimate,
    smallest_lead_of_effects,
)
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS, scaled_values
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate, estimate_unless_missing
from zerolab.studies.joint_estimates import (
    estimate_largest,
    estimate_smallest,
)
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, estimate_mean

TIME_EFFECT_SIGNS: Mapping[str, float] = {
    **dict.fromkeys(("I", "E", "m", "rs", "ep", "n"), 1.0), "bs": -1.0
}  # fmt: skip
"""Sign of each effect on time, for the hyper-parameters that Table 3 calls time-sensitive.

The text lists ep among those without a significant effect; Table 4 does not."""
TIME_FRIENDLY_HYPERPARAMETERS = ("T'", "c", "lr", "d", "u")
"""Hyper-parameters that Table 3 calls time-friendly: they change the hours by at most 18 %."""

TIME_FIGURE, LOSS_FIGURE = "training-time", "training-loss"
"""Figures that show the effects on time and on the loss, in the sweep and in the screening."""

_FIT = "from a linear fit on log2 of all twelve values"

TIME_SENSITIVE_CLAIM = Claim(
    "time-sensitive",
    "Larger values of I, E, m, rs, ep and n cost more training time, and larger batches (bs) less"
    " (according to the text, ep makes no significant difference).",
    "[Wang2020a, Table 3]",
    f"minimum of seven exponents b in time ~ value^b, with the sign reversed for bs, {_FIT}",
    0.0,
    "above",
    0.1,
    figure=TIME_FIGURE,
)
TIME_FRIENDLY_CLAIM = Claim(
    "time-free",
    f"{', '.join(TIME_FRIENDLY_HYPERPARAMETERS)} hardly change the training time (in the table by"
    " up to 18 %, for d).",
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


LOSS_STABILISES_CLAIM = Claim(
    "loss-stable",
    "The training loss decreases to a relatively stable level.",
    "[Wang2020a, section 6.1, Fig. 3(a)]",
    "policy loss plus value loss at the end minus that after two thirds of the iterations, mean"
    " over the runs with the largest I",
    0.0,
    "equal to",
    0.1,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)
LATE_LOSS_RISE_CLAIM = Claim(
    "loss-rises-late",
    "After 80 % of the longest training, the loss unexpectedly rises, and then decreases further.",
    "[Wang2020a, section 6.1, Fig. 3(a)]",
    "policy loss plus value loss after 90 % of the iterations minus that after 80 %, and minus that"
    " at the end, means over the runs with the largest I, smaller difference",
    0.0,
    "above",
    0.1,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)
LOSS_FALLS_BY_EPOCH_CLAIM = Claim(
    "loss-falls-with-epochs",
    "In each iteration, the training loss decreases with the epochs (tested on average).",
    "[Wang2020a, section 6, Fig. 2]",
    "policy loss plus value loss in the last epoch of an iteration minus that in the first, mean"
    " over the iterations and runs",
    0.0,
    "below",
    0.1,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)
LOSS_FALLS_BY_ITERATION_CLAIM = Claim(
    "loss-falls-with-iterations",
    "The training loss decreases with the iterations, too.",
    "[Wang2020a, section 6, Fig. 2]",
    "policy loss plus value loss at the end minus that after the first iteration, mean over the"
    " runs",
    0.0,
    "below",
    0.1,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)
LOSS_SENSITIVITY_CLAIM = Claim(
    "sensitive",
    "Training is highly sensitive to the values of hyper-parameters (tested as more than the spread"
    " between seeds).",
    "[Wang2020a, abstract]",
    "policy loss plus value loss at the end: standard deviation between different values of the"
    " twelve divided by that between seeds",
    1.0,
    "above",
    0.25,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)
_Best = Literal["smallest", "largest", ""]
"""Value of a hyper-parameter with the smallest loss; empty if its values do not differ."""

_DESIGNS = (
    f"; the sweep compares the means of three values, the screening only the two ends, {_FIT}"
)
_LOSSES: Sequence[tuple[str, str, _Best, str]] = (
    ("E", "With the most games per iteration, the training loss finally goes down (but Table 4"
     " names the fewest games as best).", "largest", "Fig. 3(b)"),
    ("T'", "A small step threshold T' leads to a lower training loss.", "smallest",
     "Fig. 3(c), Table 4"),
    ("m", "After 70 % of the iterations, the most simulations have the smallest training loss.",
     "largest", "Fig. 3(d)"),
    ("c", "More exploitation, a small c, leads to a smaller training loss.", "smallest",
     "Fig. 3(e)"),
    ("rs", "Training on the examples of a single iteration leads to the smallest training"
     " loss.", "smallest", "Fig. 3(f)"),
    ("ep", "With the most epochs, the training loss is the lowest.", "largest", "Fig. 3(g)"),
    ("bs", "After 85 % of the iterations, the largest batches have the smallest training loss.",
     "largest", "Fig. 3(h)"),
    ("lr", "After 80 % of the iterations, the smallest learning rate has the lowest training loss.",
     "smallest", "Fig. 3(i)"),
    ("d", "Dropout makes no significant difference to the training loss.", "", "Fig. 3(j)"),
    ("n", "The number of gate games makes no significant difference to the training loss.", "",
     "Fig. 3(k)"),
    ("u", "The gate threshold makes no significant difference to the training loss (but according"
     " to the text on Fig. 3(l), 0.7 is too high).", "", "Table 4"),
)  # fmt: skip
"""Symbol, finding, best value and place in the section."""


def _loss_claim(symbol: str, text: str, best: _Best, place: str) -> Claim:
    percent = _percent_of(symbol)
    when = "at the end" if percent == 100 else f"after {percent} % of the iterations"
    compared = (
        f"with the {best} {symbol} minus that with each other value, largest difference"
        if best
        else f"largest difference between two values of {symbol}"
    )
    return Claim(
        f"loss-{HYPERPARAMETERS[symbol].title.replace(' ', '-')}",
        text,
        f"[Wang2020a, section 6.1, {place}]",
        f"policy loss plus value loss {when}, {compared}{_DESIGNS}",
        0.0,
        "below" if best else "not above",
        0.1,
        TIME_SENSITIVE_CLAIM.key,
        LOSS_FIGURE,
    )


LOSS_CLAIMS = {each[0]: _loss_claim(*each) for each in _LOSSES}
"""Claims about the effect of a hyper-parameter on the loss."""
_BEST_INDEX: Mapping[_Best, int | None] = {"smallest": 0, "largest": 2, "": None}
_BEST = {symbol: _BEST_INDEX[best] for symbol, _, best, _ in _LOSSES}
"""Index of the best published value by symbol, or None if values do not differ."""

GATE_THRESHOLD_CLAIM = Claim(
    "loss-threshold-too-high",
    "A gate threshold u of 0.7 is too high; 0.5 and 0.6 are acceptable.",
    "[Wang2020a, section 6.1, Fig. 3(l)]",
    "policy loss plus value loss at the end, with the largest u minus that with each other value,"
    f" smallest difference{_DESIGNS}",
    0.0,
    "above",
    0.1,
    TIME_SENSITIVE_CLAIM.key,
    LOSS_FIGURE,
)


def _important_claim(key: str, measure: str, figure: str, note: str) -> Claim:
    return Claim(
        key,
        "Of the twelve hyper-parameters, I, E, m and ep are the important ones: they change the"
        f" {measure.removeprefix('log2 of ')} the most{note}.",
        "zerolab, on [Wang2020a, abstract]",
        f"change in {measure} from the smallest to the largest value of each of the four, in its"
        f" published direction, minus the absolute change caused by each of the other eight,"
        f" {_FIT}, minimum of the 32 differences",
        0.0,
        "above",
        0.1,
        TIME_SENSITIVE_CLAIM.key,
        figure,
    )


IMPORTANT_TIME_CLAIM = _important_claim(
    "four-change-time-most", "log2 of time", TIME_FIGURE,
    " (but in Table 3, rs and n change the time more than ep)",
)  # fmt: skip
IMPORTANT_LOSS_CLAIM = _important_claim("four-change-loss-most", "loss at the end", LOSS_FIGURE, "")


def effect_statistics(
    results: Results, runs: Sequence[VariedRun]
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing.

    `runs` are the finished runs of the sweep or the screening, with their values.
    """
    if not runs or len(runs) < len(results.design.runs):
        missing = MissingEstimate(results.unfinished_message() or "nothing is planned")
        return dict.fromkeys(EFFECT_CLAIMS, missing)
    scale = results.scale
    exponents = doubling_effects(runs, log2_seconds)
    changes = range_effects(scale, runs, log2_seconds)
    return {
        TIME_SENSITIVE_CLAIM: estimate_smallest(
            [scale_estimate(exponents[symbol], sign) for symbol, sign in TIME_EFFECT_SIGNS.items()]
        ),
        TIME_FRIENDLY_CLAIM: estimate_largest(
            [
                scale_estimate(changes[symbol], sign)
                for symbol in TIME_FRIENDLY_HYPERPARAMETERS
                for sign in (1.0, -1.0)
            ]
        ),
        LOSS_FALLS_BY_EPOCH_CLAIM: estimate_mean(
            [loss_change_by_epochs(run.trained_run) for run in runs]
        ),
        LOSS_FALLS_BY_ITERATION_CLAIM: estimate_mean(
            [final_loss(run.trained_run) - loss_after(run.trained_run, 1) for run in runs]
        ),
        LOSS_STABILISES_CLAIM: late_loss_change(scale, runs),
        LATE_LOSS_RISE_CLAIM: late_loss_rise(scale, runs),
        **{
            claim: largest_lead(
                scale, runs, loss_after_percent(_percent_of(symbol)), symbol, _BEST[symbol]
            )
            for symbol, claim in LOSS_CLAIMS.items()
        },
        GATE_THRESHOLD_CLAIM: estimate_unless_missing(
            estimate_smallest, differences_between_values(scale, runs, final_loss, "u", 2)
        ),
        IMPORTANT_TIME_CLAIM: smallest_lead_of_effects(changes, GRID_SYMBOLS, 1.0),
        IMPORTANT_LOSS_CLAIM: smallest_lead_of_effects(
            range_effects(scale, runs, final_loss), GRID_SYMBOLS, -1.0
        ),
    }


EFFECT_CLAIMS = (
    TIME_SENSITIVE_CLAIM, TIME_FRIENDLY_CLAIM, LOSS_FALLS_BY_EPOCH_CLAIM,
    LOSS_FALLS_BY_ITERATION_CLAIM, LOSS_STABILISES_CLAIM, LATE_LOSS_RISE_CLAIM,
    *LOSS_CLAIMS.values(), GATE_THRESHOLD_CLAIM, IMPORTANT_TIME_CLAIM, IMPORTANT_LOSS_CLAIM,
)  # fmt: skip
"""All claims that both the sweep and the screening test."""


GATE_TIME_CLAIM = Claim(
    "gates-cost-much-time",
    "Accepting every network without a gate saves a lot of time.",
    "[Wang2020a, section 5.2]",
    "share of gates in the training time, mean over the runs with the default n; in Table 3, 80"
    " more games take 23.9 hours, so the default of 40, with 50 games of self-play, takes 12 of 44",
    0.25,
    "above",
    0.05,
    TIME_SENSITIVE_CLAIM.key,
    TIME_FIGURE,
)
DEFAULT_ITERATIONS_CLAIM = Claim(
    "loss-lowest-at-default-iterations",
    "The default number of iterations, not the largest, leads to the lowest training loss.",
    "[Wang2020a, section 6.1, Table 4]",
    "policy loss plus value loss at the end, with the default I minus that with each other value,"
    " largest difference",
    0.0, "below", 0.1, TIME_SENSITIVE_CLAIM.key, LOSS_FIGURE,
)  # fmt: skip
MOST_SIMULATIONS_LOSS_CLAIM = Claim(
    "loss-simulations-level-at-the-end",
    "At the end, the training loss with the most simulations is back at a similar level as with"
    " half as many.",
    "[Wang2020a, section 6.1, Fig. 3(d)]",
    "policy loss plus value loss at the end, with the largest m minus that with the default",
    0.0, "equal to", 0.1, TIME_SENSITIVE_CLAIM.key, LOSS_FIGURE,
)  # fmt: skip
MOST_GAMES_LOSS_CLAIM = Claim(
    "loss-games-alike-for-long",
    "For a long time, the training loss with the most games per iteration is almost the same as"
    " with fewer.",
    "[Wang2020a, section 6.1, Fig. 3(b)]",
    "policy loss plus value loss after half of the iterations, largest difference between the"
    " largest E and another value",
    0.0, "not above", 0.1, TIME_SENSITIVE_CLAIM.key, LOSS_FIGURE,
)  # fmt: skip


DEFAULT_RUN_CLAIMS = (
    GATE_TIME_CLAIM,
    DEFAULT_ITERATIONS_CLAIM,
    MOST_SIMULATIONS_LOSS_CLAIM,
    MOST_GAMES_LOSS_CLAIM,
)
"""All claims that need runs with default settings, which only the sweep has."""


def default_run_statistics(
    results: Results, runs: Sequence[VariedRun]
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistics of `DEFAULT_RUN_CLAIMS`, or the reason why they are missing.

    `runs` are the finished runs of the sweep, with their values.
    """
    if not runs or len(runs) < len(results.design.runs):
        missing = MissingEstimate(results.unfinished_message() or "nothing is planned")
        return dict.fromkeys(DEFAULT_RUN_CLAIMS, missing)
    scale, half = results.scale, loss_after_percent(50)
    usual = scaled_values(scale, "n")[1]
    gates = [gate_time_share(run.trained_run) for run in runs if run.values["n"] == usual]
    by_simulations = differences_between_values(scale, runs, final_loss, "m", 2)
    return {
        GATE_TIME_CLAIM: estimate_mean(gates),
        DEFAULT_ITERATIONS_CLAIM: largest_lead(scale, runs, final_loss, "I", 1),
        MOST_SIMULATIONS_LOSS_CLAIM: by_simulations[-1],
        MOST_GAMES_LOSS_CLAIM: estimate_unless_missing(
            lambda parts: estimate_largest(
                [*parts, *(scale_estimate(each, -1.0) for each in parts)]
            ),
            differences_between_values(scale, runs, half, "E", 2),
        ),
    }
