"""Boards, legal moves, results and errors of the positions interface."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from zerolab.rules.position import Position
from zerolab.web.routes.positions import PositionRequest, position_response, position_responses

GAMES = ["othello:6x6", "connect_four:6x7", "gobang:5x5:4", "hex:4x4"]


def _position(game: str, draws: list[int]) -> Position:
    position = Position.start(game)
    for number in draws:
        legal = position.legal_actions
        if not legal:
            break
        position = position.play(legal[number % len(legal)])
    return position


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 1000), max_size=60))
def test_position_is_restored_from_its_moves(game: str, draws: list[int]) -> None:
    position = _position(game, draws)
    response = position_response(position)
    again = PositionRequest(game=response.game, moves=response.moves).position()
    assert again == position
    assert response.board == position.board().tolist()
    assert [move.name for move in response.legal_moves] == position.legal_moves
    assert (response.result is None) == bool(position.legal_moves)


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 1000), max_size=60))
def test_last_cell_is_where_piece_was_placed(game: str, draws: list[int]) -> None:
    position = _position(game, draws)
    for response in position_responses(position):
        if response.last_move is None or response.last_move == "pass":
            assert response.last_cell is None
            continue
        row, column = divmod(response.last_cell, response.columns)
        assert response.board[row][column] == (-1 if response.first_to_move else 1)
        if game.startswith("connect_four"):
            assert response.last_move == str(column)
        else:
            assert response.last_move == f"{'abcdefgh'[column]}{row + 1}"


@given(st.sampled_from(GAMES[:3]), st.lists(st.integers(0, 1000), max_size=60))
def test_set_up_position_continues_like_played_one(game: str, draws: list[int]) -> None:
    position = _position(game, draws)
    if position.outcome is not None:
        return
    again = Position.set_up(game, position.board(), position.first_to_move)
    assert np.array_equal(again.board(), position.board())
    assert again.legal_moves == position.legal_moves
    assert again.first_to_move == position.first_to_move
    move = position.legal_moves[0]
    assert again.play(move) == position.play(move)
    assert again.play(move).first_player_outcome == position.play(move).first_player_outcome


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
def test_unreachable_boards_are_refused(
    client: TestClient, game: str, rows: list[str], first: bool, reason: str
) -> None:
    set_up = {"board": rows, "first_to_move": first}
    response = client.post("/api/v1/position", json={"game": game, "starting_board": set_up})
    assert response.status_code == 400
    assert reason in response.json()["error"]


def test_line_has_the_shapes_of_the_board_once(client: TestClient) -> None:
    request = {"game": "connect_four:6x7", "moves": ["3", "3", "2"]}
    first, *others = client.post("/api/v1/line", json=request).json()
    alone = client.post("/api/v1/position", json={**request, "moves": []}).json()
    assert first == alone
    assert [each["moves"] for each in others] == [["3"], ["3", "3"], ["3", "3", "2"]]
    assert [each["shapes"] for each in others] == [None] * 3


def test_forced_pass_is_explained(client: TestClient) -> None:
    rows = ["XO..", "....", "....", "...."]  # O to move has no capture; X has one at c1
    set_up = {"board": rows, "first_to_move": False}
    response = client.post(
        "/api/v1/position", json={"game": "othello:4x4", "starting_board": set_up}
    ).json()
    assert [move["name"] for move in response["legal_moves"]] == ["pass"]
    assert "no move" in response["pass_note"] and "pass" in response["pass_note"]
    after = {"game": "othello:4x4", "starting_board": set_up, "moves": ["pass"]}
    response = client.post("/api/v1/position", json=after).json()
    assert "O had no move" in response["pass_note"]
    assert response["last_cell"] is None


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
def test_invalid_request_gets_one_line(
    client: TestClient, body: dict[str, object], status: int, reason: str
) -> None:
    response = client.post("/api/v1/position", json=body)
    assert response.status_code == status
    assert reason in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_request_that_is_not_json_is_called_so(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    response = client.post("/api/v1/position", content='{"game": ', headers=headers)
    assert response.status_code == 422
    assert response.json()["error"].startswith("the request is not JSON: ")


def test_opening_is_reproducible_from_seed(client: TestClient) -> None:
    request = {"game": "gobang:5x5:4", "plies": 4, "seed": 3}
    first, again = (client.post("/api/v1/opening", json=request).json() for _ in range(2))
    assert first == again
    assert len(first["moves"]) == 4
    assert first["result"] is None
    other = client.post("/api/v1/opening", json={**request, "seed": 4}).json()
    assert other["moves"] != first["moves"]


def test_games_include_plugins(client: TestClient) -> None:
    games = {each["name"]: each for each in client.get("/api/v1/games").json()}
    assert {"othello", "connect_four", "gobang", "hex"} <= games.keys()
    assert games["gobang"]["defaults"] == {"rows": 6, "columns": 6, "length": 4}
    assert games["connect_four"]["example"] == "connect_four:6x7"
