"""Network planes, symmetries, and the layout of actions on the board.

``docs/glossary.md`` defines the terms. Only `plane_count` and `encode` are required. By default,
the only symmetry of a game is the identity.
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

ENCODING_INTERFACE = CompiledInterface("game")

PlaceKind = Literal["cells", "columns", "rows"]


@ENCODING_INTERFACE.declare
def plane_count(game: Game) -> int:
    """Return the number of planes that `encode` writes."""
    raise AssertionError


@ENCODING_INTERFACE.declare
def encode(game: Game, state: State, out: NDArray[np.float32]) -> None:
    """Write the planes of a state to `out`, float32[planes, cells].

    Plane 0 is 1 for the mover's pieces, -1 for the opponent's and 0 for empty cells. Training
    permutes the cells of all planes with `transform_cell`.
    """
    raise AssertionError


@ENCODING_INTERFACE.declare
def symmetry_count(game: Game) -> int:
    """Return the number of symmetries of the rules, including the identity, which is number 0."""
    raise AssertionError


@ENCODING_INTERFACE.declare
def transform(game: Game, state: State, symmetry: int, out: State) -> None:
    """Write the image of a state under a symmetry to another array, `out`, uint64[words]."""
    raise AssertionError


@ENCODING_INTERFACE.declare
def transform_cell(game: Game, symmetry: int, cell: int) -> int:
    """Return the image of a cell under a symmetry."""
    raise AssertionError


@ENCODING_INTERFACE.declare
def transform_action(game: Game, symmetry: int, action: int) -> int:
    """Return the image of an action under a symmetry."""
    raise AssertionError


@inlined
def canonical_state(game, state, out, workspace):
    """Write the canonical state, the smallest image under all symmetries, to `out`.

    Returns the symmetry that maps `state` to it. States are compared word by word. `state`, `out`
    and `workspace` are distinct arrays, uint64[words].
    """
    copy_row(state, out)
    best = 0
    for symmetry in range(1, symmetry_count(game)):
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

    action_places: ClassVar[PlaceKind | None] = None
    """Places on the board to which the first actions correspond, in order.

    Other actions, such as a pass, have no place. None if actions do not correspond to places;
    fully convolutional networks cannot play these games (docs/transfer.md).
    """

    plane_names: ClassVar[tuple[str, ...]] = ("pieces",)
    """Distinct names of the first planes.

    Planes with the same name have the same meaning in different games, so a network can use one in
    place of the other. Planes without a name have a different meaning in each game.
    """

    @staticmethod
    def symmetry_count(game):
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
    """Layout of actions on the board, in which each of the first actions has one place."""

    places: PlaceKind
    """Places on the board: all its cells, columns or rows."""
    place_count: int
    """Number of places, each with one action."""
    placeless_count: int
    """Number of other actions, which have no place on the board, such as a pass."""


def action_layout(game: Game) -> ActionLayout:
    """Return the layout of a game's actions on the board.

    Raises UserError if the game does not declare a valid layout.
    """
    encoding, places = _encoding(game), _encoding(game).action_places
    rows, columns = game[:2]
    place_counts = {"cells": rows * columns, "columns": columns, "rows": rows}
    if places is None or places not in place_counts:
        raise UserError(
            f"{encoding.__name__}.action_places = {quoted(places)} does not assign actions to"
            f" places on the board: expected one of {', '.join(place_counts)}"
        )
    actions, needed = rules.action_count(game), place_counts[places]
    if needed > actions:
        raise UserError(
            f"{encoding.__name__}.action_places = {quoted(places)} needs {needed} actions on a"
            f" {rows}x{columns} board: expected a different kind of place for {actions} actions"
        )
    return ActionLayout(places, needed, actions - needed)


def plane_names(game: Game) -> tuple[str, ...]:
    """Return the names of the first planes of a game's encoding."""
    return _encoding(game).plane_names


def _encoding(game: Game) -> type[Encoding]:
    encoding: type[Encoding] = ENCODING_INTERFACE.implementation(type(game))
    return encoding
