"""`zerolab rate`: Bayesian Elo of the players of some games."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import print_data, say, table_console
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.play.records import Records, read_records
from zerolab.ratings.bayes import rate
from zerolab.ratings.report import as_csv, as_json, as_table


def rate_files(
    files: tyro.conf.Positional[tuple[Path, ...]] = (),
    *,
    json: bool = False,
    csv: bool = False,
    figure: Path | None = None,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> None:
    """Rate players by the games they played: Bayesian Elo with 95 % intervals.

    Games come from PGN files (tags White, Black and Result; White moves first), from the
    games.sqlite of runs and tournaments, or from folders that hold one. The mean of all players
    is 0.

    Examples:
      zerolab rate games.pgn
      zerolab rate runs/demo --figure ratings.png
      zerolab rate one.pgn two.pgn --json
      zerolab rate games.pgn --advantage 0 --draw-elo 97.3

    Args:
        files: PGN files, games.sqlite files, or folders that hold one.
        json: Print {"advantage": a, "draw_elo": d, "players": [{"player": name, "elo": e, ...}]}.
        csv: Print comma-separated values.
        figure: Also draw the ratings to this file, such as ratings.png or ratings.svg.
        advantage: What moving first is worth, in Elo; fitted by default.
        draw_elo: How likely draws are, in Elo as BayesElo's drawelo; fitted by default.
    """
    if not files:
        raise UserError(
            "no files: expected PGN files or games.sqlite, as in zerolab rate games.pgn"
        )
    if json and csv:
        raise UserError("--json and --csv: expected one of them")
    records = read_records(files)
    ratings = rate(records.results, advantage=advantage, draw_elo=draw_elo)
    if figure is not None:
        from zerolab.ratings.figure import save_ratings

        save_ratings(ratings, figure)
    if json:
        print(json_format.dumps(as_json(ratings)))
    elif csv:
        print_data(as_csv(ratings))
    else:
        table_console().print(as_table(ratings), highlight=False)
    _tell_left_out(records)


def _tell_left_out(records: Records) -> None:
    """Say on standard error which games do not count."""
    for count, kind in ((records.unfinished, "unfinished"), (records.against_itself, "self-play")):
        if count:
            games = "game" if count == 1 else "games"
            say(f"zerolab: left out {count} {kind} {games}", error=True)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and rate."""
    call(rate_files, "rate", arguments)
