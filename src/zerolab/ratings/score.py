"""The score of a match, its score rate, and Wilson's interval [Wilson1927]."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

Z95 = NormalDist().inv_cdf(0.975)
"""Standard errors on either side of an estimate in a 95 % interval: 1.96."""


def wilson(rate: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's interval of a probability, 95 % by default, from the rate in some trials.

    With p the rate and n the trials, [Wilson1927]::

        (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    if not trials:
        return 0.0, 1.0
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
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

    def interval(self, z: float = Z95) -> tuple[float, float]:
        """Return Wilson's interval of the score rate, 95 % by default.

        It takes games as independent: of a match, take the score of the distinct games
        (`zerolab.ratings.results.distinct_games`).
        """
        return wilson(self.score_rate, self.games, z)
