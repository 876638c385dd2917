"""Public test sets: files of positions with published scores, in two text formats.

In the format of [Pons], a line contains the moves from the start of the game and the score of the
position, as in ``4455 18``. Columns are numbered from 1; moves on cells are named, as in
``c3d3c4``. In the format of [Cnudde2020], a line is a JSON object with a Connect Four board, the
score of the position and the scores of its moves.

A score is a value as defined by `oracles.oracle.Oracle`: positive if the player to move wins. In
Connect Four, its magnitude is the number of stones that the winner has left at the end, including
the winning one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_valid_path, read_text
from zerolab.evaluation.positions import replay_move_sequences
from zerolab.games.connect_four import ConnectFour
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules import rules
from zerolab.rules.catalogue import game_name, notation_of
from zerolab.rules.encoding import action_layout
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.checks import hex_digest

DEFAULT_GAME = "connect_four:6x7"
"""Game of the well-known sets; their files do not name it."""

_MAX_BYTES = 1 << 26
_MAX_SCORE = 1 << 14
_PARQUET_MAGIC = b"PAR1"


class PublicSet(NamedTuple):
    """Positions of a test set with n lines, each checked against the rules, and their scores."""

    game: Game
    path: Path
    line_numbers: NDArray[np.int64]
    """[n], numbers of the lines in the file, counted from 1."""
    moves: NDArray[np.int16]
    """[m], moves from the start of the game to each position, concatenated."""
    offsets: NDArray[np.int64]
    """[n + 1], start of each position's moves in `moves`, followed by m."""
    states: NDArray[np.uint64]
    """[n, words]"""
    scores: NDArray[np.int32]
    """[n], scores of the positions for the player to move."""
    move_scores: NDArray[np.int32] | None
    """[n, actions], scores of the moves; `ILLEGAL_VALUE` if illegal. None if the file has none."""

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def digest(self) -> str:
        """Digest of the game, the positions and the scores, 32 hexadecimal digits.

        Line endings, blank lines and the name of the file do not affect it.
        """
        given = self.scores if self.move_scores is None else self.move_scores
        arrays = (self.moves, self.offsets, self.scores, given)
        return hex_digest(game_name(self.game).encode(), *(each.tobytes() for each in arrays))

    def line_error(self, row: int, reason: str) -> UserError:
        """Return an error that names the line of a position."""
        return _line_error(self.path, int(self.line_numbers[row]), reason)


def is_text_set(path: Path) -> bool:
    """Return whether a path is a file other than a Parquet file, judging by name and content."""
    check_valid_path(path)
    if not path.is_file() or path.suffix == ".parquet":
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_PARQUET_MAGIC)) != _PARQUET_MAGIC
    except OSError:
        return True  # reading the set reports the error


def read_public_set(path: Path, game: Game) -> PublicSet:
    """Read a test set in either format; raise UserError naming the line and what was expected.

    Scores are compared with a solver's only when the set is solved.
    """
    text = read_text(path, _MAX_BYTES)
    numbered = enumerate(map(str.strip, text.split("\n")), start=1)
    lines = [(number, line) for number, line in numbered if line]
    if not lines:
        raise UserError(f"{quoted(path)} contains no positions: expected at least one")
    is_kaggle = lines[0][1].startswith("{")
    parse = _kaggle_parser(path, game) if is_kaggle else _parse_pons
    entries = [_entry(path, number, line, game, parse) for number, line in lines]
    plies = [len(each.actions) for each in entries]
    moves = np.array([action for each in entries for action in each.actions], np.int16)
    offsets = np.cumsum([0, *plies], dtype=np.int64)
    states, _, invalid = replay_move_sequences(game, moves, offsets)
    if invalid is not None:
        reason = _illegal_move(game, entries[invalid].actions)
        raise _line_error(path, lines[invalid][0], reason)
    return PublicSet(
        game,
        path,
        np.array([number for number, _ in lines], np.int64),
        moves,
        offsets,
        states,
        np.array([each.score for each in entries], np.int32),
        np.array([each.move_scores for each in entries], np.int32) if is_kaggle else None,
    )


class _Entry(NamedTuple):
    """Content of a line."""

    actions: list[int]
    score: int
    move_scores: list[int]


_Parser = Callable[[Game, str], _Entry]


def _line_error(path: Path, number: int, reason: object) -> UserError:
    return UserError(f"{quoted(path)}, line {number}: {reason}")


def _entry(path: Path, number: int, line: str, game: Game, parse: _Parser) -> _Entry:
    try:
        return parse(game, line)
    except UserError as error:
        raise _line_error(path, number, error) from None


def _illegal_move(game: Game, actions: list[int]) -> str:
    """Return the reason why moves are illegal, or a message that they end the game."""
    position = Position.start(game)
    for number, action in enumerate(actions, start=1):
        if position.outcome is not None:
            return f"move {number}: the game is already over after {number - 1} moves"
        if action not in position.legal_actions:
            if _are_columns(game):
                return f"move {number}: column {action + 1} is full"
            return f"move {number}: {quoted(position.action_name(action))} is not legal"
        position = position.play(action)
    return f"the game is over after these {len(actions)} moves: expected an unfinished game"


def _are_columns(game: Game) -> bool:
    """Return whether every action of a game is a column that a single digit can name."""
    try:
        layout = action_layout(game)
    except UserError:  # a plug-in does not specify where its actions are
        return False
    return layout.places == "columns" and layout.placeless_count == 0 and layout.place_count < 10


def _parse_pons(game: Game, line: str) -> _Entry:
    fields = line.split()
    if len(fields) != 2:
        example = "4455 18" if _are_columns(game) else "c3d3c4 1"
        raise UserError(
            f"{quoted(line)} has {len(fields)} field{'s' * (len(fields) != 1)}: expected the moves"
            f' and the score of the position, separated by a space, such as "{example}"'
        )
    parse_moves = _parse_columns if _are_columns(game) else _parse_names
    actions = list(parse_moves(game, fields[0]))
    if not re.fullmatch(r"[+-]?\d{1,5}", fields[1]):
        raise UserError(f"score {quoted(fields[1])}: expected a whole number, such as 3 or -2")
    return _Entry(actions, _checked_score("score", int(fields[1])), [])


def _parse_columns(game: Game, text: str) -> Iterator[int]:
    columns = rules.action_count(game)
    for number, digit in enumerate(text, start=1):
        if digit not in "123456789"[:columns]:
            raise UserError(
                f"move {number} is {quoted(digit)}: expected a column from 1 to {columns}"
            )
        yield int(digit) - 1


def _parse_names(game: Game, text: str) -> Iterator[int]:
    notation = notation_of(game)
    for number, name in enumerate(re.findall(r"pass|[a-z]\d+|.", text), start=1):
        action = None if name.isdecimal() else notation.parse_action(game, name)
        if action is None:
            moves = notation.move_examples_text(game)
            raise UserError(f"move {number} is {quoted(name)}: expected {moves}")
        yield action


def _checked_score(name: str, score: Any) -> int:
    if not isinstance(score, int) or isinstance(score, bool) or abs(score) > _MAX_SCORE:
        raise UserError(
            f"{name} {quoted(score)}: expected a whole number from {-_MAX_SCORE} to {_MAX_SCORE}"
        )
    return score


_KAGGLE_ILLEGAL = -99
_KAGGLE_FIELDS = ("board", "score", "move score")


def _kaggle_parser(path: Path, game: Game) -> _Parser:
    if not isinstance(game, ConnectFour):
        raise UserError(
            f"{quoted(path)} has Connect Four boards in JSON, not moves for {game_name(game)}"
        )
    return _parse_kaggle


def _parse_kaggle(game: Game, line: str) -> _Entry:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{quoted(line)} is not a JSON object") from None
    missing = [name for name in _KAGGLE_FIELDS if not (isinstance(table, dict) and name in table)]
    if missing:
        raise UserError(f"the JSON object has no field {quoted(missing[0])}")
    board, position = _kaggle_board(game, table["board"])
    if position.outcome is not None:
        raise UserError("the game is over on this board: expected an unfinished game")
    scores = _kaggle_move_scores(position, table["move score"])
    return _Entry(_order_of_moves(board), _checked_score("score", table["score"]), scores)


def _kaggle_board(game: Game, cells: Any) -> tuple[NDArray[np.int8], Position]:
    """Return the board, int8[rows, columns] with 0, 1 and 2, and its position.

    The cells are listed row by row from the top, and the player with pieces 1 moves first.
    """
    count = game.rows * game.columns
    if not isinstance(cells, list) or len(cells) != count:
        raise UserError(f"board: expected a list of {count} cells for {game_name(game)}")
    for cell in cells:
        if cell not in (0, 1, 2) or isinstance(cell, bool):
            raise UserError(f"board: cell {quoted(cell)}: expected 0, 1 or 2")
    board = np.array(cells, np.int8).reshape(game.rows, game.columns)
    signs = np.where(board == 2, -1, board).astype(np.int8)
    first_to_move = int((board == 1).sum()) == int((board == 2).sum())
    return board, Position.set_up(game, signs, first_to_move)


def _kaggle_move_scores(position: Position, scores: Any) -> list[int]:
    columns = position.game.columns
    if not isinstance(scores, list) or len(scores) != columns:
        raise UserError(f"move score: expected a list of {columns} scores")
    checked = [_checked_score("move score", score) for score in scores]
    for column, (score, is_legal) in enumerate(zip(checked, position.legal_mask, strict=True)):
        if (score != _KAGGLE_ILLEGAL) != is_legal:
            state = (
                "is open: expected its score"
                if is_legal
                else f"is full: expected {_KAGGLE_ILLEGAL}"
            )
            raise UserError(f"move score {score}: column {column + 1} {state}")
    return [ILLEGAL_VALUE if score == _KAGGLE_ILLEGAL else score for score in checked]


_MAX_FAILURES = 1 << 18


def _order_of_moves(board: NDArray[np.int8]) -> list[int]:
    """Return columns in which alternating moves build a board, int8[rows, columns].

    A board without a finished line had none before, so every order is a legal game. Raises
    UserError if there is no order, or if there are too many to try.
    """
    stacks = [[int(piece) for piece in column[::-1] if piece] for column in board.T]
    total = sum(map(len, stacks))
    failures: set[tuple[int, ...]] = set()

    def complete(heights: tuple[int, ...], ply: int) -> list[int] | None:
        if ply == total:
            return []
        for column, (stack, height) in enumerate(zip(stacks, heights, strict=True)):
            if height < len(stack) and stack[height] == ply % 2 + 1:
                after = (*heights[:column], height + 1, *heights[column + 1 :])
                if after not in failures and (rest := complete(after, ply + 1)) is not None:
                    return [column, *rest]
        failures.add(heights)
        if len(failures) > _MAX_FAILURES:
            raise UserError("too many sequences of moves to try for this board")
        return None

    moves = complete((0,) * len(stacks), 0)
    if moves is None:
        raise UserError("no sequence of alternating moves leads to this board")
    return moves
