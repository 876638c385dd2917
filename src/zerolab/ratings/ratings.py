"""Ratings of players: Elo with intervals, and reports as tables, CSV, JSON and figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, did_you_mean, quoted, require_type
from zerolab.report.document import Block, Picture
from zerolab.report.figures import new_figure, save_figure, shorten_name
from zerolab.report.html import NotebookView
from zerolab.report.table import (
    Z95,
    Cell,
    Column,
    Interval,
    Table,
    data_frame,
    percent,
    rows_as_csv,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Floats = NDArray[np.float64]

_NORMAL = NormalDist()


class Rating(NamedTuple):
    """Strength of a player on BayesElo's scale; the mean over all players is 0."""

    player: str
    interval: Interval
    """Elo with its 95 % interval."""
    games: int
    """Number of games, including repetitions."""
    effective_games: float
    """Number of independent games with the same information, which determines the interval."""
    score_rate: float
    """Points per game over all games; a draw counts half."""
    draw_rate: float
    """Fraction of all games that were drawn."""
    mean_opponent_elo: float
    """Mean Elo of the opponents over all games."""
    elo_model: float
    """Elo on the model scale."""

    @property
    def elo(self) -> float:
        """Elo without its interval."""
        return self.interval.value

    @property
    def standard_error(self) -> float:
        """Standard error of `elo`, relative to the mean over all players."""
        return (self.interval.high - self.interval.low) / (2.0 * Z95)

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

    @property
    def standard_error(self) -> float:
        """Standard error of `elo`."""
        return (self.interval.high - self.interval.low) / (2.0 * Z95)

    def __repr__(self) -> str:
        elo, low, high = self.interval
        return (
            f"<EloDifference {elo:+.0f} ({low:+.0f} to {high:+.0f}),"
            f" likelihood of superiority {percent(self.los)}>"
        )

    def scaled_by(self, factor: float) -> EloDifference:
        """Return the difference multiplied by `factor`, to convert it to another scale."""
        return EloDifference(Interval(*(factor * each for each in self.interval)), self.los)


@dataclass(frozen=True)
class RatingFit:
    """Maximum of the posterior, on the model scale."""

    names: tuple[str, ...]
    """Names of the n players, strongest first."""
    elos: Floats
    """float64[n]: Elo of each player; the mean is 0."""
    first_move_advantage: float
    """First-move advantage in Elo."""
    draw_elo: float
    """Draw parameter.

    Equal players draw with probability (t - 1) / (t + 1), where t = 10 ** (draw_elo / 400).
    """
    covariance: Floats
    """float64[n + 2, n + 2]: covariance, in Elo squared, of all Elo and the other parameters.

    The last two rows are the first-move advantage and draw_elo. Entries of fixed parameters are 0.
    """

    @property
    def display_factor(self) -> float:
        """Elo as BayesElo displays it, divided by Elo on the model scale.

        The factor is 4 x / (1 + x)^2 with x = 10^(-draw_elo / 400). Near equality, one point of
        scaled rating changes the expected score as much as one Elo point does without draws.
        """
        x = math.pow(10.0, -self.draw_elo / 400.0)
        return 4.0 * x / (1.0 + x) ** 2

    def __repr__(self) -> str:
        return (
            f"<RatingFit of {len(self.names)} players:"
            f" first-move advantage {self.first_move_advantage:+.1f}, draw_elo {self.draw_elo:.1f}>"
        )

    def elo_difference(self, player: str, other: str) -> EloDifference:
        """Return the lead of `player` over `other`; raise UserError for unknown names."""
        i, j = self.row_of(player), self.row_of(other)
        elo = float(self.elos[i] - self.elos[j])
        c = self.covariance
        error = math.sqrt(max(0.0, c[i, i] + c[j, j] - 2.0 * c[i, j]))
        los = _NORMAL.cdf(elo / error) if error else 0.5
        return EloDifference(Interval(elo, elo - Z95 * error, elo + Z95 * error), los)

    def row_of(self, player: str) -> int:
        """Return the row of a player in `covariance`; raise UserError for an unknown name."""
        require_type("player", player, str, "the name of a rated player")
        if player not in self.names:
            raise UserError(
                f"unknown player {quoted(player)}: expected one of the rated players"
                f"{did_you_mean(player, self.names)}"
            )
        return self.names.index(player)

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

    player_ratings: list[Rating]
    """One rating per player, strongest first."""
    model: RatingFit
    """Fitted parameters on the model scale."""

    @property
    def first_move_advantage(self) -> float:
        """First-move advantage in Elo."""
        return self.model.display_factor * self.model.first_move_advantage

    def elo_difference(self, player: str, other: str) -> EloDifference:
        """Return the lead of `player` over `other`; raise UserError for unknown names."""
        return self.model.elo_difference(player, other).scaled_by(self.model.display_factor)

    def standard_error(self, weights: Mapping[str, float]) -> float:
        """Return the standard error in Elo of a weighted sum of Elo, for weights by player.

        Raises UserError for unknown names, and for weights that are not numbers.
        """
        require_type("weights", weights, Mapping, 'a mapping, such as {"random": 1.0}')
        for weight in weights.values():
            require_type("weight", weight, Real, "a number")
        rows = [self.model.row_of(player) for player in weights]
        vector = np.array([*weights.values()], np.float64)
        variance = float(vector @ self.model.covariance[np.ix_(rows, rows)] @ vector)
        return self.model.display_factor * math.sqrt(max(0.0, variance))

    def los(self) -> Floats:
        """Return float64[n, n]: the probability that i is stronger than j; 0.5 on the diagonal."""
        return self.model.los()

    def to_pandas(self) -> DataFrame:
        """Return one row per player, strongest first, with Elo and the bounds of its interval.

        Raises MissingExtraError if pandas is not installed.
        """
        return data_frame([rating.as_dict() for rating in self.player_ratings])

    def _blocks(self) -> Iterable[Block]:
        table = ratings_table(self)
        return [table, Picture("ratings-figure", draw_ratings(self), table.note)]

    def __repr__(self) -> str:
        best = shorten_name(self.player_ratings[0].player)
        return f"<Ratings of {len(self.player_ratings)} players, strongest {best}>"


_MAX_PLAYERS = 300
"""Largest number of players in a figure; a figure of thousands would be too large to draw."""


def draw_ratings(ratings: Ratings, title: str = "") -> Figure:
    """Draw Elo with error bars, one line per player, strongest at the top."""
    players = ratings.player_ratings[:_MAX_PLAYERS]
    figure = new_figure(8, 1.4 + 0.26 * len(players))
    axes = figure.subplots()
    elos = [rating.elo for rating in players]
    margins = [rating.interval.high - rating.elo for rating in players]
    rows = range(len(players))
    axes.errorbar(elos, rows, xerr=margins, fmt="o", markersize=4, capsize=3)
    # Without parse_math=False, a dollar sign in a name would begin a formula.
    axes.set_yticks(rows, [shorten_name(each.player) for each in players], parse_math=False)
    axes.set_ylim(len(players) - 0.5, -0.5)
    total = len(ratings.player_ratings)
    selection = f", the {_MAX_PLAYERS} strongest of {total:,}" if total > len(players) else ""
    axes.set_xlabel(f"Elo with 95 % intervals{selection}")
    axes.grid(axis="x", alpha=0.3)
    if title:
        axes.set_title(title, parse_math=False)
    return figure


def save_ratings(ratings: Ratings, path: Path, title: str = "") -> None:
    """Save the figure; the file extension determines the format.

    Raises UserError if the file cannot be written.
    """
    save_figure(draw_ratings(ratings, title), path)


def ratings_json(ratings: Ratings) -> dict[str, Any]:
    """Return the output of `zerolab rate --json`.

    Elo is on BayesElo's scale, except for the `elo_model` of each player and the parameters under
    `model`, which are on the model scale; `scale` is the ratio of the two scales. The `los` of a
    player lists its likelihoods of superiority over all players, in the order of `players`.
    """
    likelihoods = ratings.los().tolist()
    players = [
        {**rating.as_dict(), "los": likelihood}
        for rating, likelihood in zip(ratings.player_ratings, likelihoods, strict=True)
    ]
    model = ratings.model
    parameters = {
        "first_move_advantage": model.first_move_advantage,
        "draw_elo": model.draw_elo,
        "scale": model.display_factor,
    }
    return {
        "first_move_advantage": ratings.first_move_advantage,
        "model": parameters,
        "players": players,
    }


def ratings_csv(ratings: Ratings) -> str:
    """Return CSV text with a header line and one line per player."""
    rows = (
        [rank, *(f"{x:.6g}" if isinstance(x, float) else x for x in rating.as_dict().values())]
        for rank, rating in enumerate(ratings.player_ratings, start=1)
    )
    return rows_as_csv([["rank", *ratings.player_ratings[0].as_dict()], *rows])


def ratings_table(ratings: Ratings) -> Table:
    """Return a table with one row per player and the common parameters in a note."""
    likelihoods = ratings.los()
    last = len(ratings.player_ratings) - 1
    rows: list[list[Cell]] = [
        [
            i + 1, rating.player, rating.interval,
            float(likelihoods[i, i + 1]) if i < last else None, rating.games,
            rating.effective_games, rating.score_rate, rating.draw_rate, rating.mean_opponent_elo,
        ]
        for i, rating in enumerate(ratings.player_ratings)
    ]  # fmt: skip
    columns: list[str | Column] = [
        "rank", "player", Column("Elo (95 % interval)", "+.0f"),
        Column("stronger than next", ".1%"), "games", Column("effective", ".0f"),
        Column("score rate", ".1%"),
        Column("draws", ".1%"),
        Column("opponents", "+.0f"),
    ]  # fmt: skip
    note = (
        f"first-move advantage {ratings.first_move_advantage:+.1f} Elo; draw_elo"
        f" {ratings.model.draw_elo:.1f}; Elo on BayesElo's scale; intervals use the"
        " effective number of games"
    )
    return Table("ratings", "", columns, rows, note)
