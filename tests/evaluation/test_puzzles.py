"""Puzzles: answers against an exhaustive solver, grades, files, and the command."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest

from evaluation.exhaustive import check_perfect_play, exhaustive
from zerolab.agents.specs import parse_agents
from zerolab.cli import solve as puzzles_command
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.evaluation.puzzles import (
    BASELINE_GRADER_SPECS,
    LOOK_ALIKE_JUDGE_SPEC,
    Puzzle,
    PuzzleCollection,
    grade_puzzle,
    make_puzzle,
    only_best_move,
    puzzle_position,
    random_positions,
    read_puzzles,
    write_puzzles,
)
from zerolab.oracles.solver import oracle_for
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

GAME = "gobang:3x3:3"
FORCED = {"moves": ("a1", "b1", "a2", "b2", "c1", "a3", "b3", "c2"), "answer": "c3"}


@pytest.fixture(scope="module")
def tested():
    """Random positions of a small game with their puzzles, or None."""
    oracle = oracle_for(parse_game(GAME), memory_mib=1)
    positions = list(islice(random_positions(parse_game(GAME), 0), 60))
    return [(position, make_puzzle(position, oracle)) for position in positions]


@pytest.fixture(scope="module")
def puzzles(tested):
    """Puzzles of a small game."""
    return [puzzle for _, puzzle in tested if puzzle is not None]


def test_puzzle_is_exactly_position_with_one_best_result(tested):
    oracle = exhaustive(parse_game(GAME))
    found = 0
    for position, puzzle in tested:
        results = np.sign(oracle.values_at(position)[position.legal_actions])
        (best,) = np.nonzero(results == results.max())
        is_puzzle = len(best) == 1 and results.max() >= 0 and len(results) > 1
        assert (puzzle is not None) == is_puzzle
        if puzzle is not None:
            found += 1
            assert puzzle.answer == position.legal_moves[best[0]]
            assert puzzle_position(puzzle) == position
    assert 5 <= found < 60


def test_line_is_perfect_play_to_the_end(puzzles):
    oracle = exhaustive(parse_game(GAME))
    for puzzle in puzzles:
        position = check_perfect_play(oracle, puzzle_position(puzzle), puzzle.line)
        assert position.outcome is not None
        assert (position.outcome != 0) == puzzle.is_win


@pytest.mark.parametrize(
    ("scores", "answer"),
    [
        ({"a": 3, "b": 0, "c": -2}, "a"),
        ({"a": 3, "b": 1}, None),  # a slower win wins too
        ({"a": 0, "b": -1}, "a"),
        ({"a": 0, "b": 0, "c": -1}, None),
        ({"a": -1, "b": -2}, None),
        ({"a": 1}, None),
    ],
)
def test_only_best_compares_results_and_not_scores(scores, answer):
    assert only_best_move(scores) == answer


def test_grade_is_0_if_random_cannot_miss():
    puzzle = Puzzle(game=GAME, **FORCED, scores={"c3": 0}, line=("c3",))
    assert puzzle.grade == 0
    game = parse_game(GAME)
    (judge,) = parse_agents([LOOK_ALIKE_JUDGE_SPEC], game)
    measured = grade_puzzle(puzzle, parse_agents(BASELINE_GRADER_SPECS, game), judge)
    assert measured.misses == dict.fromkeys(BASELINE_GRADER_SPECS, 0)
    assert measured.grade == 0


def test_grade_is_mean_of_misses_and_random_misses_as_often_as_chance(puzzles):
    game = parse_game(GAME)
    (random,), (judge,) = (
        parse_agents(["random"], game),
        parse_agents([LOOK_ALIKE_JUDGE_SPEC], game),
    )
    shares = [grade_puzzle(each, [random], judge).grade for each in puzzles]
    expected = np.array([1 - 1 / len(each.scores) for each in puzzles])
    spread = np.sqrt((expected * (1 - expected) / 4).sum()) / len(puzzles)
    assert abs(np.mean(shares) - expected.mean()) < 5 * spread
    half = puzzles[0].model_copy(update={"misses": {"one": 1.0, "other": 0.5}})
    assert half.grade == 0.75


def test_longer_lines_and_look_alikes_raise_the_estimate():
    short = Puzzle(game=GAME, moves=(), answer="a1", scores={"a1": 1, "b1": 0}, line=("a1",))
    longer = short.model_copy(update={"line": ("a1", "b1", "c1")})
    similar = longer.model_copy(update={"look_alikes": 2})
    assert 0 == short.grade < longer.grade < similar.grade < 1


def test_collection_has_no_repeated_positions_and_few_easy_ones(puzzles):
    collection = PuzzleCollection(6)
    start = Position.start(GAME)
    orders = [start.play("a1").play("b2").play("c3"), start.play("c3").play("b2").play("a1")]
    assert [collection.mark_seen_if_new(each) for each in orders] == [True, False]
    for puzzle in puzzles:
        collection.add(puzzle.model_copy(update={"misses": {"random": 0.0}}))
    assert len(collection.puzzles) == 3
    assert not collection.is_complete


def test_file_keeps_puzzles_and_names_damaged_line(puzzles, tmp_path):
    path = tmp_path / "puzzles.jsonl"
    write_puzzles(path, puzzles)
    assert read_puzzles(path) == puzzles
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(UserError, match=rf"line {len(puzzles) + 1}"):
        read_puzzles(path)


def test_interrupted_command_keeps_graded_puzzles(tmp_path, monkeypatch):
    path = tmp_path / "puzzles.jsonl"
    graded = []

    def interrupted(*arguments):
        if len(graded) == 2:
            raise KeyboardInterrupt
        graded.append(grade_puzzle(*arguments))
        return graded[-1]

    monkeypatch.setattr(puzzles_command, "grade_puzzle", interrupted)
    with suppress(KeyboardInterrupt):
        main(["puzzles", GAME, "--count", "4", "--output", str(path)])
    assert read_puzzles(path) == graded
    assert len(graded) == 2


def test_command_writes_graded_puzzles(tmp_path, capsys):
    path = tmp_path / "puzzles.jsonl"
    assert main(["puzzles", GAME, "--count", "4", "--output", str(path)]) == 0
    assert "4 puzzles for gobang:3x3:3" in capsys.readouterr().out
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["grade"] for line in lines] == [
        each.as_dict()["grade"] for each in read_puzzles(path)
    ]
    assert all(set(line["misses"]) == set(BASELINE_GRADER_SPECS) for line in lines)


def test_existing_files_are_kept(tmp_path, capsys):
    path = tmp_path / "puzzles.jsonl"
    path.write_text("my notes")
    command = ["puzzles", GAME, "--count", "1", "--output"]
    assert main([*command, str(path)]) == 2
    assert f"{path} exists: expected a different file, or --overwrite" in capsys.readouterr().err
    assert path.read_text() == "my notes"
    assert main([*command, str(tmp_path / "notes.txt")]) == 2
    assert "ends in .jsonl" in capsys.readouterr().err
    assert main([*command, str(path), "--overwrite"]) == 0
    assert len(read_puzzles(path)) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--count", "0"], "count = 0"),
        (["--count", "2", "--seconds", "0"], "seconds = 0"),
        (["--count", "2", "--seconds", "inf"], "seconds = inf: expected a finite number"),
        (["--count", "2", "--seed", "-1"], "seed = -1"),
        (["--count", "2", "--agents", "mtcs:100"], "did you mean"),
    ],
)
def test_command_explains_wrong_values(tmp_path, capsys, arguments, expected):
    assert main(["puzzles", GAME, "--output", str(tmp_path / "p.jsonl"), *arguments]) == 2
    assert expected in capsys.readouterr().err
