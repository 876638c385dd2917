"""Findings of [Wang2019] and [Wang2020a, section 6.3] as claims that can be tested."""

from __future__ import annotations

from collections.abc import Mapping

from zerolab.papers.elo import (
    GAME_TITLES,
)
from zerolab.report.claims import Claim

_FIGURE = "[Wang2019], [Wang2020a, Fig. 11]"

PUBLISHED: Mapping[str, tuple[float, float, float, float, float]] = {
    "othello-5x5": (26, 36, -15, 45, -735),
    "othello-6x6": (-320, 414, -47, 61, -868),
    "connect_four-5x5": (-177, 325, -103, 21, -525),
    "connect_four-6x6": (-39, 405, -194, -70, -830),
}
"""Mean tournament Elo of l_p, l_v, l_+, l_x and the random player [Wang2019], [Wang2020a, Fig. 11].

A loose orientation only: Connect Four's policies were not mirrored with the board, and all runs of
a loss played with the network of the last one [WangCode]; see the study ``defects``.
"""


def part_title(part: str) -> str:
    """Return the title of a part such as ``othello-6``."""
    game, size = part.rsplit("-", 1)
    return f"{GAME_TITLES[game]} {size}"


def _value_beats_sum(part: str) -> Claim:
    return Claim(
        f"value-{part}",
        f"Minimising the loss of the value alone gives stronger players of {part_title(part)} than"
        " minimising the sum.",
        _FIGURE,
        "mean tournament Elo of runs with l_v less that with l_+",
        0.0,
        "above",
    )


VALUE_CLAIMS = {part: _value_beats_sum(part) for part in PUBLISHED}
POLICY_CLAIM = Claim(
    "policy-gobang-6x6",
    "In Gobang 6x6 minimising the loss of the policy alone is better than minimising the sum.",
    "[Wang2020a, section 6.3]",
    "mean tournament Elo of runs with l_p less that with l_+",
    0.0,
    "above",
)
LEARNING_CLAIM = Claim(
    "all-learn",
    "Whichever loss is minimised, players become stronger than Random.",
    _FIGURE,
    "mean Elo above Random's of the weakest combination of game, size and loss",
    0.0,
    "above",
)
BIAS_CLAIM = Claim(
    "training-elo-biased",
    "Training Elo does not tell which run is the strongest in a tournament.",
    "[Wang2019]",
    "rank correlation of training Elo and tournament Elo over the runs of a game and size, mean"
    " over games and sizes, over what errors of measuring both leave possible",
    0.5,
    "below",
)
