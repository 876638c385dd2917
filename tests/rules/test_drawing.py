"""Drawings of games, and the pieces that won."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zerolab.report.board_colours import board_colours, style_sheet
from zerolab.report.board_shapes import BoardStyle, board_shapes
from zerolab.rules.catalogue import board_drawing, parse_game
from zerolab.rules.position import Position, winning_cells


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
        before = position.positions_so_far()[-2].board().ravel()
        assert [cell for cell in cells if before[cell] == 0] != []
        assert len(cells) >= 4
        winner = -1 if position.first_to_move else 1
        assert {int(position.board().ravel()[cell]) for cell in cells} == {winner}


def test_games_choose_their_drawings() -> None:
    assert board_drawing(parse_game("connect_four:6x7")).cells == "holes"
    assert board_drawing(parse_game("gobang:6x6")).cells == "points"
    assert board_drawing(parse_game("othello:6x6")).decided_by == "count"
    assert board_drawing(parse_game("hex:5x5")).edges == ("first", "second", "first", "second")


def test_unknown_drawing_is_refused() -> None:
    assert BoardStyle().cells == "squares"
    with pytest.raises(ValidationError, match="cells"):
        BoardStyle(cells="triangles")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="shape"):
        BoardStyle(shape="squares")  # type: ignore[call-arg]


@pytest.mark.parametrize("pieces", ["red_and_blue", "red_and_yellow", "black_and_white"])
@pytest.mark.parametrize("surface", ["plain", "felt", "wood", "frame"])
@pytest.mark.parametrize("cells", ["squares", "points", "holes", "hexagons"])
def test_every_shape_of_a_board_has_colours_in_images_and_on_pages(
    cells: Any, surface: Any, pieces: Any
) -> None:
    edges: Any = ("first", "second", "first", "second") if cells == "hexagons" else None
    drawing = BoardStyle(cells=cells, surface=surface, pieces=pieces, edges=edges)
    board = board_shapes(drawing, 7, "abcdefg")
    used = [
        *board.shapes_below_pieces,
        *board.shapes_above_pieces,
        *(each for shapes in board.cell_symbols.values() for each in shapes),
    ]
    colours, sheet = board_colours(pieces), style_sheet()
    for name in {shape.css_class for shape in used}:
        assert "fill" in colours[name] or name == "heat"  # its fill shows a value
        assert f".{name.replace(' ', '.')} {{" in sheet
    assert not re.search(r"(fill|stroke): (?!none|var|color-mix)", sheet)


def test_places_of_cells_and_labels_on_both_sides() -> None:
    square = board_shapes(BoardStyle(), 2, "abc")
    assert [square.cell_centre(cell) for cell in (0, 2, 5)] == [(0.5, 0.5), (2.5, 0.5), (2.5, 1.5)]
    assert [label.x for label in square.labels[:3]] == [0.5, 1.5, 2.5]
    assert [label.x for label in square.labels_from_behind[:3]] == [2.5, 1.5, 0.5]
    assert [(label.text, label.y) for label in square.labels_from_behind[3:]] == [
        ("1", 1.5),
        ("2", 0.5),
    ]
    upright = board_shapes(BoardStyle(cells="holes"), 2, "abc")
    assert [label.text for label in upright.labels] == ["a", "b", "c"]  # rows have no names
    hexagons = board_shapes(BoardStyle(cells="hexagons"), 2, "abc")
    (x, y), (above_x, above_y) = hexagons.cell_centre(3), hexagons.cell_centre(0)
    assert x - above_x == 0.5
    assert y - above_y == pytest.approx(3**0.5 / 2)  # centres of neighbours are 1 apart
