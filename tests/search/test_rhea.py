"""Rolling horizon evolution: naive twin, exact values and invariants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from search import naive_rhea, plans
from search.plans import SMALL, some_keys, some_states
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import LOSS, MAX_PLIES, RULES_INTERFACE
from zerolab.search.rhea import (
    RheaSettings,
    best_individual,
    breed,
    empty_population,
    evaluate_plan,
    insert_individual,
    rhea_actions,
)
from zerolab.testing.random_games import ongoing_sample_positions

NAMES = ("connect_four:5x5", "othello:4x4")


def fitness_of(position, genes, playouts, key=0):
    words = rules.word_count(position.game)
    workspace = (
        np.array(genes, np.uint64),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.zeros(1 + MAX_PLIES, np.int32),
    )
    return evaluate_plan(position.game, position.state.copy(), np.uint64(key), playouts, workspace)


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_naive_evolution(name):
    game, states, keys = parse_game(name), some_states(name, 8), some_keys(8)
    plain = [
        naive_rhea.choose(Position(game, state.copy()), key, SMALL)
        for state, key in zip(states, keys, strict=True)
    ]
    assert rhea_actions(game, SMALL, states, keys).tolist() == plain


@pytest.mark.parametrize("name", NAMES)
def test_finds_a_forced_win_in_one(name):
    game = parse_game(name)
    states, winning = [], []
    for sample in ongoing_sample_positions(game):
        mask = compiled_rules.legal(game, sample.state)
        for action in np.flatnonzero(mask):
            mask[action] = compiled_rules.outcome(
                game, compiled_rules.apply(game, sample.state, action)
            ) == (LOSS)
        if mask.any():
            states.append(sample.state)
            winning.append(mask)
    assert len(states) >= 4
    keys = some_keys(len(states))
    chosen = rhea_actions(game, RheaSettings(playouts=400), np.array(states), keys)
    assert np.array(winning)[np.arange(len(states)), chosen].all()


class Counted(NamedTuple):
    """A game that counts playouts started at its first position."""

    inner: Any
    counts: Any  # int64[2]: started games, calls of `playout`


class CountedRules(rules.Rules):
    @staticmethod
    def word_count(game):
        return rules.word_count(game.inner)

    @staticmethod
    def action_count(game):
        return rules.action_count(game.inner)

    @staticmethod
    def start(game, out):
        rules.start(game.inner, out)

    @staticmethod
    def legal(game, state, mask):
        rules.legal(game.inner, state, mask)

    @staticmethod
    def apply(game, state, action, out):
        if state[0] | state[1] == np.uint64(0):
            game.counts[0] += 1
        rules.apply(game.inner, state, action, out)

    @staticmethod
    def outcome(game, state):
        return rules.outcome(game.inner, state)

    @staticmethod
    def random_action(game, state, random):
        return rules.random_action(game.inner, state, random)

    @staticmethod
    def playout(game, state, key, out, moves):
        game.counts[1] += 1
        return rules.playout(game.inner, state, key, out, moves)


RULES_INTERFACE.implement(Counted, CountedRules)


@pytest.mark.parametrize("horizon", [1, 10])
@pytest.mark.parametrize(
    "budget",
    [
        {"playouts": 100},
        {"playouts": 101},
        {"playouts": 20},
        {"playouts": 21},
        {"playouts": 14, "population": 3, "playouts_each": 4},
        {"playouts": 1, "population": 1, "playouts_each": 1},
    ],
)
def test_budget_is_exactly_n_playouts(budget, horizon):
    game = Counted(parse_game("connect_four:5x5"), np.zeros(2, np.int64))
    start = compiled_rules.start(game.inner)[None]
    settings = RheaSettings(horizon=horizon, **budget)
    rhea_actions(game, settings, start, some_keys(1))
    started, called = game.counts
    assert started == settings.playouts
    assert called <= started
    assert horizon > 1 or called == started  # no game ends within two plies


def population_of_ten(fitness):
    population = empty_population(10, 1)
    for number, value in enumerate(fitness):
        insert_individual(population, np.full(1, number, np.uint64), value, number)
    return population


@pytest.mark.parametrize(
    ("fitness", "offspring", "dropped"),
    [
        ([0.5, 0.3, 0.9, 0.1, 0.7, 0.2, 0.4, 0.6, 0.8, 1.0], 0.15, 3),
        ([0.5, 0.3, 0.9, 0.1, 0.7, 0.2, 0.4, 0.6, 0.8, 1.0], 0.05, 10),
        ([0.5, 0.3, 0.9, 0.1, 0.7, 0.1, 0.4, 0.6, 0.1, 1.0], 0.15, 3),
        ([0.5, 0.3, 0.9, 0.1, 0.7, 0.2, 0.4, 0.6, 0.8, 1.0], 0.1, 3),
        ([0.0] * 10, 0.0, 0),
        ([-1.0] * 10, -1.0, 0),
        ([-0.5] * 10, -0.6, 10),
    ],
)
def test_worst_then_oldest_of_eleven_plans_is_dropped(fitness, offspring, dropped):
    population = population_of_ten(fitness)
    assert population.birth_number.tolist() == list(range(10))
    insert_individual(population, np.full(1, 10, np.uint64), offspring, 10)
    assert len(population.fitness) == 10
    assert sorted(population.birth_number) == [number for number in range(11) if number != dropped]
    assert population.genes[:, 0].tolist() == population.birth_number.tolist()
    expected = [*fitness, offspring]
    assert [expected[number] for number in population.birth_number] == population.fitness.tolist()


def test_oldest_plan_is_dropped_from_any_index():
    population = population_of_ten([0.0, *[0.5] * 9])
    insert_individual(population, np.full(1, 10, np.uint64), 0.5, 10)
    assert population.birth_number[0] == 10
    insert_individual(population, np.full(1, 11, np.uint64), 0.5, 11)
    assert sorted(population.birth_number) == list(range(2, 12))


def test_youngest_of_the_best_plans_is_played():
    population = population_of_ten([0.1, 0.7, 0.2, 0.7, 0.3, 0.7, 0.6, 0.0, 0.1, 0.2])
    assert best_individual(population) == 5
    insert_individual(population, np.full(1, 10, np.uint64), 0.7, 10)
    assert population.birth_number[best_individual(population)] == 10


def test_genes_mutate_with_the_configured_probability():
    population = population_of_ten(np.zeros(10))._replace(
        genes=np.arange(50, dtype=np.uint64).reshape(10, 5)
    )
    offspring = np.empty(5, np.uint64)
    changes = np.zeros(5)
    parents = np.zeros(10)
    for key in some_keys(2000):
        breed(population, key, 0.2, offspring)
        inherited = np.flatnonzero(offspring < 50)
        changes += offspring >= 50
        if inherited.size:
            parent = offspring[inherited[0]] // 5
            assert (offspring[inherited] == population.genes[int(parent), inherited]).all()
            parents[int(parent)] += 1
    deviations = (changes - 400) / np.sqrt(2000 * 0.2 * 0.8)
    assert np.abs(deviations).max() < 4
    assert np.abs(parents - parents.mean()).max() < 4 * np.sqrt(200)


@pytest.mark.parametrize(
    ("columns", "q", "h"),
    [
        # Twelve plies fill three of the four columns, so all remaining plies are forced.
        ([1, 0, 0, 1, 1, 1, 0, 0, 2, 2, 2, 2], 1, 3),
        ([2, 2, 2, 1, 2, 1, 1, 1, 0, 0, 0, 0], -1, 2),
        ([1, 1, 2, 0, 2, 2, 0, 1, 2, 1, 0, 0], -1, 4),
        ([2, 1, 1, 0, 0, 0, 0, 1, 1, 2, 2, 2], 0, 4),
    ],
)
@pytest.mark.parametrize("horizon", [1, 2, 10])
def test_fitness_is_outcome_divided_by_plies(columns, q, h, horizon):
    position = Position.start("connect_four:4x4")
    for column in columns:
        position = position.play(column)
    assert fitness_of(position, [5] * horizon, playouts=2) == pytest.approx(q / h)


def expectation(position, genes, plies=0):
    """Return the exact mean of Q / h for the side to move at the root."""
    if position.outcome is not None:
        return (position.outcome if plies % 2 == 0 else -position.outcome) / plies
    if plies % 2 == 0 and plies // 2 < len(genes):
        action = naive_rhea.read(genes[plies // 2], position)
        return expectation(position.play(action), genes, plies + 1)
    actions = position.legal_actions
    return sum(expectation(position.play(a), genes, plies + 1) for a in actions) / len(actions)


@pytest.mark.parametrize("genes", [[0], [2**63, 2**64 - 1], [3 * 2**62, 2**62, 0]])
@pytest.mark.parametrize(
    "moves", [[1, 0, 0, 1, 1, 1, 0, 0, 2, 2], [2, 2, 2, 1, 2, 1, 1, 1], [3, 0, 2, 1, 0, 2, 3, 3, 0]]
)
def test_fitness_converges_to_the_exact_expectation(moves, genes):
    position = Position.start("connect_four:4x4")
    for move in moves:
        position = position.play(move)
    count = 40_000
    error = fitness_of(position, genes, count, key=3) - expectation(position, genes)
    assert abs(error) < 5 / np.sqrt(count)  # the standard deviation of Q / h is at most 1


def test_games_in_a_batch_are_independent():
    game = parse_game("othello:6x6")
    states, keys = some_states("othello:6x6", 30), some_keys(30)
    together = rhea_actions(game, RheaSettings(), states, keys)
    backwards = rhea_actions(game, RheaSettings(), states[::-1].copy(), keys[::-1].copy())
    alone = [rhea_actions(game, RheaSettings(), states[i : i + 1], keys[i : i + 1]) for i in (7, 2)]
    assert together.tolist() == backwards[::-1].tolist()
    assert [*together[[7, 2]]] == [*np.concatenate(alone)]


def test_actions_depend_on_the_key():
    game = parse_game("othello:6x6")
    states = some_states("othello:6x6", 30)
    first, repeated, other = (
        rhea_actions(game, RheaSettings(), states, some_keys(30, seed)) for seed in (1, 1, 2)
    )
    assert first.tolist() == repeated.tolist()
    assert first.tolist() != other.tolist()


def test_full_mutation_is_random_search():
    """With mutation rate 1, the population size has no effect."""
    game = parse_game("othello:6x6")
    states, keys = some_states("othello:6x6", 30), some_keys(30)
    chosen = [
        rhea_actions(game, RheaSettings(population=size, mutation=rate), states, keys).tolist()
        for size, rate in ((1, 1.0), (10, 1.0), (50, 0.2))
    ]
    assert chosen[0] == chosen[1] == chosen[2]


@examples(max_examples=60)
@given(
    name=st.sampled_from(["othello:4x4", "othello:5x5", "connect_four:4x5"]),
    seed=st.integers(0, 2**32 - 1),
    share=st.floats(0, 1),
    size=st.integers(1, 6),
    horizon=st.integers(1, 12),
    mutation=st.floats(0, 1),
)
def test_every_choice_is_legal(name, seed, share, size, horizon, mutation):
    position = Position.start(name)
    random = np.random.default_rng(seed)
    visited = [position]
    while position.outcome is None:
        position = position.play(int(random.choice(position.legal_actions)))
        visited.append(position)
    sampled = visited[int(share * (len(visited) - 2))]
    settings = RheaSettings(playouts=12, population=size, horizon=horizon, mutation=mutation)
    state, keys = sampled.state[None].copy(), some_keys(1, seed)
    assert rhea_actions(sampled.game, settings, state, keys)[0] in sampled.legal_actions


def test_forced_passes_are_played():
    game = parse_game("othello:4x4")
    passes = [
        sample.state
        for sample in ongoing_sample_positions(game)
        if np.flatnonzero(compiled_rules.legal(game, sample.state)).tolist() == [16]
    ]
    assert passes
    chosen = rhea_actions(game, SMALL, np.array(passes), some_keys(len(passes)))
    assert set(chosen) == {16}


def test_plain_python_agrees_with_compiled_code():
    tests = str(Path(__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-m", "search.plans", *NAMES],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=tests,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [plans.choices(name) for name in NAMES]
    assert result.stderr == "", "warnings in plain Python"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"playouts": 19},
            "playouts = 19 .* population of 10 .* expected at least 20",
        ),
        (
            {"population": 60},
            "playouts = 100 .* population of 60 .* expected at least 120",
        ),
        ({"population": 0}, "population = 0: expected at least 1"),
        ({"horizon": 0}, "horizon = 0: expected at least 1"),
        ({"playouts_each": 0}, "playouts_each = 0: expected at least 1"),
        ({"mutation": 1.5}, "mutation = 1.5: expected at most 1.0"),
        ({"mutation": -0.1}, "mutation = -0.1: expected at least 0.0"),
        ({"mutations": 0.1}, 'unknown setting "mutations"; did you mean "mutation"?'),
    ],
)
def test_invalid_settings_get_one_line_errors(values, expected):
    with pytest.raises(UserError, match=expected) as error:
        validate(RheaSettings, values)
    assert "\n" not in str(error.value)
