"""Ratings for people and programs: a table, CSV and JSON."""

from __future__ import annotations

import csv
import io
from typing import Any

from rich.table import Table
from rich.text import Text

from zerolab.ratings.bayes import Ratings


def as_json(ratings: Ratings) -> dict[str, Any]:
    """Return what `zerolab rate --json` prints.

    Elo, advantage and draw_elo are on the model's own scale. `scaled` is the Elo that BayesElo
    would show, and `los` how likely the player is stronger than each, in the same order.
    """
    likelihoods = ratings.los().tolist()
    players = [
        {**rating._asdict(), "scaled": ratings.scale * rating.elo, "los": likelihood}
        for rating, likelihood in zip(ratings.players, likelihoods, strict=True)
    ]
    return {"advantage": ratings.advantage, "draw_elo": ratings.draw_elo, "players": players}


def as_csv(ratings: Ratings) -> str:
    """Return one line a player below a line of headings."""
    text = io.StringIO()
    names = [*ratings.players[0]._fields, "scaled"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", *names])
    for rank, rating in enumerate(ratings.players, start=1):
        numbers = [*rating[1:], ratings.scale * rating.elo]
        shown = [f"{x:.6g}" if isinstance(x, float) else x for x in numbers]
        writer.writerow([rank, rating.player, *shown])
    return text.getvalue()


def as_table(ratings: Ratings) -> Table:
    """Return a table with a line a player and a caption about what they have in common."""
    table = Table(box=None, header_style="bold", caption_justify="left", caption=_caption(ratings))
    table.add_column("rank", justify="right")
    table.add_column("player")
    for heading in ("Elo", "95 % interval", "stronger than next", "games", "score", "draws",
                    "opponents", "scaled"):  # fmt: skip
        table.add_column(heading, justify="right")
    likelihoods = ratings.los()
    last = len(ratings.players) - 1
    for i, rating in enumerate(ratings.players):
        table.add_row(
            str(i + 1),
            Text(rating.player),
            f"{rating.elo:+.0f}",
            f"{rating.low:+.0f} to {rating.high:+.0f}",
            f"{likelihoods[i, i + 1]:.1%}" if i < last else "",
            str(rating.games),
            f"{rating.score:.1%}",
            f"{rating.draws:.1%}",
            f"{rating.opponents:+.0f}",
            f"{ratings.scale * rating.elo:+.0f}",
        )
    return table


def _caption(ratings: Ratings) -> Text:
    return Text(
        f"moving first is worth {ratings.advantage:+.1f} Elo; draw_elo {ratings.draw_elo:.1f};"
        f" scaled: as BayesElo shows Elo, times {ratings.scale:.3f}"
    )
