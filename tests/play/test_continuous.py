"""Continuous self-play: games of lanes, movers and reproducibility."""

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


def play_iterations(*plies, evaluators=None, names=None, search=None, **settings):
    """Play successive iterations with `plies` plies per lane."""
    search_options = {"simulations": 8, "noise": {"fraction": 0.25}, **(search or {})}
    unfinished, played = None, []
    for number, each in enumerate(plies):
        evaluator = (evaluators or {}).get(number) or HashEvaluator(rules.action_count(GAME))
        mode = {"name": "continuous", "plies": each}
        played.append(
            play_continuous(
                GAME, SelfPlaySettings(parallel_games=LANES, mode=mode, **settings),
                SearchSettings.model_validate(search_options), evaluator, 3, unfinished,
                name=names[number] if names else "a",
            )
        )  # fmt: skip
        unfinished = played[-1].unfinished_games
    return played


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


def games_of(played):
    return [game for episodes in played for game in episodes.games]


def test_lanes_play_equal_numbers_of_plies_and_consecutive_games():
    played = play_iterations(9, 5, 20)
    before = 0
    for episodes, plies in zip(played, (9, 5, 20), strict=True):
        assert episodes.searched_move_count == LANES * plies
        after = len(episodes.unfinished_games.examples.games)
        assert len(episodes.examples.games) + after == before + episodes.searched_move_count
        before = after
    numbers = [game.number for game in games_of(played)]
    assert len(set(numbers)) == len(numbers)
    unfinished = {game.number for game in played[-1].unfinished_games.games}
    for lane in range(LANES):
        lane_numbers = sorted(
            number for number in {*numbers, *unfinished} if number % LANES == lane
        )
        assert lane_numbers == list(range(lane, lane_numbers[-1] + 1, LANES))
        assert lane_numbers[-1] in unfinished


def test_examples_agree_with_games():
    """Games can span several iterations."""
    played = play_iterations(7, 7, 7)
    spanning = 0
    for episodes, previous in zip(played[1:], played, strict=False):
        first_moves = {
            game.number: game.actions for game in previous.unfinished_games.games if game.actions
        }
        for game in episodes.games:
            spanning += game.number in first_moves
            start = first_moves.get(game.number, ())
            assert game.actions[: len(start)] == start
            in_game = episodes.examples.games == game.number
            assert tuple(episodes.examples.actions[in_game]) == game.actions
            position = Position.start(NAME)
            results = []
            for state, action, value in zip(
                episodes.examples.states[in_game],
                game.actions,
                episodes.examples.outcomes[in_game],
                strict=True,
            ):
                assert (position.state == state).all()
                results.append(value if position.first_to_move else -value)
                position = position.play(action)
            assert set(results) == {game.result} == {position.first_player_outcome}
            assert (episodes.examples.plies_left[in_game] == np.arange(in_game.sum(), 0, -1)).all()
    assert spanning >= LANES


@pytest.mark.parametrize("random_opening_plies", [0, 6])
def test_only_trees_are_lost_between_iterations(random_opening_plies):
    """Without tree reuse, three iterations equal one with three times the plies."""
    options = {"search": {"reuse_tree": False}, "random_opening_plies": random_opening_plies}
    whole = play_iterations(21, **options)
    parts = play_iterations(7, 7, 7, **options)
    assert sorted(games_of(parts)) == whole[0].games
    assert parts[-1].unfinished_games.games == whole[0].unfinished_games.games
    columns = (each.unfinished_games.examples.columns().values() for each in (parts[-1], whole[0]))
    for one, other in zip(*columns, strict=True):
        assert same(one, other)
    for each in parts:
        for game in each.games:
            full = each.examples.full[each.examples.games == game.number]
            assert game.given_plies == (~full).sum() <= random_opening_plies
    order = np.lexsort((np.concatenate([each.examples.plies for each in parts]),
                        np.concatenate([each.examples.games for each in parts])))  # fmt: skip
    for name, column in whole[0].examples.columns().items():
        joined = np.concatenate([getattr(each.examples, name) for each in parts])[order]
        assert same(joined, column), name


@pytest.mark.parametrize("budget", ["fixed", {"name": "playout_cap", "simulations": 3}])
def test_results_do_not_depend_on_threads(budget):
    one, other = (play_iterations(5, 8, threads=threads, budget=budget) for threads in (1, 4))
    assert games_of(one) == games_of(other)
    for a, b in zip(one, other, strict=True):
        assert all(map(same, *(each.examples.columns().values() for each in (a, b))))
        assert a.unfinished_games.games == b.unfinished_games.games
        columns = (each.unfinished_games.examples.columns().values() for each in (a, b))
        assert all(map(same, *columns))


def test_every_move_has_its_network_as_mover():
    """Consecutive moves of an unchanged network share an entry."""
    names = ["@0", "@0", "@2", "@3"]
    played = play_iterations(3, 3, 3, 3, names=names)
    mover_sets = set()
    for iteration, episodes in enumerate(played):
        for game in (*episodes.games, *episodes.unfinished_games.games):
            movers = [game.mover_at(ply) for ply in range(len(game.actions))]
            assert game.first == game.second
            assert movers == sorted(movers)
            if game.actions:
                assert movers[-1] == game.last_mover
            if game.agent_spans:
                assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(game.agent_spans))
                assert game.agent_spans[0][0] == 0
            mover_sets.add(tuple(sorted(set(movers))))
        for game in episodes.games:
            assert game.last_mover == names[iteration]
    assert ("@0", "@2") in mover_sets
    assert ("@2", "@3") in mover_sets or ("@0", "@2", "@3") in mover_sets


def test_continued_games_use_new_network():
    """A game that continues with another network differs only from that move on."""

    class Other(HashEvaluator):
        def evaluate(self, states):
            priors, values = super().evaluate(states)
            return priors[:, ::-1].copy(), -values

    other = Other(rules.action_count(GAME))
    unchanged, changed = play_iterations(4, 8), play_iterations(4, 8, evaluators={1: other})
    assert unchanged[0].unfinished_games.games == changed[0].unfinished_games.games
    actions, changed_actions = (
        {game.number: game.actions for game in (*last.games, *last.unfinished_games.games)}
        for last in (unchanged[1], changed[1])
    )
    for game in unchanged[0].unfinished_games.games:
        plies = len(game.actions)
        assert actions[game.number][:plies] == changed_actions[game.number][:plies] == game.actions
    assert any(
        actions[game.number] != changed_actions[game.number]
        for game in unchanged[0].unfinished_games.games
    )
