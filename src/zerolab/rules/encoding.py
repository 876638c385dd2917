"""Network planes, symmetries, and the layout of actions on the board.

`rules.rules` has a glossary. Only `planes` and `encode` are required. By default, the only symmetry
of a game is the identity.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface, inlined
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
    """Write the planes of a state to `out`, float32[planes, cells].

    Plane 0 is 1 for the mover's pieces, -1 for the opponent's and 0 for empty cells. Training
    permutes the cells of all planes with `transform_cell`.
    """
    raise AssertionError


@ENCODINGS.function
def symmetries(game: Game) -> int:
    """Return the number of symmetries of the rules, including the identity, which is number 0."""
    raise AssertionError


@ENCODINGS.function
def transform(game: Game, state: State, symmetry: int, out: State) -> None:
    """Write the image of a state under a symmetry to `out`, uint64[words], a different array."""
    raise AssertionError


@ENCODINGS.function
def transform_cell(game: Game, symmetry: int, cell: int) -> int:
    """Return the image of a cell under a symmetry."""
    raise AssertionError


@ENCODINGS.function
def transform_action(game: Game, symmetry: int, action: int) -> int:
    """Return the image of an action under a symmetry."""
    raise AssertionError


@inlined
def smallest_image(game, state, out, workspace):
    """Write the smallest image of a state under all symmetries to `out`; return its symmetry.

    States are compared word by word. `state`, `out` and `workspace` are different uint64[words].
    """
    copy_row(state, out)
    best = 0
    for symmetry in range(1, symmetries(game)):
        transform(game, state, symmetry, workspace)
        if _precedes(workspace, out):
            copy_row(workspace, out)
            best = symmetry
    return best


@inlined
def _precedes(one, other):
    """Return True if one state is smaller than another, compared word by word."""
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return one[word] < other[word]
    return False


class Encoding:
    """Base class of encodings, with the identity as the only symmetry."""

    actions_over: ClassVar[Places | None] = None
    """Places on the board to which the first actions correspond, in order.

    Further actions, such as a pass, have no place. None if actions do not correspond to places;
    fully convolutional networks cannot play these games (docs/transfer.md).
    """

    plane_names: ClassVar[tuple[str, ...]] = ("pieces",)
    """Distinct names of the first planes.

    Planes with the same name have the same meaning in different games, so a network can use one for
    the other. Planes without a name have a different meaning in each game.
    """

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
    """Layout of actions on the board; each of the first actions corresponds to one place."""

    over: Places
    """Kind of place."""
    places: int
    """Number of places and of actions that correspond to them."""
    others: int
    """Number of further actions without a place on the board, such as a pass."""


def action_layout(game: Game) -> ActionLayout:
    """Return the layout of a game's actions on the board.

    Raises UserError if the game does not declare a valid layout.
    """
    encoding, over = _encoding(game), _encoding(game).actions_over
    rows, columns = game[:2]
    sizes = {"cells": rows * columns, "columns": columns, "rows": rows}
    if over is None or over not in sizes:
        raise UserError(
            f"{encoding.__name__}.actions_over = {quoted(over)} does not assign actions to places"
            f" on the board: expected one of {', '.join(sizes)}"
        )
    actions = rules.actions(game)
    if sizes[over] > actions:
        raise UserError(
            f"{encoding.__name__}.actions_over = {quoted(over)} needs {sizes[over]} actions on a"
            f" {rows}x{columns} board: expected a different kind of place for {actions} actions"
        )
    return ActionLayout(over, sizes[over], actions - sizes[over])


def plane_names(game: Game) -> tuple[str, ...]:
    """Return the names of the first planes of a game's encoding."""
    return _encoding(game).plane_names


def _encoding(game: Game) -> type[Encoding]:
    encoding: type[Encoding] = ENCODINGS.implementation(type(game))
    return encoding
