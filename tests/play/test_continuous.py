"""Continuous self-play: what lanes play, who made which move, and on what it does not depend."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.selfplay_modes import play_continuous
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
LANES = 6


def stretches(*plies, evaluators=None, names=None, search=None, **settings):
    """Play iterations of that many plies per lane, one after the other."""
    chosen = {"simulations": 8, "noise": {"fraction": 0.25}, **(search or {})}
    unfinished, played = None, []
    for number, each in enumerate(plies):
        evaluator = (evaluators or {}).get(number) or HashEvaluator(rules.actions(GAME))
        mode = {"name": "continuous", "plies": each}
        played.append(
            play_continuous(
                GAME, SelfPlaySettings(parallel_games=LANES, mode=mode, **settings),
                SearchSettings.model_validate(chosen), evaluator, 3, unfinished,
                name=names[number] if names else "a",
            )
        )  # fmt: skip
        unfinished = played[-1].unfinished
    return played


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


def games_of(played):
    return [game for episodes in played for game in episodes.games]


def test_every_lane_plays_equally_many_plies_and_its_games_follow_each_other():
    played = stretches(9, 5, 20)
    before = 0
    for episodes, plies in zip(played, (9, 5, 20), strict=True):
        assert episodes.moves == LANES * plies
        after = len(episodes.unfinished.moves.games)
        assert len(episodes.examples.games) + after == before + episodes.moves
        before = after
    numbers = [game.number for game in games_of(played)]
    assert len(set(numbers)) == len(numbers)
    going_on = {game.number for game in played[-1].unfinished.games}
    for lane in range(LANES):
        mine = sorted(number for number in {*numbers, *going_on} if number % LANES == lane)
        assert mine == list(range(lane, mine[-1] + 1, LANES))
        assert mine[-1] in going_on


def test_the_examples_are_the_games():
    """Also those that were played in several iterations."""
    played = stretches(7, 7, 7)
    over_several = 0
    for episodes, former in zip(played[1:], played, strict=False):
        begun = {game.number: game.actions for game in former.unfinished.games if game.actions}
        for game in episodes.games:
            over_several += game.number in begun
            assert game.actions[: len(begun.get(game.number, ()))] == begun.get(game.number, ())
            mine = episodes.examples.games == game.number
            assert tuple(episodes.examples.actions[mine]) == game.actions
            position = Position.start(NAME)
            results = []
            for state, action, value in zip(
                episodes.examples.states[mine],
                game.actions,
                episodes.examples.outcomes[mine],
                strict=True,
            ):
                assert (position.state == state).all()
                results.append(value if position.first_to_move else -value)
                position = position.play(action)
            assert set(results) == {game.result} == {position.first_player_outcome}
            assert (episodes.examples.plies_left[mine] == np.arange(mine.sum(), 0, -1)).all()
    assert over_several >= LANES


@pytest.mark.parametrize("random_opening_plies", [0, 6])
def test_nothing_but_trees_is_lost_between_iterations(random_opening_plies):
    """Without trees to keep, three iterations are one of three times the plies."""
    options = {"search": {"reuse_tree": False}, "random_opening_plies": random_opening_plies}
    whole = stretches(21, **options)
    parts = stretches(7, 7, 7, **options)
    assert sorted(games_of(parts)) == whole[0].games
    assert parts[-1].unfinished.games == whole[0].unfinished.games
    left = (each.unfinished.moves.columns().values() for each in (parts[-1], whole[0]))
    for one, other in zip(*left, strict=True):
        assert same(one, other)
    order = np.lexsort((np.concatenate([each.examples.plies for each in parts]),
                        np.concatenate([each.examples.games for each in parts])))  # fmt: skip
    for name, column in whole[0].examples.columns().items():
        joined = np.concatenate([getattr(each.examples, name) for each in parts])[order]
        assert same(joined, column), name


@pytest.mark.parametrize("budget", ["fixed", {"name": "playout_cap", "simulations": 3}])
def test_results_do_not_depend_on_threads(budget):
    one, other = (stretches(5, 8, threads=threads, budget=budget) for threads in (1, 4))
    assert games_of(one) == games_of(other)
    for a, b in zip(one, other, strict=True):
        assert all(map(same, *(each.examples.columns().values() for each in (a, b))))
        assert a.unfinished.games == b.unfinished.games
        left = (each.unfinished.moves.columns().values() for each in (a, b))
        assert all(map(same, *left))


def test_every_move_knows_the_network_that_searched_it():
    """A network that stays in force makes one stretch of moves with what it made before."""
    names = ["@0", "@0", "@2", "@3"]
    played = stretches(3, 3, 3, 3, names=names)
    seen = set()
    for now, episodes in enumerate(played):
        for game in (*episodes.games, *episodes.unfinished.games):
            made = [game.mover(ply) for ply in range(len(game.actions))]
            assert game.first == game.second
            assert made == sorted(made)
            if game.actions:
                assert made[-1] == game.last_mover
            if game.movers:
                assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(game.movers))
                assert game.movers[0][0] == 0
            seen.add(tuple(sorted(set(made))))
        for game in episodes.games:
            assert game.last_mover == names[now]
    assert ("@0", "@2") in seen
    assert ("@2", "@3") in seen or ("@0", "@2", "@3") in seen


def test_moves_are_those_of_the_network_in_force():
    """Games that go on under another network differ from there, and not before."""

    class Other(HashEvaluator):
        def evaluate(self, states):
            priors, values = super().evaluate(states)
            return priors[:, ::-1].copy(), -values

    other = Other(rules.actions(GAME))
    usual, changed = stretches(4, 8), stretches(4, 8, evaluators={1: other})
    assert usual[0].unfinished.games == changed[0].unfinished.games
    one, two = (
        {game.number: game.actions for game in (*last.games, *last.unfinished.games)}
        for last in (usual[1], changed[1])
    )
    for game in usual[0].unfinished.games:
        begun = len(game.actions)
        assert one[game.number][:begun] == two[game.number][:begun] == game.actions
    assert any(one[game.number] != two[game.number] for game in usual[0].unfinished.games)
