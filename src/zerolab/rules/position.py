"""Positions with named moves, which can be printed as text or drawn as board images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.errors import UserError, checked_whole_number, did_you_mean, quoted, require_type
from zerolab.report.board_shapes import BoardShapes, board_shapes
from zerolab.report.board_svg import BoardImageContent, Hint, draw_board
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import (
    COLOURED_SYMBOLS,
    PLAIN_SYMBOLS,
    board_drawing,
    game_name,
    is_game,
    notation_of,
    parse_game,
)
from zerolab.rules.encoding import action_layout
from zerolab.rules.rules import LOSS, ONGOING, Game, State

_MOVES_IN_REPR = 12


class CustomStart(NamedTuple):
    """A position set up by hand, from which a game starts."""

    state: State
    """uint64[words]"""
    first_to_move: bool
    """True if X is to move."""


class Position:
    """An immutable position of a game, with the actions that led to it.

    >>> position = Position.start("othello:6x6").play("c2")
    >>> print(position)
    """

    def __init__(
        self,
        game: Game,
        state: State,
        history: tuple[int, ...] = (),
        custom_start: CustomStart | None = None,
    ) -> None:
        """Create a position from a state, uint64[words], and the actions that led to it.

        The first action was played in `custom_start`, by default the initial position of the game.
        """
        self.game = game
        self.state = state.copy()
        self.history = history
        self.custom_start = custom_start
        self.state.flags.writeable = False

    @classmethod
    def start(cls, game: Game | str) -> Position:
        """Return the initial position of a game, given by name or value.

        Raises UserError if `game` is neither.
        """
        game_value = game if is_game(game) else parse_game(game)
        return cls(game_value, compiled_rules.start(game_value))

    @classmethod
    def set_up(cls, game: Game | str, board: NDArray[np.int8], first_to_move: bool) -> Position:
        """Return the position that has the given pieces on the board.

        `board` is int8[rows, columns], as returned by the `board` method. Raises UserError for
        other arrays, for boards that the notation of the game recognises as unreachable, and for
        games without support for setting up positions.
        """
        game_value = game if is_game(game) else parse_game(game)
        is_integer = isinstance(board, np.ndarray) and np.issubdtype(board.dtype, np.integer)
        if not is_integer or not np.isin(board, (1, 0, -1)).all():
            raise UserError("board: expected an array int8[rows, columns] of 1, 0 and -1")
        if board.shape != game_value[:2]:
            shape, size = ("x".join(map(str, each)) for each in (board.shape, game_value[:2]))
            raise UserError(f"the board has {shape} cells: expected {size}")
        own = board.astype(np.int8) if first_to_move else -board.astype(np.int8)
        state = notation_of(game_value).state_of_mover_board(game_value, own, first_to_move)
        return cls(game_value, state, (), CustomStart(state, first_to_move))

    @property
    def ply(self) -> int:
        """Number of actions played since the start, or since the position was set up."""
        return len(self.history)

    @property
    def first_to_move(self) -> bool:
        """True if X, the player who moves first in a game, is to move."""
        return (self.ply % 2 == 0) == (self.custom_start is None or self.custom_start.first_to_move)

    @property
    def outcome(self) -> int | None:
        """Result for the player to move: 1, 0 or -1; None if the game is ongoing."""
        result = compiled_rules.outcome(self.game, self.state)
        return None if result == ONGOING else result

    @property
    def first_player_outcome(self) -> int | None:
        """Result for X, the first player, as 1, 0 or -1; None if the game is ongoing."""
        result = self.outcome
        return result if result is None or self.first_to_move else -result

    @property
    def legal_mask(self) -> NDArray[np.bool_]:
        """Mask of legal actions, bool[actions]; all False if the game is over."""
        if self.outcome is not None:
            return np.zeros(rules.action_count(self.game), np.bool_)
        return compiled_rules.legal(self.game, self.state)

    @property
    def legal_actions(self) -> list[int]:
        """Legal actions in ascending order; empty if the game is over."""
        return [int(action) for action in np.flatnonzero(self.legal_mask)]

    @property
    def legal_moves(self) -> list[str]:
        """Names of the legal actions."""
        return [self.action_name(action) for action in self.legal_actions]

    def action_name(self, action: int) -> str:
        """Return the name of an action, such as "c2" or "pass"; raise UserError if out of range."""
        number, count = checked_whole_number("action", action), rules.action_count(self.game)
        if number >= count:
            raise UserError(f"action = {quoted(number)}: expected less than {count}")
        return notation_of(self.game).action_name(self.game, number)

    def parse_action(self, text: str) -> int:
        """Return the legal action with a given name; raise UserError if there is none."""
        require_type("move", text, str, 'a name, such as "c2"')
        action = notation_of(self.game).parse_action(self.game, text.strip())
        if action in self.legal_actions:
            return action
        if self.outcome is not None:
            raise UserError(f"{quoted(text)} cannot be played: the game is over")
        moves = ", ".join(self.legal_moves)
        hint = did_you_mean(text, self.legal_moves) if action is None else ""
        raise UserError(f"{quoted(text)} is not a legal move here: expected one of {moves}{hint}")

    def play(self, action: int | str) -> Position:
        """Return the position after an action, given by number or name.

        Raises UserError if the action is not legal.
        """
        number = self.parse_action(action if isinstance(action, str) else str(action))
        state = compiled_rules.apply(self.game, self.state, number)
        return Position(self.game, state, (*self.history, number), self.custom_start)

    def undo(self, plies: int = 1) -> Position:
        """Return the position `plies` plies earlier; raise UserError if fewer were played."""
        number = checked_whole_number("plies", plies)
        if number > self.ply:
            raise UserError(
                f"plies = {quoted(plies)}: expected a whole number from 0 to {self.ply}, the number"
                " of plies played"
            )
        return self.positions_so_far()[self.ply - number]

    def random_playout(self, seed: int = 0) -> Position:
        """Return the final position of a game continued with uniformly random legal moves.

        A finished game is returned unchanged. The moves depend only on the position, its ply and
        `seed`.
        """
        position, number = self, checked_whole_number("seed", seed)
        while actions := position.legal_actions:
            key = streams.stream_key(number, 0, 0, position.ply, streams.PLAYOUT)
            position = position.play(actions[int(key) % len(actions)])
        return position

    def positions_so_far(self) -> list[Position]:
        """Return all positions of the game from the first up to and including this one."""
        state = (
            compiled_rules.start(self.game)
            if self.custom_start is None
            else self.custom_start.state
        )
        positions = [Position(self.game, state, (), self.custom_start)]
        for action in self.history:
            positions.append(positions[-1].play(action))
        return positions

    def planes(self) -> NDArray[np.float32]:
        """Return the input planes for a network, float32[planes, rows, columns]."""
        return compiled_rules.encode(self.game, self.state)

    def board(self) -> NDArray[np.int8]:
        """Return int8[rows, columns]: 1 for the first player's pieces, -1 for the second's."""
        sign = 1 if self.first_to_move else -1
        return sign * notation_of(self.game).mover_board(self.game, self.state)

    def render(self, colour: bool = False) -> str:
        """Return a drawing of the board as text, with X for the first player.

        The text also shows the last move, and the player to move or the result of the game.
        """
        symbols = COLOURED_SYMBOLS if colour else PLAIN_SYMBOLS
        lines = notation_of(self.game).draw_board(self.game, self.board(), symbols)
        result = self.first_player_outcome
        if result is None:
            status = "X to move" if self.first_to_move else "O to move"
        else:
            status = {1: "X has won", 0: "draw", -1: "O has won"}[result]
        lines[1] += f"   {status}"
        if self.history:
            lines[min(2, len(lines) - 1)] += f"   last move {self.action_name(self.history[-1])}"
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def _repr_svg_(self) -> str:
        """Return the board as an SVG image for notebooks."""
        return draw_board(board_image_content(self))

    def __repr__(self) -> str:
        moves = " ".join(self.action_name(action) for action in self.history[-_MOVES_IN_REPR:])
        earlier = f"ply {self.ply}, ... " if self.ply > _MOVES_IN_REPR else ""
        origin = "start" if self.custom_start is None else "set up"
        return f"<Position {game_name(self.game)}: {earlier}{moves or origin}>"

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self.game == other.game and bool((self.state == other.state).all())

    def __hash__(self) -> int:
        return hash((self.game, self.state.tobytes()))


def board_image_content(
    position: Position, hints: Mapping[int, Hint] | None = None
) -> BoardImageContent:
    """Return the content of an image of a position, with hints on the given actions."""
    game, drawing = position.game, board_drawing(position.game)
    cells = _move_cells(position)
    moves = ", ".join(position.action_name(action) for action in position.history)
    words = [
        f"{position.action_name(action)}: {hint.description()}"
        for action, hint in (hints or {}).items()
    ]
    sentences = [
        status_text(position),
        *([f"Moves: {moves}."] if moves else []),
        *([f"Hints: {'; '.join(words)}."] if words else []),
    ]
    return BoardImageContent(
        game_board_shapes(game),
        drawing.pieces,
        position.board().ravel().tolist(),
        status_text(position),
        _side(position),
        " ".join(sentences),
        _last_cell(position),
        winning_cells(game, position.state) if drawing.decided_by == "line" else [],
        {cells[action]: hint for action, hint in (hints or {}).items() if action in cells},
    )


@lru_cache
def game_board_shapes(game: Game) -> BoardShapes:
    """Return the geometry of the board of a game."""
    return board_shapes(board_drawing(game), game[0], column_labels(game))


def column_labels(game: Game) -> list[str]:
    """Return the names of the columns of a game."""
    notation = notation_of(game)
    return [notation.column_label(game, column) for column in range(game[1])]


def status_text(position: Position) -> str:
    """Return a sentence about the side to move or the result, such as "X is to move."."""
    result = position.first_player_outcome
    if result is not None:
        return {1: "X has won.", 0: "The game is drawn.", -1: "O has won."}[result]
    return f"{'X' if position.first_to_move else 'O'} is to move."


def _side(position: Position) -> int:
    """Return the winner or the side to move, 1 or -1; 0 for a draw."""
    result = position.first_player_outcome
    return (1 if position.first_to_move else -1) if result is None else result


def _move_cells(position: Position) -> dict[int, int]:
    """Return the cell in which each legal action places a piece, if any, by action.

    In games whose moves are columns, this is the lowest empty cell of the column.
    """
    try:
        layout = action_layout(position.game)
    except UserError:  # web pages show no places for such a game either
        return {}
    placed = [action for action in position.legal_actions if action < layout.place_count]
    if layout.places == "cells":
        return {action: action for action in placed}
    if layout.places != "columns":
        return {}
    empty, columns = position.board() == 0, position.game[1]
    return {
        column: int(np.flatnonzero(empty[:, column])[-1]) * columns + column for column in placed
    }


def _last_cell(position: Position) -> int | None:
    """Return the cell of the last placed piece; None after a pass or before the first move."""
    if not position.history:
        return None
    return placed_cell(position.positions_so_far()[-2].board(), position.board())


def placed_cell(before: NDArray[np.int8], after: NDArray[np.int8]) -> int | None:
    """Return the cell of the piece that a move placed, given boards int8[rows, columns].

    Cells are numbered row by row. Returns None unless exactly one piece was placed.
    """
    placed = np.flatnonzero((before.ravel() == 0) & (after.ravel() != 0))
    return int(placed[0]) if len(placed) == 1 else None


def winning_cells(game: Game, state: State) -> list[int]:
    """Return the cells of the winning line or chain of pieces, numbered row by row.

    The game must be decided by a line. To find the line, pieces are removed one at a time if the
    winner still wins without them, once in ascending and once in descending order. The pieces left
    by either pass are returned. The result is empty unless the last player has won.
    """
    if compiled_rules.outcome(game, state) != LOSS:
        return []
    bits = [bit for bit in range(64) if int(state[1]) >> bit & 1]
    lines = [_needed_pieces(game, state, order) for order in (bits, bits[::-1])]
    cells = np.flatnonzero(np.any(lines, axis=0))
    return [int(cell) for cell in cells]


def _needed_pieces(game: Game, state: State, order: Iterable[int]) -> list[bool]:
    """Remove the winner's unneeded pieces in `order`; return a mask of the cells left."""
    left = state.copy()
    for bit in order:
        fewer = left.copy()
        fewer[1] ^= np.uint64(1) << np.uint64(bit)
        if compiled_rules.outcome(game, fewer) == LOSS:
            left = fewer
    planes = compiled_rules.encode(game, left)
    return [bool(piece < 0) for piece in planes[0].ravel()]
