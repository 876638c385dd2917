"""Available games, and their positions with boards, legal moves, lines and openings.

A position consists of a game and the names of its moves, optionally starting from a custom board.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.play.pairings import random_openings
from zerolab.rules.catalogue import game_name, notation_of, parse_game, registered_games
from zerolab.rules.encoding import action_layout
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.web.requests import RequestModel

router = APIRouter(tags=["games"])

_PIECES = {"X": 1, "O": -1, ".": 0}
_MAX_PLIES = 300

Winner = Literal["first", "second", "draw"]
MoveName = Annotated[str, Field(min_length=1, max_length=12)]


class SetUp(RequestModel):
    """Custom starting board."""

    board: list[Annotated[str, Field(max_length=26)]] = Field(max_length=26)
    """Rows from the top: X for the first player's pieces, O for the second's, . for none."""
    first_to_move: bool = True


class PositionRequest(RequestModel):
    """Game with the moves played so far."""

    game: str = Field(max_length=60)
    """Game name, such as othello:6x6."""
    moves: list[MoveName] = Field(default=[], max_length=_MAX_PLIES)
    set_up: SetUp | None = None
    """Starting board if it is not the game's initial position."""

    def position(self) -> Position:
        """Return the position; raise UserError for an unknown game or an illegal move."""
        game = parse_game(self.game)
        position = Position.start(game) if self.set_up is None else _set_up(game, self.set_up)
        for number, move in enumerate(self.moves, start=1):
            try:
                position = position.play(move)
            except UserError as error:
                raise UserError(f"move {number}: {error}") from None
        return position


class OpeningRequest(RequestModel):
    """Request for a random opening."""

    game: str = Field(max_length=60)
    plies: int = Field(ge=0, le=60)
    seed: int = Field(default=0, ge=0, lt=1 << 32)


class LegalMove(BaseModel):
    """Legal move."""

    name: str
    cell: int | None
    """Cell to click, numbered row by row; None for a pass or a column."""
    column: int | None
    """Column to click, in games whose moves are columns."""


class PositionResponse(BaseModel):
    """Position for display."""

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
    """Winner or draw; None while the game is ongoing."""
    legal: list[LegalMove]
    last: str | None
    last_cell: int | None
    """Cell of the last placed piece."""
    note: str
    """Explanation of a pass, or empty."""


class GameKind(BaseModel):
    """Kind of game with the bounds of its size parameters."""

    name: str
    sizes: dict[str, tuple[int, int]]
    defaults: dict[str, int]
    """Defaults of the parameters that names such as gobang:6x6:4 can omit."""
    example: str


@router.get("/games")
def games() -> list[GameKind]:
    """List all kinds of games, including plug-in games."""
    return [
        GameKind(
            name=name,
            sizes=entry.sizes(),
            defaults=dict(entry.kind._field_defaults),
            example=_example(name, entry.sizes()),
        )
        for name, entry in registered_games().items()
    ]


@router.post("/position")
def position(request: PositionRequest) -> PositionResponse:
    """Return the position after the moves."""
    return position_response(request.position())


@router.post("/line")
def line(request: PositionRequest) -> list[PositionResponse]:
    """Return all positions of a game, including the initial one."""
    return line_response(request.position())


@router.post("/opening")
def opening(request: OpeningRequest) -> PositionResponse:
    """Return an opening of uniformly random legal moves that does not end the game."""
    position = Position.start(request.game)
    keys = np.array([streams.stream(request.seed, 0, 0, 0, streams.ARENA_OPENING)], np.uint64)
    for action in random_openings(position.game, request.plies, keys)[0]:
        position = position.play(int(action))
    return position_response(position)


def position_response(position: Position, before: Position | None = None) -> PositionResponse:
    """Return a position for display; `before` is its predecessor, if the caller has it."""
    game, board = position.game, position.board()
    if before is None and position.history:
        before = position.line()[-2]
    labels = notation_of(game)
    return PositionResponse(
        game=game_name(game),
        rows=game[0],
        columns=game[1],
        moves=[position.name(action) for action in position.history],
        ply=position.ply,
        board=board.tolist(),
        column_labels=[labels.column_label(game, column) for column in range(game[1])],
        first_to_move=position.first_to_move,
        outcome=_winner(position),
        legal=_legal_moves(position),
        last=position.name(position.history[-1]) if position.history else None,
        last_cell=None if before is None else _new_piece(before.board(), board),
        note=_note(position),
    )


def line_response(position: Position) -> list[PositionResponse]:
    """Return all positions of a game, from the initial one to `position`."""
    line = position.line()
    return [
        position_response(each, before) for before, each in zip([None, *line], line, strict=False)
    ]


def _example(name: str, sizes: dict[str, tuple[int, int]]) -> str:
    """Return a game of medium size: 6x6 or the closest permitted size."""
    rows, columns = (min(max(6, low), high) for low, high in list(sizes.values())[:2])
    if name == "connect_four":
        columns = 7
    return game_name(parse_game(f"{name}:{rows}x{columns}"))


def _winner(position: Position) -> Winner | None:
    result = position.first_player_outcome
    if result is None:
        return None
    return "draw" if result == 0 else "first" if result > 0 else "second"


def _set_up(game: Game, request: SetUp) -> Position:
    rows = [row.strip() for row in request.board]
    invalid_rows = [row for row in rows if set(row) - _PIECES.keys() or len(row) != game[1]]
    if invalid_rows or len(rows) != game[0]:
        raise UserError(f"set_up.board: expected {game[0]} rows of {game[1]} cells X, O or .")
    board = np.array([[_PIECES[cell] for cell in row] for row in rows], np.int8)
    return Position.set_up(game, board, request.first_to_move)


def _legal_moves(position: Position) -> list[LegalMove]:
    over, places = "", 0
    with suppress(UserError):  # pages show the moves of games without a layout as buttons
        layout = action_layout(position.game)
        over, places = layout.over, layout.places
    return [
        LegalMove(
            name=position.name(action),
            cell=action if action < places and over == "cells" else None,
            column=action if action < places and over == "columns" else None,
        )
        for action in position.legal_actions
    ]


def _new_piece(before: NDArray[np.int8], after: NDArray[np.int8]) -> int | None:
    placed = np.flatnonzero((before.ravel() == 0) & (after.ravel() != 0))
    return int(placed[0]) if len(placed) == 1 else None


def _note(position: Position) -> str:
    """Return an explanation of a forced pass, now or in the last move, or ""."""
    mover, opponent = ("X", "O") if position.first_to_move else ("O", "X")
    if position.legal_moves == ["pass"]:
        return f"{mover} has no move that turns a disc and must pass."
    if position.history and position.name(position.history[-1]) == "pass":
        return f"{opponent} had no move and passed, so {mover} moves again."
    return ""
