"""Reports on ratings: table, CSV, JSON and figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerolab.ratings.bayes import Rating, Ratings
from zerolab.report.figures import new_figure, save_figure, shortened
from zerolab.report.interval import Cell, Interval
from zerolab.report.table import Column, Table, csv_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MAX_DRAWN = 300
"""Lines of a figure; one with thousands would be too large to draw."""


def draw_ratings(ratings: Ratings, title: str = "") -> Figure:
    """Draw the players from the strongest at the top to the weakest, with error bars."""
    players = ratings.players[:_MAX_DRAWN]
    figure = new_figure(8, 1.4 + 0.26 * len(players))
    axes = figure.subplots()
    elos = [rating.elo for rating in players]
    margins = [rating.high - rating.elo for rating in players]
    rows = range(len(players))
    axes.errorbar(elos, rows, xerr=margins, fmt="o", markersize=4, capsize=3)
    # parse_math: a dollar sign in a name would begin a formula.
    axes.set_yticks(rows, [shortened(each.player) for each in players], parse_math=False)
    axes.set_ylim(len(players) - 0.5, -0.5)
    others = len(ratings.players) - len(players)
    of_all = f", the {_MAX_DRAWN} strongest of {len(ratings.players):,}" if others else ""
    axes.set_xlabel(f"Elo with 95 % intervals{of_all}")
    axes.grid(axis="x", alpha=0.3)
    if title:
        axes.set_title(title, parse_math=False)
    return figure


def save_ratings(ratings: Ratings, path: Path, title: str = "") -> None:
    """Write the figure to a file whose ending names its format; raise UserError if impossible."""
    save_figure(draw_ratings(ratings, title), path)


def ratings_json(ratings: Ratings) -> dict[str, Any]:
    """Return what `zerolab rate --json` prints.

    Everything is on the scale on which BayesElo shows Elo, except `elo_model` of a player and what
    is under `model`, which are on the model's own scale, and `scale` is the factor between both.
    `los` of a player lists its likelihoods of superiority over each player of the list.
    """
    likelihoods = ratings.los().tolist()
    players = [
        {**rating._asdict(), "los": likelihood}
        for rating, likelihood in zip(ratings.players, likelihoods, strict=True)
    ]
    model = ratings.model
    parameters = {"advantage": model.advantage, "draw_elo": model.draw_elo, "scale": model.scale}
    return {"advantage": ratings.advantage, "model": parameters, "players": players}


def ratings_csv(ratings: Ratings) -> str:
    """Return one line per player below a line of headings."""
    rows = (
        [rank, *(f"{x:.6g}" if isinstance(x, float) else x for x in rating)]
        for rank, rating in enumerate(ratings.players, start=1)
    )
    return csv_rows([["rank", *Rating._fields], *rows])


def ratings_table(ratings: Ratings) -> Table:
    """Return a table with one row per player, and a note on what the players have in common."""
    likelihoods = ratings.los()
    last = len(ratings.players) - 1
    rows: list[list[Cell]] = [
        [
            i + 1, rating.player, Interval(rating.elo, rating.low, rating.high),
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
        f"moving first is worth {ratings.advantage:+.1f} Elo; draw_elo"
        f" {ratings.model.draw_elo:.1f}; Elo as BayesElo shows it, repeated games counted once"
    )
    return Table("ratings", "", columns, rows, note)
