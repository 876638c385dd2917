"""`zerolab dataset`: files, manifests and error messages."""

from __future__ import annotations

import functools
import json

import pytest

from evaluation.exhaustive import exhaustive
from zerolab.cli.main import main
from zerolab.evaluation.dataset import make_dataset
from zerolab.evaluation.positions import read_positions
from zerolab.evaluation.solved_sets import solve_set


@pytest.fixture(autouse=True)
def tiny_oracle(monkeypatch, tmp_path):
    patched = functools.partial(make_dataset, make_oracle=exhaustive)
    monkeypatch.setattr("zerolab.cli.evaluate.make_dataset", patched)
    solve = functools.partial(solve_set, make_oracle=exhaustive)
    monkeypatch.setattr("zerolab.cli.evaluate.solve_set", solve)
    monkeypatch.setattr("zerolab.cli.evaluate.solved_set_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return main(["dataset", *arguments, "--processes", "1"])


def test_dataset_and_manifest_are_written(tmp_path, capsys):
    assert run("gobang:3x3:3", "--positions", "50") == 0
    output = capsys.readouterr().out
    assert output.startswith("gobang-3x3-3-50.parquet: 50 positions")
    assert "best moves on average; random play: " in output
    positions, about = read_positions(tmp_path / "gobang-3x3-3-50.parquet")
    assert len(positions) == 50
    assert (about["perfect"], about["one_per_game"], about["first_ply"]) == (0.5, False, 0)


def test_public_test_set_is_solved(tmp_path, capsys):
    (tmp_path / "Test_L9").write_text("a1a3b1b3 3\na1a3b1b3c2 2\n")
    assert run("gobang:3x3:3", "--from", "Test_L9") == 0
    output = capsys.readouterr().out
    assert output.startswith("gobang-3x3-3-Test_L9.parquet: 2 positions from Test_L9; the solver c")
    positions, about = read_positions(tmp_path / "gobang-3x3-3-Test_L9.parquet")
    assert positions.move_sequence(0) == (0, 6, 1, 7)
    assert positions.position_values.tolist() == [3, 2]
    assert about["source"] == "Test_L9"
    assert run("gobang:3x3:3", "--from", "Test_L9", "--out", "x.parquet", "--json") == 0
    manifest = json.loads(capsys.readouterr().out)
    assert (manifest["positions"], manifest["won"]) == (2, 2)
    assert manifest == json.loads((tmp_path / "x.parquet.json").read_text())


def test_test_set_replaces_no_other_file(tmp_path, capsys):
    lines = "a1a3b1b3 3\n"
    (tmp_path / "one").write_text(lines)
    (tmp_path / "two").write_text("a1a3b1b3c2 2\n")
    assert run("gobang:3x3:3", "--from", "one", "--out", "x.parquet") == 0
    content = (tmp_path / "x.parquet").read_bytes()
    assert run("gobang:3x3:3", "--from", "one", "--out", "x.parquet") == 0
    assert run("gobang:3x3:3", "--from", "two", "--out", "x.parquet") == 2
    assert "x.parquet exists with other positions" in capsys.readouterr().err
    (tmp_path / "one").rename(tmp_path / "one.parquet")
    assert run("gobang:3x3:3", "--from", "one.parquet", "--out", "one.parquet") == 2
    assert "is not a Parquet file" in capsys.readouterr().err
    assert (tmp_path / "x.parquet").read_bytes() == content
    assert (tmp_path / "one.parquet").read_text() == lines


def test_positions_without_a_limit_are_not_those_with_one(capsys):
    words = "connect_four:4x4", "--positions", "20", "--plies", "8:", "--out", "limited.parquet"
    assert run(*words, "--nodes", "100000") == 0
    assert run(*words, "--nodes", "100000") == 0
    assert run(*words) == 2
    assert "already exists with nodes = 100000, not no limit" in capsys.readouterr().err


def test_test_set_with_a_wrong_score_is_not_written(tmp_path, capsys):
    (tmp_path / "wrong").write_text("a1a3b1b3 3\na1a3b1b3c2 1\n")
    assert run("gobang:3x3:3", "--from", "wrong") == 2
    assert "wrong, line 2: score 1, but the solver finds 2 (1 of 2" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet*"))


def test_options_are_recorded_in_manifest(tmp_path, capsys):
    arguments = ["--positions", "9", "--perfect", "0.9", "--one-per-game", "--plies", "2:5"]
    assert run("gobang:3x3:3", *arguments, "--seed", "7", "--out", "x.parquet", "--json") == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest == json.loads((tmp_path / "x.parquet.json").read_text())
    recorded = {key: manifest[key] for key in ("perfect", "one_per_game", "seed", "positions")}
    assert recorded == {"perfect": 0.9, "one_per_game": True, "seed": 7, "positions": 9}
    assert set(manifest["by_ply"]) <= {"2", "3", "4", "5"}


def test_too_few_positions_are_reported(capsys):
    assert run("gobang:3x3:3", "--positions", "1000", "--plies", ":2") == 0
    assert "of 1000 positions found" in capsys.readouterr().out


def test_file_without_positions_is_not_written(tmp_path, capsys):
    path = tmp_path / "none.parquet"
    assert run("gobang:3x3:3", "--positions", "5", "--plies", "50:", "--out", str(path)) == 2
    assert "before ply 50" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["goban:3x3", "--positions", "5"], 'did you mean "gobang"'),
        (["gobang:3x3:3"], "--positions"),
        (["--from", "missing"], "cannot read missing"),
        (["--from", "x", "--seed", "3"], "--seed has no effect with --from"),
        (["--from", "x", "--one-per-game"], "--one-per-game has no effect with --from"),
        (["gobang:3x3:3", "--positions", "0"], "positions = 0: expected at least 1"),
        (["gobang:3x3:3", "--positions", "5", "--perfect", "1.5"], "perfect = 1.5: expected at"),
        (["gobang:3x3:3", "--positions", "5", "--perfect", "nan"], "expected a finite number"),
        (["gobang:3x3:3", "--positions", "5", "--seed", "-1"], "seed = -1: expected at least 0"),
        (["gobang:3x3:3", "--positions", "5", "--plies", "20"], "expected LOW:HIGH"),
        (["gobang:3x3:3", "--positions", "5", "--plies", "5:2"], "plies 5:2"),
        (["gobang:3x3:3", "--positions", "5", "--plies", "99999:"], "first_ply = 99999"),
        (["gobang:3x3:3", "--positions", "5", "--out", "no/x.parquet"], "does not exist"),
        (
            ["gobang:3x3:3", "--positions", "5", "--out", "\udcff.parquet"],
            "in UTF-8",
        ),
        (["gobang:3x3:3", "--positions", "5", "--out", "x" * 5000], "File name too long"),
        (["gobang:3x3:3", "--positions", "5", "--out", "x" * 253], "File name too long"),
        (["gobang:3x3:3", "--positions", "5", "--out", "."], "it is a folder"),
        (["gobang:3x3:3", "--positions", "1" * 4000], "expected at least 1 and at most"),
        (["othello:8x8", "--positions", "20000000"], "at most 7837531"),
        (["gobang:3x3:3", "--positions", "5", "--out", "x.csv"], "ends in .parquet"),
        (["gobang:3x3:3", "--positions", "5", "--plies", "1" * 5000], "expected LOW:HIGH"),
        (["gobang:3x3:3", "--positions", "5", "--seed", "1" * 4000], "expected less than"),
        (["gobang:3x3:3", "--positions", "5", "--nodes", "1" * 4000], "nodes = "),
    ],
)
def test_mistakes_print_one_line(arguments, expected, capsys):
    assert run(*arguments) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert len(errors) < 400


def test_zero_processes_are_refused(capsys):
    arguments = ["dataset", "gobang:3x3:3", "--positions", "5", "--processes", "0"]
    assert main(arguments) == 2
    assert "processes = 0: expected at least 1" in capsys.readouterr().err
