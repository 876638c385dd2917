"""Drawings of games, and the pieces that won."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zerolab.rules.catalogue import drawing_of, parse_game
from zerolab.rules.drawing import Drawing, winning_cells
from zerolab.rules.position import Position


def _winning(game: str, moves: str) -> list[str]:
    position = Position.start(game)
    for move in moves.split():
        position = position.play(move)
    columns = position.game[1]
    cells = winning_cells(position.game, position.state)
    return [f"{'abcdefgh'[cell % columns]}{cell // columns + 1}" for cell in cells]


@pytest.mark.parametrize(
    ("game", "moves", "cells"),
    [
        ("connect_four:6x7", "0 6 1 6 2 6 3", "a6 b6 c6 d6"),
        ("connect_four:6x7", "3 0 3 0 3 0 3", "d3 d4 d5 d6"),
        ("connect_four:6x7", "0 6 1 6 2 5 4 5 3", "a6 b6 c6 d6 e6"),
        ("gobang:3x3:3", "a1 b1 b2 c1 c3", "a1 b2 c3"),
        ("gobang:5x5:3", "a1 e5 b1 e4 a3 e2 a4 d2 b3 c5 a2", "a1 a2 a3 a4"),
        ("hex:3x3", "b1 a1 b2 a2 a3", "b1 b2 a3"),
        ("hex:3x3", "a1 c1 b1 b2 a3 a2", "c1 b2 a2"),
        ("hex:3x3", "a1 c1 b1 b2 c3 a3", "c1 b2 a3"),
        ("connect_four:6x7", "0 6 1 6 2 6", ""),
    ],
)
def test_winning_cells_are_the_line_or_chain(game: str, moves: str, cells: str) -> None:
    assert sorted(_winning(game, moves)) == sorted(cells.split())


@given(st.lists(st.integers(0, 1000), min_size=42, max_size=42))
def test_winning_line_has_last_piece_and_enough_pieces(draws: list[int]) -> None:
    position = Position.start("connect_four:6x7")
    for number in draws:
        if position.legal_actions:
            position = position.play(position.legal_actions[number % len(position.legal_actions)])
    cells = winning_cells(position.game, position.state)
    assert bool(cells) == (position.outcome != 0)
    if cells:
        before = position.line()[-2].board().ravel()
        assert [cell for cell in cells if before[cell] == 0] != []
        assert len(cells) >= 4
        winner = -1 if position.first_to_move else 1
        assert {int(position.board().ravel()[cell]) for cell in cells} == {winner}


def test_games_choose_their_drawings() -> None:
    assert drawing_of(parse_game("connect_four:6x7")).cells == "holes"
    assert drawing_of(parse_game("gobang:6x6")).cells == "points"
    assert drawing_of(parse_game("othello:6x6")).decided_by == "count"
    assert drawing_of(parse_game("hex:5x5")).edges == ("first", "second", "first", "second")


def test_unknown_drawing_is_refused() -> None:
    assert Drawing().cells == "squares"
    with pytest.raises(ValidationError, match="cells"):
        Drawing(cells="triangles")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="shape"):
        Drawing(shape="squares")  # type: ignore[call-arg]
