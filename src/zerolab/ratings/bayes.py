"""Bayesian Elo ratings, first-move advantage and draw rate, with confidence intervals.

The model is that of BayesElo [BayesElo]: [Rao1967] with a first-move advantage. With delta = Elo
of the first player - Elo of the second::

    P(first wins)  = 1 / (1 + 10 ** ((-delta - advantage + draw_elo) / 400))
    P(first loses) = 1 / (1 + 10 ** ((delta + advantage + draw_elo) / 400))

The remaining probability, P(wins) * P(loses) * (10 ** (2 * draw_elo / 400) - 1), is that of a
draw. The logarithm of the posterior is therefore concave, and Newton's method finds its only
maximum. BayesElo finds the same maximum by minorisation-maximisation [Hunter2004].

There are two scales. Draws stretch the scale of the formulas above, the model scale. BayesElo
displays Elo on a different scale, on which one point between equal players changes the expected
score by the same amount as an Elo point does without draws. Every displayed number, and all of
`Ratings` except `Ratings.model`, is on BayesElo's scale. docs/decisions/0006-ratings.md explains
the prior, the scales and the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.ratings.posterior import Floats, Posterior, posterior_of
from zerolab.ratings.results import RatedGame, Tally, distinct_games, require_comparable, tally
from zerolab.report.document import Block, Picture
from zerolab.report.figures import shortened
from zerolab.report.html import NotebookView, data_frame
from zerolab.report.table import Z95, Interval

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_ABS_ELO = 4000.0
"""Largest accepted magnitude of advantage and draw_elo."""
ELO_PER_NATURAL_UNIT = 400.0 / math.log(10.0)
"""Elo points per natural unit of strength; one natural unit multiplies the odds by e."""

_START_DRAW_ELO = 97.3  # BayesElo's default
_MIN_DRAW_ELO = 0.1  # smaller values are lost in rounding errors
_MAX_STEPS = 200
_NEAR = 1e-6
"""Squared distance to the maximum, in standard errors, below which full steps converge.

So close to the maximum, differences between posterior values are only rounding errors.
"""
_CONVERGED = 1e-18
_MAX_STEP = 4.0
"""Largest change of any lead and of draw_elo in one step.

Full steps overshoot where the posterior is nearly linear.
"""
_NORMAL = NormalDist()


class Rating(NamedTuple):
    """Strength of a player on BayesElo's scale; the mean over all players is 0."""

    player: str
    interval: Interval
    """Elo with its 95 % interval."""
    games: int
    """All games, including repetitions."""
    distinct_games: int
    """Distinct games, which determine the rating and its interval."""
    score_rate: float
    """Points per game over all games; a draw counts half."""
    draw_rate: float
    """Fraction of all games that were drawn."""
    opponents: float
    """Mean Elo of the opponents over all games."""
    elo_model: float
    """Elo on the model scale."""

    @property
    def elo(self) -> float:
        """Elo without its interval."""
        return self.interval.value

    def __repr__(self) -> str:
        elo, low, high = self.interval
        return (
            f"<Rating of {self.player}: Elo {elo:+.0f} ({low:+.0f} to {high:+.0f}),"
            f" {self.games} games>"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON and CSV."""
        elo, low, high = self.interval
        fields = {"player": self.player, "elo": elo, "low": low, "high": high, **self._asdict()}
        del fields["interval"]
        return fields


class EloDifference(NamedTuple):
    """Lead of one player over another in Elo, with a 95 % interval."""

    interval: Interval
    los: float
    """Likelihood of superiority: the probability that the first of the two is stronger."""

    @property
    def elo(self) -> float:
        """Lead in Elo, without its interval."""
        return self.interval.value

    def __repr__(self) -> str:
        elo, low, high = self.interval
        return (
            f"<EloDifference {elo:+.0f} ({low:+.0f} to {high:+.0f}),"
            f" likelihood of superiority {self.los:.1%}>"
        )

    def scaled_by(self, factor: float) -> EloDifference:
        """Return the difference on a scale `factor` times as fine."""
        return EloDifference(Interval(*(factor * each for each in self.interval)), self.los)


@dataclass(frozen=True)
class RatingModel:
    """Maximum of the posterior, on the model scale."""

    names: tuple[str, ...]
    """Names of the n players, strongest first."""
    elos: Floats
    """float64[n]: Elo of each player; the mean is 0."""
    advantage: float
    """First-move advantage in Elo."""
    draw_elo: float
    """Draw parameter.

    Equal players draw with probability (t - 1) / (t + 1), where t = 10 ** (draw_elo / 400).
    """
    covariance: Floats
    """float64[n + 2, n + 2]: covariance of players, advantage and draw_elo, in Elo squared.

    The entries of a fixed parameter are 0.
    """

    @property
    def scale(self) -> float:
        """Elo as BayesElo displays it, divided by Elo on the model scale.

        The factor is 4 x / (1 + x)^2 with x = 10^(-draw_elo / 400). It makes a point between
        equal players change the expected score as much as an Elo point does without draws.
        """
        x = math.pow(10.0, -self.draw_elo / 400.0)
        return 4.0 * x / (1.0 + x) ** 2

    def __repr__(self) -> str:
        return (
            f"<RatingModel of {len(self.names)} players: advantage {self.advantage:+.1f},"
            f" draw_elo {self.draw_elo:.1f}>"
        )

    def difference(self, player: str, other: str) -> EloDifference:
        """Return the lead of `player` over `other`; raise ValueError for unknown names."""
        i, j = self.names.index(player), self.names.index(other)
        elo = float(self.elos[i] - self.elos[j])
        c = self.covariance
        error = math.sqrt(max(0.0, c[i, i] + c[j, j] - 2.0 * c[i, j]))
        los = _NORMAL.cdf(elo / error) if error else 0.5
        return EloDifference(Interval(elo, elo - Z95 * error, elo + Z95 * error), los)

    def los(self) -> Floats:
        """Return float64[n, n]: the probability that i is stronger than j; 0.5 on the diagonal."""
        n = len(self.names)
        covariance = self.covariance[:n, :n]
        variances = np.diag(covariance)
        errors = np.sqrt(variances[:, None] + variances - 2.0 * covariance + np.eye(n))
        deviations = (self.elos[:, None] - self.elos) / errors
        return np.array([[_NORMAL.cdf(z) for z in row] for row in deviations.tolist()])


@dataclass(frozen=True)
class Ratings(NotebookView):
    """Ratings of players on BayesElo's scale, and the fitted model."""

    players: list[Rating]
    """One rating per player, strongest first."""
    model: RatingModel
    """Fitted parameters on the model scale."""

    @property
    def advantage(self) -> float:
        """First-move advantage in Elo."""
        return self.model.scale * self.model.advantage

    def difference(self, player: str, other: str) -> EloDifference:
        """Return the lead of `player` over `other`; raise ValueError for unknown names."""
        return self.model.difference(player, other).scaled_by(self.model.scale)

    def los(self) -> Floats:
        """Return float64[n, n]: the probability that i is stronger than j; 0.5 on the diagonal."""
        return self.model.los()

    def to_pandas(self) -> DataFrame:
        """Return one row per player, strongest first, with Elo and the ends of its interval.

        Raises MissingExtraError if pandas is not installed.
        """
        return data_frame([rating.as_dict() for rating in self.players])

    def _blocks(self) -> Iterable[Block]:
        # It imports this module.
        from zerolab.ratings.rating_report import draw_ratings, ratings_table  # noqa: PLC0415

        table = ratings_table(self)
        return [table, Picture("ratings-figure", draw_ratings(self), table.note)]

    def __repr__(self) -> str:
        best = shortened(self.players[0].player)
        return f"<Ratings of {len(self.players)} players, strongest {best}>"


def rate(
    games: Iterable[RatedGame], *, advantage: float | None = None, draw_elo: float | None = None
) -> Ratings:
    """Rate all players of `games` at the mode of the posterior.

    Repeated games count once. `advantage` and `draw_elo` are on the model scale, like the BayesElo
    commands of the same names, and are fitted if None. Raises UserError if there are no games
    between different players, if no games connect some groups of players, and for parameters out
    of range.
    """
    played = list(games)
    return rate_tallies(
        tally(distinct_games(played)), tally(played), advantage=advantage, draw_elo=draw_elo
    )


def rate_tallies(
    counted: Tally,
    played: Tally,
    *,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> Ratings:
    """Rate players like `rate`, from counts of distinct games and of all games."""
    _require_within("advantage", advantage, -MAX_ABS_ELO)
    if draw_elo:  # 0 is valid for games without draws
        _require_within("draw_elo", draw_elo, _MIN_DRAW_ELO)
    require_comparable(counted)
    n = len(counted.players)
    free = np.array([True] * n + [advantage is None, draw_elo is None])
    point = np.zeros(n + 2)
    point[n] = (advantage or 0.0) / ELO_PER_NATURAL_UNIT
    point[n + 1] = (_START_DRAW_ELO if draw_elo is None else draw_elo) / ELO_PER_NATURAL_UNIT
    posterior = posterior_of(counted)
    point = _maximum(posterior, point, free)
    covariance = _inverse(posterior.information(point), free)
    model = _sorted_model(
        counted.players, point * ELO_PER_NATURAL_UNIT, covariance * ELO_PER_NATURAL_UNIT**2
    )
    return Ratings(_player_ratings(model, played, counted), model)


def _maximum(posterior: Posterior, point: Floats, free: NDArray[np.bool_]) -> Floats:
    """Maximise the posterior with Newton's method.

    Far from the maximum, steps are shortened until they increase the posterior and keep draw_elo
    positive.
    """
    for _ in range(_MAX_STEPS):
        gradient = posterior.gradient(point) * free
        step = _newton_step(posterior.information(point), gradient, free)
        gain = float(gradient @ step)  # squared distance to the maximum, in standard errors
        if gain > _NEAR:
            # Leads rather than strengths: in a long chain of players, strengths may differ
            # widely although all leads are small.
            largest = max(float(np.abs(posterior.lead(step)).max()), abs(float(step[-1])))
            step *= min(1.0, _MAX_STEP / largest)
            step *= _step_fraction(posterior, point, step, float(gradient @ step))
        point = point + step
        if gain < _CONVERGED:
            return point
    if gain < _NEAR:  # rounding prevents a closer approach
        return point
    raise ArithmeticError(f"ratings did not converge: gain {gain}")


def _step_fraction(posterior: Posterior, point: Floats, step: Floats, gain: float) -> float:
    """Return the first of 1, 1/2, 1/4, ... for which the step satisfies Armijo's rule."""
    value, fraction = posterior.log_density(point), 1.0
    while fraction > _CONVERGED:
        trial = point + fraction * step
        is_valid = trial[-1] > 0.0 or step[-1] == 0.0
        if is_valid and posterior.log_density(trial) >= value + 0.25 * fraction * gain:
            return fraction
        fraction /= 2.0
    raise ArithmeticError(f"ratings did not converge: no step improves them, gain {gain}")


def _newton_step(information: Floats, gradient: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the inverse information times the gradient, for the free parameters."""
    step = np.zeros_like(gradient)
    _regularise(information)
    # Solving takes a third of the time of inverting.
    step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
    step[:-2] -= step[:-2].mean()
    return step


def _inverse(information: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the covariance of the free parameters, for strengths whose mean is 0."""
    n = len(information) - 2
    weight = _regularise(information)
    inverse = np.zeros_like(information)
    block = np.ix_(free, free)
    inverse[block] = np.linalg.inv(information[block])
    inverse[:n, :n] -= 1.0 / (n * weight)
    return inverse


def _regularise(information: Floats) -> float:
    """Add information about the mean of all strengths, in place; return the amount.

    Adding a constant to all strengths changes no probability, so the matrix is singular in that
    direction. After inversion, the variance of the mean must be subtracted again.
    """
    n = len(information) - 2
    weight = float(np.trace(information[:n, :n])) / n
    information[:n, :n] += weight / n
    return weight


def _sorted_model(names: tuple[str, ...], point: Floats, covariance: Floats) -> RatingModel:
    """Return the model with its players sorted, strongest first."""
    n = len(names)
    order = np.argsort(-point[:n], kind="stable").tolist()
    parameters = [*order, n, n + 1]
    return RatingModel(
        tuple(names[i] for i in order),
        point[order],
        float(point[n]),
        float(point[n + 1]),
        covariance[np.ix_(parameters, parameters)],
    )


def _player_ratings(model: RatingModel, played: Tally, counted: Tally) -> list[Rating]:
    """Return the ratings; `played` counts all games, `counted` only distinct ones."""
    order = [played.players.index(name) for name in model.names]
    game_counts = played.game_counts[np.ix_(order, order)]
    games = game_counts.sum(axis=1)
    wins = (played.wins.sum(axis=1) + played.losses.sum(axis=0))[order]
    draws = (played.draws.sum(axis=1) + played.draws.sum(axis=0))[order]
    distinct = counted.game_counts.sum(axis=1)[order]
    elos = model.scale * model.elos
    margin = Z95 * model.scale * np.sqrt(np.diag(model.covariance)[: len(order)])
    intervals = zip(*(ends.tolist() for ends in (elos, elos - margin, elos + margin)), strict=True)
    columns = (
        games, distinct,
        (wins + 0.5 * draws) / games, draws / games, game_counts @ elos / games, model.elos,
    )  # fmt: skip
    rows = zip(model.names, intervals, *(column.tolist() for column in columns), strict=True)
    return [Rating(name, Interval(*interval), *row) for name, interval, *row in rows]


def _require_within(name: str, value: float | None, smallest: float) -> None:
    if value is not None and not smallest <= value <= MAX_ABS_ELO:
        raise UserError(
            f"{name} = {value}: expected at least {smallest:g} and at most {MAX_ABS_ELO:g}"
        )
