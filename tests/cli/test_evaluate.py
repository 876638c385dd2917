"""`zerolab evaluate`: accuracy, matches and error messages."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from evaluation.exhaustive import Exhaustive, exhaustive
from zerolab.cli.main import main
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.evaluation.solved_sets import solve_set
from zerolab.rules.catalogue import parse_game

GAME = parse_game("gobang:3x3:3")


@pytest.fixture(autouse=True)
def tiny_oracle(monkeypatch):
    monkeypatch.setattr("zerolab.cli.evaluate.oracle_for", exhaustive)


def evaluated(capsys, *arguments):
    capsys.readouterr()
    assert main(["evaluate", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_accuracy_of_run_is_reported(smoke_run, positions, tmp_path, capsys):
    picture = tmp_path / "accuracy.png"
    output = evaluated(capsys, smoke_run, "--positions", positions, "--figure", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert output["game"] == "gobang:3x3:3"
    network, search, random = output["accuracy"]["players"]
    assert [network["name"], search["name"]] == ["network", "search"]
    for player in (network, search):
        strong, weak = player["all_positions"]["strong"], player["all_positions"]["weak"]
        assert 0 <= strong["low"] < strong["mean"] <= weak["mean"] <= 1
        assert strong["samples"] == 80
        assert player["non_trivial"]["weak"]["samples"] < 80
        assert sum(each["strong"]["samples"] for each in player["by_ply"].values()) == 80
        assert 0 < player["value_accuracy"]["mean_squared_error"]["mean"] < 4
    assert random["value_accuracy"] is None
    assert random["all_positions"]["strong"]["low"] == random["all_positions"]["strong"]["mean"]


@pytest.fixture
def test_sets(monkeypatch, tmp_path):
    """Two test sets of tic-tac-toe in Pons's format; X wins in the first line, O in the second."""
    monkeypatch.setattr("zerolab.cli.evaluate.solved_set_cache_folder", lambda: tmp_path / "cache")
    patched = functools.partial(solve_set, make_oracle=exhaustive)
    monkeypatch.setattr("zerolab.cli.evaluate.solve_set", patched)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a1a3b1b3 3\na1a3b1b3c2 2\n")
    second.write_text("b2b1 2\na1 0\n")
    return first, second


def test_test_sets_have_one_row_each(test_sets, smoke_run, tmp_path, capsys):
    output = evaluated(capsys, smoke_run, "--positions", *test_sets)
    assert [each["set"] for each in output["sets"]] == ["first", "second"]
    assert [each["positions"] for each in output["sets"]] == [2, 2]
    for entry in output["sets"]:
        network, search = entry["players"][:2]
        assert [network["name"], search["name"]] == ["network", "search"]
        for rates in (network, search):
            assert 0 <= rates["weak_errors"]["mean"] <= rates["strong_errors"]["mean"] <= 1
            assert rates["regret"]["mean"] >= 0
    # In the first set, one move of five wins at once, then one of four. A second move keeps the
    # win by blocking and making two threats.
    random = output["sets"][0]["players"][2]
    assert random["strong_errors"]["mean"] == pytest.approx((4 / 5 + 3 / 4) / 2)
    assert random["weak_errors"]["mean"] == pytest.approx((3 / 5 + 2 / 4) / 2)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert main(["evaluate", str(smoke_run), "--positions", *map(str, test_sets)]) == 0
    output = capsys.readouterr().out
    assert "network alone" in output
    assert "simulations per move" in output
    assert len(re.findall("^ (?:first|second) ", output, re.MULTILINE)) == 4


def test_one_test_set_can_be_drawn(test_sets, tmp_path, capsys):
    picture = tmp_path / "errors.png"
    arguments = ["mcts:5", "--game", "gobang:3x3:3", "--figure", picture]
    output = evaluated(capsys, *arguments, "--positions", test_sets[0])
    assert [each["name"] for each in output["sets"][0]["players"]] == ["player", "random, expected"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    command = ["evaluate", *map(str, arguments), "--positions", *map(str, test_sets)]
    assert main(command) == 2
    assert "expected a single file of positions" in capsys.readouterr().err


def test_files_of_both_kinds_can_be_mixed(test_sets, positions, capsys):
    output = evaluated(capsys, "random", "--positions", positions, test_sets[1])
    assert [each["positions"] for each in output["sets"]] == [80, 2]


def test_unknown_agent_is_refused_before_solving(test_sets, tmp_path, capsys):
    arguments = ["evaluate", "nobody", "--game", "gobang:3x3:3", "--positions", str(test_sets[0])]
    assert main(arguments) == 2
    assert "nobody" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_search_without_simulations_is_reported_once(smoke_run, positions, capsys):
    output = evaluated(capsys, f"{smoke_run}?simulations=0", "--positions", positions)
    assert [each["name"] for each in output["accuracy"]["players"]] == [
        "network",
        "random, expected",
    ]


def test_tables_name_player_and_positions(positions, capsys):
    assert main(["evaluate", "mcts:50", "--positions", str(positions)]) == 0
    output = capsys.readouterr().out
    assert "mcts:50, gobang:3x3:3" in output
    assert "80 solved positions" in output
    assert "player, non-trivial positions" in output
    assert "correct winner in " in output


def test_matches_against_perfect_play_count_blunders(capsys):
    output = evaluated(
        capsys, "random", "--game", "gobang:3x3:3", "--against", "perfect", "--games", "20"
    )
    report = output["against_perfect"]
    score = report["score"]
    assert score["wins"] == 0
    assert score["wins"] + score["draws"] + score["losses"] == 20
    assert report["blunder_share"]["samples"] == 20  # the start is a draw
    assert sum(report["blunders_by_ply"].values()) == score["losses"]
    assert main(["evaluate", "mcts:500", "--game", "gobang:3x3:3", "--against", "perfect"]) == 0
    assert "blundered as first player: 0.0 %" in capsys.readouterr().out


def test_defaults_are_baseline_matches_and_sampled_positions(smoke_run, capsys):
    output = evaluated(capsys, smoke_run, "--games", "2")
    assert [each["opponent"] for each in output["matches"]] == [
        "random",
        "mcts:100?tie_break=random",
    ]
    assert all(each["wins"] + each["draws"] + each["losses"] == 2 for each in output["matches"])
    assert output["accuracy"]["positions"] > 100
    assert output["accuracy"]["games"] == output["accuracy"]["positions"]
    assert output["not_solved"] == 0


def test_unsolvable_game_advises_making_dataset(monkeypatch, capsys):
    monkeypatch.setattr("zerolab.cli.evaluate.oracle_for", lambda *_: Exhaustive(GAME, 3))
    assert main(["evaluate", "random", "--game", "gobang:3x3:3", "--games", "2"]) == 0
    output = capsys.readouterr().out
    assert "zerolab dataset gobang:3x3:3" in output
    assert "against mcts:100?tie_break=random: " in output


def test_unsolved_positions_are_counted(monkeypatch, capsys):
    """The oracle solves positions with at most eight moves, but never a game's first position."""
    monkeypatch.setattr("zerolab.cli.evaluate.oracle_for", lambda *_: Exhaustive(GAME, 8))
    monkeypatch.setattr("zerolab.evaluation.dataset._probe", lambda *_: None)
    arguments = ["random", "--game", "gobang:3x3:3", "--games", "2"]
    output = evaluated(capsys, *arguments)
    assert 0 < output["not_solved"] < output["accuracy"]["games"]
    assert main(["evaluate", *arguments]) == 0
    counted = re.search(r"(\d+) positions? .* from (\d+) games", capsys.readouterr().out)
    assert int(counted[1]) == output["not_solved"]
    assert int(counted[2]) >= output["accuracy"]["games"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["random"], "expected --game"),
        (["nobody", "--game", "gobang:3x3:3"], "nobody"),
        (["random", "--positions", "FILE", "--game", "othello:6x6"], "not for othello:6x6"),
        (["random", "--positions", "nowhere.parquet"], "does not exist"),
        (["random", "--positions", "SET"], "line 2: move 7: column 4 is full"),
        (["random", "--game", "gobang:3x3:3", "--positions", "SET"], 'move 1 is "1": expected'),
        (["random", "--positions", "FILE", "--figure", "x.xyz"], "expected an extension"),
        (["random", "--positions", "FILE", "--figure", "no/x.png"], "cannot write no/x.png"),
        (["random", "--game", "gobang:3x3:3", "--games", "3"], "expected an even number"),
        (["random", "--game", "gobang:3x3:3", "--games", "0"], "expected an even number"),
        (["random", "--game", "gobang:3x3:3", "--openings", "-1"], "expected at least 0"),
        (["random", "--game", "gobang:3x3:3", "--openings", "1" * 30], "at most 1000"),
        (["random", "--game", "gobang:3x3:3", "--games", "1" * 4000], "expected an even number"),
        (["random", "--game", "gobang:3x3:3", "--nodes", "1" * 30], "less than 2**63"),
        (
            ["random", "--game", "gobang:3x3:3", "--nodes", "5"],
            "--nodes has no effect here: expected --against perfect too",
        ),
        (["random", "--positions", "FILE", "--games", "4"], "--games has no effect here"),
        (["random", "--positions", "FILE", "--openings", "4"], "--openings has no effect here"),
        (["random", "--positions", "x" * 5000], "File name too long"),
        (["random", "--positions", "\udcff.parquet"], "in UTF-8"),
        (["random", "--positions", "FILE", "--figure", "x" * 5000 + ".png"], "File name too long"),
        (["random", "--game", "gobang:3x3:3", "--seed", "-1"], "seed = -1"),
        (["random", "--game", "gobang:3x3:3", "--against", "me"], "perfect"),
        (
            ["random", "--game", "gobang:3x3:3", "--against", "perfect", "--figure", "x.png"],
            "--figure x.png shows accuracy on solved positions",
        ),
        (
            ["random", "--game", "gobang:3x3:3", "--against", "perfect", "--nodes", "1"],
            "expected a larger --nodes or longer openings\n",
        ),
        (
            ["random", "--game", "gobang:4x4:4", "--against", "perfect", "--nodes", "1"],
            "expected a larger --nodes or longer openings, such as --openings 10\n",
        ),
        (
            ["random", "--game", "gobang:3x3:3", "--against", "perfect", "--openings", "9"],
            "openings of 9 plies",
        ),
    ],
)
def test_mistakes_print_one_line(arguments, expected, positions, tmp_path, capsys):
    capsys.readouterr()
    lines = tmp_path / "set"
    lines.write_text("12 1\n4444444 2\n")
    files = {"FILE": str(positions), "SET": str(lines)}
    command = [files.get(each, each) for each in arguments]
    assert main(["evaluate", *command]) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert len(errors) < 400


def test_file_without_positions_is_refused(tmp_path, capsys):
    empty = collect_in_memory(GAME, 1, DatasetSettings(), exhaustive(GAME)).positions.take(
        np.empty(0, np.int64)
    )
    path = tmp_path / "none.parquet"
    write_positions(path, empty, {})
    assert main(["evaluate", "random", "--positions", str(path)]) == 2
    assert "no positions" in capsys.readouterr().err


def test_positions_of_other_game_are_refused(smoke_run, tmp_path, capsys):
    empty = collect_in_memory(GAME, 1, DatasetSettings(), exhaustive(GAME)).positions.take(
        np.empty(0, np.int64)
    )
    path = tmp_path / "other.parquet"
    write_positions(path, replace(empty, game=parse_game("gobang:3x4:3")), {})
    assert main(["evaluate", str(smoke_run), "--positions", str(path)]) == 2
    assert "has positions for gobang:3x4:3, not for gobang:3x3:3" in capsys.readouterr().err
