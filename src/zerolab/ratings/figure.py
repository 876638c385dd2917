"""Ratings as a figure: one line per player, with its 95 % interval."""

from __future__ import annotations

import warnings
from pathlib import Path

from matplotlib.figure import Figure

from zerolab.core.errors import UserError
from zerolab.core.files import replacing
from zerolab.ratings.bayes import Ratings

_LONGEST_NAME = 40  # characters of a name


def draw_ratings(ratings: Ratings, title: str = "") -> Figure:
    """Draw the players from the strongest at the top to the weakest, with error bars."""
    players = ratings.players
    figure = Figure(figsize=(8, 1.4 + 0.26 * len(players)), layout="constrained")
    axes = figure.subplots()
    elos = [rating.elo for rating in players]
    margins = [rating.high - rating.elo for rating in players]
    rows = range(len(players))
    axes.errorbar(elos, rows, xerr=margins, fmt="o", markersize=4, capsize=3)
    # parse_math: a dollar sign in a name would begin a formula.
    axes.set_yticks(rows, [_shortened(each.player) for each in players], parse_math=False)
    axes.set_ylim(len(players) - 0.5, -0.5)
    axes.set_xlabel("Elo with 95 % intervals")
    axes.grid(axis="x", alpha=0.3)
    if title:
        axes.set_title(title, parse_math=False)
    return figure


def save_ratings(ratings: Ratings, path: Path, title: str = "") -> None:
    """Write the figure to a file whose ending names its format; raise UserError if impossible."""
    figure = draw_ratings(ratings, title)
    ending = path.suffix[1:].lower()
    if ending not in figure.canvas.get_supported_filetypes():
        raise UserError(f'"{path}": expected an ending such as .png, .svg or .pdf')
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font lacks
        figure.savefig(temporary, dpi=120, format=ending)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
