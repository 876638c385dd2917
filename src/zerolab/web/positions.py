"""Positions as pages send and show them: a game and moves by name, perhaps from a set-up board."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name, notation_of, parse_game
from zerolab.rules.encoding import action_layout
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

_PIECES = {"X": 1, "O": -1, ".": 0}
_WINNERS: dict[int | None, Winner | None]
_MOST_PLIES = 300

Winner = Literal["first", "second", "draw"]
MoveName = Annotated[str, Field(min_length=1, max_length=12)]


class RequestModel(BaseModel):
    """Base of what requests say; what is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SetUp(RequestModel):
    """Pieces that somebody has put on a board."""

    board: list[Annotated[str, Field(max_length=26)]] = Field(max_length=26)
    """The rows from the top: X for the first player's pieces, O for the second's, . for none."""
    first_to_move: bool = True


class PositionRequest(RequestModel):
    """A game and the moves that have been played in it."""

    game: str = Field(max_length=60)
    """Such as othello:6x6."""
    moves: list[MoveName] = Field(default=[], max_length=_MOST_PLIES)
    set_up: SetUp | None = None
    """Where the moves begin, if not with the first position."""

    def position(self) -> Position:
        """Return the position; raise UserError for moves that are not legal, and for no game."""
        game = parse_game(self.game)
        at = Position.start(game) if self.set_up is None else _set_up(game, self.set_up)
        for number, move in enumerate(self.moves, start=1):
            try:
                at = at.play(move)
            except UserError as error:
                raise UserError(f"move {number}: {error}") from None
        return at


class LegalMove(BaseModel):
    """A move that can be played."""

    name: str
    cell: int | None
    """The cell of the board that is clicked for it, row by row; None for a pass."""
    column: int | None
    """The column that is clicked for it, in games whose moves are columns."""


class PositionResponse(BaseModel):
    """A position for a page."""

    game: str
    rows: int
    columns: int
    moves: list[str]
    ply: int
    board: list[list[int]]
    """[rows][columns]: 1 for the first player's pieces, -1 for the second's, 0 for none."""
    column_labels: list[str]
    first_to_move: bool
    outcome: Winner | None
    """Who has won; None while the game goes on."""
    legal: list[LegalMove]
    last: str | None
    last_cell: int | None
    """Where the piece lies that was placed last."""
    note: str
    """What a player may wonder about, such as why there is only a pass; or empty."""


def position_response(position: Position, before: Position | None = None) -> PositionResponse:
    """Return a position for a page; `before` is the one before its last move, if it is known."""
    game, board = position.game, position.board()
    if before is None and position.history:
        before = position.line()[-2]
    labels = notation_of(game)
    return PositionResponse(
        game=game_name(game),
        rows=game[0],
        columns=game[1],
        moves=move_names(position),
        ply=position.ply,
        board=board.tolist(),
        column_labels=[labels.column_label(game, column) for column in range(game[1])],
        first_to_move=position.first_to_move,
        outcome=winner(position),
        legal=_legal(position),
        last=position.name(position.history[-1]) if position.history else None,
        last_cell=None if before is None else _new_piece(before.board(), board),
        note=_note(position),
    )


def line_response(position: Position) -> list[PositionResponse]:
    """Return all positions of a game, from the first one on."""
    line = position.line()
    return [position_response(at, before) for before, at in zip([None, *line], line, strict=False)]


def move_names(position: Position) -> list[str]:
    """Return the names of the moves that led to a position."""
    return [position.name(action) for action in position.history]


def winner(position: Position) -> Winner | None:
    """Return who has won; None while the game goes on."""
    result = position.first_player_outcome
    if result is None:
        return None
    return "draw" if result == 0 else "first" if result > 0 else "second"


def _set_up(game: Game, asked: SetUp) -> Position:
    rows = [row.strip() for row in asked.board]
    wrong = [row for row in rows if set(row) - _PIECES.keys() or len(row) != game[1]]
    if wrong or len(rows) != game[0]:
        raise UserError(f"set_up.board: expected {game[0]} rows of {game[1]} cells X, O or .")
    board = np.array([[_PIECES[cell] for cell in row] for row in rows], np.int8)
    return Position.set_up(game, board, asked.first_to_move)


def _legal(position: Position) -> list[LegalMove]:
    places = _places(position.game)
    return [
        LegalMove(name=position.name(action), **_place(places, action))
        for action in position.legal_actions
    ]


def _places(game: Game) -> tuple[str, int]:
    """Return what a game's actions stand for on the board, and how many of them."""
    try:
        layout = action_layout(game)
    except UserError:  # a game that does not say: its moves are buttons
        return "", 0
    return layout.over, layout.places


def _place(places: tuple[str, int], action: int) -> dict[str, Any]:
    over, count = places
    on_board = action < count
    return {
        "cell": action if on_board and over == "cells" else None,
        "column": action if on_board and over == "columns" else None,
    }


def _new_piece(before: NDArray[np.int8], after: NDArray[np.int8]) -> int | None:
    placed = np.flatnonzero((before.ravel() == 0) & (after.ravel() != 0))
    return int(placed[0]) if len(placed) == 1 else None


def _note(position: Position) -> str:
    """Say why the game has ended, or that there is nothing to do but pass."""
    mover, other = ("X", "O") if position.first_to_move else ("O", "X")
    if position.legal_moves == ["pass"]:
        return f"{mover} has no move that turns a disc, and has to pass."
    if position.history and position.name(position.history[-1]) == "pass":
        return f"{other} had no move and has passed: {mover} moves again."
    return ""
