"""Findings of [Wang2019] and [Wang2020a] on losses as claims with statistics and thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from zerolab.papers.elo import (
    GAME_TITLES,
    both_elos,
    elo_correlation,
    elo_difference,
    elo_sample,
    removed_runs,
    standard_error,
    unfinished,
)
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.report.claims import Claim
from zerolab.studies.claims import Missing
from zerolab.studies.joint_estimates import smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import Estimate, StudentEstimate, mean_of, weighted_sum

PUBLISHED: Mapping[str, tuple[float, float, float, float, float]] = {
    "othello-5x5": (26, 36, -15, 45, -735),
    "othello-6x6": (-320, 414, -47, 61, -868),
    "connect_four-5x5": (-177, 325, -103, 21, -525),
    "connect_four-6x6": (-39, 405, -194, -70, -830),
}
"""Mean tournament Elo of l_p, l_v, l_+, l_x and the random player [Wang2019], [Wang2020a, Fig. 11].

Only a rough guide: Connect Four's policies were not mirrored with the board, and all runs of a loss
played with the network of the last one [WangCode]; see the study ``published-bugs``.
"""

_FIGURE = "[Wang2019], [Wang2020a, Fig. 11]"


def part_title(part: str) -> str:
    """Return the game and size of a part: ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


VALUE_CLAIMS = {
    part: Claim(
        f"value-{part}",
        f"Minimising the loss of the value alone trains stronger players of {part_title(part)} than"
        " minimising the sum.",
        _FIGURE,
        "mean tournament Elo of runs with l_v, minus that with l_+",
        0.0,
        "above",
    )
    for part in PUBLISHED
}
POLICY_CLAIM = Claim(
    "policy-gobang-6x6",
    "In Gobang 6x6 minimising the loss of the policy alone is better than minimising the sum.",
    "[Wang2020a, section 6.3]",
    "mean tournament Elo of runs with l_p, minus that with l_+",
    0.0,
    "above",
)
LEARNING_CLAIM = Claim(
    "all-learn",
    "With every loss, players become stronger than Random.",
    _FIGURE,
    "mean Elo above Random's of the weakest combination of game, size and loss",
    0.0,
    "above",
)
BIAS_CLAIM = Claim(
    "training-elo-biased",
    "Training Elo does not predict which run is the strongest in a tournament.",
    "[Wang2019]",
    "rank correlation of training Elo and tournament Elo over the runs of a game and size, mean"
    " over games and sizes, corrected for the errors of measuring both",
    0.5,
    "below",
)


def loss_findings(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    found: dict[Claim, Estimate | Missing] = {
        claim: elo_difference(results, part, "loss", "value", "sum")
        for part, claim in VALUE_CLAIMS.items()
    }
    found[POLICY_CLAIM] = elo_difference(results, "gobang-6x6", "loss", "policy", "sum")
    found[LEARNING_CLAIM] = weakest(results)
    found[BIAS_CLAIM] = training_elo_correlation(results)
    return found


def weakest(results: Results) -> Estimate | Missing:
    """Return the Elo above Random's of the weakest combination, which was not known beforehand.

    The error of Random's own rating adds to each of them. Its correlation with the errors of the
    runs is left out: dozens of ratings have the sum 0, so any two are hardly correlated.
    """
    parts = list(results.design.parts)
    if missing := unfinished(results, parts):
        return missing
    above = []
    for part in parts:
        played = results.tournaments[part]
        lowest = played.by_name["random"]
        known = StudentEstimate(lowest.elo, standard_error(lowest), math.inf)
        for target in TARGETS:
            elos = elo_sample(played, results.where(part, loss=target)).values
            if not elos:
                return removed_runs(results, part)
            above.append(weighted_sum([(1.0, mean_of(elos)), (-1.0, known)]))
    return smallest(above)


def training_elo_correlation(results: Results) -> Estimate | Missing:
    """Return the correlation of training Elo and tournament Elo, from all runs of all parts."""
    parts = list(results.design.parts)
    if missing := unfinished(results, parts):
        return missing
    groups = []
    for part in parts:
        runs = [run for target in TARGETS for run in results.where(part, loss=target)]
        if not runs:
            return removed_runs(results, part)
        groups.append(both_elos(results.tournaments[part], runs))
    return elo_correlation(groups)
