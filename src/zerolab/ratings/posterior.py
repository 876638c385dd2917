"""Log-posterior of the rating model, with its gradient and information matrix.

The model and its two scales are described in `zerolab.ratings.bayes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.ratings.results import Tally

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR_DRAWS = 2.0
"""Virtual draws per player, as in BayesElo."""
PRIOR_EQUALS = 0.1
"""Virtual wins, and virtual losses, of a first player against an equal opponent.

They keep the estimates of advantage and draw_elo finite if the first player never loses.
"""


class Posterior(NamedTuple):
    """Logarithm of the posterior at a point (strengths [n], advantage, draw_elo), in natural units.

    Only the m ordered pairs of players that met are listed, since most pairs of a large tournament
    never meet. A draw counts as both a win and a loss, since the third factor of its probability
    depends only on draw_elo.
    """

    first: Ints
    """int64[m]: index of the first player."""
    second: Ints
    """int64[m]: index of the second player, which can be the first player (see `posterior_of`)."""
    wins_and_draws: Floats
    """float64[m]: wins plus draws of the first player, including virtual games."""
    losses_and_draws: Floats
    """float64[m]: losses plus draws of the first player, including virtual games."""
    draw_count: float
    """Total number of draws, including virtual games."""

    def lead(self, point: Floats) -> Floats:
        """Return float64[m]: the lead of the first player, including the first-move advantage."""
        lead: Floats = point[self.first] - point[self.second] + point[-2]
        return lead

    def log_density(self, point: Floats) -> float:
        """Return the log-posterior up to a constant.

        If draw_elo is 0, the infinite term of the draws counts as part of the constant.
        """
        lead, draw_elo = self.lead(point), point[-1]
        value = -(self.wins_and_draws * _softplus(draw_elo - lead)).sum()
        value -= (self.losses_and_draws * _softplus(draw_elo + lead)).sum()
        # log(expm1(2 * draw_elo)), rewritten because expm1 may overflow
        draw_term = 2.0 * draw_elo + math.log(-math.expm1(-2.0 * draw_elo)) if draw_elo else 0.0
        return float(value + self.draw_count * draw_term)

    def gradient(self, point: Floats) -> Floats:
        """Return float64[n + 2]: the gradient of the log-posterior."""
        lead, draw_elo = self.lead(point), point[-1]
        won = self.wins_and_draws * _logistic(draw_elo - lead)
        lost = self.losses_and_draws * _logistic(draw_elo + lead)
        by_lead = won - lost
        draw_slope = self.draw_count * (1.0 + 1.0 / math.tanh(draw_elo)) if draw_elo else 0.0
        by_draw_elo = draw_slope - (won + lost).sum()
        n = len(point) - 2
        by_strength = _sum_by_player(by_lead, self.first, n)
        by_strength -= _sum_by_player(by_lead, self.second, n)
        return np.array([*by_strength, by_lead.sum(), by_draw_elo])

    def information(self, point: Floats) -> Floats:
        """Return float64[n + 2, n + 2]: the negative Hessian of the log-posterior."""
        lead, draw_elo = self.lead(point), point[-1]
        won = self.wins_and_draws * _logistic(draw_elo - lead) * _logistic(lead - draw_elo)
        lost = self.losses_and_draws * _logistic(draw_elo + lead) * _logistic(-draw_elo - lead)
        both, skew = won + lost, lost - won
        n = len(point) - 2
        as_first = _sum_by_player(both, self.first, n)
        as_second = _sum_by_player(both, self.second, n)
        matrix = np.zeros((n + 2, n + 2))
        matrix[self.first, self.second] = -both
        matrix[:n, :n] += matrix[:n, :n].T
        matrix[range(n), range(n)] += as_first + as_second
        matrix[:n, n] = matrix[n, :n] = as_first - as_second
        by_skew = _sum_by_player(skew, self.first, n) - _sum_by_player(skew, self.second, n)
        matrix[:n, n + 1] = matrix[n + 1, :n] = by_skew
        matrix[n, n] = both.sum()
        matrix[n, n + 1] = matrix[n + 1, n] = skew.sum()
        draw_curvature = self.draw_count / math.sinh(draw_elo) ** 2 if draw_elo else 0.0
        matrix[n + 1, n + 1] = both.sum() + draw_curvature
        return matrix


def posterior_of(counted: Tally) -> Posterior:
    """Return the posterior of the counted results and the virtual games of the prior.

    As in BayesElo (CCondensedResults::AddPrior), every player distributes half of its PRIOR_DRAWS
    over its opponents, in proportion to the number of games against each of them, and receives the
    other half from its opponents. Both colours get equal shares. Virtual games between equal
    players are games of a player against itself.
    """
    game_counts = counted.game_counts
    games = game_counts.sum(axis=1)
    first, second = np.nonzero(game_counts + np.eye(len(games), dtype=np.int64))
    met = game_counts[first, second]
    draws = counted.draws[first, second] + PRIOR_DRAWS / 4.0 * (
        met / games[first] + met / games[second]
    )
    equals = np.where(first == second, PRIOR_EQUALS / len(games), 0.0)
    return Posterior(
        first,
        second,
        counted.wins[first, second] + draws + equals,
        counted.losses[first, second] + draws + equals,
        float(draws.sum()),
    )


def _sum_by_player(values: Floats, players: Ints, n: int) -> Floats:
    """Return float64[n]: the sum of each player's values."""
    return np.bincount(players, values, n).astype(np.float64, copy=False)


def _logistic(x: Floats) -> Floats:
    with np.errstate(over="ignore"):  # an overflow correctly gives 1 / infinity = 0
        values: Floats = 1.0 / (1.0 + np.exp(-x))
    return values


def _softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)), in half the time that np.logaddexp takes."""
    values: Floats = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return values
