"""Bayesian Elo: strengths, first-move advantage and draws from results, with intervals.

The model is BayesElo's [BayesElo], that of [Rao1967] with a first-move advantage. With delta = Elo
of the first player - Elo of the second::

    P(first wins)  = 1 / (1 + 10 ** ((-delta - advantage + draw_elo) / 400))
    P(first loses) = 1 / (1 + 10 ** ((delta + advantage + draw_elo) / 400))

and a draw has the rest, P(wins) * P(loses) * (10 ** (2 * draw_elo / 400) - 1). Hence
the logarithm of the posterior is concave, and Newton's method finds its only maximum; BayesElo
finds the same one by minorisation-maximisation [Hunter2004].

There are two scales. Draws stretch the scale of this formula, the model's own. `Ratings` use the
scale on which BayesElo shows Elo, where a point near equality changes the expected score as an Elo
point does without draws; everything that is shown is on it. Only `Ratings.model` holds numbers on
the model's own scale. docs/decisions/0006-ratings.md explains prior, scales and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.ratings.results import RatedGame, Tally, distinct_games, require_comparable, tally
from zerolab.report.interval import Z95

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR_DRAWS = 2.0
"""Virtual draws per player, as in BayesElo."""
PRIOR_EQUALS = 0.1
"""Virtual wins and losses, each, of a first player against an equal one.

Without them advantage and draw_elo have no finite estimate where the first player never loses.
"""
LARGEST = 4000.0
"""Largest magnitude of a given advantage or draw_elo."""
ELO = 400.0 / math.log(10.0)
"""Elo points in the natural unit of strength, in which odds change by a factor of e."""

_START_DRAW_ELO = 97.3  # BayesElo's default
_MIN_DRAW_ELO = 0.1  # smaller ones drown in rounding
_MAX_STEPS = 200
_NEAR = 1e-6
"""Squared standard errors within which full steps converge, and values differ by rounding."""
_CONVERGED = 1e-18
_MAX_STEP = 4.0
"""In any lead and in draw_elo: full steps are wild where the posterior is nearly linear."""
_NORMAL = NormalDist()


class Rating(NamedTuple):
    """Strength of a player on BayesElo's scale; the mean of all players is 0."""

    player: str
    elo: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end."""
    games: int
    """All games, including repetitions."""
    distinct_games: int
    """Games that count for the rating and its interval."""
    score_rate: float
    """Points per game, a draw counting half, over all games."""
    draw_rate: float
    """Drawn games per game, over all games."""
    opponents: float
    """Mean Elo of the opponents, over all games."""
    elo_model: float
    """Elo on the model's own scale."""


class Difference(NamedTuple):
    """Lead of one player over another in Elo, with a 95 % interval."""

    elo: float
    low: float
    high: float
    los: float
    """Likelihood of superiority: the probability that it is the stronger one."""

    def times(self, factor: float) -> Difference:
        """Return the same difference on another scale."""
        return Difference(self.elo * factor, self.low * factor, self.high * factor, self.los)


@dataclass(frozen=True)
class Model:
    """The maximum of the posterior, on the model's own scale."""

    names: tuple[str, ...]
    """The n players, strongest first."""
    elos: Floats
    """float64[n]: their Elo; the mean is 0."""
    advantage: float
    """Worth of moving first, in Elo."""
    draw_elo: float
    """Draw parameter: equal players draw (t - 1) / (t + 1), t = 10 ** (draw_elo / 400)."""
    covariance: Floats
    """float64[n + 2, n + 2], Elo squared: of players, advantage and draw_elo; 0 for given ones."""

    @property
    def scale(self) -> float:
        """Factor between the model's Elo and the Elo that BayesElo shows.

        It is 4 x / (1 + x)^2 with x = 10^(-draw_elo / 400): near equality a scaled point then
        changes the expected score as an Elo point does without draws.
        """
        x = math.pow(10.0, -self.draw_elo / 400.0)
        return 4.0 * x / (1.0 + x) ** 2

    def difference(self, player: str, other: str) -> Difference:
        """Return the lead of `player` over `other`; raise ValueError for unknown names."""
        i, j = self.names.index(player), self.names.index(other)
        elo = float(self.elos[i] - self.elos[j])
        c = self.covariance
        error = math.sqrt(max(0.0, c[i, i] + c[j, j] - 2.0 * c[i, j]))
        los = _NORMAL.cdf(elo / error) if error else 0.5
        return Difference(elo, elo - Z95 * error, elo + Z95 * error, los)

    def los(self) -> Floats:
        """Return float64[n, n]: the probability that i is stronger than j; 0.5 on the diagonal."""
        n = len(self.names)
        covariance = self.covariance[:n, :n]
        variances = np.diag(covariance)
        errors = np.sqrt(variances[:, None] + variances - 2.0 * covariance + np.eye(n))
        deviations = (self.elos[:, None] - self.elos) / errors
        return np.array([[_NORMAL.cdf(z) for z in row] for row in deviations.tolist()])


@dataclass(frozen=True)
class Ratings:
    """Players, strongest first, in Elo as BayesElo shows it, and the model behind them."""

    players: list[Rating]
    model: Model
    """Parameters on the model's own scale."""

    @property
    def advantage(self) -> float:
        """Worth of moving first, in Elo."""
        return self.model.scale * self.model.advantage

    def difference(self, player: str, other: str) -> Difference:
        """Return the lead of `player` over `other`; raise ValueError for unknown names."""
        return self.model.difference(player, other).times(self.model.scale)

    def los(self) -> Floats:
        """Return float64[n, n]: the probability that i is stronger than j; 0.5 on the diagonal."""
        return self.model.los()


def rate(
    games: Iterable[RatedGame], *, advantage: float | None = None, draw_elo: float | None = None
) -> Ratings:
    """Rate all players of some games by the mode of the posterior.

    Repeated games count once. `advantage` and `draw_elo` are fitted unless given, on the model's
    own scale like BayesElo's commands of these names. Raises UserError without games between two
    players, where groups of players never met, and for parameters out of range.
    """
    _require_within("advantage", advantage, -LARGEST)
    if draw_elo:  # 0 is right where no game is drawn
        _require_within("draw_elo", draw_elo, _MIN_DRAW_ELO)
    played = list(games)
    counted = tally(distinct_games(played))
    require_comparable(counted)
    n = len(counted.players)
    free = np.array([True] * n + [advantage is None, draw_elo is None])
    point = np.zeros(n + 2)
    point[n] = (advantage or 0.0) / ELO
    point[n + 1] = (_START_DRAW_ELO if draw_elo is None else draw_elo) / ELO
    posterior = _posterior(counted)
    point = _maximum(posterior, point, free)
    covariance = _inverse(posterior.information(point), free)
    model = _model(counted.players, point * ELO, covariance * ELO**2)
    return Ratings(_listed(model, tally(played), counted), model)


class Posterior(NamedTuple):
    """The logarithm of the posterior at (strengths [n], advantage, draw_elo), in natural units.

    Results are listed by the m ordered pairs that met, a small part of all pairs of many players. A
    draw counts as a win and a loss, since the model's third factor depends on draw_elo alone.
    """

    first: Ints
    """int64[m]: first player."""
    second: Ints
    """int64[m]: second player; a player may meet itself."""
    wins: Floats
    """float64[m]: wins and draws of the first player, virtual games included."""
    losses: Floats
    """float64[m]: losses and draws."""
    draws: float
    """All draws."""

    def lead(self, point: Floats) -> Floats:
        """Return float64[m]: the lead of the first player, advantage included."""
        lead: Floats = point[self.first] - point[self.second] + point[-2]
        return lead

    def value(self, point: Floats) -> float:
        """Return the value without constant terms, including those of a given draw_elo 0."""
        lead, bar = self.lead(point), point[-1]
        value = -(self.wins * _softplus(bar - lead)).sum()
        value -= (self.losses * _softplus(bar + lead)).sum()
        # The logarithm of expm1(2 * bar), which itself may be too large for a number.
        by_draw = 2.0 * bar + math.log(-math.expm1(-2.0 * bar)) if bar else 0.0
        return float(value + self.draws * by_draw)

    def gradient(self, point: Floats) -> Floats:
        """Return float64[n + 2]."""
        lead, bar = self.lead(point), point[-1]
        won = self.wins * _logistic(bar - lead)
        lost = self.losses * _logistic(bar + lead)
        by_lead = won - lost
        by_bar = -(won + lost).sum() + (self.draws * (1.0 + 1.0 / math.tanh(bar)) if bar else 0.0)
        n = len(point) - 2
        by_strength = _sums(by_lead, self.first, n) - _sums(by_lead, self.second, n)
        return np.array([*by_strength, by_lead.sum(), by_bar])

    def information(self, point: Floats) -> Floats:
        """Return float64[n + 2, n + 2], the Hessian with its sign turned."""
        lead, bar = self.lead(point), point[-1]
        won = self.wins * _logistic(bar - lead) * _logistic(lead - bar)
        lost = self.losses * _logistic(bar + lead) * _logistic(-bar - lead)
        both, skew = won + lost, lost - won
        n = len(point) - 2
        as_first, as_second = _sums(both, self.first, n), _sums(both, self.second, n)
        matrix = np.zeros((n + 2, n + 2))
        matrix[self.first, self.second] = -both
        matrix[:n, :n] += matrix[:n, :n].T
        matrix[range(n), range(n)] += as_first + as_second
        matrix[:n, n] = matrix[n, :n] = as_first - as_second
        by_skew = _sums(skew, self.first, n) - _sums(skew, self.second, n)
        matrix[:n, n + 1] = matrix[n + 1, :n] = by_skew
        matrix[n, n] = both.sum()
        matrix[n, n + 1] = matrix[n + 1, n] = skew.sum()
        matrix[n + 1, n + 1] = both.sum() + (self.draws / math.sinh(bar) ** 2 if bar else 0.0)
        return matrix


def _posterior(counted: Tally) -> Posterior:
    """Add the virtual games to the counts.

    As in BayesElo (CCondensedResults::AddPrior) every player brings half of PRIOR_DRAWS, divided
    among its opponents in proportion to the games with each, and gets the other half from theirs;
    both colours get equal parts. The virtual games between equals are those of a player and itself.
    """
    meetings = counted.meetings
    games = meetings.sum(axis=1)
    first, second = np.nonzero(meetings + np.eye(len(games), dtype=np.int64))
    met = meetings[first, second]
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


def _maximum(posterior: Posterior, point: Floats, free: NDArray[np.bool_]) -> Floats:
    """Climb by Newton's steps, cut while far away until they rise and draw_elo is positive."""
    for _ in range(_MAX_STEPS):
        gradient = posterior.gradient(point) * free
        step = _newton_step(posterior.information(point), gradient, free)
        gain = float(gradient @ step)  # squared distance to the maximum, in standard errors
        if gain > _NEAR:
            # A long row of players may spread far while the leads in it stay small.
            longest = max(float(np.abs(posterior.lead(step)).max()), abs(float(step[-1])))
            step *= min(1.0, _MAX_STEP / longest)
            step *= _length(posterior, point, step, float(gradient @ step))
        point = point + step
        if gain < _CONVERGED:
            return point
    if gain < _NEAR:  # rounding prevents a closer approach
        return point
    raise ArithmeticError(f"ratings did not converge: gain {gain}")


def _length(posterior: Posterior, point: Floats, step: Floats, gain: float) -> float:
    """Return the first of 1, 1/2, 1/4, ... by which a step rises by enough (Armijo's rule)."""
    value, length = posterior.value(point), 1.0
    while length > _CONVERGED:
        trial = point + length * step
        inside = trial[-1] > 0.0 or step[-1] == 0.0
        if inside and posterior.value(trial) >= value + 0.25 * length * gain:
            return length
        length /= 2.0
    raise ArithmeticError(f"ratings did not converge: no step rises, gain {gain}")


def _newton_step(information: Floats, gradient: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the inverse times the gradient by solving, in a third of the time of inverting."""
    step = np.zeros_like(gradient)
    _regularise(information)
    step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
    step[:-2] -= step[:-2].mean()
    return step


def _inverse(information: Floats, free: NDArray[np.bool_]) -> Floats:
    """Invert among parameters that are free and strengths whose mean is 0."""
    n = len(information) - 2
    weight = _regularise(information)
    inverse = np.zeros_like(information)
    chosen = np.ix_(free, free)
    inverse[chosen] = np.linalg.inv(information[chosen])
    inverse[:n, :n] -= 1.0 / (n * weight)
    return inverse


def _regularise(information: Floats) -> float:
    """Add information about the mean of all strengths, in place; return the amount.

    Adding the same to all strengths changes no probability, so the matrix is singular in that
    direction. An inverse of the regularised matrix needs the variance of the mean subtracted again.
    """
    n = len(information) - 2
    weight = float(np.trace(information[:n, :n])) / n
    information[:n, :n] += weight / n
    return weight


def _model(names: tuple[str, ...], point: Floats, covariance: Floats) -> Model:
    """Return the model with its players in order, strongest first."""
    n = len(names)
    order = np.argsort(-point[:n], kind="stable").tolist()
    arranged = [*order, n, n + 1]
    return Model(
        tuple(names[i] for i in order),
        point[order],
        float(point[n]),
        float(point[n + 1]),
        covariance[np.ix_(arranged, arranged)],
    )


def _listed(model: Model, played: Tally, counted: Tally) -> list[Rating]:
    """Return the ratings, from all games that were played and those that count."""
    order = [played.players.index(name) for name in model.names]
    meetings = played.meetings[np.ix_(order, order)]
    games = meetings.sum(axis=1)
    wins = (played.wins.sum(axis=1) + played.losses.sum(axis=0))[order]
    draws = (played.draws.sum(axis=1) + played.draws.sum(axis=0))[order]
    distinct = counted.meetings.sum(axis=1)[order]
    elos = model.scale * model.elos
    margin = Z95 * model.scale * np.sqrt(np.diag(model.covariance)[: len(order)])
    columns = (
        elos, elos - margin, elos + margin, games, distinct,
        (wins + 0.5 * draws) / games, draws / games, meetings @ elos / games, model.elos,
    )  # fmt: skip
    rows = zip(model.names, *(column.tolist() for column in columns), strict=True)
    return [Rating(*row) for row in rows]


def _sums(values: Floats, players: Ints, n: int) -> Floats:
    """Return float64[n]: the sum of the values of each player."""
    return np.bincount(players, values, n).astype(np.float64, copy=False)


def _logistic(x: Floats) -> Floats:
    with np.errstate(over="ignore"):  # 1 / infinity is what is meant
        values: Floats = 1.0 / (1.0 + np.exp(-x))
    return values


def _softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)) in half the time of logaddexp."""
    values: Floats = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return values


def _require_within(name: str, value: float | None, least: float) -> None:
    if value is not None and not least <= value <= LARGEST:
        raise UserError(f"{name} = {value}: expected at least {least:g} and at most {LARGEST:g}")
