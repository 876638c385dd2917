"""Random games played here and in open-spiel: legal actions, ends and returns."""

from __future__ import annotations

import pyspiel
import pytest

from games.spiel import spiel_start
from zerolab.rules.catalogue import parse_game
from zerolab.testing import check_twin

CONNECT_FOUR = [(4, 4, 4), (4, 7, 4), (5, 5, 3), (6, 7, 4), (7, 6, 5), (8, 8, 4)]
GOBANG = [(3, 3, 3), (3, 8, 3), (5, 5, 4), (6, 4, 3), (6, 6, 4), (7, 8, 5), (8, 8, 5)]


@pytest.mark.parametrize(("rows", "columns", "length"), CONNECT_FOUR)
def test_connect_four(rows: int, columns: int, length: int) -> None:
    theirs = f"connect_four(rows={rows},columns={columns},x_in_row={length})"
    check_twin(parse_game(f"connect_four:{rows}x{columns}:{length}"), spiel_start(theirs), 20000)


@pytest.mark.parametrize(("rows", "columns", "length"), GOBANG)
def test_gobang(rows: int, columns: int, length: int) -> None:
    theirs = f"mnk(m={columns},n={rows},k={length})"
    check_twin(parse_game(f"gobang:{rows}x{columns}:{length}"), spiel_start(theirs), 20000)


def test_othello() -> None:
    check_twin(parse_game("othello:8x8"), spiel_start("othello"), 20000)


def test_first_player_is_the_same() -> None:
    state = pyspiel.load_game("othello").new_initial_state()
    assert [state.action_to_string(0, action) for action in state.legal_actions()] == [
        "d3", "c4", "f5", "e6",
    ]  # fmt: skip
