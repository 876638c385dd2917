"""Claims of [Wang2019] and [Wang2020a] about loss functions, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping

from zerolab.papers.elo import (
    GAME_TITLES,
    corrected_elo_correlation,
    elo_difference,
    elo_sample,
    removed_runs_note,
    run_elos,
    standard_error,
    unfinished_tournaments_note,
)
from zerolab.papers.loss_functions.study import TARGETS
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate, mean_of, weighted_sum

PUBLISHED: Mapping[str, tuple[float, float, float, float, float]] = {
    "othello-5x5": (26, 36, -15, 45, -735),
    "othello-6x6": (-320, 414, -47, 61, -868),
    "connect_four-5x5": (-177, 325, -103, 21, -525),
    "connect_four-6x6": (-39, 405, -194, -70, -830),
}
"""Mean tournament Elo of l_p, l_v, l_+, l_x and the random player [Wang2019], [Wang2020a, Fig. 11].

These are only a rough guide. In [WangCode], Connect Four policies were not mirrored with the board,
and all runs of a loss played with the last run's network. See the study ``published-bugs``.
"""

_FIGURE = "[Wang2019], [Wang2020a, Fig. 11]"


def part_title(part: str) -> str:
    """Return the game and board size of a part, such as ``Othello 5x5``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


VALUE_CLAIMS = {
    part: Claim(
        f"value-{part}",
        f"In {part_title(part)}, minimising the value loss alone trains stronger players than"
        " minimising the sum.",
        _FIGURE,
        "mean tournament Elo of runs with l_v minus that of runs with l_+",
        0.0,
        "above",
    )
    for part in PUBLISHED
}
POLICY_CLAIM = Claim(
    "policy-gobang-6x6",
    "In Gobang 6x6, minimising the policy loss alone is better than minimising the sum.",
    "[Wang2020a, section 6.3]",
    "mean tournament Elo of runs with l_p minus that of runs with l_+",
    0.0,
    "above",
)
LEARNING_CLAIM = Claim(
    "all-learn",
    "With every loss, players become stronger than Random.",
    _FIGURE,
    "mean Elo relative to Random of the weakest combination of game, size and loss",
    0.0,
    "above",
)
BIAS_CLAIM = Claim(
    "training-elo-biased",
    "Training Elo does not predict which run is the strongest in a tournament.",
    "[Wang2019]",
    "rank correlation between training Elo and tournament Elo over the runs of a game and size,"
    " averaged over games and sizes and corrected for measurement error in both",
    0.5,
    "below",
)


def loss_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    statistics: dict[Claim, ClaimEstimate | MissingEstimate] = {
        claim: elo_difference(results, part, "loss", "value", "sum")
        for part, claim in VALUE_CLAIMS.items()
    }
    statistics[POLICY_CLAIM] = elo_difference(results, "gobang-6x6", "loss", "policy", "sum")
    statistics[LEARNING_CLAIM] = weakest_elo(results)
    statistics[BIAS_CLAIM] = training_elo_correlation(results)
    return statistics


def weakest_elo(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the Elo, relative to Random, of the weakest combination of game, size and loss.

    The estimate accounts for the selection of the weakest combination after the fact. Each
    difference includes the error of Random's own rating. Correlations between this error and those
    of the runs are neglected: they arise only because dozens of ratings must sum to 0.
    """
    parts = list(results.design.parts)
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    above = []
    for part in parts:
        tournament = results.tournaments[part]
        random_rating = tournament.rating_by_player["random"]
        random_elo = StudentEstimate(random_rating.elo, standard_error(random_rating), math.inf)
        for target in TARGETS:
            elos = elo_sample(tournament, results.runs_where(part, loss=target)).values
            if not elos:
                return removed_runs_note(results, part)
            above.append(weighted_sum([(1.0, mean_of(elos)), (-1.0, random_elo)]))
    return estimate_smallest(above)


def training_elo_correlation(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the mean correlation between training Elo and tournament Elo."""
    parts = list(results.design.parts)
    if missing := unfinished_tournaments_note(results, parts):
        return missing
    groups = []
    for part in parts:
        runs = [run for target in TARGETS for run in results.runs_where(part, loss=target)]
        if not runs:
            return removed_runs_note(results, part)
        groups.append(run_elos(results.tournaments[part], runs))
    return corrected_elo_correlation(groups)
