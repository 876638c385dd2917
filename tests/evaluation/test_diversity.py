"""Diversity of self-play: hand-computed counts of distinct positions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from training.test_views import made_run, self_play
from zerolab.cli.main import main
from zerolab.evaluation.position_statistics import diversity_of_games
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import GameRecord

# The second game transposes into the first after three plies, and the third repeats the first. The
# first player wins with the column of cells 0, 3 and 6.
WINS = [(0, 1, 3, 2, 6), (3, 1, 0, 2, 6), (0, 1, 3, 2, 6)]


def records(games):
    return [GameRecord(number, "@0", "@0", actions, 1) for number, actions in enumerate(games)]


def test_counts_agree_with_hand_computed_values():
    result = diversity_of_games(
        "a", parse_game("gobang:3x3:3"), [records(WINS[:2]), records(WINS[2:])], 36.0
    )
    assert (result.game_count, result.position_count) == (3, 15)
    # Plies 0, 3 and 4 have one position each, plies 1 and 2 two.
    assert result.position_counts_by_ply == [3, 3, 3, 3, 3]
    assert result.distinct_counts_by_ply == [1, 2, 2, 1, 1]
    assert result.distinct_count == 7
    assert result.new_counts_by_game.tolist() == [5, 2, 0]
    assert [result.distinct_in_first(games) for games in (0, 1, 2, 3)] == [0, 5, 7, 7]
    assert result.distinct_per_game == pytest.approx(7 / 3)
    assert result.distinct_per_hour == pytest.approx(700)


def test_distinct_positions_after_two_plies():
    """Nine positions are possible after one ply, and 72 after two."""
    games = [(first, second, 8 if 8 not in (first, second) else 7)
             for first in range(9) for second in range(9) if first != second]  # fmt: skip
    result = diversity_of_games("a", parse_game("gobang:3x3:3"), [records(games)])
    assert result.distinct_counts_by_ply == [1, 9, 72]
    assert result.new_counts_by_game.sum() == result.distinct_count == 82
    assert result.distinct_per_hour is None


def test_no_games_have_no_positions():
    result = diversity_of_games("a", parse_game("gobang:3x3:3"), [])
    assert (result.game_count, result.distinct_count, result.distinct_per_game) == (0, 0, 0.0)


def test_run_without_self_play_is_reported(tmp_path, capsys):
    folder = tmp_path / "run"
    made_run(folder, [])
    assert main(["diversity", str(folder)]) == 2
    assert "self-play" in capsys.readouterr().err


def test_command_counts_finished_stages_and_draws_a_figure(tmp_path, capsys):
    folder = tmp_path / "run"
    run = made_run(folder, [])
    run.games.write_stage(1, "selfplay", records(WINS[:2]))
    run.games.write_stage(1, "gate", records(WINS))
    run.commit(run.progress, [self_play(1, 2).as_dict()])
    run.games.write_stage(2, "selfplay", records(WINS))  # an unfinished stage
    assert main(["diversity", str(folder), str(folder), "--json"]) == 0
    (result, repeated) = json.loads(capsys.readouterr().out)
    assert result == repeated
    assert (result["games"], result["distinct"], result["distinct_by_games"]) == (2, 7, [5, 7])
    assert result["distinct_per_hour"] == pytest.approx(14)  # half an hour
    figure = tmp_path / "diversity.png"
    assert main(["diversity", str(folder), "--figure", str(figure)]) == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert np.isin(["7", "3.5", "14"], capsys.readouterr().out.split()).all()
    assert main(["diversity", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
