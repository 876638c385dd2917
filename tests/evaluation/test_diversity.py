"""Distinct positions of self-play, against counts by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from training.test_views import made_run, self_play
from zerolab.cli.main import main
from zerolab.evaluation.diversity import games_diversity
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import GameRecord

# The second game reaches the position of the first one after three plies by another way; the third
# one repeats the first. Cells 0, 3, 6 are a column of the first player.
WINS = [(0, 1, 3, 2, 6), (3, 1, 0, 2, 6), (0, 1, 3, 2, 6)]


def records(games):
    return [GameRecord(number, "@0", "@0", actions, 1) for number, actions in enumerate(games)]


def test_positions_of_three_games_counted_by_hand():
    found = games_diversity(
        "a", parse_game("gobang:3x3:3"), [records(WINS[:2]), records(WINS[2:])], 36.0
    )
    assert (found.games, found.positions) == (3, 15)
    # Plies 0, 3 and 4 have one position each, plies 1 and 2 two.
    assert found.positions_by_ply == [3, 3, 3, 3, 3]
    assert found.distinct_by_ply == [1, 2, 2, 1, 1]
    assert found.distinct == 7
    assert found.new_by_game.tolist() == [5, 2, 0]
    assert [found.within(games) for games in (0, 1, 2, 3)] == [0, 5, 7, 7]
    assert found.per_game == pytest.approx(7 / 3)
    assert found.per_hour == pytest.approx(700)


def test_every_sequence_of_two_plies_is_counted_as_the_rules_say():
    """9 positions after one ply, 72 after two."""
    games = [(one, other, 8 if 8 not in (one, other) else 7)
             for one in range(9) for other in range(9) if one != other]  # fmt: skip
    found = games_diversity("a", parse_game("gobang:3x3:3"), [records(games)])
    assert found.distinct_by_ply == [1, 9, 72]
    assert found.new_by_game.sum() == found.distinct == 82
    assert found.per_hour is None


def test_nothing_played_has_no_positions():
    found = games_diversity("a", parse_game("gobang:3x3:3"), [])
    assert (found.games, found.distinct, found.per_game) == (0, 0, 0.0)


def test_a_run_without_self_play_is_one_line(tmp_path, capsys):
    folder = tmp_path / "run"
    made_run(folder, [])
    assert main(["diversity", str(folder)]) == 2
    assert "has no games of self-play" in capsys.readouterr().err


def test_the_command_counts_finished_iterations_and_draws(tmp_path, capsys):
    folder = tmp_path / "run"
    run = made_run(folder, [])
    run.games.record(1, "selfplay", records(WINS[:2]))
    run.games.record(1, "gate", records(WINS))
    run.commit(run.progress, [self_play(1, 2).line()])
    run.games.record(2, "selfplay", records(WINS))  # of a stage that is not finished
    assert main(["diversity", str(folder), str(folder), "--json"]) == 0
    (found, again) = json.loads(capsys.readouterr().out)
    assert found == again
    assert (found["games"], found["distinct"], found["distinct_by_games"]) == (2, 7, [5, 7])
    assert found["distinct_per_hour"] == pytest.approx(14)  # half an hour
    drawn = tmp_path / "diversity.png"
    assert main(["diversity", str(folder), "--figure", str(drawn)]) == 0
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert np.isin(["7", "3.5", "14"], capsys.readouterr().out.split()).all()
    assert main(["diversity", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
