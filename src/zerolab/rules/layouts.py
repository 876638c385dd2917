"""How a game's actions and planes lie on the board: what fully convolutional networks go by."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.rules import interface as rules
from zerolab.rules.encoding import ENCODINGS, Encoding, Places
from zerolab.rules.interface import Game


class ActionLayout(NamedTuple):
    """Where actions take place: the first ones on the board, one in each place, in order."""

    over: Places
    """What the places are: the cells, the columns or the rows."""
    places: int
    """How many of them the board has, and so how many actions."""
    others: int
    """How many actions follow that take place nowhere on the board, such as passing."""


def action_layout(game: Game) -> ActionLayout:
    """Return how a game's actions lie on the board.

    Raises UserError where the game does not say, or says what cannot be.
    """
    encoding, over = _encoding(game), _encoding(game).actions_over
    rows, columns = game[:2]
    sizes = {"cells": rows * columns, "columns": columns, "rows": rows}
    if over is None or over not in sizes:
        raise UserError(
            f"{encoding.__name__}.actions_over = {quoted(over)} does not say where on the board"
            f" actions take place: expected one of {', '.join(sizes)}"
        )
    actions = rules.actions(game)
    if sizes[over] > actions:
        raise UserError(
            f"{encoding.__name__}.actions_over = {quoted(over)} needs {sizes[over]} actions on a"
            f" board of {rows}x{columns}: expected something else in a game with {actions}"
        )
    return ActionLayout(over, sizes[over], actions - sizes[over])


def plane_names(game: Game) -> tuple[str, ...]:
    """Return the names of the first planes of a game's encoding."""
    return _encoding(game).plane_names


def _encoding(game: Game) -> type[Encoding]:
    found: type[Encoding] = ENCODINGS.implementation(type(game))
    return found
