"""Claims of [Wang2020b] and [Wang2021b, Table 5.1], and their statistics."""

from __future__ import annotations

from collections.abc import Mapping

from zerolab.papers.elo import (
    GAME_TITLES,
    elo_difference,
    elo_sample,
    removed_runs_note,
    unfinished_tournaments_note,
)
from zerolab.papers.warm_start.study import (
    ADAPTIVE,
    BASELINE,
    BOARDS,
    GAMES,
    MCTS,
    RANDOM,
    RAVE,
    RHEA,
    VARIANTS,
    WRORA,
)
from zerolab.report.claims import Claim, Direction
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import (
    ClaimEstimate,
    StudentEstimate,
    difference_of_means,
    weighted_sum,
)

VARIANT_TITLES = {
    BASELINE: "Baseline", "rollout": "Rollout", "rave": "RAVE", "rora": "RoRa", "wro": "WRo",
    WRORA: "WRoRa", ADAPTIVE: "WRoRa, adaptive",
}  # fmt: skip
_FIGURE = "[Wang2020b, Fig. 5.2]"

GAIN_CLAIMS = {
    (game, variant): Claim(
        f"{variant}-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, {VARIANT_TITLES[variant]} trains stronger players than the"
        " baseline.",
        _FIGURE,
        f"mean tournament Elo of runs with {VARIANT_TITLES[variant]} minus that of the baseline",
        0.0,
        "above",
    )
    for game in ("gobang", "connect_four")
    for variant in VARIANTS[1:]
}
BEST_CLAIM = Claim(
    "wrora-best",
    "WRoRa is the best variant overall.",
    _FIGURE,
    "mean tournament Elo of WRoRa over the games minus that of another variant, smallest of the"
    " five differences",
    0.0,
    "above",
)
NO_GAIN_CLAIM = Claim(
    "rollout-othello",
    "Rollout gains nothing in Othello.",
    _FIGURE,
    "mean tournament Elo of runs with Rollout minus that of the baseline (less than 50 counts as"
    " nothing)",
    50.0,
    "below",
)


def warm_start_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about warm starts, or the reason why it is missing."""
    return {
        **{
            claim: gain_over_baseline(results, game, variant)
            for (game, variant), claim in GAIN_CLAIMS.items()
        },
        BEST_CLAIM: wrora_lead(results),
        NO_GAIN_CLAIM: gain_over_baseline(results, "othello", "rollout"),
    }


def gain_over_baseline(
    results: Results, game: str, variant: str
) -> StudentEstimate | MissingEstimate:
    """Return the Elo of a variant relative to the baseline."""
    return elo_difference(results, game, "variant", variant, BASELINE)


def wrora_lead(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the lead of WRoRa over its closest rival, averaged over all games.

    The closest rival is known only after the fact, so this is an estimate of the smallest of five
    leads.
    """
    if missing := unfinished_tournaments_note(results, GAMES):
        return missing
    leads = []
    for variant in VARIANTS:
        if variant == WRORA:
            continue
        terms = []
        for game in GAMES:
            warm, other = (
                elo_sample(
                    results.tournaments[game], results.runs_where(game, variant=level)
                ).values
                for level in (WRORA, variant)
            )
            if not warm or not other:
                return removed_runs_note(results, game)
            terms.append((1 / len(GAMES), difference_of_means(warm, other)))
        leads.append(weighted_sum(terms))
    return estimate_smallest(leads)


PUBLISHED_SCORES: Mapping[str, Mapping[tuple[str, str], float]] = {
    "gobang": {
        (MCTS, RANDOM): 0.970,
        (RAVE, RANDOM): 1.000,
        (RHEA, RANDOM): 0.900,
        (RAVE, MCTS): 0.894,
        (RHEA, MCTS): 0.340,
        (RHEA, RAVE): 0.170,
    },
    "connect_four": {
        (MCTS, RANDOM): 0.996,
        (RAVE, RANDOM): 1.000,
        (RHEA, RANDOM): 0.800,
        (RAVE, MCTS): 0.730,
        (RHEA, MCTS): 0.030,
        (RHEA, RAVE): 0.040,
    },
    "othello": {
        (MCTS, RANDOM): 0.985,
        (RAVE, RANDOM): 0.980,
        (RHEA, RANDOM): 0.480,
        (RAVE, MCTS): 0.460,
        (RHEA, MCTS): 0.010,
        (RHEA, RAVE): 0.050,
    },
}
"""Score rate of the first player of each pair against the second [Wang2021b, Table 5.1].

The other half of the paper's matrix contains the complements."""


def _table_claim(part: str, player: str, opponent: str, direction: Direction = "above") -> Claim:
    verb = "beats" if direction == "above" else "loses to"
    return Claim(
        f"{player}-{verb}-{opponent}-{part}".lower().translate({ord(" "): "-", ord("_"): "-"}),
        f"{player} {verb} {opponent} in {GAME_TITLES[part]}.",
        "[Wang2021b, Table 5.1]",
        f"share of decisive games against {opponent} that {player} won (repeated games count once)",
        0.5,
        direction,
    )


TABLE_CLAIMS: Mapping[tuple[str, str, str], Claim] = {
    **{(part, RAVE, MCTS): _table_claim(part, RAVE, MCTS) for part in ("gobang", "connect_four")},
    **{(part, RHEA, MCTS): _table_claim(part, RHEA, MCTS, "below") for part in BOARDS},
    **{(part, MCTS, RANDOM): _table_claim(part, MCTS, RANDOM) for part in BOARDS},
}
"""Claims by game, player and opponent."""
