"""Available games, and positions with their boards, legal moves and histories.

A request describes a position by a game and the names of the moves played, optionally from a custom
starting board.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.play.pairings import random_openings
from zerolab.report.board_shapes import BoardShapes, BoardStyle
from zerolab.rules.catalogue import (
    board_drawing,
    game_name,
    parse_game,
    registered_games,
)
from zerolab.rules.encoding import action_layout
from zerolab.rules.position import (
    Position,
    column_labels,
    game_board_shapes,
    placed_cell,
    winning_cells,
)
from zerolab.rules.rules import Game
from zerolab.web.requests import RequestModel

router = APIRouter(tags=["games"])

_PIECES = {"X": 1, "O": -1, ".": 0}
_MAX_PLIES = 300

Winner = Literal["first", "second", "draw"]
WINNERS: dict[int, Winner] = {1: "first", -1: "second", 0: "draw"}
"""Winner by the outcome for the first player."""
MoveName = Annotated[str, Field(min_length=1, max_length=12)]


class StartingBoardRequest(RequestModel):
    """Custom starting board."""

    board: list[Annotated[str, Field(max_length=26)]] = Field(max_length=26)
    """Rows from top to bottom: X for the first player's pieces, O for the second's, . if empty."""
    first_to_move: bool = True
    """True if the first player moves next."""


class PositionRequest(RequestModel):
    """Game with the moves played so far."""

    game: str = Field(max_length=60)
    """Game name, such as othello:6x6."""
    moves: list[MoveName] = Field(default=[], max_length=_MAX_PLIES)
    starting_board: StartingBoardRequest | None = None
    """Starting board, if it differs from the game's initial position."""

    def position(self) -> Position:
        """Return the position; raise UserError for an unknown game or an illegal move."""
        game = parse_game(self.game)
        position = (
            Position.start(game)
            if self.starting_board is None
            else _position_of_board(game, self.starting_board)
        )
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
    """Number of moves."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)


class LegalMove(BaseModel):
    """Legal move."""

    name: str
    cell: int | None
    """Cell to click, numbered row by row; None for a pass or a column."""
    column: int | None
    """Column to click in games whose moves are columns; otherwise None."""


class PositionResponse(BaseModel):
    """Position for display."""

    game: str
    rows: int
    columns: int
    moves: list[str]
    """Moves played so far."""
    ply: int
    """Number of moves before the position."""
    board: list[list[int]]
    """[rows][columns]: 1 for the first player's pieces, -1 for the second player's, 0 for none."""
    column_labels: list[str]
    first_to_move: bool
    """True if the first player moves next."""
    result: Winner | None
    """Winner or draw; None while the game is ongoing."""
    legal_moves: list[LegalMove]
    """Legal moves."""
    last_move: str | None
    """Last move; None if no move has been played."""
    last_cell: int | None
    """Cell of the last placed piece."""
    winning_cells: list[int]
    """Cells of the winning line or chain; empty if there is none."""
    drawing: BoardStyle
    shapes: BoardShapes | None
    """Geometry of the board. In a list of positions, only the first one includes it."""
    pass_note: str
    """Explanation of a pass; empty if there is none."""


class GameFamily(BaseModel):
    """Game with the bounds of its size parameters, such as gobang on boards of any size."""

    name: str
    """Name without sizes, such as gobang."""
    sizes: dict[str, tuple[int, int]]
    """Lower and upper bound of each size parameter, in the order used in game names."""
    defaults: dict[str, int]
    """Default of each size parameter: with the length 4, gobang:6x6 means gobang:6x6:4."""
    example: str
    """Name with sizes, such as gobang:6x6."""


@router.get("/games")
def game_families() -> list[GameFamily]:
    """List all games with the bounds of their sizes, including plug-in games."""
    return [
        GameFamily(
            name=name,
            sizes=entry.field_bounds(),
            defaults=entry.default_game()._asdict() | entry.game_type._field_defaults,
            example=_example(name, entry.field_bounds()),
        )
        for name, entry in registered_games().items()
    ]


@router.post("/position")
def position(request: PositionRequest) -> PositionResponse:
    """Return the position after the moves."""
    return position_response(request.position())


@router.post("/line")
def positions(request: PositionRequest) -> list[PositionResponse]:
    """Return all positions of a game, from the initial position to the one after the moves."""
    return position_responses(request.position())


@router.post("/opening")
def random_opening(request: OpeningRequest) -> PositionResponse:
    """Return the position after uniformly random legal moves that do not end the game."""
    position = Position.start(request.game)
    keys = np.array([streams.stream_key(request.seed, 0, 0, 0, streams.MATCH_OPENING)], np.uint64)
    for action in random_openings(position.game, request.plies, keys)[0]:
        position = position.play(int(action))
    return position_response(position)


def position_response(position: Position, before: Position | None = None) -> PositionResponse:
    """Convert a position to a response; `before` is the previous position, if known."""
    game, board = position.game, position.board()
    if before is None and position.history:
        before = position.positions_so_far()[-2]
    drawing = board_drawing(game)
    return PositionResponse(
        game=game_name(game),
        rows=game[0],
        columns=game[1],
        moves=[position.action_name(action) for action in position.history],
        ply=position.ply,
        board=board.tolist(),
        column_labels=column_labels(game),
        first_to_move=position.first_to_move,
        result=_winner(position),
        legal_moves=_legal_moves(position),
        last_move=position.action_name(position.history[-1]) if position.history else None,
        last_cell=None if before is None else placed_cell(before.board(), board),
        winning_cells=(winning_cells(game, position.state) if drawing.decided_by == "line" else []),
        drawing=drawing,
        shapes=game_board_shapes(game),
        pass_note=_pass_note(position),
    )


def position_responses(position: Position) -> list[PositionResponse]:
    """Return all positions of a game, from the initial position to `position`.

    Only the first one contains the shapes of the board.
    """
    line = position.positions_so_far()
    following = (position_response(each, before) for before, each in pairwise(line))
    return [
        position_response(line[0]),
        *(each.model_copy(update={"shapes": None}) for each in following),
    ]


def _example(name: str, sizes: dict[str, tuple[int, int]]) -> str:
    """Return a game name of medium size: 6x6 (Connect Four: 6x7) or the closest valid size."""
    rows, columns = (min(max(6, low), high) for low, high in list(sizes.values())[:2])
    if name == "connect_four":
        columns = 7
    return game_name(parse_game(f"{name}:{rows}x{columns}"))


def _winner(position: Position) -> Winner | None:
    result = position.first_player_outcome
    return None if result is None else WINNERS[result]


def _position_of_board(game: Game, request: StartingBoardRequest) -> Position:
    rows = [row.strip() for row in request.board]
    invalid_rows = [row for row in rows if set(row) - _PIECES.keys() or len(row) != game[1]]
    if invalid_rows or len(rows) != game[0]:
        raise UserError(
            f"starting_board.board: expected {game[0]} rows of {game[1]} cells X, O or ."
        )
    board = np.array([[_PIECES[cell] for cell in row] for row in rows], np.int8)
    return Position.set_up(game, board, request.first_to_move)


def _legal_moves(position: Position) -> list[LegalMove]:
    places, place_count = "", 0
    with suppress(UserError):  # without a layout, pages show the moves as buttons
        layout = action_layout(position.game)
        places, place_count = layout.places, layout.place_count
    return [
        LegalMove(
            name=position.action_name(action),
            cell=action if action < place_count and places == "cells" else None,
            column=action if action < place_count and places == "columns" else None,
        )
        for action in position.legal_actions
    ]


def _pass_note(position: Position) -> str:
    """Return an explanation if the mover must pass or the last move was a pass; otherwise ""."""
    mover, opponent = ("X", "O") if position.first_to_move else ("O", "X")
    if position.legal_moves == ["pass"]:
        return f"{mover} has no move that turns a disc and must pass."
    if position.history and position.action_name(position.history[-1]) == "pass":
        return f"{opponent} had no move and passed, so {mover} moves again."
    return ""
