"""Claims about warm starts, and their statistics.

Figure and section numbers refer to the thesis [Wang2021b]; its chapter 5 is the paper [Wang2020b].
The chapter contradicts itself four times. In Othello, RAVE is better than the baseline, but no
significant improvement. WRoRa is the best in all games, but different games have different best
methods; in Gobang, WRoRa is about as strong as Rollout, RoRa and WRo; and in Connect Four, it does
not improve on WRo. The claims mention this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from zerolab.papers.elo import (
    GAME_TITLES,
    elo_spread_ratio,
    fit_elo_model,
    lead_over_closest_rival,
    mean_contrast,
)
from zerolab.papers.solved_accuracy import fit_accuracy_model
from zerolab.papers.warm_start.comparison import (
    gain_contrast_weights,
    largest_contrast_change,
    largest_variant_difference,
    mean_contrast_change,
    ranked_gain,
    smallest_best_gain,
    smallest_difference,
    smallest_worst_deficit,
)
from zerolab.papers.warm_start.study import (
    ADAPTIVE_VARIANT,
    BASELINE,
    GAMES,
    VARIANTS,
    WRORA,
)
from zerolab.report.claims import Claim, Direction
from zerolab.studies.block_model import PerGameModels
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate

VARIANT_TITLES = {
    BASELINE: "Baseline", "rollout": "Rollout", "rave": "RAVE", "rora": "RoRa", "wro": "WRo",
    WRORA: "WRoRa", ADAPTIVE_VARIANT: "WRoRa, adaptive",
}  # fmt: skip
_FIG_5_1, _FIG_5_2 = "[Wang2021b, Fig. 5.1]", "[Wang2021b, Fig. 5.2]"
_INTRODUCTION = "[Wang2021b, section 5.1]"
_SECTION, _SUMMARY = "[Wang2021b, section 5.5.2]", "[Wang2021b, section 5.6]"

VARIANTS_WITH_WARM_START = VARIANTS[1:]
_ROLLOUT, _RAVE, _RORA, _WRO = VARIANTS_WITH_WARM_START[:-1]
_COMBINATIONS = (_RORA, _WRO, WRORA)
WRORA_RIVALS = [each for each in VARIANTS if each != WRORA]
_STATIC = ("gobang", "connect_four")  # games with static opening plans
_POOLED, _SINGLE = 30.0, 50.0
"""Smallest Elo difference of practical interest, over several games and in one game."""
_INSIGNIFICANT = 20.0
"""Largest Elo lead that counts as no significant improvement.

The binomial tests of [Wang2021b] compare 8 runs with 8 others in 20 games per pair. In these 1280
games, a score rate of 52.7 %, a lead of 19 Elo, differs from one half at the 5 % level."""

WRORA_GAIN_CLAIM = Claim(
    "wrora-gains",
    "WRoRa trains stronger players than the baseline.",
    _SECTION,
    "tournament Elo of WRoRa minus that of the baseline, mean over the three games",
    0.0, "above", _POOLED, figure="gain",
)  # fmt: skip
WRORA_BEST_CLAIM = Claim(
    "wrora-best",
    "In all three games, WRoRa is the best variant.",
    _SECTION,
    "tournament Elo of WRoRa minus that of another variant, minimum of the five differences in"
    " each of the three games",
    0.0, "above", _SINGLE, figure="elo",
)  # fmt: skip
WARM_STARTS_GAIN_CLAIM = Claim(
    "warm-starts-gain",
    "In Gobang and Connect Four, warm starts on average train stronger players than the baseline.",
    _FIG_5_1,
    "mean tournament Elo of the five warm starts minus that of the baseline, mean over both games",
    0.0, "above", _POOLED, figure="gain",
)  # fmt: skip

NETWORK_VALUE_HELPS_CLAIM = Claim(
    "network-value-helps",
    "Enhancements that work in combination with the network's value tend to be stronger.",
    _SUMMARY,
    "mean tournament Elo of WRo, WRoRa minus that of Rollout, RoRa, mean over the three games",
    0.0, "above", _POOLED, WRORA_BEST_CLAIM.key, "elo",
)  # fmt: skip
NETWORK_VALUE_BY_GAME_CLAIM = Claim(
    "network-value-depends-on-game",
    "How much the combination with the network's value helps depends on the game.",
    _SUMMARY,
    "mean tournament Elo of WRo, WRoRa minus that of Rollout, RoRa, in one game minus in another,"
    " maximum of the differences between any two games",
    0.0, "above", _SINGLE, WRORA_BEST_CLAIM.key, "elo",
)  # fmt: skip
BEST_VARIANT_BY_GAME_CLAIM = Claim(
    "best-variant-depends-on-game",
    "For different games, different methods work best (section 5.5.2 says that WRoRa is the best in"
    " all three).",
    _SUMMARY,
    "largest Elo deficit of a variant behind any other variant in any of the three games, minimum"
    " over the six variants (the deficit of the variant closest to being best in all games)",
    0.0, "above", _SINGLE, WRORA_BEST_CLAIM.key, "elo",
)  # fmt: skip
SINGLE_GAINS_LITTLE_CLAIM = Claim(
    "single-enhancement-gains-little",
    "Often, a single enhancement is no significant improvement (in section 5.5.2, in two of six"
    " cases).",
    _SUMMARY,
    "tournament Elo of Rollout or RAVE minus that of the baseline, second smallest of the"
    f" differences in the three games (less than {_INSIGNIFICANT:g} would not have been"
    " significant)",
    0.0, "not above", _INSIGNIFICANT, WRORA_GAIN_CLAIM.key, "gain",
)  # fmt: skip
WRORA_ALWAYS_GAINS_CLAIM = Claim(
    "wrora-gains-in-every-game",
    "Combined with the network's value, Rollout and RAVE (WRoRa) always beat the baseline.",
    _INTRODUCTION,
    "tournament Elo of WRoRa minus that of the baseline, minimum over the three games",
    0.0, "above", _SINGLE, WRORA_GAIN_CLAIM.key, "gain",
)  # fmt: skip
GAIN_IN_EVERY_GAME_CLAIM = Claim(
    "warm-start-can-gain-in-every-game",
    "In all three games, a warm start can train stronger players than the baseline.",
    _INTRODUCTION,
    "tournament Elo of the best of the five warm starts minus that of the baseline, minimum over"
    " the three games",
    0.0, "above", _SINGLE, WRORA_GAIN_CLAIM.key, "gain",
)  # fmt: skip
COMBINATION_CLAIM = Claim(
    "combination-gains-in-every-game",
    "In each game, at least one combination trains stronger players than the baseline.",
    _SUMMARY,
    "tournament Elo of the best of RoRa, WRo, WRoRa minus that of the baseline, minimum over the"
    " three games",
    0.0, "above", _SINGLE, WRORA_GAIN_CLAIM.key, "gain",
)  # fmt: skip
MOST_GAIN_OTHELLO_CLAIM = Claim(
    "most-warm-starts-othello",
    "In Othello, most warm starts train stronger players than the baseline.",
    _FIG_5_2,
    "tournament Elo of a warm start minus that of the baseline, third largest of the five"
    " differences",
    0.0, "above", _SINGLE, WRORA_GAIN_CLAIM.key, "gain",
)  # fmt: skip
STATIC_OPENINGS_GAIN_CLAIM = Claim(
    "static-openings-gain-more",
    "Games with good static opening plans, Gobang and Connect Four, probably benefit more than"
    " Othello.",
    _SUMMARY,
    "mean tournament Elo of the five warm starts minus that of the baseline, mean of Gobang and"
    " Connect Four minus Othello",
    0.0, "above", _SINGLE, WARM_STARTS_GAIN_CLAIM.key, "gain",
)  # fmt: skip
WRORA_ACCURACY_CLAIM = Claim(
    "wrora-gains-accuracy",
    "According to a solver, WRoRa trains better networks than the baseline.",
    "zerolab, on [Wang2020b]",
    "strong accuracy of the policies of final networks on solved positions, WRoRa minus baseline,"
    " mean over the three games",
    0.0, "above", 0.01, WRORA_GAIN_CLAIM.key, "accuracy",
)  # fmt: skip
GAIN_BY_GAME_CLAIM = Claim(
    "gain-depends-on-game",
    "The improvement by a warm start depends on the game.",
    "[Wang2021b, sections 5.5.2 and 5.6]",
    "tournament Elo of a warm start minus that of the baseline, in one game minus in another,"
    " maximum of the differences between any two games",
    0.0, "above", _SINGLE, WARM_STARTS_GAIN_CLAIM.key, "gain",
)  # fmt: skip


class EloClaim(NamedTuple):
    """Claim about the mean Elo of variants in one game."""

    claim: Claim
    game: str
    contrast_weights: Mapping[Any, float]
    """Weight of the mean Elo of each variant; the weights add up to 0."""


def _compared(
    key: str,
    game: str,
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    direction: Direction,
    gatekeeper: Claim,
) -> EloClaim:
    names = [", ".join(VARIANT_TITLES[each] for each in side) for side in (better, worse)]
    claim = Claim(
        f"{key}-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, {text}",
        _SECTION,
        f"mean tournament Elo of {names[0]} minus that of {names[1]}",
        0.0, direction, _INSIGNIFICANT if direction == "not above" else _SINGLE, gatekeeper.key,
        "elo",
    )  # fmt: skip
    weights = {each: 1.0 / len(better) for each in better}
    return EloClaim(claim, game, weights | {each: -1.0 / len(worse) for each in worse})


ELO_CLAIMS: Sequence[EloClaim] = [
    *(
        _compared(variant, game,
                  f"{VARIANT_TITLES[variant]} trains stronger players than the baseline.",
                  [variant], [BASELINE], "above", WARM_STARTS_GAIN_CLAIM)
        for game in ("gobang", "connect_four") for variant in VARIANTS_WITH_WARM_START
    ),
    *(
        _compared(variant, "othello",
                  f"{VARIANT_TITLES[variant]} trains stronger players than the baseline"
                  f"{' (the section also says: not significantly)' if variant == _RAVE else ''}.",
                  [variant], [BASELINE], "above", WRORA_GAIN_CLAIM)
        for variant in VARIANTS_WITH_WARM_START if variant != _ROLLOUT
    ),
    _compared("rave-no-gain", "othello",
              "RAVE is no significant improvement (the section also calls it better).",
              [_RAVE], [BASELINE], "not above", WRORA_GAIN_CLAIM),
    _compared("rollout", "othello", "Rollout trains players as strong as the baseline.",
              [_ROLLOUT], [BASELINE], "equal to", WRORA_GAIN_CLAIM),
    _compared("rora-no-gain-over-rollout", "gobang",
              "RoRa is no significant improvement over Rollout.",
              [_RORA], [_ROLLOUT], "not above", WRORA_BEST_CLAIM),
    _compared("rollout-above-rave", "gobang", "Rollout contributes more than RAVE.",
              [_ROLLOUT], [_RAVE], "above", WRORA_BEST_CLAIM),
    _compared("rora-above-rave", "gobang", "RoRa trains stronger players than RAVE.",
              [_RORA], [_RAVE], "above", WRORA_BEST_CLAIM),
    _compared("wro-above-rollout", "connect_four",
              "weighting the playout with the network's value (WRo) improves on Rollout.",
              [_WRO], [_ROLLOUT], "above", WRORA_BEST_CLAIM),
    _compared("wrora-above-rave", "connect_four", "WRoRa trains stronger players than RAVE.",
              [WRORA], [_RAVE], "above", WRORA_BEST_CLAIM),
    _compared("network-value-helps", "connect_four",
              "enhancements combined with the network's value contribute more than pure ones.",
              [_WRO, WRORA], [_ROLLOUT, _RAVE, _RORA], "above", WRORA_BEST_CLAIM),
    _compared("wrora-no-gain-over-wro", "connect_four",
              "the combination shows no improvement in the weighted case (WRoRa against WRo; the"
              " section also says that WRoRa is the best).",
              [WRORA], [_WRO], "not above", WRORA_BEST_CLAIM),
]  # fmt: skip
"""Claims about one game."""

_COMBINED: Mapping[str, tuple[str, str, Direction, float]] = {
    "connect_four": ("rora-above-its-parts", "shows improvement (our reading: over both)", "above",
                     _SINGLE),
    "othello": ("rora-no-gain-over-its-parts", "is no significant improvement", "not above",
                _INSIGNIFICANT),
}  # fmt: skip
RORA_CLAIMS = {
    game: Claim(
        f"{key}-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, combining Rollout and RAVE (RoRa) {text}.",
        _SECTION,
        "tournament Elo of RoRa minus that of the better of Rollout, RAVE",
        0.0, direction, smallest, WRORA_BEST_CLAIM.key, "elo",
    )
    for game, (key, text, direction, smallest) in _COMBINED.items()
}  # fmt: skip
"""Claims about RoRa against its parts, by game."""

WRORA_BEST_IN_GAME_CLAIMS = {
    game: Claim(
        f"wrora-best-{game.replace('_', '-')}",
        f"In {GAME_TITLES[game]}, WRoRa is the best variant.",
        _SECTION,
        "tournament Elo of WRoRa minus that of another variant, minimum of the five differences",
        0.0, "above", _SINGLE, WRORA_BEST_CLAIM.key, "elo",
    )
    for game in GAMES
}  # fmt: skip
_OTHERS = [each for each in VARIANTS_WITH_WARM_START if each != _RAVE]
RAVE_WORST_CLAIM = Claim(
    "rave-alone-worst-gobang",
    "In Gobang, Rollout and the combinations train stronger players than RAVE alone.",
    _SECTION,
    "tournament Elo of Rollout, RoRa, WRo or WRoRa minus that of RAVE, minimum of the four"
    " differences",
    0.0, "above", _SINGLE, WRORA_BEST_CLAIM.key, "elo",
)  # fmt: skip
GAIN_SIZE_CLAIM = Claim(
    "gain-of-150-gobang",
    "In Gobang, warm starts except RAVE gain about 150 Elo: they are at about 50, and the baseline"
    " at about -100.",
    _SECTION,
    "mean tournament Elo of Rollout, RoRa, WRo, WRoRa minus that of the baseline",
    150.0, "equal to", _SINGLE, WARM_STARTS_GAIN_CLAIM.key, "gain",
)  # fmt: skip
ALIKE_IN_GOBANG_CLAIM = Claim(
    "warm-starts-alike-gobang",
    "In Gobang, all warm starts except RAVE have about the same Elo (the section also says that"
    " WRoRa is the best).",
    _SECTION,
    "tournament Elo of one of Rollout, RoRa, WRo, WRoRa minus that of another, largest difference",
    0.0, "not above", _SINGLE, WARM_STARTS_GAIN_CLAIM.key, "elo",
)  # fmt: skip
RAVE_SPREAD_CLAIM = Claim(
    "rave-varies-gobang",
    "In Gobang, runs with RAVE differ more in strength than those with other warm starts.",
    _SECTION,
    "standard deviation of tournament Elo between runs with RAVE, divided by that of the other warm"
    " starts",
    1.0, "above", 0.5, WARM_STARTS_GAIN_CLAIM.key, "elo",
)  # fmt: skip

_WEIGHTED = {_WRO: 0.5, WRORA: 0.5, _ROLLOUT: -0.5, _RORA: -0.5}
_SINGLE_CASES = [(each, game) for game in GAMES for each in (_ROLLOUT, _RAVE)]
_OTHELLO_CASES = [(each, "othello") for each in VARIANTS_WITH_WARM_START]
_OF_ALL_GAMES: Mapping[Claim, Callable[[PerGameModels], ClaimEstimate]] = {
    WRORA_GAIN_CLAIM: lambda model: model.contrast(gain_contrast_weights([WRORA])),
    WRORA_BEST_CLAIM: lambda model: smallest_difference(model, [WRORA], WRORA_RIVALS, GAMES),
    WARM_STARTS_GAIN_CLAIM: lambda model: model.contrast(
        gain_contrast_weights(VARIANTS_WITH_WARM_START), _STATIC
    ),
    NETWORK_VALUE_HELPS_CLAIM: lambda model: model.contrast(_WEIGHTED),
    NETWORK_VALUE_BY_GAME_CLAIM: lambda model: largest_contrast_change(model, [_WEIGHTED], GAMES),
    BEST_VARIANT_BY_GAME_CLAIM: lambda model: smallest_worst_deficit(model, VARIANTS, GAMES),
    SINGLE_GAINS_LITTLE_CLAIM: lambda model: ranked_gain(
        model, _SINGLE_CASES, len(_SINGLE_CASES) - 1
    ),
    WRORA_ALWAYS_GAINS_CLAIM: lambda model: smallest_difference(model, [WRORA], [BASELINE], GAMES),
    GAIN_IN_EVERY_GAME_CLAIM: lambda model: smallest_best_gain(
        model, VARIANTS_WITH_WARM_START, GAMES
    ),
    COMBINATION_CLAIM: lambda model: smallest_best_gain(model, _COMBINATIONS, GAMES),
    STATIC_OPENINGS_GAIN_CLAIM: lambda model: mean_contrast_change(
        model, gain_contrast_weights(VARIANTS_WITH_WARM_START), "othello", _STATIC
    ),
    GAIN_BY_GAME_CLAIM: lambda model: largest_contrast_change(
        model, [gain_contrast_weights([each]) for each in VARIANTS_WITH_WARM_START], GAMES
    ),
}
_OF_ONE_GAME: Mapping[Claim, tuple[str, Callable[[PerGameModels], ClaimEstimate]]] = {
    MOST_GAIN_OTHELLO_CLAIM: ("othello", lambda model: ranked_gain(model, _OTHELLO_CASES, 3)),
    RAVE_WORST_CLAIM: (
        "gobang", lambda model: smallest_difference(model, _OTHERS, [_RAVE], ["gobang"]),
    ),
    GAIN_SIZE_CLAIM: (
        "gobang", lambda model: model.contrast(gain_contrast_weights(_OTHERS), ["gobang"]),
    ),
    ALIKE_IN_GOBANG_CLAIM: (
        "gobang", lambda model: largest_variant_difference(model, _OTHERS, "gobang"),
    ),
}  # fmt: skip


def warm_start_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about warm starts, or the reason why it is missing."""
    model = fit_elo_model(results, GAMES, "variant", VARIANTS)
    of_game = {game: fit_elo_model(results, [game], "variant", VARIANTS) for game in GAMES}
    if not isinstance(model, MissingEstimate):
        of_game = dict.fromkeys(GAMES, model)
    accuracies = fit_accuracy_model(results, GAMES, "variant", VARIANTS, "policy")
    return {
        **{claim: _unless_missing(model, each) for claim, each in _OF_ALL_GAMES.items()},
        WRORA_ACCURACY_CLAIM: mean_contrast(accuracies, gain_contrast_weights([WRORA])),
        **{
            claim: _unless_missing(of_game[game], estimate)
            for claim, (game, estimate) in _OF_ONE_GAME.items()
        },
        **{
            each.claim: mean_contrast(of_game[each.game], each.contrast_weights, [each.game])
            for each in ELO_CLAIMS
        },
        **{
            claim: lead_over_closest_rival(of_game[game], _RORA, [_ROLLOUT, _RAVE], [game])
            for game, claim in RORA_CLAIMS.items()
        },
        **{
            claim: lead_over_closest_rival(of_game[game], WRORA, WRORA_RIVALS, [game])
            for game, claim in WRORA_BEST_IN_GAME_CLAIMS.items()
        },
        RAVE_SPREAD_CLAIM: elo_spread_ratio(results, "gobang", "variant", _RAVE, _OTHERS),
    }


def _unless_missing(
    model: PerGameModels | MissingEstimate, estimate: Callable[[PerGameModels], ClaimEstimate]
) -> ClaimEstimate | MissingEstimate:
    return model if isinstance(model, MissingEstimate) else estimate(model)
