"""Cycles and goodness of fit of tournaments with known properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab.play.pair_results import (
    GoodnessOfFit,
    PairResult,
    find_cycles,
    goodness_of_fit,
    pair_results,
    sign_test,
)
from zerolab.ratings.bayes import ELO_PER_NATURAL_UNIT, rate
from zerolab.ratings.results import EffectiveScore, MatchScore
from zerolab.store.games import GameRecord


def pair(first, second, wins, draws, losses):
    """Return a pair in alphabetical order, without repeated games."""
    score = MatchScore(wins, draws, losses)
    if first > second:
        first, second, score = second, first, MatchScore(losses, draws, wins)
    return PairResult(first, second, score, EffectiveScore(*score), score.game_count // 2)


ROCK_PAPER_SCISSORS = [
    pair("paper", "rock", 18, 0, 2),
    pair("scissors", "paper", 17, 1, 2),
    pair("rock", "scissors", 20, 0, 0),
]


def test_rock_paper_scissors_is_significant_cycle():
    cycles = find_cycles(ROCK_PAPER_SCISSORS)
    assert (
        cycles.triple_count,
        cycles.decided_count,
        cycles.cyclic_count,
        cycles.cyclic_fraction,
    ) == (1, 1, 1, 1.0)
    (cycle,) = cycles.significant_cycles
    beats = list(itertools.pairwise([*cycle.players, cycle.players[0]]))
    assert set(beats) == {("paper", "rock"), ("rock", "scissors"), ("scissors", "paper")}
    values = dict(zip(beats, cycle.p_values, strict=True))
    assert values[("rock", "scissors")] == pytest.approx(2 * 0.5**20)


def test_reversed_cycle_is_found():
    reversed_pairs = [pair(p.second, p.first, *p.score) for p in ROCK_PAPER_SCISSORS]
    (cycle,) = find_cycles(reversed_pairs).significant_cycles
    assert set(cycle.players) == {"paper", "rock", "scissors"}


def test_transitive_results_have_no_cycle():
    names = "abcde"
    pairs = [pair(x, y, 18, 0, 2) for x, y in itertools.combinations(names, 2)]
    cycles = find_cycles(pairs)
    assert (cycles.triple_count, cycles.decided_count, cycles.cyclic_count) == (10, 10, 0)
    assert cycles.significant_cycles == []


def test_narrow_cycle_is_not_significant():
    pairs = [pair("a", "b", 11, 0, 9), pair("b", "c", 11, 0, 9), pair("c", "a", 11, 0, 9)]
    cycles = find_cycles(pairs)
    assert (cycles.cyclic_count, cycles.significant_cycles) == (1, [])


def test_repeated_games_are_no_evidence_for_cycle():
    """Twenty wins with one repeated game per colour count as two games."""
    once = [
        PairResult(
            p.first,
            p.second,
            p.score,
            EffectiveScore(*(min(n, 2) for n in p.score)),
            p.moved_first_count,
        )
        for p in ROCK_PAPER_SCISSORS
    ]
    cycles = find_cycles(once)
    assert (cycles.cyclic_count, cycles.significant_cycles) == (1, [])


def test_even_and_missing_pairs_decide_no_triple():
    pairs = [pair("a", "b", 10, 0, 0), pair("b", "c", 5, 0, 5), pair("c", "a", 10, 0, 0)]
    assert find_cycles(pairs).decided_count == 0
    assert find_cycles(pairs[:2]).triple_count == 0
    assert find_cycles(pairs[:2]).cyclic_fraction is None


@given(st.integers(3, 9), st.integers(0, 2**32))
def test_cycle_counts_agree_with_enumeration(count, seed):
    random = np.random.default_rng(seed)
    names = [chr(ord("a") + n) for n in range(count)]
    ahead = {}
    pairs = []
    for x, y in itertools.combinations(names, 2):
        wins = int(random.choice([0, 10, 20]))
        ahead[x, y], ahead[y, x] = wins > 10, wins < 10
        pairs.append(pair(x, y, wins, 0, 20 - wins))
    cycles = find_cycles(pairs)
    triples = list(itertools.combinations(names, 3))
    cyclic = [
        1
        for x, y, z in triples
        for p, q, r in ((x, y, z), (x, z, y))
        if ahead[p, q] and ahead[q, r] and ahead[r, p]
    ]
    assert cycles.triple_count == len(triples)
    assert cycles.cyclic_count == len(cycles.significant_cycles) == len(cyclic)


def test_random_results_make_quarter_of_triples_cyclic():
    random = np.random.default_rng(1)
    names = [f"{n:03}" for n in range(82)]
    pairs = [
        pair(x, y, *((10, 0, 0) if random.random() < 0.5 else (0, 0, 10)))
        for x, y in itertools.combinations(names, 2)
    ]
    cycles = find_cycles(pairs)
    assert cycles.triple_count == 82 * 81 * 80 // 6
    assert cycles.cyclic_fraction == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ((0, 0, 0), 1.0),
        ((0, 9, 0), 1.0),
        ((5, 0, 5), 1.0),
        ((1, 0, 0), 1.0),
        ((6, 3, 0), 2 / 64),
        ((1, 0, 7), 2 * 9 / 256),
        ((60_000, 0, 59_000), 0.003777),  # normal approximation with continuity correction
    ],
)
def test_sign_test_matches_hand_computed_values(score, expected):
    assert sign_test(pair("a", "b", *score)) == pytest.approx(expected, rel=1e-3)


def test_sign_test_of_repeated_games_counts_each_once():
    thrice = PairResult("a", "b", MatchScore(3, 9, 21), EffectiveScore(1, 2, 7), 16)
    assert sign_test(thrice) == pytest.approx(2 * 9 / 256)


@pytest.mark.parametrize(
    ("value", "degrees_of_freedom", "tail"),
    [  # Abramowitz and Stegun, table 26.8
        (3.84146, 1, 0.05),
        (5.99147, 2, 0.05),
        (16.2662, 3, 0.001),
        (18.3070, 10, 0.05),
        (36.7412, 21, 0.018),
        (43.7730, 30, 0.05),
        (124.342, 100, 0.05),
        (0.0, 7, 1.0),
    ],
)
def test_p_values_are_published_chi_square_tails(value, degrees_of_freedom, tail):
    assert GoodnessOfFit([], value, degrees_of_freedom).p_value == pytest.approx(tail, rel=2e-2)


def synthetic(strengths, games, random, lead=0.2, bar=0.2):
    """Draw games from the rating model, with strengths in natural log-odds."""
    played = []
    for x, y in itertools.combinations(sorted(strengths), 2):
        for number in range(games):
            first, second = (x, y) if number % 2 == 0 else (y, x)
            delta = strengths[first] - strengths[second] + lead
            win, loss = 1 / (1 + np.exp(bar - delta)), 1 / (1 + np.exp(bar + delta))
            draw = random.random()
            result = 1 if draw < win else -1 if draw > 1 - loss else 0
            actions = tuple(random.integers(0, 1000, 5).tolist())
            played.append(GameRecord(number, first, second, actions, result))
    return played


@pytest.mark.parametrize(("players", "tournaments"), [(4, 60), (8, 30)])
def test_games_drawn_from_model_fit_it(players, tournaments):
    """The p-values of a correct model are uniform."""
    random = np.random.default_rng(3)
    strengths = {f"p{n}": 0.4 * n for n in range(players)}
    values = []
    for _ in range(tournaments):
        games = synthetic(strengths, 40, random)
        values.append(goodness_of_fit(pair_results(games), rate(games)).p_value)
    assert 0.35 < np.mean(values) < 0.65
    assert np.mean(np.array(values) < 0.05) < 0.15


def test_virtual_draws_do_not_make_correct_models_look_wrong():
    """With two games per pair, the fitted draw_elo is far too high, and so are predicted draws."""
    random = np.random.default_rng(6)
    values = []
    for _ in range(60):
        games = synthetic(dict.fromkeys("abcdefgh", 0.0), 2, random, bar=0.06)
        ratings = rate(games)
        assert ratings.model.draw_elo > 3 * 0.06 * ELO_PER_NATURAL_UNIT
        values.append(goodness_of_fit(pair_results(games), ratings).p_value)
    assert np.mean(np.array(values) < 0.05) < 0.1
    assert np.mean(values) > 0.3


def test_surprising_pair_has_largest_deviation():
    random = np.random.default_rng(4)
    strengths = {f"p{n}": 0.5 * n for n in range(8)}
    games = synthetic(strengths, 40, random)
    upset = [
        game._replace(result=1 if game.first == "p1" else -1)
        if {game.first, game.second} == {"p1", "p6"}
        else game
        for game in games
    ]
    fit = goodness_of_fit(pair_results(upset), rate(upset))
    worst = fit.residuals[0]
    assert (worst.first, worst.second, worst.total_points) == ("p1", "p6", 40)
    assert worst.standardised_difference > 5
    assert fit.p_value < 1e-6
    assert fit.degrees_of_freedom == 28 - 7


def test_two_players_have_no_p_value():
    games = synthetic({"a": 0.0, "b": 0.5}, 10, np.random.default_rng(5))
    assert goodness_of_fit(pair_results(games), rate(games)).p_value is None
