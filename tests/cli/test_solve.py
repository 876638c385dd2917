"""`zerolab solve` as a user meets it."""

from __future__ import annotations

import json
import sys

import pytest

from zerolab.cli.main import main


def test_json_names_every_move(capsys):
    assert main(["solve", "othello:4x4", "--moves", "b1 a1", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert solution["game"] == "othello:4x4"
    assert solution["played"] == ["b1", "a1"]
    assert solution["mover"] == "first"
    assert solution["value"] == max(solution["moves"].values())
    assert solution["best"] == [m for m, v in solution["moves"].items() if v == solution["value"]]
    assert solution["nodes"] > 0


def test_fast_wins_are_worth_more(capsys):
    # The first player has three in a row on the floor, open on one side.
    assert main(["solve", "connect_four:4x5", "--moves", "0,0,1,1,2,2", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert solution["best"] == ["3"]
    assert solution["value"] == (20 - 7) // 2 + 1
    assert all(
        value < solution["value"] for move, value in solution["moves"].items() if move != "3"
    )


def test_a_finished_game_has_a_value_and_no_moves(capsys):
    assert main(["solve", "gobang:3x3:3", "--moves", "a1,a2,b1,b2,c1", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert (solution["value"], solution["moves"], solution["best"]) == (-3, {}, [])


def test_the_table_shows_board_and_verdict(capsys):
    assert main(["solve", "gobang:3x3:3", "--moves", "b2,a2"]) == 0
    shown = capsys.readouterr().out
    assert "X to move" in shown
    assert "X wins, value +" in shown


def test_the_built_in_solver_on_the_standard_board(capsys):
    moves = "3,3,3,3,3,3,2,2,4,4,2,4,2,2"
    arguments = ["solve", "connect_four:6x7", "--moves", moves, "--generic", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["best"] == ["1", "5"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["othelo:4x4"], 'did you mean "othello"?'),
        (["othello:4x4", "--moves", "a1"], '"a1" is not a legal move here'),
        (["gobang:3x3:3", "--moves", "1,2,9"], '"9" is not a legal move here'),
        (["othello:6x6", "--nodes", "1000"], "not solved within 1,00"),
        (["othello:6x6", "--seconds", "0.01"], "not solved within"),
        (["othello:4x4", "--nodes", "0"], "nodes = 0: expected at least 1"),
        (["othello:4x4", "--seconds", "-1"], "seconds = -1.0: expected more than 0"),
        (["othello:4x4", "--seconds", "nan"], "seconds = nan: expected more than 0"),
        (["othello:4x4", "--memory", "0"], "memory = 0: expected at least 1"),
    ],
)
def test_wrong_input_is_answered_in_one_line(arguments, complaint, capsys):
    assert main(["solve", *arguments]) == 2
    answer = capsys.readouterr()
    assert complaint in answer.err
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1


def test_without_bitbully_the_builtin_solver_works_and_one_line_names_the_extra(
    monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "bitbully", None)
    # Six columns are full but for a cell each, nobody has won, and the last column is empty.
    moves = [
        0,
        1,
        0,
        1,
        1,
        0,
        1,
        0,
        0,
        1,
        2,
        3,
        2,
        3,
        3,
        2,
        3,
        2,
        2,
        3,
        4,
        5,
        4,
        5,
        5,
        4,
        5,
        4,
        4,
        5,
    ]
    line = ",".join(map(str, moves))
    assert main(["solve", "connect_four:6x7", "--moves", line, "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["nodes"] > 0
    assert len(output.err.splitlines()) == 1
    assert "zerolab[oracle]" in output.err
