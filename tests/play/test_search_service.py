"""The search service: results, merged and cached requests, and its self-play games."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.core import streams
from zerolab.play.search_service import ServiceSettings, ThreadSearchService, rows_by_thread
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_modes import play_with_service
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.evaluator import hash_states
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
NOISY = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
QUIET = SearchSettings.model_validate({"simulations": 8, "reuse_tree": False})


def service(search=NOISY, **changes):
    searches = ServiceSettings(search, seed=3, iteration=2, slots=5, threads=2)._replace(**changes)
    return ThreadSearchService(GAME, HashEvaluator(rules.action_count(GAME)), searches)


def positions(count=40):
    """Return states of random games, which repeat the first positions."""
    random = np.random.default_rng(1)
    states = []
    while len(states) < count:
        position = Position.start(NAME)
        while position.outcome is None and len(states) < count:
            states.append(position.state)
            position = position.play(int(random.choice(np.flatnonzero(position.legal_mask))))
    return np.array(states)


def assert_equal(one, other):
    for name, column in one.columns().items():
        np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)


def test_results_agree_with_separate_searches():
    states = positions()
    hashes = np.empty(len(states), np.uint64)
    hash_states(states, hashes)
    with service() as searcher:
        results = searcher.search(states)
    search = Search(GAME, NOISY, HashEvaluator(rules.action_count(GAME)), 1)
    slot, zero = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for row, state in enumerate(states):
        keys = [
            streams.stream_keys(
                3, 2, (hashes[row : row + 1] >> np.uint64(1)).astype(np.int64), zero, purpose
            )
            for purpose in (streams.SERVICE_PLAYOUT, streams.SERVICE_NOISE)
        ]
        search.set_root(slot, state[None])
        search.start_search(slot, *keys)
        search.run()
        assert (results.visits[row] == search.root_visits(slot)[0]).all()
        assert (results.policies[row] == search.policies(slot)[0]).all()
        assert results.root_values[row] == search.root_values(slot)[0]
        searched = results.visits[row] > 0
        assert (results.action_values[row] == search.root_visits_and_values(slot)[1][0])[
            searched
        ].all()
        assert np.isnan(results.action_values[row][~searched]).all()
        assert results.visits[row].sum() == NOISY.simulations


@pytest.mark.parametrize("cache", [0, 3, 1000])
def test_results_do_not_depend_on_order_or_layout(cache):
    states = positions()
    with service() as searcher:
        expected = searcher.search(states)
    order = np.random.default_rng(2).permutation(len(states))
    with service(cache_size=cache, slots=1, threads=1) as searcher:
        for part in np.array_split(order, 4):
            assert_equal(searcher.search(states[part]), expected.take(part))
        counts = searcher.search_counts
    assert counts["asked"] == len(states)
    assert counts["asked"] == counts["merged"] + counts["remembered"] + counts["searched"]
    distinct = len(np.unique(states, axis=0))
    assert counts["searched"] == distinct if cache == 1000 else counts["searched"] > distinct
    assert (counts["remembered"] > 0) == (cache > 0)
    assert counts["simulations"] == counts["searched"] * NOISY.simulations


def test_rows_by_thread_balances_threads():
    parts = [part.tolist() for part in rows_by_thread(np.array([4, 4, 7, 4, 4, 9]), 2)]
    assert parts == [[0, 1, 3], [2, 5, 4]]
    assert [len(part) for part in rows_by_thread(np.array([3]), 2)] == [0, 1]


def test_equal_positions_are_searched_once():
    states = np.repeat(positions(3), 4, axis=0)
    with service(cache_size=0) as searcher:
        results = searcher.search(states)
        assert (searcher.search_counts["merged"], searcher.search_counts["searched"]) == (9, 3)
    assert_equal(results.take(np.arange(0, 12, 4)), results.take(np.arange(3, 12, 4)))
    with service() as searcher:
        assert len(searcher.search(states[:0]).full) == 0


def test_noise_depends_on_iteration():
    states = positions(10)
    with service() as one, service(iteration=3) as other:
        assert (one.search(states).visits != other.search(states).visits).any()


def play(search=NOISY, mode="service", **settings):
    selfplay = SelfPlaySettings(
        mode=mode, **{"episodes": 12, "random_opening_plies": 3, **settings}
    )
    run = play_episodes if mode == "episodic" else play_with_service
    return run(GAME, selfplay, search, HashEvaluator(rules.action_count(GAME)), 3, 2)


def test_quiet_service_plays_games_of_episodic_self_play():
    plain, served = (play(QUIET, mode, threads=2) for mode in ("episodic", "service"))
    assert plain.games == served.games
    one, other = plain.examples, served.examples
    assert (one.full == other.full).all()
    assert 0 < one.full.sum() < len(one.full)
    for name, column in one.columns().items():
        served_column = getattr(other, name)
        np.testing.assert_array_equal(column[one.full], served_column[one.full], err_msg=name)
    assert served.search_counts["simulations"] < plain.search_counts["simulations"]


@pytest.mark.parametrize("budget", ["fixed", {"name": "playout_cap", "simulations": 3}])
def test_games_do_not_depend_on_threads_or_cache(budget):
    one = play(budget=budget, threads=1)
    small_cache = {"name": "service", "cache": 2}
    other = play(budget=budget, threads=3, parallel_games=4, mode=small_cache)
    assert one.games == other.games
    assert_equal(one.examples, other.examples)
    # Equal positions of this game have equal plies, so they are requested together.
    assert one.search_counts["merged"] == other.search_counts["merged"] > 0
    assert one.search_counts["remembered"] == 0


def test_error_in_thread_stops_service_and_is_raised():
    class Broken:
        def evaluate(self, states):
            raise FloatingPointError("broken")

    searches = ServiceSettings(NOISY, 3, 2, threads=2)
    with ThreadSearchService(GAME, Broken(), searches) as searcher:
        with pytest.raises(FloatingPointError, match="broken"):
            searcher.search(positions())
        with pytest.raises(RuntimeError, match="has stopped"):
            searcher.search(positions())


def test_retry_mode_refuses_random_opening_plies():
    with pytest.raises(ValueError, match="random_opening_plies = 3"):
        SelfPlaySettings(mode="retry", random_opening_plies=3)
