"""Rules that game programs often get wrong."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from zerolab import Position
from zerolab.core.compiled import kernel
from zerolab.games.connect_four import ConnectFour
from zerolab.rules import rules
from zerolab.rules.rules import LOSS, ONGOING


@kernel
def _outcomes(game, states, out):
    for i in range(states.shape[0]):
        out[i] = rules.outcome(game, states[i])


def played(game: str, *moves: str) -> Position:
    position = Position.start(game)
    for move in moves:
        position = position.play(move)
    return position


@pytest.mark.parametrize(("rows", "columns"), list(product(range(4, 9), range(4, 9))))
def test_connect_four_recognises_every_line_on_every_board(rows: int, columns: int) -> None:
    for length in range(3, max(rows, columns) + 1):
        complete, incomplete = [], []
        for row, column, (down, right) in product(
            range(rows), range(columns), [(0, 1), (1, 0), (1, 1), (1, -1)]
        ):
            cells = [(row + i * down, column + i * right) for i in range(length)]
            if all(0 <= r < rows and 0 <= c < columns for r, c in cells):
                bits = [1 << (c * rows + (rows - 1 - r)) for r, c in cells]
                complete.append(sum(bits))
                incomplete += [sum(bits) - bit for bit in bits]
        for words, expected in ((complete, LOSS), (incomplete, ONGOING)):
            states = np.zeros((len(words), 2), np.uint64)
            states[:, 1] = words
            outcomes = np.empty(len(words), np.int64)
            _outcomes(ConnectFour(rows, columns, length), states, outcomes)
            assert (outcomes == expected).all()


def test_connect_four_8x8_fills_its_last_cell() -> None:
    """The top of the last column is bit 63, beyond which no carry is possible."""
    position = played("connect_four:8x8", *["7"] * 8)
    assert position.legal_actions == [0, 1, 2, 3, 4, 5, 6]
    assert position.board()[:, 7].tolist() == [-1, 1, -1, 1, -1, 1, -1, 1]


def test_overlines_win_in_gobang() -> None:
    position = played("gobang:5x5", "a1", "a2", "b1", "b2", "d1", "d2", "e1", "e2")
    assert position.outcome is None
    assert position.play("c1").first_player_outcome == 1


def test_full_board_without_line_is_draw() -> None:
    position = played("gobang:3x3:3", "a1", "b1", "c1", "b2", "a2", "c2", "b3", "a3")
    assert position.outcome is None
    position = position.play("c3")
    assert position.outcome == 0
    assert position.legal_actions == []


def test_line_with_last_stone_wins() -> None:
    moves = ["a1", "b1", "c1", "a2", "b2", "c2", "b3", "a3"]
    position = played("gobang:3x3:3", *moves)
    assert position.outcome is None
    assert position.play("c3").first_player_outcome == 1


def test_outcome_is_from_view_of_side_to_move() -> None:
    first_wins = played("gobang:3x3:3", "a1", "a2", "b1", "b2", "c1")
    assert (first_wins.outcome, first_wins.first_player_outcome) == (-1, 1)
    second_wins = played("gobang:3x3:3", "a1", "a2", "b1", "b2", "c3", "c2")
    assert (second_wins.outcome, second_wins.first_player_outcome) == (-1, -1)


@pytest.mark.parametrize(
    ("game", "first", "second"),
    [
        ("othello:4x4", {"c2", "b3"}, {"b2", "c3"}),
        ("othello:5x5", {"c2", "b3"}, {"b2", "c3"}),
        ("othello:5x8", {"e2", "d3"}, {"d2", "e3"}),
        ("othello:6x6", {"d3", "c4"}, {"c3", "d4"}),
        ("othello:8x8", {"e4", "d5"}, {"d4", "e5"}),
    ],
)
def test_othello_starts_around_centre(game: str, first: set[str], second: set[str]) -> None:
    """On 5x5 the initial block is off centre, in rows and columns 1 and 2 (docs/papers.md)."""
    position = Position.start(game)
    board = position.board()
    named = {
        colour: {
            position.action_name(int(cell)) for cell in np.flatnonzero(board.ravel() == colour)
        }
        for colour in (1, -1)
    }
    assert named == {1: first, -1: second}


def test_othello_pass_is_only_legal_without_other_moves() -> None:
    passes = 0
    random = np.random.default_rng(0)
    for _ in range(30):
        position = Position.start("othello:4x4")
        while position.outcome is None:
            moves = position.legal_moves
            if "pass" in moves:
                passes += 1
                assert moves == ["pass"]
                assert "pass" not in position.play("pass").legal_moves, (
                    "two passes in a row would have ended the game"
                )
            position = position.play(str(random.choice(moves)))
    assert passes > 10
    assert "pass" not in Position.start("othello:4x4").legal_moves


def test_othello_ends_when_neither_player_can_move() -> None:
    """In the shortest game, nine moves leave the second player without discs."""
    moves = ["e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5"]
    position = played("othello:8x8", *moves)
    assert (position.board() == -1).sum() == 0
    assert position.first_player_outcome == 1
    assert position.ply == 9
