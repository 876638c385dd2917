"""Sequential probability ratio test between two players [Wald1945].

Games are played in pairs: the two games of a pair begin with the same opening, with colours
swapped. These two games are not independent, but different pairs are. The generalised likelihood
ratio is therefore based on the pair scores 0, 1/2, 1, 3/2 and 2, in the pentanomial model of
[VanDenBergh2020], which is used to test chess engines. This test also needs fewer games than one
based on single games. Repeated games add no evidence: counts of pairs are scaled to their effective
number (`cumulative_pair_counts`). A player stronger by `elo` has the expected score
1 / (1 + 10 ** (-elo / 400)), where a draw counts half; this is the scale of `Ratings`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.core.errors import UserError
from zerolab.ratings.results import RatedGame, outcome_for, repetition_key

Floats = NDArray[np.float64]
SprtDecision = Literal["continue", "accept H0", "accept H1"]

_PAIR_SCORES = np.linspace(0.0, 1.0, 5)
"""float64[5]: possible points per game in a pair."""
MAX_ABS_ELO = 1000.0
"""Largest accepted magnitude of the Elo bounds."""

_MIN_COUNT = 1e-3  # for pair scores that never occurred, so that no hypothesis is impossible
_BISECTIONS = 60


class SprtVerdict(NamedTuple):
    """State of a test and the numbers that determine it."""

    decision: SprtDecision
    llr: float
    """Log-likelihood ratio of H1 to H0."""
    lower: float
    """Largest log-likelihood ratio that accepts H0."""
    upper: float
    """Smallest log-likelihood ratio that accepts H1."""

    def __repr__(self) -> str:
        bounds = f"{self.lower:.2f} to {self.upper:.2f}"
        return f"<SprtVerdict {self.decision}, llr {self.llr:.2f} in {bounds}>"


def verdict_text(verdict: SprtVerdict) -> str:
    """Return a verdict as a sentence, with the log-likelihood ratio and its bounds."""
    conclusions = {
        "accept H0": "sequential test ended: the smaller difference is accepted",
        "accept H1": "sequential test ended: the larger difference is accepted",
        "continue": "sequential test undecided: play more games",
    }
    return (
        f"{conclusions[verdict.decision]} (log-likelihood ratio {verdict.llr:.2f},"
        f" bounds {verdict.lower:.2f} and {verdict.upper:.2f})"
    )


class Sprt(NamedTuple):
    """Test of H0 (the player leads its opponent by `elo0`) against H1 (it leads by `elo1`)."""

    elo0: float
    """Lead in Elo under H0."""
    elo1: float
    """Lead in Elo under H1, greater than `elo0`."""
    alpha: float = 0.05
    """Probability of accepting H1 although H0 is true."""
    beta: float = 0.05
    """Probability of accepting H0 although H1 is true."""

    def validated(self) -> Sprt:
        """Return the test itself; raise UserError for invalid bounds or error probabilities."""
        if not -MAX_ABS_ELO <= self.elo0 < self.elo1 <= MAX_ABS_ELO:
            raise UserError(
                f"sprt {self.elo0:g} {self.elo1:g}: expected two Elo differences between"
                f" {-MAX_ABS_ELO:g} and {MAX_ABS_ELO:g}, the smaller one first"
            )
        for name, risk in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < risk < 0.5:
                raise UserError(f"{name} = {risk:g}: expected more than 0 and less than 0.5")
        return self

    def judge_games(
        self, player: str, games: Sequence[RatedGame], undecided: int = 0
    ) -> tuple[int, SprtVerdict]:
        """Return the number of games after which the test ends, and the verdict at that point.

        If the test does not end, the number is `len(games)`. Games 2j and 2j + 1 form a pair. The
        verdict is checked after every pair, so it does not depend on the number of games played at
        the same time. The first `undecided` games are known not to end the test.
        """
        first = undecided // 2
        counts = cumulative_pair_counts(player, games)[first:]
        ratios = log_likelihood_ratio(counts, self.elo0, self.elo1)
        verdict = self.verdict(0.0)
        for pair, llr in enumerate(ratios.tolist(), start=first):
            verdict = self.verdict(llr)
            if verdict.decision != "continue":
                return 2 * pair + 2, verdict
        return len(games), verdict

    def verdict(self, llr: float) -> SprtVerdict:
        """Return the verdict for a log-likelihood ratio, given Wald's bounds [Wald1945]."""
        lower = math.log(self.beta / (1.0 - self.alpha))
        upper = math.log((1.0 - self.beta) / self.alpha)
        if llr <= lower:
            return SprtVerdict("accept H0", llr, lower, upper)
        return SprtVerdict("accept H1" if llr >= upper else "continue", llr, lower, upper)


def cumulative_pair_counts(player: str, games: Sequence[RatedGame]) -> Floats:
    """Return float64[len(games) // 2, 5]: cumulative numbers of pairs by the player's points.

    Games 2j and 2j + 1 form a pair; an unpaired last game is ignored. The counts of the first m
    pairs are scaled to the effective number of their first games, or of their second games if it is
    smaller; see `effective_game_count`.
    """
    counts = np.zeros((len(games) // 2, 5))
    squares = np.ones((len(games) // 2, 2))
    repetitions: Counter[Hashable] = Counter()
    for i in range(len(counts)):
        pair = games[2 * i : 2 * i + 2]
        counts[i, 2 + sum(outcome_for(player, game) for game in pair)] = 1
        for j, key in enumerate(map(repetition_key, pair)):
            if key is not None:
                squares[i, j] += 2 * repetitions[key]  # (c + 1)^2 - c^2, less 1
                repetitions[key] += 1
    pair_counts = np.arange(1, len(counts) + 1)[:, None]
    weights: Floats = pair_counts / squares.cumsum(axis=0).max(axis=1, keepdims=True)
    return counts.cumsum(axis=0) * weights


def log_likelihood_ratio(pairs: ArrayLike, elo0: float, elo1: float) -> Floats:
    """Return float64[...]: the generalised log-likelihood ratio of pair counts [..., 5].

    Each hypothesis is represented by its most likely distribution of pair scores.
    """
    counts = np.maximum(np.asarray(pairs, np.float64), _MIN_COUNT)
    totals = np.sum(np.asarray(pairs), axis=-1)
    likely1, likely0 = (_most_likely(counts, expected_score(elo)) for elo in (elo1, elo0))
    ratios: Floats = np.sum(counts * np.log(likely1 / likely0), axis=-1)
    return np.where(totals == 0, 0.0, ratios)


def expected_score(elo: float) -> float:
    """Return the expected score per game of a player `elo` points stronger than its opponent."""
    return float(1.0 / (1.0 + 10.0 ** (-elo / 400.0)))


def _most_likely(counts: Floats, mean: float) -> Floats:
    """Return float64[..., 5]: the most likely distribution of pair scores with the given mean.

    Lagrange multipliers give p / (1 + theta * (score - mean)), where p is the observed distribution
    and theta is chosen so that the mean is correct [VanDenBergh2020].
    """
    observed = counts / counts.sum(axis=-1, keepdims=True)
    deviations = _PAIR_SCORES - mean
    low = np.full((*counts.shape[:-1], 1), -1.0 / deviations.max())
    high = np.full_like(low, -1.0 / deviations.min())
    for _ in range(_BISECTIONS):
        theta = (low + high) / 2.0
        excess = np.sum(observed * deviations / (1.0 + theta * deviations), axis=-1, keepdims=True)
        low, high = np.where(excess > 0, theta, low), np.where(excess > 0, high, theta)
    distribution: Floats = observed / (1.0 + (low + high) / 2.0 * deviations)
    return distribution
