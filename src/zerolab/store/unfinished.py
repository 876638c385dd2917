"""Games that go on in the next iteration, on disk: their moves so far, and who made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zerolab.store.checks import damaged, reading
from zerolab.store.examples import Examples, load_examples, save_examples
from zerolab.store.games import GameRecord, check_cells

_GAMES = "games"


class Unfinished(NamedTuple):
    """Games that are still to be finished, and what their moves so far have left."""

    games: tuple[GameRecord, ...]
    """By number. A game of which no move has been played has not begun. The result is 0."""
    moves: Examples
    """One row per move, as for finished games; what only the end of a game tells is 0."""


def save_unfinished(path: Path, unfinished: Unfinished, **about: Any) -> None:
    """Write an npz file as `save_examples` does; the games are among the facts about it."""
    games = [(game.number, game.first, game.second, game.movers) for game in unfinished.games]
    save_examples(path, unfinished.moves, None, **{_GAMES: games}, **about)


def load_unfinished(path: Path) -> tuple[Unfinished, dict[str, Any]]:
    """Return the games of a file and the facts about them; see `load_examples` for the errors."""
    moves, about = load_examples(path)
    with reading(path):
        games = tuple(_game(moves, *fields) for fields in about.pop(_GAMES))
        played = sum(len(game.actions) for game in games)
        if played != len(moves.games) or list(games) != sorted(games):
            raise damaged(path, "its games and their moves do not match each other")
    return Unfinished(games, moves), about


def _game(
    moves: Examples, number: int, first: str, second: str, movers: list[tuple[int, str]]
) -> GameRecord:
    check_cells([(number, first, second)], (int, str, str))
    check_cells(movers, (int, str))
    rows = slice(*np.searchsorted(moves.games, (number, number + 1)))
    if not np.array_equal(moves.plies[rows], np.arange(rows.stop - rows.start)):
        raise ValueError(f"moves of game {number} are missing")
    stretches = tuple((ply, name) for ply, name in movers)
    actions = tuple(moves.actions[rows].tolist())
    return GameRecord(number, first, second, actions, 0, stretches)
