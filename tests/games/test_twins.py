"""All sizes of the games against naive twins, and some against OpenSpiel."""

from __future__ import annotations

import itertools
from functools import partial

import pyspiel
import pytest

from games.naive import NaiveConnectFour, NaiveGobang, NaiveOthello
from games.spiel import spiel_start
from zerolab.games.connect_four import ConnectFour
from zerolab.games.gobang import Gobang
from zerolab.games.othello import Othello
from zerolab.rules.catalogue import parse_game
from zerolab.testing import check_against_twin
from zerolab.testing.random_games import ongoing_sample_positions, random_games, sample_positions

OTHELLO_SIZES = [(rows, columns) for rows in range(4, 9) for columns in range(4, 9)]


def _sizes(smallest: int) -> list[tuple[int, int, int]]:
    """Return squares with the shortest, usual and longest winning rows, and other rectangles.

    Every other rectangle has one of these lengths, in turn.
    """
    sizes = []
    for rows, columns in itertools.product(range(smallest, 9), repeat=2):
        longest = max(rows, columns)
        lengths = sorted({3, min(4, longest), longest})
        chosen = lengths if rows == columns else [lengths[(rows + 2 * columns) % len(lengths)]]
        sizes += [(rows, columns, length) for length in chosen]
    return sizes


@pytest.mark.parametrize(("rows", "columns"), OTHELLO_SIZES)
def test_othello_agrees_with_its_naive_twin(rows: int, columns: int) -> None:
    check_against_twin(Othello(rows, columns), partial(NaiveOthello, rows, columns), max_leaves=300)


@pytest.mark.parametrize(("rows", "columns", "length"), _sizes(smallest=4))
def test_connect_four_agrees_with_its_naive_twin(rows: int, columns: int, length: int) -> None:
    start = partial(NaiveConnectFour, rows, columns, length)
    check_against_twin(ConnectFour(rows, columns, length), start)


@pytest.mark.parametrize(("rows", "columns", "length"), _sizes(smallest=3))
def test_gobang_agrees_with_its_naive_twin(rows: int, columns: int, length: int) -> None:
    check_against_twin(Gobang(rows, columns, length), partial(NaiveGobang, rows, columns, length))


def test_compared_othello_games_include_passes_and_all_results() -> None:
    games = [Othello(rows, columns) for rows, columns in OTHELLO_SIZES]
    passes = [
        sample
        for game in games
        for sample in sample_positions(game)
        if sample.history and sample.history[-1] == game.rows * game.columns
    ]
    assert len(passes) > 100
    for sample in passes:
        assert len(sample.history) < 2 or sample.history[-2] != sample.history[-1]
        assert sample.outcome == 2, "a game ends with the last disc, never with a pass"
    assert {played[-1].outcome for game in games for played in random_games(game)} == {-1, 0, 1}


def test_compared_small_games_include_draws() -> None:
    drawn = [Gobang(3, 3, 3), Gobang(4, 4, 4), ConnectFour(4, 4, 4)]
    for game in drawn:
        last = [played[-1] for played in random_games(game)]
        assert 0 in {sample.outcome for sample in last}
        assert all(sample.outcome == 2 for sample in ongoing_sample_positions(game))


CONNECT_FOUR = [(4, 4, 4), (4, 7, 4), (5, 5, 3), (6, 7, 4), (7, 6, 5), (8, 8, 4)]
GOBANG = [(3, 3, 3), (3, 8, 3), (5, 5, 4), (6, 4, 3), (6, 6, 4), (7, 8, 5), (8, 8, 5)]


@pytest.mark.parametrize(("rows", "columns", "length"), CONNECT_FOUR)
def test_connect_four_agrees_with_open_spiel(rows: int, columns: int, length: int) -> None:
    openspiel_name = f"connect_four(rows={rows},columns={columns},x_in_row={length})"
    check_against_twin(
        parse_game(f"connect_four:{rows}x{columns}:{length}"), spiel_start(openspiel_name), 2000
    )


@pytest.mark.parametrize(("rows", "columns", "length"), GOBANG)
def test_gobang_agrees_with_open_spiel(rows: int, columns: int, length: int) -> None:
    openspiel_name = f"mnk(m={columns},n={rows},k={length})"
    check_against_twin(
        parse_game(f"gobang:{rows}x{columns}:{length}"), spiel_start(openspiel_name), 2000
    )


def test_othello_agrees_with_open_spiel() -> None:
    check_against_twin(parse_game("othello:8x8"), spiel_start("othello"), 2000)


def test_open_spiel_othello_has_same_first_player() -> None:
    state = pyspiel.load_game("othello").new_initial_state()
    assert [state.action_to_string(0, action) for action in state.legal_actions()] == [
        "d3", "c4", "f5", "e6",
    ]  # fmt: skip
