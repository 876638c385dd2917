"""Games that go back to where they were lost."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.lockstep import value_drops
from zerolab.play.selfplay_modes import play_by_service
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
OPENING = 4
OPENINGS = 5  # of 35 games, each gone back into by 2, and these by 4


def play(**settings):
    mode = {"name": "retry", "opening_plies": OPENING, "branches": 2, "rounds": 2}
    mode |= settings.pop("mode", {})
    chosen = SelfPlaySettings(mode=mode, **{"episodes": 35, "threads": 2, **settings})
    return play_by_service(GAME, chosen, SEARCH, HashEvaluator(rules.actions(GAME)), 3, 2)


@pytest.fixture(scope="module")
def played():
    return play()


def rows(played, number):
    return slice(*np.searchsorted(played.examples.games, (number, number + 1)))


def test_drops_of_a_game_computed_by_hand():
    nan = np.nan
    # The first player's positions are plies 2 and 4: 0.9, then 0.35, and 0 at the end.
    values = np.array([nan, nan, 0.8, -0.2, -0.3, 0.9], np.float16)
    assert value_drops(values, 0) == [2, 4]
    # The second player's: 0.4, 0.95, 0; from 0.4 to 0.95 is no drop.
    assert value_drops(values, 1) == [5]
    assert value_drops(np.full(5, nan, np.float16), 0) == []
    # Of equal drops the earliest: 1, 0.5, 0.
    assert value_drops(np.array([1, nan, 0], np.float16), 0) == [0, 2]


def test_all_games_are_legal_and_their_examples_are_their_moves(played):
    assert [game.number for game in played.games] == list(range(35))
    for game in played.games:
        position = Position.start(NAME)
        mine = rows(played, game.number)
        assert tuple(played.examples.actions[mine]) == game.actions
        for state, action in zip(played.examples.states[mine], game.actions, strict=True):
            assert (position.state == state).all()
            assert position.legal_mask[action]
            position = position.play(action)
        assert position.first_player_outcome == game.result


def branches(played):
    """Return the retries: game, the one it continues, and the ply of its other move.

    A retry has searched moves that nobody learns from, up to the one that was branched.
    """
    found = []
    for game in played.games:
        mine = rows(played, game.number)
        searched = ~np.isnan(played.examples.root_values[mine])
        inherited = np.flatnonzero(searched & ~played.examples.full[mine])
        if inherited.size:
            ply = int(inherited[-1])
            before = [
                other for other in played.games[: game.number]
                if other.actions[:ply] == game.actions[:ply] and len(other.actions) > ply
                and (searched_values(played, other)[: ply + 1]).all()
            ]  # fmt: skip
            found.append((game, before, ply))
    return found


def moves(played, row):
    """Return how many moves have weight in the policy of an example."""
    return (played.examples.policies[row] > 0).sum()


def searched_values(played, game):
    return ~np.isnan(played.examples.root_values[rows(played, game.number)])[OPENING:]


def test_a_retry_leaves_a_lost_game_at_the_losers_largest_drop_by_an_untried_move(played):
    found = branches(played)
    assert len(found) > 35 / 2
    tried = {}
    for game, before, ply in found:
        lost = [other for other in before if other.result == (-1 if ply % 2 == 0 else 1)]
        assert lost
        values = [played.examples.root_values[rows(played, other.number)] for other in lost]
        # Moves may have run out at larger drops, but not yet in the games that begin anew.
        assert any(ply in value_drops(each, ply % 2) for each in values)
        if lost[0].number < OPENINGS:
            mine = rows(played, lost[0].number)
            choice = [
                at for at in value_drops(values[0], ply % 2) if moves(played, mine.start + at) > 1
            ]
            assert ply == choice[0]
        assert all(game.actions[ply] != other.actions[ply] for other in before)
        key = game.actions[:ply]
        assert game.actions[ply] not in tried.setdefault(key, set())
        tried[key].add(game.actions[ply])
        policy = played.examples.policies[rows(played, game.number)][ply]
        assert policy[game.actions[ply]] > 0


def test_every_searched_decision_is_learnt_from_once(played):
    """Random plies and branched moves are not; so the service was asked once for each full row."""
    full = int(played.examples.full.sum())
    assert full == played.counts["asked"] == played.moves
    assert full < len(played.examples.full)
    openings = played.examples.plies < OPENING
    assert not played.examples.full[openings].any()


def test_retries_depend_neither_on_threads_nor_on_the_cache(played):
    other = play(threads=1, parallel_games=3, mode={"cache": 4})
    assert other.games == played.games
    sides = (each.examples.columns().values() for each in (played, other))
    for one, two in zip(*sides, strict=True):
        np.testing.assert_array_equal(one, two)


def test_openings_that_would_end_a_game_are_cut():
    """A board of 16 cells is full after 16 plies."""
    found = play(mode={"opening_plies": 16}, episodes=20)
    assert len(found.games) == 20
    assert found.examples.full.any()
