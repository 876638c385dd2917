"""Encoding: what a network sees of a state, and the symmetries by which training multiplies it.

Terms: see the glossary of `rules.interface`. Only `planes` and `encode` are required. Without the
rest a game has the identity as its only symmetry.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface
from zerolab.core.memory import copy_row
from zerolab.rules.interface import Game, State

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
