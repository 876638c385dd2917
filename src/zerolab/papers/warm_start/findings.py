"""Findings of [Wang2020b] and [Wang2021b] as claims that can be tested."""

from __future__ import annotations

from zerolab.papers.elo import (
    GAME_TITLES,
)
from zerolab.report.claims import Claim

BASELINE = "baseline"
VARIANTS = (BASELINE, "rollout", "rave", "rora", "wro", "wrora")
"""[Wang2020b, section 5.4], by the names of the setting `warm_start.variant`."""
ADAPTIVE = "wrora-adaptive"
"""WRoRa until plain search beats it in a match [Wang2021a]."""


VARIANT_TITLES = {
    BASELINE: "Baseline", "rollout": "Rollout", "rave": "RAVE", "rora": "RoRa", "wro": "WRo",
    "wrora": "WRoRa", ADAPTIVE: "WRoRa, adaptive",
}  # fmt: skip
_FIGURE = "[Wang2020b, Fig. 5.2]"

GAIN_CLAIMS = {
    (game, variant): Claim(
        f"{variant}-{game.replace('_', '-')}",
        f"{VARIANT_TITLES[variant]} gives stronger players of {GAME_TITLES[game]}"
        " than the baseline.",
        _FIGURE,
        f"mean tournament Elo of runs with {VARIANT_TITLES[variant]} less that of the baseline",
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
    "mean tournament Elo of WRoRa, over the games, less that of another variant: the smallest of"
    " the five differences",
    0.0,
    "above",
)
NO_GAIN_CLAIM = Claim(
    "rollout-othello",
    "Rollout gains nothing in Othello.",
    _FIGURE,
    "mean tournament Elo of runs with Rollout less that of the baseline; nothing is less than 50",
    50.0,
    "below",
)
