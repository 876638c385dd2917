"""`zerolab solve`: values, best moves and error messages."""

from __future__ import annotations

import json
import sys

import pytest

from zerolab.cli import solve
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.oracles import solver
from zerolab.rules.position import Position


def test_json_has_value_of_every_move(capsys):
    assert main(["solve", "othello:4x4", "--moves", "b1 a1", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert solution["game"] == "othello:4x4"
    assert solution["played"] == ["b1", "a1"]
    assert solution["mover"] == "first"
    assert solution["value"] == max(solution["moves"].values())
    assert solution["best"] == [m for m, v in solution["moves"].items() if v == solution["value"]]
    assert solution["nodes"] > 0


def test_fast_wins_have_higher_value(capsys):
    # The first player has three in the bottom row, open on one side.
    assert main(["solve", "connect_four:4x5", "--moves", "0,0,1,1,2,2", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert solution["best"] == ["3"]
    assert solution["value"] == (20 - 7) // 2 + 1
    assert all(
        value < solution["value"] for move, value in solution["moves"].items() if move != "3"
    )


def test_finished_game_has_value_but_no_moves(capsys):
    assert main(["solve", "gobang:3x3:3", "--moves", "a1,a2,b1,b2,c1", "--json"]) == 0
    solution = json.loads(capsys.readouterr().out)
    assert (solution["value"], solution["moves"], solution["best"]) == (-3, {}, [])


def test_table_shows_board_and_result(capsys):
    assert main(["solve", "gobang:3x3:3", "--moves", "b2,a2"]) == 0
    printed = capsys.readouterr().out
    assert "X to move" in printed
    assert "X wins, value +" in printed


def test_built_in_solver_solves_standard_board(capsys):
    moves = "3,3,3,3,3,3,2,2,4,4,2,4,2,2"
    arguments = ["solve", "connect_four:6x7", "--moves", moves, "--generic", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["best"] == ["1", "5"]


@pytest.mark.parametrize(
    ("game", "moves", "generic", "is_long"),
    [
        ("connect_four:6x7", [], True, True),
        ("connect_four:6x7", [3, 3, 3, 3, 3, 3], True, False),
        ("connect_four:6x7", [], False, False),
        ("connect_four:5x6", [], False, False),
        ("othello:8x8", [], False, True),
        ("othello:6x6", ["c2", "b2", "b3"], False, False),
        ("gobang:6x6", [], False, True),
        ("gobang:5x5:4", [], False, False),
    ],
)
def test_hard_positions_are_announced(game, moves, generic, is_long, monkeypatch):
    monkeypatch.setattr(solver, "find_spec", lambda name: name)  # as if BitBully were installed
    position = Position.start(game)
    for move in moves:
        position = position.play(str(move))
    warning = solve._hours_warning(position, generic)
    assert ("this may take" in warning) == ("--seconds" in warning) == is_long


def test_warning_is_printed_only_without_a_limit(monkeypatch, capsys):
    def refuse(*arguments, **options):
        raise UserError("stopped")

    monkeypatch.setattr(solve, "solve_position", refuse)
    assert main(["solve", "gobang:6x6"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert main(["solve", "gobang:6x6", "--seconds", "1"]) == 2
    assert capsys.readouterr().err == "zerolab: stopped\n"


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (
            ["connect_four:4x4", "--moves", "0 0 1 1 2 2"],
            ["columns, numbered 0 to 3", "is worth 1, "],
        ),
        (["othello:4x4", "--moves", "b1 a1"], ["cells such as c2", "disc differences"]),
    ],
)
def test_notation_and_values_are_explained(arguments, texts, capsys):
    assert main(["solve", *arguments]) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["othelo:4x4"], 'did you mean "othello"?'),
        (["othello:4x4", "--moves", "a1"], '"a1" is not a legal move here'),
        (["gobang:3x3:3", "--moves", "1,2,9"], '"9" is not a legal move here'),
        (["gobang:3x3:3", "--moves", "1,,2"], '"" is not a legal move here'),
        (["othello:6x6", "--nodes", "1000"], "not solved within 1,00"),
        (["othello:6x6", "--seconds", "0.01"], "not solved within"),
        (["othello:4x4", "--nodes", "0"], "nodes = 0: expected at least 1"),
        (
            ["othello:4x4", "--seconds", "-1"],
            "seconds = -1.0: expected a finite number of seconds, more than 0",
        ),
        (["othello:4x4", "--seconds", "nan"], "seconds = nan: expected a finite number"),
        (["othello:4x4", "--seconds", "inf"], "seconds = inf: expected a finite number"),
        (["othello:4x4", "--memory", "0"], "memory = 0: expected at least 1"),
    ],
)
def test_mistakes_print_one_line(arguments, message, capsys):
    assert main(["solve", *arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""
    assert len(output.err.splitlines()) == 1


def test_missing_bitbully_falls_back_and_names_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bitbully", None)
    # Six columns have five pieces each, the last column is empty, and neither player has won.
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
    lines = [line for line in output.err.splitlines() if not line.startswith("solving ")]
    assert len(lines) == 1
    assert 'the "oracle" extra' in lines[0]


@pytest.mark.parametrize(
    "option", ["--nodes=256", "--seconds=256", "--memory=64"], ids=["nodes", "seconds", "memory"]
)
def test_limits_that_bitbully_would_ignore_are_refused(option, capsys):
    pytest.importorskip("bitbully", reason="the oracle extra is not installed")
    assert main(["solve", "connect_four:6x7", option]) == 2
    assert "has no effect with BitBully: expected --generic too" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["dataset", "connect_four:6x7", "--positions", "5", "--nodes", "9"],
        ["evaluate", "random", "--game", "connect_four", "--against", "perfect", "--nodes", "9"],
    ],
    ids=["dataset", "evaluate"],
)
def test_nodes_that_bitbully_would_ignore_are_refused(arguments, capsys):
    pytest.importorskip("bitbully", reason="the oracle extra is not installed")
    assert main(arguments) == 2
    assert "--nodes has no effect with BitBully" in capsys.readouterr().err
