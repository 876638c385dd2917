"""Against perfect play: what is thrown away is seen, at the ply where it happens."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.exhaustive import Exhaustive, exhaustive
from zerolab.agents.interface import FORFEIT, StatelessPlayer
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.kinds.random import RandomPlayer
from zerolab.core.errors import UserError
from zerolab.evaluation.perfection import Move, challenge, examine, summarise
from zerolab.oracles.interface import ILLEGAL
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.games import GameRecord

GAME = parse_game("gobang:3x3:3")
ORACLE = exhaustive(GAME)


class Thrower(StatelessPlayer):
    """Plays perfectly, but for the worst move at one ply."""

    name = "thrower"

    def __init__(self, ply):
        self.ply = ply

    def choose(self, slots, states, keys):
        values = ORACLE.action_values(states)
        plies = 9 - (values != ILLEGAL).sum(axis=1)
        worst = np.where(values == ILLEGAL, 1000, values).argmin(axis=1)
        return np.where(plies == self.ply, worst, values.argmax(axis=1))


def test_perfect_play_gives_nothing_away():
    games, moves = challenge(GAME, PerfectPlayer(ORACLE, "other"), ORACLE, 6, 0, seed=1)
    report = summarise(games, moves)
    assert report.score == (0, 6, 0)
    assert report.gave_away.mean == 0
    assert report.by_ply == {}
    assert report.lost.mean == 0


@pytest.mark.parametrize("ply", [1, 3, 4])
def test_a_value_thrown_away_is_seen_at_its_ply(ply):
    games, moves = challenge(GAME, Thrower(ply), ORACLE, 20, 0, seed=1)
    report = summarise(games, moves)
    thrown = [move for move in moves if move.gives_away]
    assert thrown
    assert {move.ply for move in thrown} == {ply}
    assert {move.game % 2 for move in thrown} == {ply % 2}
    assert report.by_ply == {ply: len(thrown)}
    assert report.score.losses == len(thrown)  # what a perfect opponent is given it takes
    assert report.score.wins == 0
    part = report.gave_away_first if ply % 2 == 0 else report.gave_away_second
    other = report.gave_away_second if ply % 2 == 0 else report.gave_away_first
    assert part.mean == len(thrown) / 10
    assert other.mean == 0


def test_results_are_what_was_kept():
    games, moves = challenge(GAME, RandomPlayer(GAME), ORACLE, 60, 2, seed=1)
    assert min(move.ply for move in moves) >= 2
    for played in games:
        own = [move for move in moves if move.game == played.number]
        result = played.result if played.number % 2 == 0 else -played.result
        if own:
            assert result == np.sign(own[-1].after)
            assert any(move.gives_away for move in own) == (np.sign(own[0].before) > result)
    report = summarise(games, moves)
    hopeless = {played.number for played in games} - {m.game for m in moves if m.before >= 0}
    assert hopeless  # random openings lose some games
    assert report.gave_away.positions == len(games) - len(hopeless)


def test_moves_are_compared_with_the_best_one():
    # X takes a corner, O an edge beside it, which loses; X errs in turn by taking the next edge.
    played = [GameRecord(0, "x", "o", (0, 1, 2), 0), GameRecord(1, "o", "x", (0, 1), 0)]
    moves = examine(GAME, played, ORACLE)
    start = Position.start(GAME)
    corner = ORACLE.action_values(start.play(0).state[None])[0]
    assert moves[-1] == Move(1, 1, corner.max(), corner[1])
    assert moves[-1].gives_away
    assert [move.ply for move in moves] == [0, 2, 1]
    assert not moves[0].gives_away
    assert moves[1].before > 0


def test_giving_up_gives_away_what_is_not_lost():
    played = [GameRecord(0, "x", "o", (0, 4, FORFEIT), -1)]
    moves = examine(GAME, played, ORACLE)
    assert moves[-1].after is None
    assert moves[-1].gives_away
    assert summarise(played, moves).by_ply == {2: 1}
    assert not Move(0, 2, -3, None).gives_away


def test_too_hard_beginnings_are_answered_by_later_ones():
    hard = Exhaustive(GAME, hardest=6)
    with pytest.raises(UserError, match="as in --openings 10"):
        challenge(GAME, RandomPlayer(GAME), hard, 2, 0, seed=1)
    games, moves = challenge(GAME, RandomPlayer(GAME), hard, 4, 3, seed=1)
    assert len(games) == 4
    assert min(move.ply for move in moves) == 3
