"""Matches against perfect play: blunders, results and openings."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.exhaustive import Exhaustive, exhaustive
from play.scripted import agent_of
from zerolab.agents.agent import FORFEIT_ACTION, StatelessPlayer
from zerolab.agents.baselines import PerfectPlayer, RandomPlayer
from zerolab.core.errors import UserError
from zerolab.evaluation.opponents import (
    SolvedMove,
    perfect_play_report,
    play_against_perfect,
    solve_moves_of_player_a,
)
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.games import GameRecord

GAME = parse_game("gobang:3x3:3")
ORACLE = exhaustive(GAME)


class BlunderingPlayer(StatelessPlayer):
    """Perfect player that plays the worst move at one ply."""

    name = "blundering"

    def __init__(self, ply):
        self.ply = ply

    def choose(self, slots, states, keys):
        values = ORACLE.action_values(states)
        plies = 9 - (values != ILLEGAL_VALUE).sum(axis=1)
        worst = np.where(values == ILLEGAL_VALUE, 1000, values).argmin(axis=1)
        return np.where(plies == self.ply, worst, values.argmax(axis=1))


def test_perfect_play_never_blunders():
    games, moves = play_against_perfect(
        GAME, agent_of(PerfectPlayer(ORACLE, "other")), ORACLE, 6, 0, seed=1
    )
    report = perfect_play_report(games, moves)
    assert report.pair_result.score == (0, 6, 0)
    assert report.blunder_share.interval.value == 0
    assert report.blunders_by_ply == {}
    assert report.regret.interval.value == 0


@pytest.mark.parametrize("ply", [1, 3, 4])
def test_blunders_are_found_at_their_ply(ply):
    games, moves = play_against_perfect(
        GAME, agent_of(BlunderingPlayer(ply)), ORACLE, 20, 0, seed=1
    )
    report = perfect_play_report(games, moves)
    blunders = [move for move in moves if move.is_blunder]
    assert blunders
    assert {move.ply for move in blunders} == {ply}
    assert {move.game_number % 2 for move in blunders} == {ply % 2}
    assert report.blunders_by_ply == {ply: len(blunders)}
    score = report.pair_result.score  # the perfect opponent wins every game with a blunder
    assert (score.wins, score.losses) == (0, len(blunders))
    blundering_side = (
        report.blunder_share_moving_first if ply % 2 == 0 else report.blunder_share_moving_second
    )
    other_side = (
        report.blunder_share_moving_second if ply % 2 == 0 else report.blunder_share_moving_first
    )
    assert blundering_side.interval.value == len(blunders) / 10
    assert other_side.interval.value == 0


def test_results_agree_with_judged_moves():
    games, moves = play_against_perfect(GAME, agent_of(RandomPlayer(GAME)), ORACLE, 60, 2, seed=1)
    assert min(move.ply for move in moves) >= 2
    for played in games:
        game_moves = [move for move in moves if move.game_number == played.number]
        result = played.result if played.number % 2 == 0 else -played.result
        if game_moves:
            assert result == np.sign(game_moves[-1].played_score)
            assert any(move.is_blunder for move in game_moves) == (
                np.sign(game_moves[0].best_score) > result
            )
    report = perfect_play_report(games, moves)
    lost_openings = {played.number for played in games} - {
        m.game_number for m in moves if m.best_score >= 0
    }
    assert lost_openings  # some random openings are lost
    assert report.blunder_share.sample_count == len(games) - len(lost_openings)


def test_moves_are_compared_with_the_best_move():
    # X takes a corner. O replies with an adjacent edge, which loses, but X errs in turn.
    played = [GameRecord(0, "x", "o", (0, 1, 2), 0), GameRecord(1, "o", "x", (0, 1), 0)]
    moves = solve_moves_of_player_a(GAME, played, ORACLE)
    start = Position.start(GAME)
    corner = ORACLE.values_at(start.play(0))
    assert moves[-1] == SolvedMove(1, 1, corner.max(), corner[1])
    assert moves[-1].is_blunder
    assert [move.ply for move in moves] == [0, 2, 1]
    assert not moves[0].is_blunder
    assert moves[1].best_score > 0


def test_forfeit_is_a_blunder_unless_already_lost():
    played = [GameRecord(0, "x", "o", (0, 4, FORFEIT_ACTION), -1)]
    moves = solve_moves_of_player_a(GAME, played, ORACLE)
    assert moves[-1].played_score is None
    assert moves[-1].is_blunder
    assert perfect_play_report(played, moves).blunders_by_ply == {2: 1}
    assert not SolvedMove(0, 2, -3, None).is_blunder


def test_unsolvable_openings_are_reported():
    hard = Exhaustive(GAME, max_moves=6)
    with pytest.raises(UserError, match=r"larger --nodes or longer openings$"):
        play_against_perfect(GAME, agent_of(RandomPlayer(GAME)), hard, 2, 0, seed=1)
    games, moves = play_against_perfect(GAME, agent_of(RandomPlayer(GAME)), hard, 4, 3, seed=1)
    assert len(games) == 4
    assert min(move.ply for move in moves) == 3
