"""Results by pair: points, cross tables, cycles, and how far ratings explain them.

A rating can say that A is stronger than B, not that A beats B, B beats C and C beats A. So a
tournament is searched for such cycles, and its pairs are compared with what the ratings expect.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT
from zerolab.ratings.bayes import ELO, Ratings
from zerolab.ratings.results import Score, distinct_games, score_of
from zerolab.store.games import GameRecord

Floats = NDArray[np.float64]


class PairResult(NamedTuple):
    """The results of all games between two agents."""

    first: str
    """The agent whose name comes first in the alphabet; not the one who moves first."""
    second: str
    score: Score
    """Score of `first`."""
    distinct: Score
    """Score of `first` with repeated games counted once."""
    led: int
    """Distinct games in which `first` moved first."""

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the score rate, from the distinct games.

        A repeated game neither narrows nor moves it, so the score rate of all games may lie outside
        where some games are repeated more often than others.
        """
        return self.distinct.interval()


class GameStatistics(NamedTuple):
    """Counts over all games of a tournament or match."""

    games: int
    distinct: int
    """Distinct games; equal moves of another pair or with colours exchanged count again."""
    moving_first: Score
    """Score of the agents who moved first."""
    forfeits: dict[str, int]
    """Games that each agent gave up; agents who gave up none are left out."""


def game_statistics(games: Sequence[GameRecord]) -> GameStatistics:
    """Count games, distinct games, results of the first player, and forfeits."""
    forfeits = Counter(game.last_mover for game in games if game.actions[-1:] == (FORFEIT,))
    results = [game.result for game in games]
    moving_first = Score(results.count(1), results.count(0), results.count(-1))
    return GameStatistics(
        len(games), len(distinct_games(games)), moving_first, dict(sorted(forfeits.items()))
    )


def pair_results(games: Sequence[GameRecord]) -> list[PairResult]:
    """Return the results of every pair that met, in alphabetical order."""
    pairs: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        pairs.setdefault((min(game[1:3]), max(game[1:3])), []).append(game)
    return [pair_result(*names, met) for names, met in sorted(pairs.items())]


def pair_result(first: str, second: str, games: Sequence[GameRecord]) -> PairResult:
    """Return the result of a pair's games for `first`."""
    distinct = distinct_games(games)
    led = sum(game.first == first for game in distinct)
    return PairResult(first, second, score_of(first, games), score_of(first, distinct), led)


def cross_table(agents: Sequence[str], pairs: Sequence[PairResult]) -> Floats:
    """Return float64[n, n]: points per game of agent i against j, NaN where they have not met."""
    number = {name: i for i, name in enumerate(agents)}
    table = np.full((len(agents), len(agents)), np.nan)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        table[i, j], table[j, i] = pair.score.score_rate, 1.0 - pair.score.score_rate
    return table


LEVEL = 0.05
"""Probability of calling a pair decided although both players are equal."""

_FloatArray = NDArray[np.float64]


class Cycle(NamedTuple):
    """Three players: each one beats the next, and the last the first."""

    players: tuple[str, str, str]
    p_values: tuple[float, float, float]
    """P-values of the sign tests of the three pairs, in the order of the players."""


class Cycles(NamedTuple):
    """Cycles among all triples of players who met one another."""

    triples: int
    decided: int
    """Triples in which every pair has a winner by points."""
    cyclic: int
    """Decided triples that form a cycle by points, significant or not."""
    significant: list[Cycle]
    """Cycles in which every sign test rejects equality, the strongest evidence first."""
    by_chance: float
    """Upper bound of the expected number of significant cycles if all players are equal."""

    @property
    def cyclic_fraction(self) -> float | None:
        """Fraction of cyclic triples among decided ones; 1/4 if every pair tossed a coin."""
        return self.cyclic / self.decided if self.decided else None


def sign_test(score: Score) -> float:
    """Return the exact two-sided p-value of equally likely wins and losses; draws do not count."""
    decisive = score.wins + score.losses
    extreme = max(score.wins, score.losses)
    tail = sum(math.comb(decisive, k) for k in range(extreme, decisive + 1))
    return min(1.0, 2 * tail / (1 << decisive))


def find_cycles(pairs: Sequence[PairResult], level: float = LEVEL) -> Cycles:
    """Find cycles among all triples of players; sign tests use distinct games."""
    players = sorted({name for pair in pairs for name in pair[:2]})
    points = cross_table(players, pairs)
    met = ~np.isnan(points)
    beats = met & (np.nan_to_num(points) > 0.5)
    p_values, stronger = _sign_tests(players, pairs, level)
    significant = [
        Cycle(
            (players[i], players[j], players[k]), (p_values[i, j], p_values[j, k], p_values[k, i])
        )
        for i, j, k in _directed_triangles(stronger)
    ]
    triples = _triangles(met) // 6
    return Cycles(
        triples,
        _triangles(beats | beats.T) // 6,
        _triangles(beats) // 3,
        sorted(significant, key=lambda cycle: max(cycle.p_values)),
        triples * 2 * (level / 2) ** 3,
    )


def _sign_tests(
    players: Sequence[str], pairs: Sequence[PairResult], level: float
) -> tuple[_FloatArray, NDArray[np.bool_]]:
    """Return p-values float64[n, n], 1 for pairs that never met, and bool[n, n]: i is stronger."""
    number = {name: i for i, name in enumerate(players)}
    p_values = np.ones((len(players), len(players)))
    stronger = np.zeros(p_values.shape, np.bool_)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        p_values[i, j] = p_values[j, i] = sign_test(pair.distinct)
        ahead = pair.distinct.wins > pair.distinct.losses
        stronger[(i, j) if ahead else (j, i)] = p_values[i, j] < level
    return p_values, stronger


def _triangles(edges: NDArray[np.bool_]) -> int:
    """Return the number of closed walks of three steps."""
    steps = edges.astype(np.int64)
    return int(np.trace(steps @ steps @ steps))


def _directed_triangles(edges: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return every cycle of three once, from its lowest number."""
    found = []
    for i, j in zip(*(side.tolist() for side in np.nonzero(edges)), strict=True):
        if i < j:
            ends = np.flatnonzero(edges[j] & edges[:, i]).tolist()
            found += [(i, j, k) for k in ends if k > i]
    return found


class Residual(NamedTuple):
    """Deviation of a pair's points from those that the ratings expect."""

    first: str
    second: str
    points: float
    """Points of `first`."""
    expected: float
    deviation: float
    """Points above expectation, in standard errors."""


class RatingFit(NamedTuple):
    """Goodness of fit of the ratings to the results of pairs."""

    residuals: list[Residual]
    """Ordered by the size of the deviation, the largest first."""
    chi_square: float
    freedom: int
    """Degrees of freedom: pairs less fitted parameters."""

    @property
    def p_value(self) -> float | None:
        """Probability of a fit as bad by chance; None without degrees of freedom."""
        if self.freedom <= 0:
            return None
        from scipy.special import chdtrc  # noqa: PLC0415  slow to import

        return float(chdtrc(self.freedom, self.chi_square))


_FITTED = 2  # advantage and draw_elo; of the strengths all but one are free


def fit_of_ratings(pairs: Sequence[PairResult], ratings: Ratings) -> RatingFit:
    """Compare pairs with the ratings fitted to the same distinct games."""
    elo = {rating.player: rating.elo_model for rating in ratings.players}
    residuals = sorted(
        (_residual(pair, elo[pair.first] - elo[pair.second], ratings) for pair in pairs),
        key=lambda each: -abs(each.deviation),
    )
    total = sum(each.deviation**2 for each in residuals)
    return RatingFit(residuals, total, len(pairs) - (len(elo) - 1) - _FITTED)


def _residual(pair: PairResult, difference: float, ratings: Ratings) -> Residual:
    leading, mean_1, variance_1 = pair.led, *_expectation(difference, ratings)
    following = pair.distinct.games - pair.led
    mean_2, variance_2 = _expectation(-difference, ratings)
    expected = leading * mean_1 + following * (1.0 - mean_2)
    spread = math.sqrt(leading * variance_1 + following * variance_2)
    points = pair.distinct.score_rate * pair.distinct.games
    return Residual(pair.first, pair.second, points, expected, (points - expected) / spread)


_MIN_VARIANCE = 1e-12
"""Variance where players are so far apart that floating point makes the result certain."""


def _expectation(difference: float, ratings: Ratings) -> tuple[float, float]:
    """Return mean and variance of the first player's points in one game.

    `difference` is the first player's lead in Elo.
    """
    lead = difference + ratings.model.advantage
    win = 1.0 / (1.0 + math.exp((ratings.model.draw_elo - lead) / ELO))
    loss = 1.0 / (1.0 + math.exp((ratings.model.draw_elo + lead) / ELO))
    mean = win + 0.5 * (1.0 - win - loss)
    variance = win + 0.25 * (1.0 - win - loss) - mean * mean
    return mean, max(variance, _MIN_VARIANCE)
