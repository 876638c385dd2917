"""Bayesian Elo ratings, first-move advantage and draw rate, with confidence intervals.

The model is that of BayesElo [BayesElo], which adds a first-move advantage to [Rao1967]. Let delta
be the Elo of the first player minus that of the second. Then::

    P(first wins)  = 1 / (1 + 10 ** ((-delta - advantage + draw_elo) / 400))
    P(first loses) = 1 / (1 + 10 ** ((delta + advantage + draw_elo) / 400))

A draw has the remaining probability, P(first wins) * P(first loses) * (10 ** (draw_elo / 200) - 1).
The logarithm of the posterior is therefore concave, and Newton's method finds its only maximum.
BayesElo finds the same maximum by minorisation-maximisation [Hunter2004].

The formulas above use the model scale, which is stretched by draws. BayesElo displays Elo on a
different scale, on which a one-point difference near equality changes the expected score as much as
one Elo point in a model without draws. Every displayed number, and all of `Ratings` except
`Ratings.model`, is on BayesElo's scale. docs/decisions/0006-ratings.md explains the prior, the
scales and the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.ratings.ratings import Floats, Rating, RatingFit, Ratings
from zerolab.ratings.results import (
    Matrix,
    RatedGame,
    Tally,
    effective_games_by_pair,
    require_comparable,
    tally,
)
from zerolab.report.table import Z95, Interval

MAX_ABS_ELO = 4000.0
"""Largest accepted magnitude of advantage and draw_elo."""
ELO_PER_NATURAL_UNIT = 400.0 / math.log(10.0)
"""Elo points per natural unit of strength; one natural unit multiplies the odds by e."""

_START_DRAW_ELO = 97.3  # BayesElo's default
_MIN_DRAW_ELO = 0.1  # smaller values are lost in rounding errors
_MAX_STEPS = 200
_NEAR = 1e-6
"""Squared distance to the maximum, in standard errors, below which full steps converge.

This close to the maximum, differences between posterior values are mere rounding errors.
"""
_CONVERGED = 1e-18
_MAX_STEP = 4.0
"""Largest change in any lead or in draw_elo in one step.

Where the posterior is nearly linear, full Newton steps would overshoot.
"""


def rate(
    games: Iterable[RatedGame], *, advantage: float | None = None, draw_elo: float | None = None
) -> Ratings:
    """Rate all players of `games` at the mode of the posterior.

    Repeated games add no information; see `EffectiveScore`. `advantage` and `draw_elo` are on the
    model scale, like the BayesElo commands of the same names, and are fitted if None. Raises
    UserError if there are no games between different players, if games do not connect all players,
    if a parameter is out of range, or if the ratings do not converge because a given parameter is
    too large.
    """
    played = list(games)
    counts = tally(played)
    effective_games = effective_games_by_pair(counts, played)
    return rate_tally(counts, effective_games, advantage=advantage, draw_elo=draw_elo)


def rate_tally(
    counts: Tally,
    effective_games: Matrix,
    *,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> Ratings:
    """Rate players like `rate`, from counts of all games and effective numbers by pair.

    `effective_games` is symmetric, float64[n, n].
    """
    _require_within("advantage", advantage, -MAX_ABS_ELO)
    if draw_elo:  # 0 is valid for games without draws
        _require_within("draw_elo", draw_elo, _MIN_DRAW_ELO, "0, or ")
    require_comparable(counts)
    n = len(counts.players)
    free = np.array([True] * n + [advantage is None, draw_elo is None])
    point = np.zeros(n + 2)
    point[n] = (advantage or 0.0) / ELO_PER_NATURAL_UNIT
    point[n + 1] = (_START_DRAW_ELO if draw_elo is None else draw_elo) / ELO_PER_NATURAL_UNIT
    posterior = _build_posterior(_scale(counts, effective_games))
    try:
        point = _maximum(posterior, point, free)
    except _NotConvergedError:
        given = {"advantage": advantage, "draw_elo": draw_elo}
        values = ", ".join(f"{name} = {value}" for name, value in given.items() if value)
        fix = f" with {values}: expected smaller values, or none" if values else ""
        raise UserError(f"the ratings do not converge{fix}") from None
    covariance = _inverse(posterior.negative_hessian(point), free)
    model = _sorted_model(
        counts.players, point * ELO_PER_NATURAL_UNIT, covariance * ELO_PER_NATURAL_UNIT**2
    )
    return Ratings(_player_ratings(model, counts, effective_games), model)


def _scale(counts: Tally, effective_games: Matrix) -> Tally:
    """Scale the results of each pair to its effective number of games."""
    game_counts = np.maximum(counts.game_counts, 1.0)
    return Tally(counts.players, *(each * effective_games / game_counts for each in counts[1:]))


class _NotConvergedError(Exception):
    """Error for a posterior whose maximum was not reached."""


def _maximum(posterior: Posterior, point: Floats, free: NDArray[np.bool_]) -> Floats:
    """Maximise the posterior with Newton's method.

    Far from the maximum, steps are shortened until they increase the posterior and keep draw_elo
    positive.
    """
    for _ in range(_MAX_STEPS):
        gradient = posterior.gradient(point) * free
        step = _newton_step(posterior.negative_hessian(point), gradient, free)
        gain = float(gradient @ step)  # squared distance to the maximum, in standard errors
        if gain > _NEAR:
            # Leads rather than strengths are limited: in a long chain of players, strengths may
            # differ widely although all leads are small.
            largest = max(float(np.abs(posterior.lead(step)).max()), abs(float(step[-1])))
            step *= min(1.0, _MAX_STEP / largest)
            step *= _step_fraction(posterior, point, step, float(gradient @ step))
        point = point + step
        if gain < _CONVERGED:
            return point
    if gain < _NEAR:  # rounding prevents a closer approach
        return point
    raise _NotConvergedError


def _step_fraction(posterior: Posterior, point: Floats, step: Floats, gain: float) -> float:
    """Return the first of 1, 1/2, 1/4, ... for which the step satisfies Armijo's rule."""
    value, fraction = posterior.log_density(point), 1.0
    while fraction > _CONVERGED:
        trial = point + fraction * step
        is_valid = trial[-1] > 0.0 or step[-1] == 0.0
        if is_valid and posterior.log_density(trial) >= value + 0.25 * fraction * gain:
            return fraction
        fraction /= 2.0
    raise _NotConvergedError


def _newton_step(negative_hessian: Floats, gradient: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the inverse negative Hessian times the gradient, for the free parameters."""
    step = np.zeros_like(gradient)
    _regularise(negative_hessian)
    # Solving takes a third as long as inverting.
    step[free] = np.linalg.solve(negative_hessian[np.ix_(free, free)], gradient[free])
    step[:-2] -= step[:-2].mean()
    return step


def _inverse(negative_hessian: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the covariance of the free parameters, for strengths whose mean is 0."""
    n = len(negative_hessian) - 2
    weight = _regularise(negative_hessian)
    inverse = np.zeros_like(negative_hessian)
    block = np.ix_(free, free)
    inverse[block] = np.linalg.inv(negative_hessian[block])
    inverse[:n, :n] -= 1.0 / (n * weight)
    return inverse


def _regularise(negative_hessian: Floats) -> float:
    """Add information about the mean of all strengths, in place; return the amount.

    Adding a constant to all strengths changes no probability, so the matrix is singular in that
    direction. After inversion, the variance of the mean must be subtracted.
    """
    n = len(negative_hessian) - 2
    weight = float(np.trace(negative_hessian[:n, :n])) / n
    negative_hessian[:n, :n] += weight / n
    return weight


def _sorted_model(names: tuple[str, ...], point: Floats, covariance: Floats) -> RatingFit:
    """Return the model with its players sorted, strongest first."""
    n = len(names)
    order = np.argsort(-point[:n], kind="stable").tolist()
    parameters = [*order, n, n + 1]
    return RatingFit(
        tuple(names[i] for i in order),
        point[order],
        float(point[n]),
        float(point[n + 1]),
        covariance[np.ix_(parameters, parameters)],
    )


def _player_ratings(model: RatingFit, counts: Tally, effective_games: Matrix) -> list[Rating]:
    order = [counts.players.index(name) for name in model.names]
    game_counts = counts.game_counts[np.ix_(order, order)]
    games = game_counts.sum(axis=1)
    wins = (counts.wins.sum(axis=1) + counts.losses.sum(axis=0))[order]
    draws = (counts.draws.sum(axis=1) + counts.draws.sum(axis=0))[order]
    effective = effective_games.sum(axis=1)[order]
    elos = model.display_factor * model.elos
    margin = Z95 * model.display_factor * np.sqrt(np.diag(model.covariance)[: len(order)])
    intervals = zip(*(ends.tolist() for ends in (elos, elos - margin, elos + margin)), strict=True)
    columns = (
        games.astype(np.int64), effective,
        (wins + 0.5 * draws) / games, draws / games, game_counts @ elos / games, model.elos,
    )  # fmt: skip
    rows = zip(model.names, intervals, *(column.tolist() for column in columns), strict=True)
    return [Rating(name, Interval(*interval), *row) for name, interval, *row in rows]


def _require_within(name: str, value: float | None, smallest: float, alternative: str = "") -> None:
    """Raise UserError for a value outside the range; the message also names the alternative."""
    if value is not None and not smallest <= value <= MAX_ABS_ELO:
        raise UserError(
            f"{name} = {value}: expected {alternative}at least {smallest:g} and at most"
            f" {MAX_ABS_ELO:g}"
        )


Ints = NDArray[np.int64]

_PRIOR_DRAWS = 2.0
"""Virtual draws per player, as in BayesElo."""
_PRIOR_WINS = 0.1
"""Virtual wins, and virtual losses, of a first player against an equal opponent.

These games keep the estimates of advantage and draw_elo finite if the first player never loses.
"""


class Posterior(NamedTuple):
    """Logarithm of the posterior at a point (strengths [n], advantage, draw_elo), in natural units.

    Only the m ordered pairs of players that met are listed, since most pairs of a large tournament
    never meet. A draw counts as both a win and a loss, since the third factor of its probability
    depends only on draw_elo.
    """

    first_indices: Ints
    """int64[m]: index of the first player."""
    second_indices: Ints
    """int64[m]: index of the second player; equal players stand for a virtual game of the prior."""
    wins_and_draws: Floats
    """float64[m]: wins plus draws of the first player, including virtual games."""
    losses_and_draws: Floats
    """float64[m]: losses plus draws of the first player, including virtual games."""
    draw_count: float
    """Total number of draws, including virtual games."""

    def lead(self, point: Floats) -> Floats:
        """Return float64[m]: the lead of the first player, including the first-move advantage."""
        lead: Floats = point[self.first_indices] - point[self.second_indices] + point[-2]
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
        by_strength = _sum_by_player(by_lead, self.first_indices, n)
        by_strength -= _sum_by_player(by_lead, self.second_indices, n)
        return np.array([*by_strength, by_lead.sum(), by_draw_elo])

    def negative_hessian(self, point: Floats) -> Floats:
        """Return float64[n + 2, n + 2]: the negative Hessian of the log-posterior."""
        lead, draw_elo = self.lead(point), point[-1]
        won = self.wins_and_draws * _logistic(draw_elo - lead) * _logistic(lead - draw_elo)
        lost = self.losses_and_draws * _logistic(draw_elo + lead) * _logistic(-draw_elo - lead)
        both, skew = won + lost, lost - won
        n = len(point) - 2
        as_first = _sum_by_player(both, self.first_indices, n)
        as_second = _sum_by_player(both, self.second_indices, n)
        matrix = np.zeros((n + 2, n + 2))
        matrix[self.first_indices, self.second_indices] = -both
        matrix[:n, :n] += matrix[:n, :n].T
        matrix[range(n), range(n)] += as_first + as_second
        matrix[:n, n] = matrix[n, :n] = as_first - as_second
        by_skew = _sum_by_player(skew, self.first_indices, n) - _sum_by_player(
            skew, self.second_indices, n
        )
        matrix[:n, n + 1] = matrix[n + 1, :n] = by_skew
        matrix[n, n] = both.sum()
        matrix[n, n + 1] = matrix[n + 1, n] = skew.sum()
        draw_curvature = self.draw_count / math.sinh(draw_elo) ** 2 if draw_elo else 0.0
        matrix[n + 1, n + 1] = both.sum() + draw_curvature
        return matrix


def _build_posterior(counts: Tally) -> Posterior:
    """Return the posterior of the counted results and the virtual games of the prior.

    As in BayesElo (CCondensedResults::AddPrior), every player distributes half of its _PRIOR_DRAWS
    over its opponents, in proportion to the number of games against each of them, and receives the
    other half from its opponents. Both colours get equal shares. Virtual games between equal
    players are represented as games of a player against itself.
    """
    game_counts = counts.game_counts
    games = game_counts.sum(axis=1)
    first, second = np.nonzero(game_counts + np.eye(len(games)))
    met = game_counts[first, second]
    draws = counts.draws[first, second] + _PRIOR_DRAWS / 4.0 * (
        met / games[first] + met / games[second]
    )
    prior_wins = np.where(first == second, _PRIOR_WINS / len(games), 0.0)
    return Posterior(
        first,
        second,
        counts.wins[first, second] + draws + prior_wins,
        counts.losses[first, second] + draws + prior_wins,
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
    """Return log(1 + exp(x)), twice as fast as np.logaddexp."""
    values: Floats = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return values
