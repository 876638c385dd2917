"""Mutation, pairing and rating of league players."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from league.evolving import OPTIMUM, distance, simulated_league
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.league.league_settings import LeagueSettings
from zerolab.league.playing import random_move_probability
from zerolab.league.population import (
    count_new_positions,
    draw_pairs,
    first_generation,
    mutate,
    next_generation,
    novelty_credits,
    ranking,
    rate_by_novelty,
    rate_by_results,
)
from zerolab.play.game_files import ReachedPositions

SETTINGS = LeagueSettings(game="none", parameters=("c", "fpu", "threshold"), seed=3)


def test_initial_players_fill_their_ranges():
    settings = SETTINGS.model_copy(update={"active": 4000})
    players = first_generation(settings)
    for column, (low, high) in enumerate([(0.5, 8.0), (-1.0, 1.0), (-14.0, 1.0)]):
        span = high - low
        quarters = np.histogram(players.values[:, column], 4, (low, high))[0]
        assert np.abs(quarters - 1000).max() < 4 * math.sqrt(750)
        quarters = np.histogram(players.sigmas[:, column], 4, (0, span / 2))[0]
        assert quarters.sum() == 4000
        assert np.abs(quarters - 1000).max() < 4 * math.sqrt(750)


def test_mutant_agrees_with_hand_computed_values():
    values, sigmas = np.array([1.0, 0.9, -13.0]), np.array([0.1, 0.4, 5.0])
    moved, changed = mutate(values, sigmas, SETTINGS, 77)
    draws = streams.numpy_generator(3, 77, streams.LEAGUE_PLAYER).standard_normal(7)
    for i, (low, high) in enumerate([(0.5, 8.0), (-1.0, 1.0), (-14.0, 1.0)]):
        factor = draws[0] / math.sqrt(6) + draws[1 + i] / math.sqrt(2 * math.sqrt(3))
        assert changed[i] == pytest.approx(sigmas[i] * math.exp(factor))
        x = values[i] + changed[i] * draws[4 + i]
        while x >= high:
            x -= high - low
        while x < low:
            x += high - low
        assert moved[i] == pytest.approx(x)


@given(st.floats(0, 1), st.floats(0, 1e6), st.integers(0, 1 << 40))
def test_mutants_stay_in_their_range(fraction, sigma, number):
    settings = LeagueSettings(game="none", parameters=("threshold",))
    moved, changed = mutate(np.array([-14 + 15 * fraction]), np.array([sigma]), settings, number)
    assert -14 <= moved[0] <= 1
    assert changed[0] >= 0


def test_large_mutations_wrap_around_uniformly():
    """Kolmogorov-Smirnov test of 2,000 mutants that wrap around many times."""
    settings = LeagueSettings(game="none", parameters=("threshold",))
    moved = [mutate(np.array([0.9]), np.array([400.0]), settings, n)[0][0] for n in range(2000)]
    assert stats.kstest(np.array(moved), stats.uniform(-14, 15).cdf).pvalue > 0.001
    near = [mutate(np.array([0.9]), np.array([0.5]), settings, n)[0][0] for n in range(200)]
    assert min(near) < -13  # wrapped from the upper to the lower end


def test_best_players_have_children_and_stay_active():
    players = first_generation(SETTINGS)
    players.ratings[:] = 1600 + np.arange(50) * 7 % 50
    after = next_generation(players, SETTINGS)
    best = np.argsort(-players.ratings)[:15]
    assert after.parents[50:].tolist() == np.repeat(best, 2).tolist()
    assert (after.ratings[50:] == np.repeat(players.ratings[best], 2)).all()
    assert (after.generations == np.repeat([0, 1], [50, 30])).all()
    assert set(after.active[1]) == {*range(50, 80), *np.argsort(-players.ratings)[:20]}
    assert (np.diff(after.ratings[after.active[1]]) <= 0).all()
    assert set(after.newest_players()) == set(range(50, 80))


def test_ranking_prefers_tested_players_and_more_games():
    players = next_generation(first_generation(SETTINGS), SETTINGS)
    players.ratings[:] = 1600
    players.games[:50] = np.arange(50)
    ranked = ranking(players)
    assert sorted(ranked) == sorted(players.active[-1])
    games = players.games[ranked]
    is_tested = games >= 20
    assert is_tested[: is_tested.sum()].all()
    assert (np.diff(games) <= 0).all()
    players.ratings[79] = 1900  # a mutant without games
    assert players.games[ranking(players)[0]] == games[0]


def test_pairs_include_a_new_player_and_depend_only_on_game_numbers():
    players = next_generation(first_generation(SETTINGS), SETTINGS)
    pairs = draw_pairs(players, SETTINGS, range(1500, 3000))
    parts = [draw_pairs(players, SETTINGS, part) for part in (range(1500, 1507), range(1507, 3000))]
    assert (pairs == np.concatenate(parts)).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    is_newest = np.isin(pairs, players.newest_players())
    assert is_newest.any(axis=1).all()
    assert 0.45 < is_newest[is_newest.sum(axis=1) == 1][:, 0].mean() < 0.55  # random colours
    assert np.isin(pairs, players.active[-1]).all()
    games = np.bincount(pairs.ravel(), minlength=80)[50:]
    # 50 games as the new player and 30 as the opponent, with a standard deviation of 9
    assert 45 < games.min() <= games.max() < 115


def test_elo_agrees_with_hand_computed_values():
    players = first_generation(SETTINGS)
    players.ratings[:3] = 1600, 2000, 1600
    pairs = np.array([[0, 1], [0, 2], [2, 1]])
    rate_by_results(players, SETTINGS, pairs, np.array([1, 0, -1], np.int8))
    gain = 32 * 10 / 11
    one, two = 1600 + gain, 2000 - gain
    change = 32 * (0.5 - 1 / (1 + 10 ** ((1600 - one) / 400)))
    one, three = one + change, 1600 - change
    change = 32 * (0 - 1 / (1 + 10 ** ((two - three) / 400)))
    assert players.ratings[:3] == pytest.approx([one, two - change, three + change])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evolution_finds_the_optimum_of_a_known_strength(seed):
    """The mean distance of 50 uniform points from the optimum is 0.25 +- 0.02.

    Without selection, a population can converge anywhere: a mean distance below 0.04 has
    probability 0.08, and 1 in 2,000 for all three seeds.
    """
    _, state = simulated_league(
        seed, lambda values: -400 * random_move_probability(values[..., 0], OPTIMUM)
    )
    assert distance(state, 0) == pytest.approx(0.25, abs=0.06)
    assert distance(state) < 0.04
    other = state.population.values[state.population.active[-1], 1]
    assert other.std() > 4 * state.population.values[state.population.active[-1], 0].std()


def test_new_positions_agree_with_a_naive_twin():
    random = np.random.default_rng(1)
    games = [sorted({0, *random.integers(0, 60, 12).tolist()}) for _ in range(40)]
    reached_before, expected = set(), []
    for index in range(0, 40, 2):
        expected += [len(set(game) - reached_before) for game in games[index : index + 2]]
        reached_before |= {*games[index], *games[index + 1]}
    for cuts in ([0, 40], [0, 10, 12, 40]):
        seen, counted = np.zeros(0, np.uint64), []
        for begin, end in itertools.pairwise(cuts):
            part = games[begin:end]
            game_indices = np.array([index for index, game in enumerate(part) for _ in game])
            hashes = np.array([x for game in part for x in game], np.uint64)
            reached = ReachedPositions(hashes, game_indices, np.zeros_like(game_indices))
            counts, seen = count_new_positions(reached, len(part), seen)
            counted += counts.tolist()
        assert counted == expected
        assert len(seen) == len(reached_before)
        assert (np.diff(seen.astype(object)) > 0).all()


def test_novelty_credit_goes_to_both_players_or_the_winner():
    counts, results = np.array([5, 3, 2]), np.array([1, -1, 0], np.int8)
    assert novelty_credits(counts, results, False).tolist() == [[5, 5], [3, 3], [2, 2]]
    assert novelty_credits(counts, results, True).tolist() == [[5, 0], [0, 3], [0, 0]]


def test_novelty_is_rated_by_comparing_two_games():
    players = first_generation(SETTINGS)
    pairs = np.array([[0, 1], [2, 3], [4, 5], [4, 6]])
    rate_by_novelty(players, SETTINGS, pairs, np.array([[5, 0], [3, 3], [9, 9], [8, 9]]))
    changes = players.ratings[:8] - 1600
    assert changes.tolist() == [16, -16, -16, 16, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"active": 44},
            "active = 44 .* parents = 15 .* children = 2 .* 45",
        ),
        ({"ranges": {"c": [2, 2]}}, r"c = \[2.0, 2.0\] is empty"),
        ({"ranges": {"fpu": [0, 1.5]}}, r"fpu = \[0.0, 1.5\]: expected ends from -1 to 1"),
        ({"parameters": ["c", "c"]}, "c, c"),
        ({"parameters": ["cc"]}, "parameters"),
        ({"search": {"selection": "uct"}}, 'search.selection = "uct" .* parameters = c'),
        ({"search": {"fpu": "zero"}}, 'search.fpu = "zero" .* parameters = fpu'),
        (
            {"search": {"root": "gumbel"}, "parameters": ["c", "threshold"]},
            'parameters = threshold: search.root = "gumbel" plans',
        ),
        (
            {
                "search": {"leaf_evaluator": "playout"},
                "parameters": ["draw_value"],
            },
            "draw_value",
        ),
        ({"generation": 7}, "generation: 7 is odd"),
        ({"clock": {"least": 60, "most": 50}}, "least = 60 .* most = 50"),
    ],
)
def test_invalid_settings_are_refused(changes, message):
    data = {"game": "none", "search": {"fpu": "fixed"}, **changes}
    with pytest.raises(UserError, match=message):
        validate(LeagueSettings, data)
