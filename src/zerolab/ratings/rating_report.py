"""Reports on ratings: table, CSV, JSON and figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from zerolab.core.errors import printable
from zerolab.ratings.bayes import Rating, Ratings
from zerolab.report.figures import new_figure, save_figure, shortened

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
    """Return a line of headings and one line per player."""
    lines = [_csv_line(["rank", *Rating._fields])]
    for rank, rating in enumerate(ratings.players, start=1):
        numbers = [f"{x:.6g}" if isinstance(x, float) else x for x in rating[1:]]
        lines.append(_csv_line([rank, rating.player, *numbers]))
    return "".join(lines)


def _csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO(newline="")
    end = "\r\n"  # the module quotes no other line breaks than those that end its lines
    csv.writer(text, lineterminator=end).writerow(cells)
    return text.getvalue().removesuffix(end) + "\n"


def ratings_table(ratings: Ratings) -> Table:
    """Return a table with a line per player, captioned with advantage and draw_elo."""
    table = Table(box=None, header_style="bold", caption_justify="left", caption=_caption(ratings))
    table.add_column("rank", justify="right")
    table.add_column("player")
    for heading in ("Elo", "95 % interval", "stronger than next", "games", "distinct",
                    "score rate", "draws", "opponents"):  # fmt: skip
        table.add_column(heading, justify="right")
    likelihoods = ratings.los()
    last = len(ratings.players) - 1
    for i, rating in enumerate(ratings.players):
        table.add_row(
            str(i + 1),
            Text(printable(rating.player)),
            f"{rating.elo:+.0f}",
            f"{rating.low:+.0f} to {rating.high:+.0f}",
            f"{likelihoods[i, i + 1]:.1%}" if i < last else "",
            str(rating.games),
            str(rating.distinct_games),
            f"{rating.score_rate:.1%}",
            f"{rating.draw_rate:.1%}",
            f"{rating.opponents:+.0f}",
        )
    return table


def _caption(ratings: Ratings) -> Text:
    return Text(
        f"moving first is worth {ratings.advantage:+.1f} Elo; draw_elo"
        f" {ratings.model.draw_elo:.1f}; Elo as BayesElo shows it, repeated games counted once"
    )
