"""Encoding: network planes, symmetries, and the layout of actions on the board.

Terms: see the glossary of `rules.rules`. Only `planes` and `encode` are required; by default the
identity is the only symmetry of a game.
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
    """Return the image of a cell under a symmetry."""
    raise AssertionError


@ENCODINGS.function
def transform_action(game: Game, symmetry: int, action: int) -> int:
    """Return the image of an action under a symmetry."""
    raise AssertionError


@inlined
def smallest_image(game, state, out, workspace):
    """Write the smallest symmetric image of a state, word by word; return the symmetry to it.

    `out` and `workspace` are other arrays uint64[words].
    """
    copy_row(state, out)
    chosen = 0
    for symmetry in range(1, symmetries(game)):
        transform(game, state, symmetry, workspace)
        if _precedes(workspace, out):
            copy_row(workspace, out)
            chosen = symmetry
    return chosen


@inlined
def _precedes(one, other):
    """Return whether a state is smaller than another one, compared word by word."""
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return one[word] < other[word]
    return False


class Encoding:
    """Base of a game's encoding: no symmetry but the identity."""

    actions_over: ClassVar[Places | None] = None
    """Places on the board that the first actions stand for, in order: its cells, columns or rows.
    Actions beyond them, such as a pass, have no place. None for games whose actions are laid out in
    no such way, which fully convolutional networks cannot play (docs/transfer.md)."""

    plane_names: ClassVar[tuple[str, ...]] = ("pieces",)
    """Names of the first planes, all different. Planes of two games with the same name have the
    same meaning, so that a network can take one for the other. Planes without a name mean something
    different in each game."""

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
    """The places of actions: the first ones belong to one place of the board each, in order."""

    over: Places
    """The kind of place: cells, columns or rows."""
    places: int
    """The number of these places, and of their actions."""
    others: int
    """The number of further actions, without a place on the board, such as a pass."""


def action_layout(game: Game) -> ActionLayout:
    """Return the layout of a game's actions on the board.

    Raises UserError if the game does not declare one, or an impossible one.
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
