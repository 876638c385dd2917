"""Ratings as a figure: one line per player, with its 95 % interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zerolab.core.figures import new_figure, save_figure, shortened
from zerolab.ratings.bayes import Ratings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_DRAWN = 300
"""A figure has as many lines; those of thousands are too large to be made."""


def draw_ratings(ratings: Ratings, title: str = "") -> Figure:
    """Draw the players from the strongest at the top to the weakest, with error bars."""
    players = ratings.players[:_MOST_DRAWN]
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
    of_all = f", the {_MOST_DRAWN} strongest of {len(ratings.players):,}" if others else ""
    axes.set_xlabel(f"Elo with 95 % intervals{of_all}")
    axes.grid(axis="x", alpha=0.3)
    if title:
        axes.set_title(title, parse_math=False)
    return figure


def save_ratings(ratings: Ratings, path: Path, title: str = "") -> None:
    """Write the figure to a file whose ending names its format; raise UserError if impossible."""
    save_figure(draw_ratings(ratings, title), path)
