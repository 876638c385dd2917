"""Claims of [Wang2019] and [Wang2020a] about loss functions, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zerolab.papers.elo import (
    RunElos,
    contrast,
    fit_elo,
    fit_runs,
    observed_elo_correlation,
    removed_runs_note,
    run_elos,
    smallest_lead,
    standard_error,
    unfinished_tournaments_note,
)
from zerolab.papers.loss_functions.curve_claims import (
    BIAS_CLAIM,
    CURVE_CLAIMS,
    LOWEST_CLAIMS,
    PRODUCT_CLAIM,
    SINGLE,
    CurveClaim,
    final_loss,
    margin,
    part_title,
)
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.papers.solved_accuracy import fit_accuracy
from zerolab.report.claims import Claim
from zerolab.studies.block_model import GamesModel
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of, weighted_sum

_FIGURE = "[Wang2019], [Wang2020a, Fig. 11]"
_POOLED = 30.0
"""Smallest Elo difference worth knowing over several boards."""
_CLAIMED_BOARDS = ("othello-6x6", "connect_four-5x5", "connect_four-6x6")
"""Boards on which the papers find the value loss best."""
_SUM_BOARDS = ("othello-5x5", *_CLAIMED_BOARDS)
"""Boards on which the papers find the value loss better than the sum; they except Gobang."""


def _leads(loss: str) -> str:
    others = ", ".join(symbol for target, symbol in TARGETS.items() if target != loss)
    return f"tournament Elo of {TARGETS[loss]} minus that of {others}, smallest difference"


VALUE_CLAIM = Claim(
    "value-loss-best",
    "In 6x6 Othello and in 5x5 and 6x6 Connect Four, minimising the value loss alone trains the"
    " strongest players.",
    _FIGURE,
    f"{_leads('value')}, mean over the three boards",
    0.0,
    "above",
    _POOLED,
    figure="tournament-elo",
)
SUM_CLAIM = Claim(
    "value-above-sum",
    "On small boards of Othello and Connect Four, minimising the value loss trains stronger players"
    " than the usual sum.",
    "[Wang2019, abstract], [Wang2020a, conclusion]",
    "tournament Elo of l_v minus that of l_+, mean over the four boards",
    0.0,
    "above",
    _POOLED,
    figure="tournament-elo",
)
POLICY_CLAIM = Claim(
    "policy-best-gobang-6x6",
    "In 6x6 Gobang, minimising the policy loss alone trains the strongest players.",
    "[Wang2020a, Fig. 11, section 6.3]",
    _leads("policy"),
    0.0,
    "above",
    SINGLE,
    figure="tournament-elo",
)
BEST_ON_BOARD = {
    part: Claim(
        f"value-best-{part}",
        f"In {part_title(part)}, minimising the value loss alone trains the strongest players.",
        _FIGURE,
        _leads("value"),
        0.0,
        "above",
        SINGLE,
        VALUE_CLAIM.key,
        "tournament-elo",
    )
    for part in _CLAIMED_BOARDS
}
SMALL_CLAIM = Claim(
    "small-differences-othello-5x5",
    "In Othello 5x5, the difference between the losses is small.",
    _FIGURE,
    "largest absolute difference between the mean tournament Elo of two losses",
    100.0,
    "below",
    SINGLE,
    VALUE_CLAIM.key,
    figure="tournament-elo",
)
LEARNING_CLAIM = Claim(
    "all-learn",
    "With every loss, players become stronger than Random.",
    "zerolab, on [Wang2020a, Fig. 11]",
    "mean Elo relative to Random of the weakest combination of board and loss",
    0.0,
    "above",
    SINGLE,
    SUM_CLAIM.key,
    figure="tournament-elo",
)
ACCURACY_CLAIM = Claim(
    "value-above-sum-accuracy",
    "According to a solver, minimising the value loss trains better players than the sum.",
    "zerolab, on [Wang2020a]",
    "strong accuracy of search on solved positions, l_v minus l_+, mean over the four boards of"
    " Othello and Connect Four",
    0.0,
    "above",
    0.01,
    SUM_CLAIM.key,
    "accuracy",
)


def loss_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    boards = list(dict.fromkeys(run.part for run in results.design.runs))
    everywhere = fit_elo(results, boards, "loss", list(TARGETS))

    def elo_on(parts: Sequence[str]) -> GamesModel | MissingEstimate:
        if isinstance(everywhere, MissingEstimate) or not set(parts) <= set(boards):
            return fit_elo(results, parts, "loss", list(TARGETS))
        return everywhere

    return {
        VALUE_CLAIM: smallest_lead(
            elo_on(_CLAIMED_BOARDS), "value", _rivals("value"), _CLAIMED_BOARDS
        ),
        ACCURACY_CLAIM: contrast(
            fit_accuracy(results, _SUM_BOARDS, "loss", list(TARGETS), "search"),
            {"value": 1.0, "sum": -1.0},
        ),
        SUM_CLAIM: contrast(elo_on(_SUM_BOARDS), {"value": 1.0, "sum": -1.0}, _SUM_BOARDS),
        POLICY_CLAIM: smallest_lead(
            elo_on(["gobang-6x6"]), "policy", _rivals("policy"), ["gobang-6x6"]
        ),
        BIAS_CLAIM: training_elo_correlation(results),
        PRODUCT_CLAIM: contrast(
            _fit(results, boards, lambda run: final_loss("policy", run) + final_loss("value", run)),
            {"product": 1.0, "sum": -1.0},
        ),
        **{
            claim: smallest_lead(elo_on([part]), "value", _rivals("value"), [part])
            for part, claim in BEST_ON_BOARD.items()
        },
        SMALL_CLAIM: _largest_difference(elo_on(["othello-5x5"]), "othello-5x5"),
        LEARNING_CLAIM: weakest_elo(results, boards),
        **{each.claim: _loss_statistic(results, each) for each in CURVE_CLAIMS},
        **{claim: _smallest_margin(results, part) for part, claim in LOWEST_CLAIMS.items()},
    }


def _rivals(loss: str) -> list[str]:
    return [each for each in TARGETS if each != loss]


def _fit(
    results: Results, parts: Sequence[str], measure: Callable[[TrainedRun], float]
) -> GamesModel | MissingEstimate:
    return fit_runs(results, parts, "loss", list(TARGETS), measure)


def _loss_statistic(results: Results, claimed: CurveClaim) -> ClaimEstimate | MissingEstimate:
    model = _fit(results, [claimed.part], claimed.measure)
    if isinstance(model, MissingEstimate):
        return model
    if abs(sum(claimed.weights.values())) < 1e-9:
        return model.contrast(claimed.weights)
    runs = {
        target: {
            run.seed: claimed.measure(run) for run in results.runs_where(claimed.part, loss=target)
        }
        for target in claimed.weights
    }
    seeds = set.intersection(*(set(by_seed) for by_seed in runs.values()))
    return mean_of(
        [
            sum(weight * runs[target][seed] for target, weight in claimed.weights.items())
            for seed in sorted(seeds, key=str)
        ]
    )


def _smallest_margin(results: Results, part: str) -> ClaimEstimate | MissingEstimate:
    if isinstance(missing := _fit(results, [part], margin), MissingEstimate):
        return missing
    targets = [target for target in TARGETS if target != "sum"]
    return estimate_smallest(
        [
            mean_of([margin(run) for run in results.runs_where(part, loss=target)])
            for target in targets
        ]
    )


def _largest_difference(
    model: GamesModel | MissingEstimate, part: str
) -> ClaimEstimate | MissingEstimate:
    if isinstance(model, MissingEstimate):
        return model
    pairs = [(one, other) for one in TARGETS for other in TARGETS if one != other]
    return estimate_largest(
        [model.contrast({one: 1.0, other: -1.0}, [part]) for one, other in pairs]
    )


def weakest_elo(results: Results, parts: Sequence[str]) -> ClaimEstimate | MissingEstimate:
    """Return the Elo, relative to Random, of the weakest combination of board and loss.

    The estimate accounts for the selection of the weakest combination after the fact. In a
    tournament of all seeds, it includes the error of Random's own rating; with a tournament per
    seed, this error is part of the spread.
    """
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    above = []
    for part in parts:
        tournament = results.tournaments[part]
        randoms = tournament.agent_ratings()
        shared_error = standard_error(randoms[0]) if len(randoms) == 1 else 0.0
        for target in TARGETS:
            runs = results.runs_where(part, loss=target)
            if not runs:
                return removed_runs_note(results, part)
            lead = mean_of([tournament.elo_above_agent(run) for run in runs])
            error = StudentEstimate(0.0, shared_error, math.inf)
            above.append(weighted_sum([(1.0, lead), (1.0, error)]))
    return estimate_smallest(above)


def training_elo_correlation(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the mean correlation between training Elo and tournament Elo, within losses."""
    groups = elos_by_loss(results)
    return groups if isinstance(groups, MissingEstimate) else observed_elo_correlation(groups)


def elos_by_loss(results: Results) -> list[list[RunElos]] | MissingEstimate:
    """Return training Elo and tournament Elo of the runs of each board and loss."""
    parts = list(dict.fromkeys(run.part for run in results.design.runs))
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    groups = []
    for part in parts:
        for target in TARGETS:
            runs = results.runs_where(part, loss=target)
            if not runs:
                return removed_runs_note(results, part)
            groups.append(run_elos(results.tournaments[part], runs))
    return groups
