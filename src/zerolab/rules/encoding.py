"""Encoding: network planes, symmetries, and the layout of actions on the board.

Terms: see the glossary of `rules.rules`. Only `planes` and `encode` are required. Without the
rest a game has the identity as its only symmetry.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface
from zerolab.core.errors import UserError, quoted
from zerolab.core.memory import copy_row
from zerolab.rules import rules
from zerolab.rules.rules import Game, State

ENCODINGS = CompiledInterface("game")

Places = Literal["cells", "columns", "rows"]


@ENCODINGS.function
def planes(game: Game) -> int:
    """Return the number of planes that `encode` writes."""
    raise AssertionError


@ENCODINGS.function
def encode(game: Game, state: State, out: NDArray[np.float32]) -> None:
    """Write the planes of a state into `out`, float32[planes, cells].

    Plane 0 holds +1 for the mover's pieces, -1 for the other player's and 0 elsewhere. All planes
    consist of cells: training permutes them by `transform_cell`.
    """
    raise AssertionError


@ENCODINGS.function
def symmetries(game: Game) -> int:
    """Return the number of symmetries of the rules, the identity (number 0) included."""
    raise AssertionError


@ENCODINGS.function
def transform(game: Game, state: State, symmetry: int, out: State) -> None:
    """Write the image of a state under a symmetry; `out`, uint64[words], must not be `state`."""
    raise AssertionError


@ENCODINGS.function
def transform_cell(game: Game, symmetry: int, cell: int) -> int:
    """Return the cell to which a symmetry moves a cell."""
    raise AssertionError


@ENCODINGS.function
def transform_action(game: Game, symmetry: int, action: int) -> int:
    """Return the action that an action becomes under a symmetry."""
    raise AssertionError


class Encoding:
    """Base of a game's encoding: no symmetry but the identity."""

    actions_over: ClassVar[Places | None] = None
    """What the first actions stand for: the cells of the board in their order, its columns or its
    rows. Actions beyond them, such as passing, take place nowhere. None for a game whose actions
    lie in no such way; fully convolutional networks need one that does (docs/transfer.md)."""

    plane_names: ClassVar[tuple[str, ...]] = ("pieces",)
    """What the first planes show, each by a name of its own: planes of two games that have the same
    name mean the same, and a network can take the one for the other. Planes without a name mean
    something else in every game."""

    @staticmethod
    def symmetries(game):
        return 1

    @staticmethod
    def transform(game, state, symmetry, out):
        copy_row(state, out)

    @staticmethod
    def transform_cell(game, symmetry, cell):
        return cell

    @staticmethod
    def transform_action(game, symmetry, action):
        return action


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
