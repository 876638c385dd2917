"""Self-play games with random opening plies."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("connect_four:5x6")
SEARCH = SearchSettings(simulations=4)


def play(random_opening_plies, **settings):
    selfplay = SelfPlaySettings.model_validate(
        {"episodes": 400, "random_opening_plies": random_opening_plies, "temperature_plies": 0}
        | settings
    )
    return play_episodes(GAME, selfplay, SEARCH, HashEvaluator(rules.action_count(GAME)), 3, 1)


def random_lengths(episodes):
    moves = episodes.examples
    return np.array([(~moves.full[moves.games == game.number]).sum() for game in episodes.games])


@pytest.fixture(scope="module")
def many_games():
    return play(4)


def test_opening_lengths_are_uniform(many_games):
    lengths = random_lengths(many_games)
    counts = np.bincount(lengths, minlength=5)
    assert len(counts) == 5
    # 80 games of each length are expected; 4 standard deviations are 32.
    assert (np.abs(counts - 80) < 32).all()
    assert [game.given_plies for game in many_games.games] == lengths.tolist()


def test_random_plies_come_first_and_are_uniform(many_games):
    moves = many_games.examples
    for number in range(400):
        full = moves.full[moves.games == number]
        assert (np.diff(full.astype(int)) >= 0).all()
    first = moves.actions[(moves.plies == 0) & ~moves.full]
    counts = np.bincount(first, minlength=6)  # 320 random moves among 6 columns
    assert (np.abs(counts - 320 / 6) < 4 * np.sqrt(320 / 6)).all()


@pytest.mark.parametrize(
    "budget", ["fixed", {"name": "kl_gain", "every": 6, "least": 6, "most": 24}]
)
def test_random_openings_do_not_depend_on_layout(budget):
    one, other = (
        play(6, episodes=12, budget=budget, **layout)
        for layout in ({"threads": 1, "parallel_games": 64}, {"threads": 3, "parallel_games": 2})
    )
    assert one.games == other.games
    columns = (each.examples.columns().values() for each in (one, other))
    for a, b in zip(*columns, strict=True):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def test_random_plies_are_off_by_default():
    assert play(0, episodes=20).examples.full.all()


def test_random_plies_cost_one_simulation():
    episodes = play(6, episodes=20, budget={"name": "kl_gain", "every": 6, "least": 6, "most": 24})
    quick = int((~episodes.examples.full).sum())
    searched = int(episodes.examples.full.sum())
    assert quick > 0
    assert episodes.search_counts["simulations"] >= 6 * searched + quick
    assert (episodes.search_counts["simulations"] - quick) % 6 == 0
