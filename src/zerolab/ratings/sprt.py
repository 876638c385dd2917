"""A sequential test of two players: stop as soon as enough games have been played [Wald1945].

Games come in pairs from the same opening, one with each colour. The two games of a pair are not
independent, but pairs are. Hence the generalised likelihood ratio is that of pairs and their five
scores 0, 1/2, 1, 3/2 and 2: the pentanomial model of [VanDenBergh2020], as used by engine testers,
which also needs fewer games than single games would. Pairs that repeat a game are no new evidence
and do not count. Elo is that of the expected score, 1 / (1 + 10 ** (-elo / 400)) with draws
counting half: the scale of `Ratings`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.core.errors import UserError
from zerolab.ratings.results import RatedGame, identity, outcome_for

Floats = NDArray[np.float64]
State = Literal["continue", "accept H0", "accept H1"]

PAIR_SCORES = np.linspace(0.0, 1.0, 5)
"""float64[5]: points per game in a pair."""
LARGEST = 1000.0
"""Largest Elo bound of either sign."""

_UNSEEN = 1e-3  # count of a score never seen, so that no hypothesis is impossible
_BISECTIONS = 60


class Verdict(NamedTuple):
    """The state of a test."""

    state: State
    llr: float
    """Log-likelihood ratio of the games, H1 against H0."""
    lower: float
    """H0 is accepted at or below this."""
    upper: float
    """H1 is accepted at or above this."""


class Sprt(NamedTuple):
    """H0: the player is `elo0` stronger than its opponent; H1: it is `elo1` stronger."""

    elo0: float
    elo1: float
    alpha: float = 0.05
    """Probability of accepting H1 though H0 is true."""
    beta: float = 0.05
    """Probability of accepting H0 though H1 is true."""

    def check(self) -> Sprt:
        """Return itself; raise UserError for bounds that no test can have."""
        if not -LARGEST <= self.elo0 < self.elo1 <= LARGEST:
            raise UserError(
                f"sprt {self.elo0:g} {self.elo1:g}: expected two Elo differences between"
                f" {-LARGEST:g} and {LARGEST:g}, the smaller one first"
            )
        for name, risk in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < risk < 0.5:
                raise UserError(f"{name} = {risk:g}: expected more than 0 and less than 0.5")
        return self

    def judge(self, player: str, games: Sequence[RatedGame]) -> tuple[int, Verdict]:
        """Return the number of games that the test needs, all if too few, and its verdict on them.

        Games 2j and 2j + 1 are a pair. Pairs are judged one by one, so that the verdict does
        not depend on how many games are played at once.
        """
        counts = count_pairs(player, games)
        ratios = log_likelihood_ratio(counts, self.elo0, self.elo1)
        ended = np.flatnonzero([self._verdict(llr).state != "continue" for llr in ratios.tolist()])
        if ended.size:
            return 2 * int(ended[0]) + 2, self._verdict(float(ratios[ended[0]]))
        return len(games), self._verdict(float(ratios[-1]) if len(ratios) else 0.0)

    def verdict(self, pairs: ArrayLike) -> Verdict:
        """Judge int[5]: the numbers of pairs in which the player has 0, 1/2, 1, 3/2, 2 points."""
        return self._verdict(float(log_likelihood_ratio(pairs, self.elo0, self.elo1)))

    def _verdict(self, llr: float) -> Verdict:
        """Compare with Wald's bounds, log(beta / (1 - alpha)) and log((1 - beta) / alpha)."""
        lower = math.log(self.beta / (1.0 - self.alpha))
        upper = math.log((1.0 - self.beta) / self.alpha)
        if llr <= lower:
            return Verdict("accept H0", llr, lower, upper)
        return Verdict("accept H1" if llr >= upper else "continue", llr, lower, upper)


def count_pairs(player: str, games: Sequence[RatedGame]) -> NDArray[np.int64]:
    """Return int64[len(games) // 2, 5]: cumulative numbers of pairs by the player's points.

    Games 2j and 2j + 1 are a pair; a last game without its partner is left out. A pair counts only
    if neither of its games has been played before.
    """
    counts = np.zeros((len(games) // 2, 5), np.int64)
    seen: set[Hashable] = set()
    for number in range(len(counts)):
        pair = games[2 * number : 2 * number + 2]
        keys = {identity(game) for game in pair} - {None}
        if seen.isdisjoint(keys):
            counts[number, 2 + sum(outcome_for(player, game) for game in pair)] = 1
        seen |= keys
    return counts.cumsum(axis=0)


def log_likelihood_ratio(pairs: ArrayLike, elo0: float, elo1: float) -> Floats:
    """Return float64[...] for counts [..., 5], at the likeliest distribution of each hypothesis."""
    counts = np.maximum(np.asarray(pairs, np.float64), _UNSEEN)
    seen = np.sum(np.asarray(pairs), axis=-1)
    likely1, likely0 = (_most_likely(counts, expected_score(elo)) for elo in (elo1, elo0))
    ratios: Floats = np.sum(counts * np.log(likely1 / likely0), axis=-1)
    return np.where(seen == 0, 0.0, ratios)


def expected_score(elo: float) -> float:
    """Return the expected points per game of a player `elo` points stronger than its opponent."""
    return float(1.0 / (1.0 + 10.0 ** (-elo / 400.0)))


def _most_likely(counts: Floats, mean: float) -> Floats:
    """Return the most likely distribution [..., 5] of scores that has this mean.

    By Lagrange it is p / (1 + theta * (score - mean)), p being the observed one, with the one
    theta that gives it the mean [VanDenBergh2020].
    """
    observed = counts / counts.sum(axis=-1, keepdims=True)
    away = PAIR_SCORES - mean
    low = np.full((*counts.shape[:-1], 1), -1.0 / away.max())
    high = np.full_like(low, -1.0 / away.min())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        excess = np.sum(observed * away / (1.0 + middle * away), axis=-1, keepdims=True)
        low, high = np.where(excess > 0, middle, low), np.where(excess > 0, high, middle)
    found: Floats = observed / (1.0 + (low + high) / 2.0 * away)
    return found
