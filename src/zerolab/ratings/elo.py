"""The score of a match, its score rate, and Wilson's interval [Wilson1927]."""

from __future__ import annotations

import math
from typing import NamedTuple


def wilson(share: float, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a probability, 95 % by default, from a share of trials."""
    if not trials:
        return 0.0, 1.0
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    margin = z / (1 + z * z / trials) * spread
    return max(0.0, centre - margin), min(1.0, centre + margin)


class Score(NamedTuple):
    """The result of a match from one side's view."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """The number of games."""
        return sum(self)

    @property
    def score_rate(self) -> float:
        """Points per game, a draw counting half; 0.5 without games."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else 0.5

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """Return Wilson's interval of the score rate, 95 % by default."""
        return wilson(self.score_rate, self.games, z)
