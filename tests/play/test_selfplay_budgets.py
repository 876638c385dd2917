"""Simulation budgets in self-play, and their effects on moves and examples."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("othello:4x4")
SEARCH = SearchSettings.model_validate(
    {"simulations": 40, "reuse_tree": False, "noise": {"fraction": 0.5}}
)
CAPS = {"name": "playout_cap", "share": 0.4, "simulations": 9}


def play(budget, **settings):
    selfplay = SelfPlaySettings(episodes=12, budget=budget, **settings)
    return play_episodes(GAME, selfplay, SEARCH, HashEvaluator(rules.action_count(GAME)), 3, 1)


def policies(states, simulations):
    """Return the policies of searches without noise."""
    quiet = SearchSettings(simulations=simulations, reuse_tree=False)
    search = Search(GAME, quiet, HashEvaluator(rules.action_count(GAME)), len(states))
    slots = np.arange(len(states))
    search.set_root(slots, states)
    search.start_search(slots, *np.zeros((2, len(states)), np.uint64))
    search.run()
    visits = search.root_visits(slots)
    return (visits / visits.sum(axis=1, keepdims=True)).astype(np.float16)


def test_quick_moves_have_few_simulations_and_no_noise():
    episodes = play(CAPS)
    moves = episodes.examples
    assert 0.2 < moves.full.mean() < 0.6
    quick, full = ~moves.full, moves.full
    assert (moves.policies[quick] == policies(moves.states[quick], 9)).all()
    has_choice = (moves.policies[full] > 0).sum(axis=1) > 1  # else noise has no effect
    quiet = policies(moves.states[full], 40)
    assert (moves.policies[full] != quiet)[has_choice].any(axis=1).mean() > 0.5
    simulations = int(40 * full.sum() + 9 * quick.sum())
    assert episodes.search_counts["simulations"] == simulations
    assert episodes.searched_move_count == len(moves.plies)


@pytest.mark.parametrize(
    "budget", [CAPS, {"name": "kl_gain", "every": 6, "least": 6, "most": 40, "threshold": -5.0}]
)
def test_budgets_do_not_depend_on_layout(budget):
    one, other = (
        play(budget, **layout)
        for layout in ({"threads": 1, "parallel_games": 64}, {"threads": 3, "parallel_games": 4})
    )
    assert one.games == other.games
    assert all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(*(each.examples.columns().values() for each in (one, other)), strict=True)
    )
    assert one.search_counts["simulations"] == other.search_counts["simulations"]


def test_converged_searches_stop_early():
    episodes = play({"name": "kl_gain", "every": 6, "least": 6, "most": 40, "threshold": -5.0})
    assert episodes.examples.full.all()
    mean = episodes.search_counts["simulations"] / episodes.searched_move_count
    assert 6 <= mean < 40
    sooner = play({"name": "kl_gain", "every": 6, "least": 6, "most": 40, "threshold": 1.0})
    assert sooner.search_counts["simulations"] / sooner.searched_move_count < mean
