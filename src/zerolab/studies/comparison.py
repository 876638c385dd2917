"""A share of points that was measured beside the one that was published."""

from __future__ import annotations

import math
from typing import NamedTuple

from zerolab.ratings.score import Z95, Score, wilson


class Comparison(NamedTuple):
    """A result and a published share for the same two players.

    The published share is a measurement, too, so it is not enough to ask whether it lies within the
    interval of ours: two measurements of the same number differ by sqrt(2) times the error of one.
    Both agree if the 95 % interval of the difference of two binomials includes 0. It is that of
    [Newcombe1998], method 10, which is made of Wilson's intervals (l, u) of the two shares p,

        d - sqrt((p1 - l1)^2 + (u2 - p2)^2)  to  d + sqrt((u1 - p1)^2 + (p2 - l2)^2),  d = p1 - p2,

    and unlike the usual standard error serves shares of 0 and 1. z is d in standard errors, taken
    from the side of the interval that faces 0: both agree where |z| <= 1.96. Of twenty numbers that
    are truly equal, one is expected to differ. SciPy has no interval of a difference of shares, and
    its Wilson's interval takes whole successes alone, which half points are not.

    Draws count as half a win. Points a game then have a variance below p (1 - p), which is that of
    games without draws; so has a match in which both players move first equally often, if moving
    first matters. So these intervals are on the wide side, never too narrow by draws or colours.
    They do assume that games are independent, which repeated games are not: count the distinct
    ones. Rounding of the published share, by up to half a percent, is not allowed for.
    """

    score: Score
    published: float
    """Between 0 and 1."""
    published_games: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the measured share."""
        return self.score.interval()

    @property
    def published_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the published share."""
        return wilson(self.published, self.published_games)

    @property
    def difference(self) -> float:
        """The measured share less the published one."""
        return self.score.score_rate - self.published

    @property
    def difference_interval(self) -> tuple[float, float]:
        """Newcombe's 95 % interval of the difference."""
        p1, (l1, u1) = self.score.score_rate, self.interval
        p2, (l2, u2) = self.published, self.published_interval
        down, up = math.hypot(p1 - l1, u2 - p2), math.hypot(u1 - p1, p2 - l2)
        return self.difference - down, self.difference + up

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        d, (low, high) = self.difference, self.difference_interval
        return Z95 * d / (d - low if d > 0.0 else high - d)

    @property
    def agrees(self) -> bool:
        """Whether the difference may be chance."""
        return abs(self.z) <= Z95

    @property
    def verdict(self) -> str:
        """`agrees` as a word for a table."""
        return "agree" if self.agrees else "differ"
