"""Tournaments of players whose strengths are known, to test ratings on."""

from __future__ import annotations

import numpy as np

from zerolab.ratings.results import GameResult


def tournament(
    random: np.random.Generator,
    players: int,
    games: int,
    spread: float = 200.0,
    advantage: float = 35.0,
    draw_elo: float = 97.3,
) -> tuple[dict[str, float], list[GameResult]]:
    """Draw normal strengths, their mean 0, and the results of an even number of games per pair.

    Results follow the model of `zerolab.ratings.bayes`. Returns the Elo of every player, and the
    results.
    """
    strengths = random.normal(0.0, spread, players)
    strengths -= strengths.mean()
    first, second = np.nonzero(~np.eye(players, dtype=bool))
    first, second = (np.repeat(side, games // 2) for side in (first, second))
    lead = strengths[first] - strengths[second] + advantage
    wins = 1 / (1 + 10 ** ((draw_elo - lead) / 400))
    losses = 1 / (1 + 10 ** ((draw_elo + lead) / 400))
    drawn = random.random(len(lead))
    outcomes = np.where(drawn < wins, 1, np.where(drawn < wins + losses, -1, 0))
    names = [f"player {i}" for i in range(players)]
    results = [
        GameResult(names[i], names[j], outcome)
        for i, j, outcome in zip(first, second, outcomes.tolist(), strict=True)
    ]
    return dict(zip(names, strengths.tolist(), strict=True)), results
