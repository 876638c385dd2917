"""The public class Position: moves, results, drawings and errors."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab import Position
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import status_text


def test_start_accepts_name_or_game() -> None:
    assert Position.start("othello:6x6") == Position.start(parse_game("othello:6x6"))
    assert Position.start("othello:6x6").ply == 0


def test_play_returns_new_position_and_keeps_old_one() -> None:
    start = Position.start("othello:6x6")
    after = start.play("c2")
    assert start.legal_moves == ["c2", "b3", "e4", "d5"]
    assert start.history == ()
    assert after.history == (8,)
    assert (after.ply, after.first_to_move) == (1, False)
    with pytest.raises(ValueError, match="read-only"):
        after.state[0] = 0


def test_moves_can_be_names_or_numbers() -> None:
    start = Position.start("gobang:4x5")
    assert start.play("b3") == start.play(11) == start.play("11") == start.play(" B3 ")
    assert start.action_name(11) == "b3"
    for action in (-1, 20, "b3"):
        with pytest.raises(UserError, match=r"^action = .*: expected"):
            start.action_name(action)


def test_transpositions_are_equal_and_hash_alike() -> None:
    one, other = Position.start("gobang:4x4"), Position.start("gobang:4x4")
    for move in ("a1", "d4", "b1"):
        one = one.play(move)
    for move in ("b1", "d4", "a1"):
        other = other.play(move)
    assert one == other
    assert hash(one) == hash(other)
    assert one != one.play("c3")
    assert one != "gobang:4x4"


def test_positions_of_different_games_are_unequal() -> None:
    """As plain tuples, Gobang(4, 4, 4) and ConnectFour(4, 4, 4) would be equal."""
    assert Position.start("gobang:4x4") != Position.start("connect_four:4x4")
    assert len({Position.start("gobang:4x4"), Position.start("connect_four:4x4")}) == 2


def test_drawing_shows_first_player_as_x() -> None:
    position = Position.start("connect_four:4x5").play("2").play("2").play("0")
    assert position.render().splitlines() == [
        "  0 1 2 3 4",
        "1 . . . . .   O to move",
        "2 . . . . .   last move 0",
        "3 . . O . .",
        "4 X . X . .",
    ]
    assert str(position) == position.render()
    assert np.array_equal(position.board()[3], [1, 0, 1, 0, 0])


def test_cells_are_named_by_column_letter_and_row_from_top() -> None:
    lines = Position.start("othello:4x5").play("a2").render().splitlines()
    assert lines[0] == "  a b c d e"
    assert lines[2] == "2 X X X . .   last move a2"


def test_colour_adds_only_escape_codes() -> None:
    position = Position.start("othello:4x4").play("a2")
    coloured = position.render(colour=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in position.render()
    for code in ("\x1b[0m", "\x1b[1;31m", "\x1b[1;34m", "\x1b[2m"):
        coloured = coloured.replace(code, "")
    assert coloured == position.render()


@pytest.mark.parametrize(
    ("moves", "verdict"),
    [
        ("a1 a2 b1 b2 c1", "X has won"),
        ("a1 a2 b1 b2 c3 c2", "O has won"),
        ("a1 b1 c1 b2 a2 c2 b3 a3 c3", "draw"),
    ],
)
def test_drawing_shows_result(moves: str, verdict: str) -> None:
    position = Position.start("gobang:3x3:3")
    for move in moves.split():
        position = position.play(move)
    assert verdict in position.render()
    assert position.legal_moves == []
    with pytest.raises(UserError, match="the game is over"):
        position.play("b2")


def test_repr_has_game_and_moves() -> None:
    start = Position.start("othello:6x6")
    assert repr(start) == "<Position othello:6x6: start>"
    assert repr(start.play("c2").play("b2")) == "<Position othello:6x6: c2 b2>"
    end = Position.start("gobang:8x8:5").random_playout(seed=1)
    assert repr(end).startswith(f"<Position gobang:8x8:5: ply {end.ply}, ... ")
    assert len(repr(end)) < 100


def test_undo_returns_earlier_positions() -> None:
    end = Position.start("connect_four:4x4:3").random_playout(seed=4)
    line = end.positions_so_far()
    assert [end.undo(plies).history for plies in range(end.ply + 1)] == [
        each.history for each in reversed(line)
    ]
    assert end.undo() == line[-2]
    for plies in (end.ply + 1, -1, "x"):
        with pytest.raises(UserError, match=f"plies = .*{plies}.*: expected"):
            end.undo(plies)  # type: ignore[arg-type]


def test_random_playouts_are_legal_games_that_depend_on_the_seed() -> None:
    start = Position.start("othello:4x4").play("b1")
    ends = [start.random_playout(seed) for seed in range(20)]
    assert all(end.outcome is not None and end.positions_so_far()[1] == start for end in ends)
    assert len({end.history for end in ends}) > 10
    assert start.random_playout(3).history == ends[3].history
    assert ends[0].random_playout(5) is ends[0]
    with pytest.raises(UserError, match="seed = -1: expected"):
        start.random_playout(-1)


@pytest.mark.parametrize("game", ["connect_four:4x4:3", "othello:4x4", "gobang:3x3:3", "hex:3x3"])
def test_notebooks_show_the_board(game: str) -> None:
    end = Position.start(game).random_playout(seed=2)
    for position in (end, end.undo(2), Position.start(game)):
        root = ElementTree.fromstring(position._repr_svg_())
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[-1] == status_text(position)
        assert position.outcome == 0 or root[1].get("r") == "0.15"
        letters = [1 if text == "X" else -1 for text in texts if text in ("X", "O")]
        pieces = [piece for piece in position.board().ravel().tolist() if piece]
        assert letters == (pieces if game.startswith(("connect_four", "hex")) else [])


@pytest.mark.parametrize(
    ("move", "message"),
    [
        ("a1", '"a1" is not a legal move here: expected one of c2, b3, e4, d5'),
        ("c22", '"c22" is not a legal move here: .* did you mean "c2"'),
        ("pass", "is not a legal move here"),
        ("", '"" is not a legal move'),
        ("99", '"99" is not a legal move'),
        (-1, '"-1" is not a legal move'),
        ("²", '"²" is not a legal move'),
    ],
)
def test_illegal_moves_are_explained(move: str | int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Position.start("othello:6x6").play(move)


@given(st.text(max_size=6))
def test_any_text_is_a_legal_move_or_a_user_error(text: str) -> None:
    start = Position.start("othello:6x6")
    try:
        after = start.play(text)
    except UserError as error:
        assert "\n" not in str(error).replace(text, "")
    else:
        assert after.history[0] in start.legal_actions


def test_planes_have_shape_of_board() -> None:
    planes = Position.start("othello:5x7").planes()
    assert planes.shape == (1, 5, 7)
    assert planes.dtype == np.float32
    assert planes.sum() == 0
    assert np.abs(planes).sum() == 4
