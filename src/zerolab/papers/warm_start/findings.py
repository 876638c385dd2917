"""Claims about warm starts, and their statistics.

Figure and section numbers refer to the thesis [Wang2021b]; its chapter 5 is the paper [Wang2020b].
Section 5.5.2 contradicts itself on RAVE in Othello: it calls RAVE better than the baseline, but
also says that RAVE cannot contribute a significant improvement. The claim mentions both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from zerolab.papers.elo import (
    GAME_TITLES,
    contrast,
    elo_sample,
    fit_elo,
    smallest_lead,
    unfinished_tournaments_note,
)
from zerolab.papers.solved_accuracy import fit_accuracy
from zerolab.papers.warm_start.study import (
    ADAPTIVE,
    BASELINE,
    GAMES,
    VARIANTS,
    WRORA,
)
from zerolab.report.claims import Claim, Direction
from zerolab.studies.block_model import GamesModel
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import estimate_largest, estimate_smallest, spread_ratio
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, StudentEstimate

VARIANT_TITLES = {
    BASELINE: "Baseline", "rollout": "Rollout", "rave": "RAVE", "rora": "RoRa", "wro": "WRo",
    WRORA: "WRoRa", ADAPTIVE: "WRoRa, adaptive",
}  # fmt: skip
_FIG_5_1, _FIG_5_2 = "[Wang2021b, Fig. 5.1]", "[Wang2021b, Fig. 5.2]"
_SECTION, _SUMMARY = "[Wang2021b, section 5.5.2]", "[Wang2021b, section 5.6]"

ENHANCEMENTS = VARIANTS[1:]
RIVALS = [each for each in VARIANTS if each != WRORA]
_STATIC = ("gobang", "connect_four")  # games with static opening plans
_POOLED, _SINGLE = 30.0, 50.0
"""Smallest Elo difference worth knowing, over several games and in one game."""

GAIN_CLAIM = Claim(
    "wrora-gains",
    "WRoRa trains stronger players than the baseline.",
    _SECTION,
    "tournament Elo of WRoRa minus that of the baseline, mean over the three games",
    0.0,
    "above",
    _POOLED,
    figure="gain",
)
BEST_CLAIM = Claim(
    "wrora-best",
    "On average over the three games, WRoRa is the best variant.",
    _SECTION,
    "tournament Elo of WRoRa minus that of another variant, mean over the three games, smallest of"
    " the five differences",
    0.0,
    "above",
    _POOLED,
    figure="gain",
)
ENHANCED_CLAIM = Claim(
    "warm-starts-gain",
    "In Gobang and Connect Four, warm starts on average train stronger players than the baseline.",
    _FIG_5_1,
    "mean tournament Elo of the five warm starts minus that of the baseline, mean over both games",
    0.0,
    "above",
    _POOLED,
    figure="gain",
)


WEIGHTED_CLAIM = Claim(
    "network-value-helps",
    "Enhancements that work in combination with the network's value tend to be stronger.",
    _SUMMARY,
    "mean tournament Elo of WRo, WRoRa minus that of Rollout, RoRa, mean over the three games",
    0.0,
    "above",
    _POOLED,
    BEST_CLAIM.key,
    "elo",
)
SINGLE_CLAIM = Claim(
    "single-enhancement-gains-little",
    "Often, a single enhancement is no significant improvement.",
    _SUMMARY,
    "mean tournament Elo of Rollout, RAVE minus that of the baseline, mean over the three games",
    0.0,
    "not above",
    _SINGLE,
    GAIN_CLAIM.key,
    "gain",
)
OPENINGS_CLAIM = Claim(
    "static-openings-gain-more",
    "Games with good static opening plans, Gobang and Connect Four, probably benefit more than"
    " Othello.",
    _SUMMARY,
    "mean tournament Elo of the five warm starts minus that of the baseline, mean of Gobang and"
    " Connect Four minus Othello",
    0.0,
    "above",
    _SINGLE,
    ENHANCED_CLAIM.key,
    "gain",
)
ACCURACY_CLAIM = Claim(
    "wrora-gains-accuracy",
    "According to a solver, WRoRa trains better networks than the baseline.",
    "zerolab, on [Wang2020b]",
    "strong accuracy of the policies of final networks on solved positions, WRoRa minus baseline,"
    " mean over the three games",
    0.0,
    "above",
    0.01,
    GAIN_CLAIM.key,
    "accuracy",
)
SENSITIVE_CLAIM = Claim(
    "gain-depends-on-game",
    "The improvement by a warm start depends on the game.",
    "[Wang2021b, sections 5.5.2 and 5.6]",
    "tournament Elo of a warm start minus that of the baseline, in one game minus in another,"
    " largest of the differences between any two games",
    0.0,
    "above",
    _SINGLE,
    ENHANCED_CLAIM.key,
    "gain",
)


class Comparison(NamedTuple):
    """Claim about the mean Elo of variants in one game."""

    claim: Claim
    game: str
    weights: Mapping[Any, float]
    """Weight of the mean Elo of each variant; the weights add up to 0."""


def _compared(
    key: str,
    game: str,
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    direction: Direction,
    opened_by: Claim,
) -> Comparison:
    names = [", ".join(VARIANT_TITLES[each] for each in side) for side in (better, worse)]
    claim = Claim(
        f"{key}-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, {text}",
        _FIG_5_2 if game == "othello" else _FIG_5_1,
        f"mean tournament Elo of {names[0]} minus that of {names[1]}",
        0.0,
        direction,
        _SINGLE,
        opened_by.key,
        "elo",
    )
    weights = {each: 1.0 / len(better) for each in better}
    return Comparison(claim, game, weights | {each: -1.0 / len(worse) for each in worse})


_ROLLOUT, _RAVE, _RORA, _WRO = ENHANCEMENTS[:-1]

COMPARISONS: Sequence[Comparison] = [
    *(
        _compared(variant, game,
                  f"{VARIANT_TITLES[variant]} trains stronger players than the baseline.",
                  [variant], [BASELINE], "above", ENHANCED_CLAIM)
        for game in ("gobang", "connect_four") for variant in ENHANCEMENTS
    ),
    *(
        _compared(variant, "othello",
                  f"{VARIANT_TITLES[variant]} trains stronger players than the baseline"
                  f"{' (but, as the text says, not significantly)' if variant == _RAVE else ''}.",
                  [variant], [BASELINE], "above", GAIN_CLAIM)
        for variant in ENHANCEMENTS if variant != _ROLLOUT
    ),
    _compared("warm-starts", "othello",
              "warm starts on average train stronger players than the baseline.",
              ENHANCEMENTS, [BASELINE], "above", GAIN_CLAIM),
    _compared("rollout", "othello", "Rollout trains players as strong as the baseline.",
              [_ROLLOUT], [BASELINE], "equal to", GAIN_CLAIM),
    _compared("rora-no-gain-over-rollout", "gobang",
              "RoRa is no significant improvement over Rollout.",
              [_RORA], [_ROLLOUT], "not above", BEST_CLAIM),
    _compared("rollout-above-rave", "gobang", "Rollout contributes more than RAVE.",
              [_ROLLOUT], [_RAVE], "above", BEST_CLAIM),
    _compared("rora-above-rave", "gobang", "RoRa trains stronger players than RAVE.",
              [_RORA], [_RAVE], "above", BEST_CLAIM),
    _compared("wro-above-rollout", "connect_four",
              "weighting the playout with the network's value (WRo) improves on Rollout.",
              [_WRO], [_ROLLOUT], "above", BEST_CLAIM),
    _compared("wrora-above-rave", "connect_four", "WRoRa trains stronger players than RAVE.",
              [WRORA], [_RAVE], "above", BEST_CLAIM),
    _compared("wrora-no-gain-over-wro", "connect_four",
              "the combination shows no improvement in the weighted case (WRoRa against WRo).",
              [WRORA], [_WRO], "not above", BEST_CLAIM),
]  # fmt: skip
"""Claims about one game."""

_COMBINED: Mapping[str, tuple[str, Direction]] = {
    "connect_four": ("improves on both", "above"),
    "othello": ("is no significant improvement", "not above"),
}
COMBINATIONS = {
    game: Claim(
        f"rora-{'no-gain-over' if direction == 'not above' else 'above'}-its-parts-"
        + game.replace("_", "-"),
        f"In {GAME_TITLES[game]}, combining Rollout and RAVE (RoRa) {text}.",
        _FIG_5_2 if game == "othello" else _FIG_5_1,
        "tournament Elo of RoRa minus that of the better of Rollout, RAVE",
        0.0,
        direction,
        _SINGLE,
        BEST_CLAIM.key,
        "elo",
    )
    for game, (text, direction) in _COMBINED.items()
}
"""Claims about RoRa against its parts, by game."""

BEST_IN_GAME = {
    game: Claim(
        f"wrora-best-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, WRoRa is the best variant.",
        _FIG_5_2 if game == "othello" else _SECTION,
        "tournament Elo of WRoRa minus that of another variant, smallest of the five differences",
        0.0,
        "above",
        _SINGLE,
        BEST_CLAIM.key,
        "elo",
    )
    for game in GAMES
}
RAVE_WORST_CLAIM = Claim(
    "rave-alone-worst-gobang",
    "In Gobang, Rollout and the combinations train stronger players than RAVE alone.",
    _FIG_5_1,
    "tournament Elo of Rollout, RoRa, WRo or WRoRa minus that of RAVE, smallest of the four"
    " differences",
    0.0,
    "above",
    _SINGLE,
    BEST_CLAIM.key,
    "elo",
)
SPREAD_CLAIM = Claim(
    "rave-varies-gobang",
    "In Gobang, runs with RAVE differ more in strength than those with other warm starts.",
    _FIG_5_1,
    "standard deviation of tournament Elo between runs with RAVE, divided by that of the other warm"
    " starts",
    1.0,
    "above",
    0.5,
    ENHANCED_CLAIM.key,
    figure="elo",
)


def warm_start_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about warm starts, or the reason why it is missing."""
    model = fit_elo(results, GAMES, "variant", VARIANTS)
    of_game = {game: fit_elo(results, [game], "variant", VARIANTS) for game in GAMES}
    if not isinstance(model, MissingEstimate):
        of_game = dict.fromkeys(GAMES, model)
    weighted = {_WRO: 0.5, WRORA: 0.5, _ROLLOUT: -0.5, _RORA: -0.5}
    return {
        GAIN_CLAIM: contrast(model, {WRORA: 1.0, BASELINE: -1.0}),
        BEST_CLAIM: smallest_lead(model, WRORA, RIVALS),
        ENHANCED_CLAIM: contrast(model, _gain(ENHANCEMENTS), _STATIC),
        WEIGHTED_CLAIM: contrast(model, weighted),
        SINGLE_CLAIM: contrast(model, _gain([_ROLLOUT, _RAVE])),
        OPENINGS_CLAIM: _lead_of_static_games(model),
        ACCURACY_CLAIM: contrast(
            fit_accuracy(results, GAMES, "variant", VARIANTS, "policy"),
            {WRORA: 1.0, BASELINE: -1.0},
        ),
        SENSITIVE_CLAIM: _largest_dependence(model),
        **{
            each.claim: contrast(of_game[each.game], each.weights, [each.game])
            for each in COMPARISONS
        },
        **{
            claim: smallest_lead(of_game[game], _RORA, [_ROLLOUT, _RAVE], [game])
            for game, claim in COMBINATIONS.items()
        },
        **{
            claim: smallest_lead(of_game[game], WRORA, RIVALS, [game])
            for game, claim in BEST_IN_GAME.items()
        },
        RAVE_WORST_CLAIM: _smallest_gain_over_rave(of_game["gobang"]),
        SPREAD_CLAIM: _relative_spread(results),
    }


def _gain(variants: Sequence[str]) -> dict[str, float]:
    """Return the weights of the mean of some variants minus the baseline."""
    return {each: 1.0 / len(variants) for each in variants} | {BASELINE: -1.0}


def _smallest_gain_over_rave(
    model: GamesModel | MissingEstimate,
) -> ClaimEstimate | MissingEstimate:
    """Return the smallest gain of another warm start over RAVE alone in Gobang."""
    if isinstance(model, MissingEstimate):
        return model
    others = [each for each in ENHANCEMENTS if each != _RAVE]
    return estimate_smallest(
        [model.contrast({each: 1.0, _RAVE: -1.0}, ["gobang"]) for each in others]
    )


def _lead_of_static_games(
    model: GamesModel | MissingEstimate,
) -> StudentEstimate | MissingEstimate:
    """Return the mean gain in Gobang and Connect Four minus that in Othello."""
    if isinstance(model, MissingEstimate):
        return model
    gain = _gain(ENHANCEMENTS)
    shares = {"othello": -1.0, **dict.fromkeys(_STATIC, 1.0 / len(_STATIC))}
    return model.contrast_of_games(
        {game: {each: share * gain[each] for each in gain} for game, share in shares.items()}
    )


def _largest_dependence(model: GamesModel | MissingEstimate) -> ClaimEstimate | MissingEstimate:
    """Return the largest difference between two games in the gain from a warm start."""
    if isinstance(model, MissingEstimate):
        return model
    return estimate_largest(
        [
            model.contrast_of_games(
                {one: {variant: 1.0, BASELINE: -1.0}, other: {variant: -1.0, BASELINE: 1.0}}
            )
            for variant in ENHANCEMENTS
            for one, other in permutations(GAMES, 2)
        ]
    )


def _relative_spread(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the spread of RAVE's Elo relative to that of other warm starts in Gobang."""
    if missing := unfinished_tournaments_note(results, ["gobang"]):
        return missing
    groups = {
        variant: elo_sample(
            results.tournaments["gobang"], results.runs_where("gobang", variant=variant)
        ).values
        for variant in ENHANCEMENTS
    }
    others = [groups[variant] for variant in ENHANCEMENTS if variant != _RAVE]
    ratio = spread_ratio([groups[_RAVE]], others)
    return MissingEstimate("one run per variant: no spread to compare") if ratio is None else ratio
