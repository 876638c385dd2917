"""Claims of [Clausen2021]: each restates a sentence, caption or table of the paper.

The paper adds one ingredient after another to the baseline. This study removes one at a time from
the extended version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from zerolab.papers.connect_four.variants import (
    BASELINE,
    BIG_TREES,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_NOVELTY,
    LEAGUE_BY_RESULTS,
    LIGHT_MERGING,
    VARIANTS,
)
from zerolab.report.claims import Claim, Direction

_POINT = 0.01
"""Smallest difference in accuracy of search worth knowing, a percentage point."""
_EQUAL_COST = (
    "strong accuracy of search at equal self-play cost in core hours (the total cost of the"
    " cheapest run of the two variants)"
)
_EARLY_COST = _EQUAL_COST.replace("(the total", "(a quarter of the total")
_ALONG_CURVES = (
    "strong accuracy of search, averaged over the range of self-play costs, in core hours, that all"
    " runs of both variants cover"
)
_PEAK = (
    "highest strong accuracy of search in whole runs, as a moving average over the last fifth of"
    " the cost so far"
)
_END = "strong accuracy of search in the last fifth of the self-play cost of whole runs"


_FIGURES: Mapping[str, str] = {
    BASELINE: "accuracy",
    "service": "accuracy-trees",
    "growing": "accuracy-growing",
    LEAGUE_BY_RESULTS: "accuracy-league",
    FEATURES: "accuracy-features",
    **{name: "accuracy-ablation" for name, variant in VARIANTS.items() if variant.is_ablation},
}
"""Figure that compares each variant with the extended version."""


def _compared(
    measure: str,
    key: str,
    text: str,
    source: str,
    pair: tuple[str, str],
    direction: Direction = "above",
    opened_by: Claim | None = None,
) -> Claim:
    """Return a claim about the difference between two variants."""
    one, other = (VARIANTS[name].title for name in pair)
    opener = opened_by.key if opened_by else ""
    statistic = f"{one} minus {other}: {measure}"
    figure = next(_FIGURES[name] for name in pair if name in _FIGURES)
    return Claim(key, text, source, statistic, 0.0, direction, _POINT, opener, figure)


_at_equal_cost = partial(_compared, _EQUAL_COST)
_along_curves = partial(_compared, _ALONG_CURVES)

EXTENDED_CLAIM = _at_equal_cost(
    "extended-is-cheaper",
    "The extended version reaches a higher accuracy than the baseline at the same cost.",
    "[Clausen2021, Fig. 7]",
    (EXTENDED, BASELINE),
)
SERVICE_CLAIM = _along_curves(
    "service-is-cheaper",
    "A service that searches each position once is more efficient than the extended version.",
    "[Clausen2021, section 4.1, Fig. 8]",
    ("service", EXTENDED),
)
GROWING_CLAIM = _along_curves(
    "growing-is-cheaper",
    "A network that grows during the run is more efficient than the extended version.",
    "[Clausen2021, Fig. 11]",
    ("growing", EXTENDED),
)
GROWING_EARLY_CLAIM = _compared(
    _EARLY_COST,
    "growing-is-cheaper-at-first",
    "Early in training, a network that grows is more efficient than the extended version.",
    "[Clausen2021, curve in Fig. 11]",
    ("growing", EXTENDED),
    opened_by=GROWING_CLAIM,
)
LEAGUE_CLAIM = _along_curves(
    "league-is-no-better",
    "A league of search settings is no significant improvement over the extended version.",
    "[Clausen2021, section 4.3, Fig. 12]",
    (LEAGUE_BY_RESULTS, EXTENDED),
    "not above",
)
FEATURES_CLAIM = _compared(
    f"{_ALONG_CURVES}; the self-play cost of the small network is counted",
    "features-do-not-pay",
    "The extended version mostly remains better than self-play with auxiliary features, which come"
    " from a small network that is expensive to train.",
    "[Clausen2021, section 4.2, Fig. 10]",
    (FEATURES, EXTENDED),
    "below",
)
FREE_FEATURES_CLAIM = _compared(
    f"{_ALONG_CURVES}; training the small network is not counted",
    "features-do-not-help",
    "Even if the small network cost nothing, its features would not improve on the extended"
    " version.",
    "[Clausen2021, section 4.2]",
    (FEATURES, EXTENDED),
    "not above",
    FEATURES_CLAIM,
)

_Row = tuple[str, str, str, tuple[str, str], Direction, Claim]
"""Key, text, source, pair of variants, direction and opener of a claim."""


def _by_pair(measure: str, rows: Sequence[_Row]) -> dict[Claim, tuple[str, str]]:
    return {
        _compared(measure, key, text, source, pair, direction, opener): pair
        for key, text, source, pair, direction, opener in rows
    }


PEAKS: Mapping[Claim, tuple[str, str]] = _by_pair(_PEAK, (
    ("growing-peaks-lower", "A growing network does not reach the highest accuracy of the extended"
     " version.", "[Clausen2021, curve in Fig. 11]", ("growing", EXTENDED), "below", GROWING_CLAIM),
    ("league-peaks-lower", "A league of search settings does not reach the highest accuracy of the"
     " extended version.", "[Clausen2021, curve in Fig. 12]", (LEAGUE_BY_RESULTS, EXTENDED),
     "below", LEAGUE_CLAIM),
))  # fmt: skip
"""Claims about the highest accuracies, and the pair of variants that each compares."""

ENDS: Mapping[Claim, tuple[str, str]] = _by_pair(_END, (
    ("extended-ends-higher", "The extended version ends at a higher accuracy than the baseline.",
     "[Clausen2021, curve in Fig. 7]", (EXTENDED, BASELINE), "above", EXTENDED_CLAIM),
    ("service-ends-as-high", "A service that searches each position once ends at no lower"
     " accuracy than the extended version.", "[Clausen2021, curve in Fig. 8]",
     ("service", EXTENDED), "not below", SERVICE_CLAIM),
    ("features-end-lower", "Regularising a large network with a small one reduces the final"
     " accuracy.", "[Clausen2021, section 4.2]", (FEATURES, EXTENDED), "below", FEATURES_CLAIM),
    ("squeeze-excite-loses-later", "Squeeze-and-excite possibly loses a little accuracy later in"
     " training.", "[Clausen2021, section 3.3, Fig. 6]", (EXTENDED, "no-squeeze-excite"), "below",
     EXTENDED_CLAIM),
))  # fmt: skip
"""Claims about the accuracies at the end, and the pair of variants that each compares."""

EXTENSIONS_CLAIM = Claim(
    "extensions-gain-little",
    "Games as trees, features of a small network and evolving settings each reduce the effort at"
    " most a little.",
    "[Clausen2021, section 5]",
    f"service, auxiliary features (with the cost of the small network) and league, each minus"
    f" extended: {_ALONG_CURVES}; largest of the three differences",
    0.02,
    "below",
    _POINT,
    EXTENDED_CLAIM.key,
)
SQUEEZE_EARLY_CLAIM = _compared(
    _EARLY_COST,
    "squeeze-excite-gains-early",
    "Squeeze-and-excite may gain accuracy early in training.",
    "[Clausen2021, section 3.3, Fig. 6]",
    (EXTENDED, "no-squeeze-excite"),
    opened_by=EXTENDED_CLAIM,
)

_INGREDIENTS: Mapping[str, tuple[str, str, str, Direction]] = {
    "no-merging": (
        "merging-helps", "Merging equal positions is a successful extension.",
        "[Clausen2021, section 3.3]", "above",
    ),
    "no-cycle": (
        "cycle-helps", "A cyclical learning rate speeds up learning.",
        "[Clausen2021, section 3.3, Fig. 3]", "above",
    ),
    "no-slow-window": (
        "slow-window-does-no-harm", "A slow window has no harmful effect.",
        "[Clausen2021, section 3.3, Fig. 4]", "not below",
    ),
    "no-reply": (
        "reply-helps", "Predicting the opponent's reply has a small advantage, at times.",
        "[Clausen2021, section 3.3, Fig. 5]", "above",
    ),
    "no-squeeze-excite": (
        "squeeze-excite-does-no-harm", "Squeeze-and-excite does not reduce performance much.",
        "[Clausen2021, section 3.3, Fig. 6]", "not below",
    ),
}  # fmt: skip
"""Key, text, source and direction of the claim about an ingredient, by the variant without it.

The paper makes no claim about short iterations."""

ABLATIONS: Mapping[str, Claim] = {
    name: _compared(
        f"{_EQUAL_COST}; the paper adds the ingredient to the baseline",
        key,
        text,
        source,
        (EXTENDED, name),
        direction,
        EXTENDED_CLAIM,
    )
    for name, (key, text, source, direction) in _INGREDIENTS.items()
}
"""Claims about ingredients, by the variant without the ingredient."""

WEIGHT_CLAIM = Claim(
    "merging-weight-0.8-no-worse",
    "A weight of 0.8 for the newer of two equal positions, the paper's choice, is no worse than 0.2"
    " or 0.5.",
    "[Clausen2021, Fig. 1]",
    "extended (0.8) minus the better of"
    f" {' and '.join(VARIANTS[name].title for name in LIGHT_MERGING)}: {_EQUAL_COST}",
    0.0,
    "not below",
    _POINT,
    EXTENDED_CLAIM.key,
    "accuracy-merging",
)

TREE_CLAIMS: Mapping[str, Claim] = {
    name: _at_equal_cost(
        f"{name}-is-no-better", text, "[Clausen2021, section 4.1]", (name, "service"), "not above",
        SERVICE_CLAIM,
    )
    for name, text in {
        "retry": "Resetting lost games to search for alternatives is no significant improvement"
        " over the service.",
        "big-tree": "One large tree is no significant improvement over the service.",
    }.items()
}  # fmt: skip
"""Claims about further ways to play games as trees, by variant."""

EVOLVED_GAMES = 200
"""Games between evolved and original settings for each league."""

EVOLVED_CLAIM = Claim(
    "evolved-settings-play-worse",
    "Search settings evolved to win games play worse than the original settings, judged by the"
    " solver.",
    "[Clausen2021, section 4.3]",
    "strong accuracy of search with the final networks of leagues, with the best evolved settings"
    " minus with the original ones, at the same number of simulations, by seed",
    0.0,
    "below",
    _POINT,
    LEAGUE_CLAIM.key,
)
EVOLVED_WINS_CLAIM = Claim(
    "evolved-settings-win-more-games",
    "Search settings evolved to win games win more games than the original settings.",
    "[Clausen2021, section 4.3]",
    f"share of points of the best evolved settings in {EVOLVED_GAMES} games against the original"
    " ones, both with the final network of the league and the same number of simulations, by seed",
    0.5,
    "above",
    0.05,
    LEAGUE_CLAIM.key,
)

CHECK_CLAIM = Claim(
    "check-parameter-is-optimised",
    "An artificial parameter with a known best value is perfectly optimised, so the evolution"
    " works.",
    "[Clausen2021, section 4.3]",
    "probability of a random move of the best player after the last generation, 0 at the best value"
    " of the check parameter and 0.5 by chance, by seed",
    0.1,
    "below",
    0.05,
    LEAGUE_CLAIM.key,
    "league-parameters",
)

_SMALLEST_SHARE = 0.002  # the smallest published difference between depths is 0.003


def _depth_claim(
    measure: str, key: str, text: str, source: str, statistic: str, opener: str
) -> Claim:
    return Claim(
        key, text, source, f"{statistic}, mean over both sets, smallest difference", 0.0, "above",
        _SMALLEST_SHARE, opener, f"supervised-{measure}",
    )  # fmt: skip


_DEEPER_MOVE = _depth_claim(
    "strong",
    "deeper-chooses-better",
    "Deeper networks choose a strongest move more often.",
    "[Clausen2021, Table 1]",
    "share of positions in which networks of one depth choose a strongest move minus that of the"
    " next smaller depth",
    "",
)
DEEPER_CLAIMS: Mapping[str, Claim] = {
    "strong": _DEEPER_MOVE,
    "result": _depth_claim(
        "result",
        "deeper-knows-more-results",
        "Networks of 20 blocks predict the most outcomes correctly.",
        "[Clausen2021, section 3.2, Table 1]",
        "share of correctly predicted outcomes by the deepest networks minus that by others",
        _DEEPER_MOVE.key,
    ),
}
"""Claims about depth in supervised learning, by the name of the measure."""

SUPERVISED_FEATURES_CLAIM = Claim(
    "features-help-supervised-learning",
    "In supervised learning, auxiliary features of a small network improve the test accuracy"
    " slightly, by 0.2 percentage points.",
    "[Clausen2021, section 4.2]",
    "share of positions in which the smallest networks choose a strongest move, with policy-head"
    " features (now and 2 plies later) minus without, on the set of all positions of each game",
    0.0,
    "above",
    0.001,
    _DEEPER_MOVE.key,
    "supervised-features",
)

EARLY, LATE = "early", "late"
PHASE_SHARE = 0.2
"""Share of the games in each phase of training."""
_SMALLEST_DIVERSITY = 0.5  # positions per game


def _diversity_claim(
    key: str, text: str, source: str, name: str, phase: str, direction: Direction, opener: Claim
) -> Claim:
    order = "first" if phase == EARLY else "last"
    statistic = (
        f"new distinct positions per game in the {order} fifth of the first N games,"
        f" {VARIANTS[name].title} minus {VARIANTS[EXTENDED].title}, by seed, where N is the number"
        " of games in the shortest run of either"
    )
    figure = "diversity-league" if opener is LEAGUE_CLAIM else "diversity"
    return Claim(
        key, text, source, statistic, 0.0, direction, _SMALLEST_DIVERSITY, opener.key, figure
    )


_TREE, _, _TREE_WITH_LARGE_C = BIG_TREES
_FIG_9, _FIG_13 = "[Clausen2021, section 4.1, Fig. 9]", "[Clausen2021, section 4.3, Fig. 13]"

_DIVERSITY_ROWS: Sequence[tuple[str, str, str, str, str, Direction, Claim]] = (
    ("big-tree-is-more-diverse-early", "Early in training, one large tree causes a quick spike"
     " in the diversity of games.", _FIG_9, _TREE, EARLY, "above", SERVICE_CLAIM),
    ("big-tree-is-less-diverse-later", "Later, one large tree gets stuck on a few game paths,"
     " which reduces the diversity of positions.", _FIG_9, _TREE, LATE, "below",
     SERVICE_CLAIM),
    ("large-c-does-not-help", "Even a massively increased exploration constant does not"
     " prevent the loss of diversity.", _FIG_9, _TREE_WITH_LARGE_C, LATE, "below",
     SERVICE_CLAIM),
    ("novelty-is-no-more-diverse-early", "Early in training, even pure novelty search produces"
     " no more novel games than the original settings.", _FIG_13, LEAGUE_BY_NOVELTY, EARLY,
     "not above", LEAGUE_CLAIM),
    ("novelty-is-more-diverse-later", "Towards the end of training, novelty search produces"
     " more novel games than the original settings.", _FIG_13, LEAGUE_BY_NOVELTY, LATE,
     "above", LEAGUE_CLAIM),
)  # fmt: skip
DIVERSITY_CLAIMS: Mapping[Claim, tuple[str, str]] = {
    _diversity_claim(key, text, source, name, phase, direction, opener): (name, phase)
    for key, text, source, name, phase, direction, opener in _DIVERSITY_ROWS
}
"""Claims about diversity, and the variant and phase of training that each concerns."""
