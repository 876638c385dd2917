"""Claims of [Wang2021b, section 5.4] about players without a network, and its Table 5.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zerolab.papers.elo import GAME_TITLES
from zerolab.papers.warm_start.study import (
    BOARDS,
    HALF_RHEA,
    MCTS,
    RANDOM,
    RAVE,
    RHEA,
    SINGLE_RHEA,
)
from zerolab.report.claims import Claim, Direction

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


_TABLE = "[Wang2021b, Table 5.1]"
_RHEA_SECTION = "[Wang2021b, section 5.4]"
_OURS = f"zerolab, on {_RHEA_SECTION}"
_SHARE = 0.05
"""Smallest difference of shares of games worth knowing."""

ORDER_CLAIM = Claim(
    "table-order",
    "RAVE is stronger than MCTS, MCTS than RHEA, and RHEA than Random, in nearly all cases.",
    "[Wang2021b, section 5.4, Table 5.1]",
    "share of decisive games that the stronger player won, smallest over the seven pairs of"
    " players adjacent in this order for which the table shows this (repeated games count once)",
    0.5,
    "above",
    _SHARE,
    figure="table-5.1",
)
ORDERED_PAIRS: Sequence[tuple[str, str, str]] = [
    *((part, RAVE, MCTS) for part in ("gobang", "connect_four")),
    *((part, MCTS, RHEA) for part in BOARDS),
    *((part, RHEA, RANDOM) for part in ("gobang", "connect_four")),
]
"""Pairs of `ORDER_CLAIM` by game, the stronger player first: all but RAVE against MCTS and RHEA
against Random in Othello."""

_VERBS: Mapping[Direction, str] = {
    "above": "beats", "below": "loses to", "not above": "is no better than",
    "not below": "is no worse than",
}  # fmt: skip
_IN_WORDS = {
    HALF_RHEA: "RHEA with 50 playouts",
    SINGLE_RHEA: "RHEA with one playout per individual",
}


def _table_claim(part: str, player: str, opponent: str, direction: Direction, source: str) -> Claim:
    verb = _VERBS[direction]
    names = [_IN_WORDS.get(name, name) for name in (player, opponent)]
    key = f"{player} {verb} {opponent} {part}".lower().replace(",", "")
    return Claim(
        key.replace(" ", "-").replace("_", "-"),
        f"{names[0]} {verb} {names[1]} in {GAME_TITLES[part]}.",
        source,
        f"share of decisive games against {names[1]} that {names[0]} won (repeated games count"
        " once)",
        0.5,
        direction,
        _SHARE,
        ORDER_CLAIM.key,
        "table-5.1",
    )


_CLAIMED: Sequence[tuple[str, str, str, Direction, str]] = [
    *((part, RAVE, MCTS, "above", _TABLE) for part in ("gobang", "connect_four")),
    ("othello", RAVE, MCTS, "not above", _TABLE),
    *((part, RHEA, MCTS, "below", _TABLE) for part in BOARDS),
    *((part, RHEA, RANDOM, "above", _TABLE) for part in ("gobang", "connect_four")),
    ("othello", RHEA, RANDOM, "not above", _TABLE),
    *((part, RHEA, RAVE, "below", _TABLE) for part in BOARDS),
    *((part, player, RANDOM, "above", _TABLE) for player in (MCTS, RAVE) for part in BOARDS),
    *((part, HALF_RHEA, RANDOM, "above", _RHEA_SECTION) for part in ("gobang", "connect_four")),
    *((part, RHEA, HALF_RHEA, "above", _RHEA_SECTION) for part in BOARDS),
    *((part, RHEA, SINGLE_RHEA, "not below", _OURS) for part in BOARDS),
]
TABLE_CLAIMS: Mapping[tuple[str, str, str], Claim] = {
    (part, player, opponent): _table_claim(part, player, opponent, direction, source)
    for part, player, opponent, direction, source in _CLAIMED
}
"""Claims by game, player and opponent.

In Othello, the paper says that RHEA does not convincingly beat Random. It calls RHEA with 50
playouts worse than with 100, but working, and two playouts per individual "a bit more stable" than
one; it gives no numbers for either, and does not say that two are stronger."""
