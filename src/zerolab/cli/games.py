"""`zerolab games` and `zerolab perft`: a list of games, and checks of the rules of a game."""

from __future__ import annotations

import json as json_format
import time
from typing import Any

import tyro

from zerolab.cli.output import Console, say
from zerolab.core.errors import UserError
from zerolab.report.interval import Cell
from zerolab.report.table import Table
from zerolab.report.text import print_table
from zerolab.rules import encoding, rules
from zerolab.rules.catalogue import GameRegistration, parse_game, registered_games
from zerolab.rules.compiled_rules import perft


def games(*, json: bool = False) -> None:
    """List the games with their sizes, and with the actions and symmetries of the usual size.

    Commands use the usual size if their argument is only the name, as in zerolab train othello.

    Example: zerolab games --json

    Args:
        json: Print a JSON list instead of a table.
    """
    rows = [_describe(name, entry) for name, entry in registered_games().items()]
    if json:
        print(json_format.dumps(rows))
    else:
        print_table(Console(), _table(rows))


def _describe(name: str, entry: GameRegistration) -> dict[str, Any]:
    """Return the name pattern and sizes of a game, and facts about the game of the usual size."""
    sizes = entry.field_bounds()
    optional = [f"[:{field.upper()}]" for field in list(sizes)[2:]]
    example: Any = entry.usual_game()
    return {
        "name": name,
        "form": f"{name}:ROWSxCOLUMNS{''.join(optional)}",
        "sizes": {field: list(bounds) for field, bounds in sizes.items()},
        "defaults": dict(entry.game_type._field_defaults),
        "example": f"{name}:{example.rows}x{example.columns}",
        "actions": int(rules.action_count(example)),
        "symmetries": int(encoding.symmetry_count(example)),
        "planes": int(encoding.plane_count(example)),
    }


def _table(entries: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for each in entries:
        defaults = {name: f" (default {value})" for name, value in each["defaults"].items()}
        sizes = ", ".join(
            f"{field} {low}..{high}{defaults.get(field, '')}"
            for field, (low, high) in each["sizes"].items()
        )
        rows.append([each["form"], sizes, each["example"], each["actions"], each["symmetries"]])
    return Table("games", "", ["game", "sizes", "usual", "actions", "symmetries"], rows)


_DEEPEST = 1000


def count_move_sequences(
    game: tyro.conf.Positional[str], depth: tyro.conf.Positional[int], *, json: bool = False
) -> None:
    """Count the move sequences of 1 to DEPTH plies, including passes, and the games that end there.

    Example: zerolab perft othello:6x6 8 --json

    Args:
        game: Game, such as othello:6x6 or connect_four:6x7.
        depth: Maximum number of plies.
        json: Print [{"depth": d, "leaves": n, "ended": m}, ...].
    """
    if not 1 <= depth <= _DEEPEST:
        raise UserError(f"depth = {depth}: expected at least 1 and at most {_DEEPEST}")
    began = time.perf_counter()
    counts = []
    for each in perft(parse_game(game), depth):
        counts.append(each._asdict())
        if not json:
            seconds = time.perf_counter() - began
            say(
                f"{each.depth:3} {each.leaves:15,} sequences, {each.ended:,} ended, {seconds:.2f} s"
            )
    if json:
        print(json_format.dumps(counts))
