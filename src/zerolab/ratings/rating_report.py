"""Rating reports as table, CSV, JSON and figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerolab.ratings.bayes import Ratings
from zerolab.report.figures import new_figure, save_figure, shortened
from zerolab.report.table import Cell, Column, Table, rows_as_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MAX_PLAYERS = 300
"""Largest number of players in a figure; one with thousands would be too large to draw."""


def draw_ratings(ratings: Ratings, title: str = "") -> Figure:
    """Draw Elo with error bars, one line per player, strongest at the top."""
    players = ratings.players[:_MAX_PLAYERS]
    figure = new_figure(8, 1.4 + 0.26 * len(players))
    axes = figure.subplots()
    elos = [rating.elo for rating in players]
    margins = [rating.interval.high - rating.elo for rating in players]
    rows = range(len(players))
    axes.errorbar(elos, rows, xerr=margins, fmt="o", markersize=4, capsize=3)
    # Without parse_math=False, a dollar sign in a name would begin a formula.
    axes.set_yticks(rows, [shortened(each.player) for each in players], parse_math=False)
    axes.set_ylim(len(players) - 0.5, -0.5)
    total = len(ratings.players)
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
        for rating, likelihood in zip(ratings.players, likelihoods, strict=True)
    ]
    model = ratings.model
    parameters = {"advantage": model.advantage, "draw_elo": model.draw_elo, "scale": model.scale}
    return {"advantage": ratings.advantage, "model": parameters, "players": players}


def ratings_csv(ratings: Ratings) -> str:
    """Return CSV text with a header line and one line per player."""
    rows = (
        [rank, *(f"{x:.6g}" if isinstance(x, float) else x for x in rating.as_dict().values())]
        for rank, rating in enumerate(ratings.players, start=1)
    )
    return rows_as_csv([["rank", *ratings.players[0].as_dict()], *rows])


def ratings_table(ratings: Ratings) -> Table:
    """Return a table with one row per player and the common parameters in a note."""
    likelihoods = ratings.los()
    last = len(ratings.players) - 1
    rows: list[list[Cell]] = [
        [
            i + 1, rating.player, rating.interval,
            float(likelihoods[i, i + 1]) if i < last else None, rating.games,
            rating.distinct_games, rating.score_rate, rating.draw_rate, rating.opponents,
        ]
        for i, rating in enumerate(ratings.players)
    ]  # fmt: skip
    columns: list[str | Column] = [
        "rank", "player", Column("Elo (95 % interval)", "+.0f"),
        Column("stronger than next", ".1%"), "games", "distinct", Column("score rate", ".1%"),
        Column("draws", ".1%"),
        Column("opponents", "+.0f"),
    ]  # fmt: skip
    note = (
        f"first-move advantage {ratings.advantage:+.1f} Elo; draw_elo"
        f" {ratings.model.draw_elo:.1f}; Elo on BayesElo's scale; repeated games count once"
    )
    return Table("ratings", "", columns, rows, note)
