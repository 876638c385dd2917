"""Claims of [Clausen2021] and their statistics."""

from __future__ import annotations

from collections.abc import Mapping

from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    LEAGUE_BY_NOVELTY,
    LEAGUE_BY_RESULTS,
    VARIANTS,
)
from zerolab.report.claims import Claim, Direction

_EQUAL_COST = (
    "strong accuracy of search at equal self-play cost in core hours (the lowest total cost of a"
    " run of either), by seed"
)


def _claim(
    key: str, text: str, source: str, one: str, other: str, direction: Direction = "above"
) -> Claim:
    statistic = f"{VARIANTS[one].title} minus {VARIANTS[other].title}: {_EQUAL_COST}"
    return Claim(key, text, source, statistic, 0.0, direction, 0.01)


_PEAK_STATISTIC = (
    "highest strong accuracy of search in whole runs, smoothed over a fifth of the total cost, {},"
    " by seed"
)

EXTENDED_CLAIM = _claim(
    "extended-is-cheaper",
    "The extended version reaches a higher accuracy than the baseline at the same cost.",
    "[Clausen2021, section 3]",
    EXTENDED,
    BASELINE,
)
PEAK_CLAIM = Claim(
    "extended-peaks-higher",
    "The extended version reaches a higher accuracy than the baseline, at any cost.",
    "[Clausen2021, section 3]",
    _PEAK_STATISTIC.format("extended minus baseline"),
    0.0,
    "above",
    0.01,
)
SERVICE_CLAIM = _claim(
    "service-is-cheaper",
    "A service that searches each position once reaches a higher accuracy than the extended version"
    " at the same cost.",
    "[Clausen2021, section 4]",
    "service",
    EXTENDED,
)
GROWING_CLAIM = Claim(
    "growing-is-cheaper-at-first",
    "A growing network reaches a higher accuracy than the extended version at low cost.",
    "[Clausen2021, section 4]",
    f"growing minus extended: {_EQUAL_COST.replace('(the lowest', '(a quarter of the lowest')}",
    0.0,
    "above",
    0.01,
)
LEAGUE_CLAIM = _claim(
    "league-is-no-better",
    "A league of search settings reaches no higher accuracy than the extended version at the same"
    " cost.",
    "[Clausen2021, section 4]",
    "league",
    EXTENDED,
    "below",
)
GROWING_PEAK_CLAIM = Claim(
    "growing-peaks-lower",
    "A growing network does not reach the highest accuracy of the extended version.",
    "[Clausen2021, section 4]",
    _PEAK_STATISTIC.format("growing minus extended"),
    0.0,
    "below",
    0.01,
)
LEAGUE_PEAK_CLAIM = Claim(
    "league-peaks-lower",
    "A league of search settings does not reach the highest accuracy of the extended version.",
    "[Clausen2021, section 4]",
    _PEAK_STATISTIC.format("league minus extended"),
    0.0,
    "below",
    0.01,
)
SERVICE_PEAK_CLAIM = Claim(
    "service-peaks-as-high",
    "The highest accuracy of a service that searches each position once is at most half a"
    " percentage point below that of the extended version.",
    "[Clausen2021, section 4]",
    _PEAK_STATISTIC.format("service minus extended"),
    -0.005,
    "above",
    0.01,
)
FEATURES_PEAK_CLAIM = Claim(
    "features-peak-lower",
    "A network that also learns the features of a small network does not reach the highest accuracy"
    " of the extended version.",
    "[Clausen2021, section 4]",
    _PEAK_STATISTIC.format("features minus extended"),
    0.0,
    "below",
    0.01,
)
FEATURES_CLAIM = _claim(
    "features-are-no-cheaper",
    "A network that also learns the features of a small network reaches no higher accuracy than the"
    " extended version at the same cost, even if training the small network is not counted.",
    "[Clausen2021, section 4]",
    FEATURES,
    EXTENDED,
    "below",
)
ABLATIONS: Mapping[str, Claim] = {
    name: _claim(
        f"{name.removeprefix('no-')}-helps",
        f"The extended version is better than the same version {variant.title}.",
        "[Clausen2021, section 3]",
        EXTENDED,
        name,
    )
    for name, variant in VARIANTS.items()
    if variant.is_ablation
}
"""Claims by variant. The paper adds one ingredient after another; this study removes one."""

_SOURCE = "[Clausen2021, Table 1]"

DEEPER = Claim(
    "deeper-chooses-better",
    "Deeper networks choose a strongest move more often.",
    _SOURCE,
    "strong accuracy of the deepest networks minus that of the shallowest, by seed, averaged over"
    " both sets",
    0.0,
    "above",
    0.005,
)
SPREAD = Claim(
    "one-per-game-learns-better",
    "Networks learn better from one position per game than from all positions of fewer games.",
    _SOURCE,
    "strong accuracy with v2 minus that with v1, each on its own test set, by seed, averaged over"
    " depths",
    0.0,
    "above",
    0.005,
)
LABELS = Claim(
    "labels-cost-accuracy",
    "The published labels, which turn losses of the first player into draws, are harder to learn"
    " than correct labels.",
    "[ClausenCode]",
    "share of correct labels predicted minus share of published labels predicted, by seed, averaged"
    " over both sets, shallowest networks",
    0.0,
    "above",
    0.005,
)

EASY_CLAIM = Claim(
    "extended-is-better-on-easy-positions",
    "After training, the extended version also chooses better moves than the baseline in easy"
    " positions.",
    "[Clausen2021, section 3]",
    "strong accuracy of search with each run's best network on easy positions, extended minus"
    " baseline, by seed",
    0.0,
    "above",
    0.01,
)

_EXPECTED: Mapping[str, str] = {
    "retry": "Games resumed at the loser's largest mistake visit more distinct positions per game"
    " than plain self-play.",
    "big-tree": "Games in one big tree visit more distinct positions per game than plain"
    " self-play.",
}

DIVERSITY_CLAIMS: Mapping[str, Claim] = {
    name: Claim(
        f"{name}-is-more-diverse",
        text,
        "our expectation; [Clausen2021, Fig. 9] compares them",
        f"distinct positions per game over the first N games, {VARIANTS[name].title} minus"
        f" {VARIANTS[EXTENDED].title}, by seed, where N is the number of games in the shortest"
        " run of either",
        0.0,
        "above",
        0.5,
    )
    for name, text in _EXPECTED.items()
}
"""Claims by variant, fixed before the runs in the committed report were analysed."""

_LEAGUE_STATISTIC = (
    f"new distinct positions per game in the {{}} half of the first N games,"
    f" {VARIANTS[LEAGUE_BY_NOVELTY].title} minus {VARIANTS[LEAGUE_BY_RESULTS].title}, by seed,"
    " where N is the number of games in the shortest run of either"
)

NOVELTY_CLAIM = Claim(
    "novelty-is-no-more-diverse-at-first",
    "With novelty as fitness, a league visits no more distinct positions in the first half of"
    " training.",
    "[Clausen2021, Fig. 13]",
    _LEAGUE_STATISTIC.format("first"),
    0.0,
    "below",
    0.5,
)
LATE_NOVELTY_CLAIM = Claim(
    "novelty-is-more-diverse-later",
    "With novelty as fitness, a league visits more new positions towards the end of training.",
    "[Clausen2021, Fig. 13]",
    _LEAGUE_STATISTIC.format("second"),
    0.0,
    "above",
    0.5,
)
