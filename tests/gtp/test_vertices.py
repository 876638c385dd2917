"""GTP vertices: names and parsing of moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtp.games import SMALL_GAMES, play_randomly
from zerolab.gtp.protocol import GtpCommandError, draw_board, format_vertex, parse_vertex
from zerolab.rules.position import Position


@pytest.mark.parametrize("game", SMALL_GAMES)
@given(seed=st.integers(0, 1 << 32), plies=st.integers(0, 12))
@settings(max_examples=30)
def test_parsing_inverts_naming(game, seed, plies):
    position = play_randomly(game, seed, plies)
    names = [format_vertex(position, action) for action in position.legal_actions]
    assert len(set(names)) == len(names)
    for spelling in (str.upper, str.lower):
        assert [parse_vertex(position, spelling(name)) for name in names] == position.legal_actions


@pytest.mark.parametrize("game", SMALL_GAMES)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=30)
def test_drawing_shows_stone_at_vertex(game, seed):
    position = play_randomly(game, seed, 5)
    action = position.legal_actions[seed % len(position.legal_actions)]
    name = format_vertex(position, action)
    if name != "pass":
        before, after = _cells(draw_board(position)), _cells(draw_board(position.play(action)))
        assert (before[name], after[name]) == (".", "OX"[position.first_to_move])


def _cells(drawing):
    letters, *rows = drawing.splitlines()[:-1]
    numbered = [row.split() for row in rows]
    assert all(row[0] == row[-1] for row in numbered)
    return {
        letter + row[0]: stone
        for row in numbered
        for letter, stone in zip(letters.split(), row[1:-1], strict=True)
    }


def test_othello_vertices_follow_convention():
    # With A1 at the top left, Black's first moves are conventionally d3, c4, f5 and e6.
    start = Position.start("othello:8x8")
    names = {format_vertex(start, action) for action in start.legal_actions}
    assert names == {"D3", "C4", "F5", "E6"}


def test_connect_four_rows_count_from_bottom():
    position = Position.start("connect_four:6x7").play("3")
    assert format_vertex(position, 3) == "D2"
    assert {parse_vertex(position, name) for name in ("d2", "D", "3")} == {3}


@pytest.mark.parametrize(
    ("game", "text", "error"),
    [
        ("gobang:5x5", "a9", "illegal move"),
        ("gobang:5x5", "f1", "illegal move"),
        ("gobang:5x5", "pass", "illegal move"),
        ("gobang:5x5", "a", "syntax error"),
        ("gobang:5x5", "12", "syntax error"),
        ("gobang:5x5", "", "syntax error"),
        ("gobang:8x8", "i5", "syntax error"),
        ("connect_four:6x7", "d2", "illegal move"),
        ("connect_four:6x7", "h", "illegal move"),
        ("connect_four:6x7", "7", "illegal move"),
        ("connect_four:6x7", "-1", "syntax error"),
        ("othello:6x6", "pass", "illegal move"),
        ("othello:6x6", "ä3", "syntax error"),
    ],
)
def test_invalid_vertices_are_refused(game, text, error):
    with pytest.raises(GtpCommandError, match=f"^{error}$"):
        parse_vertex(Position.start(game), text)
