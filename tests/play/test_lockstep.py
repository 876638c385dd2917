"""The retry mode of self-play, which returns to positions where games were lost."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.lockstep import loser_plies_by_value_drop
from zerolab.play.selfplay_modes import play_with_service
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
OPENING = 4
OPENINGS = 5  # games that are not retries; two rounds of two branches each add 10 and 20


def play(**settings):
    mode = {"name": "retry", "opening_plies": OPENING, "branches": 2, "rounds": 2}
    mode |= settings.pop("mode", {})
    selfplay = SelfPlaySettings(mode=mode, **{"episodes": 35, "threads": 2, **settings})
    return play_with_service(GAME, selfplay, SEARCH, HashEvaluator(rules.action_count(GAME)), 3, 2)


@pytest.fixture(scope="module")
def played():
    return play()


def rows(played, number):
    return slice(*np.searchsorted(played.examples.games, (number, number + 1)))


def test_value_drops_match_hand_computed_ones():
    nan = np.nan
    # The first player's win rates are 0.9 at ply 2, 0.35 at ply 4, and 0 at the end.
    values = np.array([nan, nan, 0.8, -0.2, -0.3, 0.9], np.float16)
    assert loser_plies_by_value_drop(values, 0) == [2, 4]
    # The second player's are 0.4, 0.95 and 0; only the second change is a drop.
    assert loser_plies_by_value_drop(values, 1) == [5]
    assert loser_plies_by_value_drop(np.full(5, nan, np.float16), 0) == []
    # The earliest of equal drops comes first: 1, 0.5, 0.
    assert loser_plies_by_value_drop(np.array([1, nan, 0], np.float16), 0) == [0, 2]


def test_games_are_legal_and_examples_agree_with_them(played):
    assert [game.number for game in played.games] == list(range(35))
    for game in played.games:
        position = Position.start(NAME)
        own_rows = rows(played, game.number)
        assert tuple(played.examples.actions[own_rows]) == game.actions
        for state, action in zip(played.examples.states[own_rows], game.actions, strict=True):
            assert (position.state == state).all()
            assert position.legal_mask[action]
            position = position.play(action)
        assert position.first_player_outcome == game.result


def retries(played):
    """Return the retries: each game, its possible predecessors, and the ply of the new move.

    The moves of a retry before and at the branch are searched but not training targets.
    """
    result = []
    for game in played.games:
        own_rows = rows(played, game.number)
        searched = ~np.isnan(played.examples.root_values[own_rows])
        inherited = np.flatnonzero(searched & ~played.examples.full[own_rows])
        if inherited.size:
            ply = int(inherited[-1])
            before = [
                other for other in played.games[: game.number]
                if other.actions[:ply] == game.actions[:ply] and len(other.actions) > ply
                and (searched_values(played, other)[: ply + 1]).all()
            ]  # fmt: skip
            result.append((game, before, ply))
    return result


def policy_moves(played, row):
    """Return the number of moves with positive probability in an example's policy."""
    return (played.examples.policies[row] > 0).sum()


def searched_values(played, game):
    return ~np.isnan(played.examples.root_values[rows(played, game.number)])[OPENING:]


def test_retry_tries_new_move_at_largest_drop_of_loser(played):
    branches = retries(played)
    assert len(branches) > 35 / 2
    tried = {}
    for game, before, ply in branches:
        lost = [other for other in before if other.result == (-1 if ply % 2 == 0 else 1)]
        assert lost
        values = [played.examples.root_values[rows(played, other.number)] for other in lost]
        # Larger drops may have no untried moves left, except in the first games.
        assert any(ply in loser_plies_by_value_drop(each, ply % 2) for each in values)
        if lost[0].number < OPENINGS:
            own_rows = rows(played, lost[0].number)
            drops = [
                drop
                for drop in loser_plies_by_value_drop(values[0], ply % 2)
                if policy_moves(played, own_rows.start + drop) > 1
            ]
            assert ply == drops[0]
        assert all(game.actions[ply] != other.actions[ply] for other in before)
        key = game.actions[:ply]
        assert game.actions[ply] not in tried.setdefault(key, set())
        tried[key].add(game.actions[ply])
        policy = played.examples.policies[rows(played, game.number)][ply]
        assert policy[game.actions[ply]] > 0


def test_every_searched_decision_is_one_full_example(played):
    """The service got one request per full row; random plies and branched moves are not full."""
    full = int(played.examples.full.sum())
    assert full == played.search_counts["asked"] == played.searched_move_count
    assert full < len(played.examples.full)
    openings = played.examples.plies < OPENING
    assert not played.examples.full[openings].any()
    given = [int((~played.examples.full[rows(played, each.number)]).sum()) for each in played.games]
    assert [each.given_plies for each in played.games] == given
    assert max(given) > OPENING  # a branch is given all moves before it, and its own


def test_retries_do_not_depend_on_threads_or_cache(played):
    other = play(threads=1, parallel_games=3, mode={"cache": 4})
    assert other.games == played.games
    columns = (each.examples.columns().values() for each in (played, other))
    for one, two in zip(*columns, strict=True):
        np.testing.assert_array_equal(one, two)


def test_openings_stop_before_game_ends():
    """A board of 16 cells is full after 16 plies."""
    result = play(mode={"opening_plies": 16}, episodes=20)
    assert len(result.games) == 20
    assert result.examples.full.any()
