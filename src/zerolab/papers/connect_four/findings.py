"""Claims of [Clausen2021]: each restates a sentence, caption or table of the paper.

The paper adds one ingredient after another to the baseline. This study removes one at a time from
the extended version. The source *curve in Fig. N* marks a claim that can be read off a figure but
that neither the caption nor the text states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_RESULTS,
    MERGING_WEIGHT_VARIANTS,
    VARIANTS,
)
from zerolab.report.claims import Claim, Direction

_POINT = 0.01
"""Smallest difference in search accuracy of practical interest: one percentage point."""
_EQUAL_COST = (
    "strong accuracy of search at equal self-play cost in core hours (the total cost of the"
    " cheapest run of the two variants)"
)
_EARLY_COST = _EQUAL_COST.replace("(the total", "(a quarter of the total")
_ALONG_CURVES = (
    "strong accuracy of search, averaged over the range of self-play costs, in core hours, that all"
    " runs of both variants cover"
)
_SOME_PART = f"{_ALONG_CURVES}, separately for each quarter of this range, largest difference"
_ADDED = "; the paper adds the ingredient to the baseline"
_EQUAL_MOVES = "up to the number of self-play moves that all runs of both variants reach"
_PEAK = (
    f"highest strong accuracy of search {_EQUAL_MOVES}, as a moving average over the last fifth of"
    " the cost so far"
)
_END = f"strong accuracy of search in the last fifth of the self-play cost {_EQUAL_MOVES}"

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
    gatekeeper: Claim | None = None,
) -> Claim:
    """Return a claim about the difference between two variants."""
    one, other = (VARIANTS[name].title for name in pair)
    gatekeeper_key = gatekeeper.key if gatekeeper else ""
    statistic = f"{one} minus {other}: {measure}"
    figure = next(_FIGURES[name] for name in pair if name in _FIGURES)
    return Claim(key, text, source, statistic, 0.0, direction, _POINT, gatekeeper_key, figure)


_at_equal_cost = partial(_compared, _EQUAL_COST)
_along_curves = partial(_compared, _ALONG_CURVES)

EXTENDED_CHEAPER_CLAIM = _at_equal_cost(
    "extended-is-cheaper",
    "The extended version reaches a higher accuracy than the baseline at the same cost.",
    "[Clausen2021, section 3.4, curve in Fig. 7]", (EXTENDED, BASELINE),
)  # fmt: skip
SERVICE_CHEAPER_CLAIM = _along_curves(
    "service-is-cheaper",
    "A service that searches each position once is more efficient than the extended version.",
    "[Clausen2021, section 4.1]", ("service", EXTENDED),
)  # fmt: skip
SERVICE_BEATS_BASELINE_CLAIM = _along_curves(
    "service-is-cheaper-than-baseline",
    "A service that searches each position once is more efficient than the baseline.",
    "[Clausen2021, Fig. 8]",
    ("service", BASELINE),
    gatekeeper=SERVICE_CHEAPER_CLAIM,
)
GROWING_NETWORK_CHEAPER_CLAIM = _along_curves(
    "growing-is-cheaper",
    "A network that grows during the run is more efficient than the extended version (the caption"
    " does not name what it is compared with; according to the text, growing with auxiliary"
    " features does not help).",
    "[Clausen2021, Fig. 11]",
    ("growing", EXTENDED),
)
GROWING_NETWORK_EARLY_CLAIM = _compared(
    _EARLY_COST,
    "growing-is-cheaper-at-first",
    "Early in training, a network that grows is more efficient than the extended version.",
    "[Clausen2021, curve in Fig. 11]",
    ("growing", EXTENDED),
    gatekeeper=GROWING_NETWORK_CHEAPER_CLAIM,
)
LEAGUE_NO_BETTER_CLAIM = _along_curves(
    "league-is-no-better",
    "A league that evolves search settings, among them the KL threshold for the thinking time, is"
    " no significant improvement over the extended version.",
    "[Clausen2021, section 4.3, Fig. 12]",
    (LEAGUE_BY_RESULTS, EXTENDED),
    "not above",
)
FEATURES_DO_NOT_PAY_CLAIM = _compared(
    f"{_ALONG_CURVES}; the self-play cost of the small network is counted",
    "features-do-not-pay",
    "The extended version mostly remains better than self-play with auxiliary features, which come"
    " from a small network that is expensive to train.",
    "[Clausen2021, section 4.2, Fig. 10]",
    (FEATURES, EXTENDED),
    "below",
)
FREE_FEATURES_NO_HELP_CLAIM = _compared(
    f"{_ALONG_CURVES}; training the small network is not counted",
    "features-do-not-help",
    "Even if the small network cost nothing, its features would not improve on the extended"
    " version.",
    "zerolab, on [Clausen2021, section 4.2]",
    (FEATURES, EXTENDED),
    "not above",
    FEATURES_DO_NOT_PAY_CLAIM,
)
SMALL_NETWORK_COST_CLAIM = Claim(
    "small-network-costs-much",
    "The time to train the small network, from which the features come, makes a huge difference.",
    "[Clausen2021, section 4.2]",
    "auxiliary features without minus with the self-play cost of the small network: strong accuracy"
    " of search, averaged over the costs that all runs cover either way, by seed (limit: ours)",
    0.02,
    "above",
    _POINT,
    FEATURES_DO_NOT_PAY_CLAIM.key,
    "accuracy-features",
)

_Row = tuple[str, str, str, tuple[str, str], Direction, Claim]
"""Key, text, source, pair of variants, direction and gatekeeper of a claim."""


def _by_pair(measure: str, rows: Sequence[_Row]) -> dict[Claim, tuple[str, str]]:
    return {
        _compared(measure, key, text, source, pair, direction, gatekeeper): pair
        for key, text, source, pair, direction, gatekeeper in rows
    }


PEAK_ACCURACY_CLAIMS: Mapping[Claim, tuple[str, str]] = _by_pair(_PEAK, (
    ("growing-peaks-lower", "A growing network does not reach the highest accuracy of the extended"
     " version.", "[Clausen2021, curve in Fig. 11]", ("growing", EXTENDED), "below",
     GROWING_NETWORK_CHEAPER_CLAIM),
    ("league-peaks-lower", "A league of search settings does not reach the highest accuracy of the"
     " extended version.", "[Clausen2021, curve in Fig. 12]", (LEAGUE_BY_RESULTS, EXTENDED),
     "below", LEAGUE_NO_BETTER_CLAIM),
))  # fmt: skip
"""Claims about the highest accuracies, and the pair of variants that each compares."""

FINAL_ACCURACY_CLAIMS: Mapping[Claim, tuple[str, str]] = _by_pair(_END, (
    ("extended-ends-higher", "The extended version ends at a higher accuracy than the baseline.",
     "[Clausen2021, curve in Fig. 7]", (EXTENDED, BASELINE), "above", EXTENDED_CHEAPER_CLAIM),
    ("service-ends-as-high", "A service that searches each position once ends at no lower"
     " accuracy than the extended version.", "[Clausen2021, curve in Fig. 8]",
     ("service", EXTENDED), "not below", SERVICE_CHEAPER_CLAIM),
    ("features-end-lower",
     "Regularising a large network with a small one reduces the final accuracy.",
     "[Clausen2021, section 4.2]", (FEATURES, EXTENDED), "below", FEATURES_DO_NOT_PAY_CLAIM),
)) | _by_pair(f"{_END}{_ADDED}", (
    ("squeeze-excite-loses-later", "Squeeze-and-excite possibly loses a little accuracy later in"
     " training.", "[Clausen2021, section 3.3, Fig. 6]", (EXTENDED, "no-squeeze-excite"), "below",
     EXTENDED_CHEAPER_CLAIM),
))  # fmt: skip
"""Claims about the accuracies at the end, and the pair of variants that each compares."""

_SAVED = (
    "saving by the service, auxiliary features (with the cost of the small network) and league over"
    " the extended version: log2 of the ratio of self-play costs to come within 0.01 of the highest"
    " accuracy that all runs of both variants reach (as a moving average)"
)
EXTENSIONS_SAVE_EFFORT_CLAIM = Claim(
    "extensions-save-effort",
    "Games as trees, features of a small network or evolving settings can decrease the effort.",
    "[Clausen2021, section 5]",
    f"{_SAVED}, maximum of the three",
    0.0,
    "above",
    0.1,
    EXTENDED_CHEAPER_CLAIM.key,
)
EXTENSIONS_GAIN_LITTLE_CLAIM = Claim(
    "extensions-gain-little",
    "The benefit of games as trees, features of a small network and evolving settings is mostly"
    " small.",
    "[Clausen2021, section 5]",
    f"{_SAVED}, second largest of the three; the largest published saving, a factor of 1.31, is"
    " that of the service in reaching 91 % accuracy",
    0.4,
    "below",
    0.1,
    EXTENDED_CHEAPER_CLAIM.key,
)
SQUEEZE_EXCITE_EARLY_CLAIM = _compared(
    f"{_EARLY_COST}{_ADDED}",
    "squeeze-excite-gains-early",
    "Squeeze-and-excite may gain accuracy early in training.",
    "[Clausen2021, section 3.3, Fig. 6]",
    (EXTENDED, "no-squeeze-excite"),
    gatekeeper=EXTENDED_CHEAPER_CLAIM,
)

_INGREDIENTS: Mapping[str, tuple[str, str, str, str, Direction]] = {
    "no-merging": (
        _EQUAL_COST, "merging-helps", "Merging equal positions is a successful extension.",
        "[Clausen2021, section 3.3]", "above",
    ),
    "no-cycle": (
        _ALONG_CURVES, "cycle-helps", "A cyclical learning rate speeds up learning.",
        "[Clausen2021, section 3.3, Fig. 3]", "above",
    ),
    "no-slow-window": (
        _EQUAL_COST, "slow-window-does-no-harm", "A slow window has no harmful effect.",
        "[Clausen2021, section 3.3, Fig. 4]", "not below",
    ),
    "no-reply": (
        _SOME_PART, "reply-helps",
        "Predicting the opponent's reply has a small advantage for some parts of a run.",
        "[Clausen2021, section 3.3, Fig. 5]", "above",
    ),
    "no-squeeze-excite": (
        _EQUAL_COST, "squeeze-excite-does-no-harm",
        "Squeeze-and-excite does not reduce performance much.",
        "[Clausen2021, section 3.3, Fig. 6]", "not below",
    ),
}  # fmt: skip
"""Measure, key, text, source and direction of the claim about an ingredient, by the variant that
lacks the ingredient.

The paper makes no claim about short iterations."""

ABLATION_CLAIMS: Mapping[str, Claim] = {
    name: _compared(
        f"{measure}{_ADDED}", key, text, source, (EXTENDED, name), direction, EXTENDED_CHEAPER_CLAIM
    )
    for name, (measure, key, text, source, direction) in _INGREDIENTS.items()
}
"""Claims about ingredients, by the variant without the ingredient."""

MERGING_WEIGHT_CLAIM = Claim(
    "merging-weight-0.8-no-worse",
    "A weight of 0.8 for the newer of two equal positions, the paper's choice, is no worse than 0.2"
    " or 0.5.",
    "zerolab, on [Clausen2021, Fig. 1]",
    "extended (0.8) minus the better of"
    f" {' and '.join(VARIANTS[name].title for name in MERGING_WEIGHT_VARIANTS)}: {_EQUAL_COST}",
    0.0,
    "not below",
    _POINT,
    EXTENDED_CHEAPER_CLAIM.key,
    "accuracy-merging",
)

GAME_TREE_CLAIMS: Mapping[str, Claim] = {
    name: _at_equal_cost(
        f"{name}-is-no-better", text, "[Clausen2021, section 4.1]", (name, "service"), "not above",
        SERVICE_CHEAPER_CLAIM,
    )
    for name, text in {
        "retry": "Resetting lost games to search for alternatives is no significant improvement"
        " over the service.",
        "big-tree": "One large tree is no significant improvement (the paper names no comparator).",
    }.items()
}  # fmt: skip
"""Claims about further ways to play games as trees, by variant."""
BIG_TREE_EARLY_CLAIM = _compared(
    _EARLY_COST,
    "big-tree-is-better-at-first",
    "One large tree can give a short boost, early in training (measure and comparator are ours).",
    "[Clausen2021, section 4.1]",
    ("big-tree", "service"),
    gatekeeper=SERVICE_CHEAPER_CLAIM,
)

_SMALLEST_SHARE = 0.002  # the smallest published difference between depths is 0.003


def _depth_claim(
    measure: str, key: str, text: str, source: str, statistic: str, gatekeeper_key: str
) -> Claim:
    return Claim(
        key, text, source, f"{statistic}, mean over both sets, smallest difference", 0.0, "above",
        _SMALLEST_SHARE, gatekeeper_key, f"supervised-{measure}",
    )  # fmt: skip


_DEEPER_MOVE = _depth_claim(
    "strong",
    "deeper-chooses-better",
    "Deeper networks choose a best move more often.",
    "[Clausen2021, Table 1]",
    "share of positions in which networks of one depth choose a best move minus that of the"
    " next smaller depth",
    "",
)
NETWORK_DEPTH_CLAIMS: Mapping[str, Claim] = {
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

_SMALLEST_NETWORKS = (
    "share of positions in which the smallest networks choose a best move, with policy-head"
    " features (of the position and 2 plies later, the best of ten choices of [ClausenCode]; the"
    " paper has features of moves 2 and 4) minus without, on the set of all positions of each game"
)
SUPERVISED_FEATURES_CLAIM = Claim(
    "features-help-supervised-learning",
    "In supervised learning, auxiliary features of a small network improve the test accuracy.",
    "[Clausen2021, section 4.2]",
    _SMALLEST_NETWORKS,
    0.0,
    "above",
    0.001,
    _DEEPER_MOVE.key,
    "supervised-features",
)
FEATURES_SMALL_GAIN_CLAIM = Claim(
    "features-gain-0.2-points",
    "In supervised learning, features of a small network bring a very small improvement, 0.2"
    " percentage points, which is more than runs typically vary.",
    "[Clausen2021, section 4.2]",
    f"{_SMALLEST_NETWORKS}; published runs vary with a standard deviation of 0.001 [ClausenCode]",
    0.002,
    "equal to",
    0.001,
    _DEEPER_MOVE.key,
    "supervised-features",
)
ONE_POSITION_PER_GAME_CLAIM = Claim(
    "one-position-per-game-learns-better",
    "Networks of every depth learn moves and outcomes better from one position per game than from"
    " all positions of each game.",
    "[Clausen2021, Table 1]",
    "share of positions in which networks choose a best move, and of correctly predicted"
    " outcomes, set of one position per game minus set of all positions, each on its own test"
    " positions, smallest difference over the depths and both shares",
    0.0,
    "above",
    _SMALLEST_SHARE,
    _DEEPER_MOVE.key,
    "supervised-strong",
)
RANDOM_MOVES_HARDER_CLAIM = Claim(
    "random-moves-make-positions-harder",
    "Positions from games with 50 % random moves are substantially harder to learn than those from"
    " games with 10 %.",
    "[Clausen2021, section 3.2]",
    "share of positions in which the smallest networks choose a best move, trained and tested"
    " on games with 10 % random moves minus on games with 50 %, all positions of each game; the"
    " published accuracies of search on such positions differ by 0.04 [ClausenCode]",
    0.02,
    "above",
    0.01,
    _DEEPER_MOVE.key,
    "supervised-strong",
)
LATE_POSITIONS_EASIER_CLAIM = Claim(
    "late-positions-make-sets-easier",
    "Games with fewer random moves are easier mainly because more of their positions are late in"
    " the game.",
    "[Clausen2021, section 3.2]",
    "part of the difference between the sets with 10 % and 50 % random moves that is due to their"
    " plies minus the rest, which remains if the plies of the latter are given to both: share of"
    " positions in which the smallest networks choose a best move, by seed",
    0.0,
    "above",
    0.01,
    _DEEPER_MOVE.key,
    "supervised-strong",
)
SUPERVISED_CLAIMS = (
    *NETWORK_DEPTH_CLAIMS.values(), SUPERVISED_FEATURES_CLAIM, FEATURES_SMALL_GAIN_CLAIM,
    ONE_POSITION_PER_GAME_CLAIM, RANDOM_MOVES_HARDER_CLAIM, LATE_POSITIONS_EASIER_CLAIM,
)  # fmt: skip
"""All claims about supervised learning."""
