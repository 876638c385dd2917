"""A share of points that was measured beside the one that was published."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from zerolab.ratings.elo import Score, wilson

Z = 1.96
"""Standard errors that a difference of nothing but chance exceeds in 5 % of all cases."""


class Comparison(NamedTuple):
    """A result and a published share for the same two players.

    The published share is a measurement, too, so it is not enough to ask whether it lies within the
    interval of ours: two measurements of the same number differ by sqrt(2) times the error of one.
    Both agree if their difference lies within the 95 % interval that the difference of two
    binomials of one and the same probability has. That probability is estimated from both together,

        z = (p1 - p2) / sqrt(p (1 - p) (1/n1 + 1/n2)),  p = (n1 p1 + n2 p2) / (n1 + n2),

    and they agree where |z| <= 1.96: the two-proportion z test, which is Pearson's chi-square test
    of the two by two table. Of twenty numbers that are truly equal, one is expected to differ.

    Draws count as half a win. Points a game then have a variance below p (1 - p), which is that of
    games without draws; so has a match in which both players move first equally often, if moving
    first matters. So both this test and Wilson's interval are on the wide side, never too narrow by
    draws or colours. They do assume that games are independent, which repeated games are not: count
    the distinct ones. Rounding of the published share, by up to half a percent, is not allowed for.
    """

    score: Score
    published: float
    """Between 0 and 1."""
    published_games: int

    @property
    def difference(self) -> float:
        """The measured share less the published one."""
        return self.score.share - self.published

    @property
    def z(self) -> float:
        """The difference in standard errors; 0 where both shares are 0, or both are 1."""
        ours, theirs = self.score.games, self.published_games
        pooled = (ours * self.score.share + theirs * self.published) / (ours + theirs)
        variance = pooled * (1.0 - pooled) * (1.0 / ours + 1.0 / theirs)
        return self.difference / math.sqrt(variance) if variance > 0.0 else 0.0

    @property
    def agrees(self) -> bool:
        """Whether the difference may be chance."""
        return abs(self.z) <= Z

    @property
    def verdict(self) -> str:
        """`agrees` as a word for a table."""
        return "agree" if self.agrees else "differ"

    @property
    def published_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the published share."""
        return wilson(self.published, self.published_games, Z)

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON; shares are between 0 and 1."""
        low, high = self.score.interval(Z)
        published_low, published_high = self.published_interval
        return {
            **self.score._asdict(),
            "share": self.score.share,
            "low": low,
            "high": high,
            "published": self.published,
            "published_low": published_low,
            "published_high": published_high,
            "difference": self.difference,
            "z": self.z,
            "agrees": self.agrees,
        }
