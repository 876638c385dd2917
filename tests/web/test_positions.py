"""Positions as pages see them: boards, legal moves, results, and what is wrong with a request."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from zerolab.rules.position import Position
from zerolab.web.routes.positions import PositionRequest, line_response, position_response

GAMES = ["othello:6x6", "connect_four:6x7", "gobang:5x5:4", "hex:4x4"]


def _played(game: str, draws: list[int]) -> Position:
    at = Position.start(game)
    for number in draws:
        legal = at.legal_actions
        if not legal:
            break
        at = at.play(legal[number % len(legal)])
    return at


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 1000), max_size=60))
def test_a_position_comes_back_from_its_moves(game: str, draws: list[int]) -> None:
    at = _played(game, draws)
    made = position_response(at)
    again = PositionRequest(game=made.game, moves=made.moves).position()
    assert again == at
    assert made.board == at.board().tolist()
    assert [move.name for move in made.legal] == at.legal_moves
    assert (made.outcome is None) == bool(at.legal_moves)


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 1000), max_size=60))
def test_the_last_piece_is_where_the_board_changed(game: str, draws: list[int]) -> None:
    at = _played(game, draws)
    for made in line_response(at):
        if made.last is None or made.last == "pass":
            assert made.last_cell is None
            continue
        row, column = divmod(made.last_cell, made.columns)
        assert made.board[row][column] == (-1 if made.first_to_move else 1)
        if game.startswith("connect_four"):
            assert made.last == str(column)
        else:
            assert made.last == f"{'abcdefgh'[column]}{row + 1}"


@given(st.sampled_from(GAMES[:3]), st.lists(st.integers(0, 1000), max_size=60))
def test_pieces_set_up_as_on_a_board_play_on_in_the_same_way(game: str, draws: list[int]) -> None:
    at = _played(game, draws)
    if at.outcome is not None:
        return
    again = Position.set_up(game, at.board(), at.first_to_move)
    assert np.array_equal(again.board(), at.board())
    assert again.legal_moves == at.legal_moves
    assert again.first_to_move == at.first_to_move
    move = at.legal_moves[0]
    assert again.play(move) == at.play(move)
    assert again.play(move).first_player_outcome == at.play(move).first_player_outcome


@pytest.mark.parametrize(
    ("game", "rows", "first", "reason"),
    [
        ("connect_four:4x4", ["X...", "....", "....", "...."], False, "column 0, row 1"),
        ("connect_four:4x4", ["....", "....", "....", "X..."], True, "expected 0 X pieces"),
        ("gobang:3x3:3", ["XXX", "OO.", ".O."], True, "X has already won"),
        ("gobang:3x3:3", ["XX.", "OO."], True, "3 rows of 3 cells"),
        ("hex:3x3", ["...", "...", "..."], True, "cannot be set up in this game"),
        ("gobang:3x3:3", ["XX?", "OO.", "..."], True, "3 rows of 3 cells"),
    ],
)
def test_pieces_that_no_game_leads_to_are_refused(
    client: TestClient, game: str, rows: list[str], first: bool, reason: str
) -> None:
    set_up = {"board": rows, "first_to_move": first}
    answer = client.post("/api/v1/position", json={"game": game, "set_up": set_up})
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_a_forced_pass_is_explained(client: TestClient) -> None:
    rows = ["XO..", "....", "....", "...."]  # O moves: it encloses nothing, X can at c1
    set_up = {"board": rows, "first_to_move": False}
    made = client.post("/api/v1/position", json={"game": "othello:4x4", "set_up": set_up}).json()
    assert [move["name"] for move in made["legal"]] == ["pass"]
    assert "no move" in made["note"] and "pass" in made["note"]
    after = {"game": "othello:4x4", "set_up": set_up, "moves": ["pass"]}
    made = client.post("/api/v1/position", json=after).json()
    assert "O had no move" in made["note"]
    assert made["last_cell"] is None


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"game": "chess:8x8"}, 400, 'unknown game "chess"'),
        ({"game": "othello:6x6", "moves": ["a1"]}, 400, "move 1: "),
        ({"game": "othello:6x6", "moves": ["c2", "zz"]}, 400, "move 2: "),
        ({"game": "othello:6x6", "move": []}, 422, "move = "),
        ({"moves": []}, 422, "game = "),
        ({"game": "othello:6x6", "moves": ["c2"] * 400}, 422, "moves = "),
        ({"game": 7}, 422, "game = 7"),
    ],
)
def test_a_wrong_request_gets_one_line(
    client: TestClient, body: dict[str, object], status: int, reason: str
) -> None:
    answer = client.post("/api/v1/position", json=body)
    assert answer.status_code == status
    assert reason in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_an_opening_is_drawn_again_with_its_seed(client: TestClient) -> None:
    asked = {"game": "gobang:5x5:4", "plies": 4, "seed": 3}
    first, again = (client.post("/api/v1/opening", json=asked).json() for _ in range(2))
    assert first == again
    assert len(first["moves"]) == 4
    assert first["outcome"] is None
    other = client.post("/api/v1/opening", json={**asked, "seed": 4}).json()
    assert other["moves"] != first["moves"]


def test_games_of_plug_ins_are_listed(client: TestClient) -> None:
    games = {each["name"]: each for each in client.get("/api/v1/games").json()}
    assert {"othello", "connect_four", "gobang", "hex"} <= games.keys()
    assert games["gobang"]["defaults"] == {"length": 4}
    assert games["connect_four"]["example"] == "connect_four:6x7"
