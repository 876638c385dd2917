"""Bayesian Elo, compared with known strengths, a closed form and BayesElo's algorithm."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerolab.core.errors import UserError
from zerolab.ratings.bayes import ELO_PER_NATURAL_UNIT, Posterior, rate
from zerolab.ratings.ratings import ratings_json
from zerolab.ratings.results import GameResult, connected_groups, synthetic_tournament, tally
from zerolab.ratings.sprt import Sprt, cumulative_pair_counts, log_likelihood_ratio


def elos(ratings):
    return {rating.player: rating.elo_model for rating in ratings.player_ratings}


def games(first, second, wins=0, draws=0, losses=0):
    outcomes = [1] * wins + [0] * draws + [-1] * losses
    return [GameResult(first, second, outcome) for outcome in outcomes]


def probabilities(lead, draw_elo):
    wins, losses = (1 / (1 + 10 ** ((draw_elo + x) / 400)) for x in (-lead, lead))
    return wins, 1 - wins - losses, losses


@pytest.mark.parametrize(("players", "games_a_pair", "rounds"), [(33, 20, 20), (82, 10, 8)])
def test_strengths_are_recovered_and_intervals_cover_them(players, games_a_pair, rounds):
    """Independent intervals would fail by chance in 1 of 1,000 runs."""
    random = np.random.default_rng(players)
    is_covered, errors, advantages, draw_elos = [], [], [], []
    for _ in range(rounds):
        truth, results = synthetic_tournament(random, players, games_a_pair)
        ratings = rate(results)
        for rating in ratings.player_ratings:
            true_elo = ratings.model.display_factor * truth[rating.player]
            is_covered.append(rating.interval.low <= true_elo <= rating.interval.high)
            errors.append(rating.elo_model - truth[rating.player])
        advantages.append(ratings.model.first_move_advantage)
        draw_elos.append(ratings.model.draw_elo)
    assert 0.92 <= np.mean(is_covered) <= 0.98
    assert np.std(errors) < 20
    assert np.mean(advantages) == pytest.approx(35, abs=2)
    assert np.mean(draw_elos) == pytest.approx(97.3, abs=2)


def test_many_games_recover_true_strengths():
    """Thousands of results in exactly the proportions that the model predicts."""
    truth = {"a": 150.0, "b": -50.0, "c": -100.0}
    results = []
    for first, second in itertools.permutations(truth, 2):
        shares = probabilities(truth[first] - truth[second] + 60, 130)
        results += games(first, second, *(round(20_000 * share) for share in shares))
    ratings = rate(results)
    assert elos(ratings) == pytest.approx(truth, abs=0.5)
    assert ratings.model.first_move_advantage == pytest.approx(60, abs=0.5)
    assert ratings.model.draw_elo == pytest.approx(130, abs=0.5)


def test_two_players_match_closed_form():
    """With advantage and draw_elo 0, a draw equals a win and a loss in the Bradley-Terry model."""
    results = games("a", "b", 10, 3, 5) + games("b", "a", 4, 3, 11)
    wins, losses, draws = 21, 9, 6 + 2
    ratings = rate(results, advantage=0, draw_elo=0)
    difference = ratings.model.elo_difference("a", "b")
    assert difference.elo == pytest.approx(
        400 * math.log10((wins + draws) / (losses + draws)), abs=1e-6
    )
    share = (wins + draws) / (wins + losses + 2 * draws)
    negative_hessian = (wins + losses + 2 * draws) * share * (1 - share)
    assert difference.interval.high - difference.elo == pytest.approx(
        1.96 * ELO_PER_NATURAL_UNIT / math.sqrt(negative_hessian), rel=1e-4
    )


def bayeselo(results, rounds=5_000):
    """Rate with BayesElo's algorithm, minorisation-maximisation [Hunter2004; BayesElo].

    Its prior consists of virtual draws with every opponent, in proportion to the games played.
    """
    counted = tally(results)
    wins, draws, losses = (each.astype(float) for each in counted[1:])
    games_played = wins + draws + losses
    games_played += games_played.T
    for i in range(len(games_played)):
        share = 0.25 * 2 / games_played[i].sum() * games_played[i]
        draws[i] += share
        draws[:, i] += share
    strength, advantage, bar = np.ones(len(games_played)), 1.0, 1.0
    a, b = wins + draws, losses + draws
    for _ in range(rounds):
        row, column = strength[:, None], strength[None]
        win, lose = a / (advantage * row + bar * column), b / (bar * advantage * row + column)
        gain = (advantage * win + bar * advantage * lose).sum(1) + (bar * win + lose).sum(0)
        strength = (a.sum(1) + b.sum(0)) / gain
        row, column = strength[:, None], strength[None]
        win, lose = a / (advantage * row + bar * column), b / (bar * advantage * row + column)
        advantage = a.sum() / (row * win + bar * row * lose).sum()
        win, lose = a / (advantage * row + bar * column), b / (bar * advantage * row + column)
        half = draws.sum() / (column * win + advantage * row * lose).sum()
        bar = half + math.sqrt(half * half + 1)
    elo = 400 * np.log10(strength)
    elo -= elo.mean()
    return dict(zip(counted.players, elo, strict=True)), *400 * np.log10([advantage, bar])


def test_ratings_agree_with_bayeselo():
    _, results = synthetic_tournament(np.random.default_rng(7), 8, 10)
    reference, advantage, draw_elo = bayeselo(results)
    ratings = rate(results)
    assert elos(ratings) == pytest.approx(reference, abs=0.5)
    assert ratings.model.first_move_advantage == pytest.approx(advantage, abs=0.5)
    assert ratings.model.draw_elo == pytest.approx(draw_elo, abs=0.5)


def test_scale_agrees_with_bayeselo():
    """BayesElo's factor at its default draw_elo normalises the slope of the expected score."""
    ratings = rate(games("a", "b", 3, 3, 3), draw_elo=97.3, advantage=0)
    assert ratings.model.display_factor == pytest.approx(0.92550, abs=1e-5)
    won, drawn, _ = probabilities(0.01, 97.3)
    slope = (won + drawn / 2 - 0.5) / 0.01
    assert slope == pytest.approx(
        ratings.model.display_factor / (4 * ELO_PER_NATURAL_UNIT), rel=1e-4
    )


def test_match_and_sequential_test_have_same_elo_scale():
    """30-350-20 is +8.7 Elo by the score rate, and +37 on the model's scale."""
    outcomes = [1] * 30 + [0] * 350 + [-1] * 20
    np.random.default_rng(1).shuffle(outcomes)
    sides = ("a", "b"), ("b", "a")
    played = [GameResult(*sides[i % 2], outcome * (-1) ** i) for i, outcome in enumerate(outcomes)]
    ratings = rate(played)
    difference = ratings.elo_difference("a", "b")
    by_score = 400 * math.log10(0.5125 / 0.4875)
    assert difference.elo == pytest.approx(by_score, rel=0.02)
    # 1.96 standard errors for 400 such games are 12 Elo.
    assert difference.elo - difference.interval.low == pytest.approx(12, abs=1)
    assert ratings.model.elo_difference("a", "b").elo > 4 * difference.elo
    assert ratings.model.elo_difference("a", "b").los == difference.los
    assert difference.interval.high < 50
    ratio = log_likelihood_ratio(cumulative_pair_counts("a", played)[-1], 0, 50)
    assert Sprt(0, 50).verdict(float(ratio)).decision == "accept H0"
    top = ratings.player_ratings[0]
    assert top.elo == pytest.approx(difference.elo / 2)
    assert top.elo_model == pytest.approx(ratings.model.elo_difference("a", "b").elo / 2)


def test_reported_numbers_are_on_one_scale():
    _, played = synthetic_tournament(np.random.default_rng(8), 5, 20)
    ratings = rate(played)
    report, scale = ratings_json(ratings), ratings.model.display_factor
    assert report["first_move_advantage"] == pytest.approx(
        scale * report["model"]["first_move_advantage"]
    )
    for each, rating in zip(report["players"], ratings.player_ratings, strict=True):
        assert each["elo"] == pytest.approx(scale * each["elo_model"])
        assert each["elo"] == rating.elo == pytest.approx((each["low"] + each["high"]) / 2)
    first, last = report["players"][0], report["players"][-1]
    difference = ratings.elo_difference(first["player"], last["player"])
    assert difference.elo == pytest.approx(first["elo"] - last["elo"])


def test_player_against_itself_has_equal_ratings():
    """One player under two names, with paired colours."""
    results = games("x", "its mirror", 7, 4, 5) + games("its mirror", "x", 7, 4, 5)
    ratings = rate(results)
    assert elos(ratings) == pytest.approx({"x": 0, "its mirror": 0}, abs=1e-6)
    assert ratings.los() == pytest.approx(np.full((2, 2), 0.5))
    itself = ratings.elo_difference("x", "x")
    assert itself == ((0.0, 0.0, 0.0), 0.5)


outcomes = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-1, 1)), min_size=1, max_size=60
)


def connected_results(rows):
    """Return results of five players, with a ring of draws that connects them."""
    ring = [(i, (i + 1) % 5, 0) for i in range(5)]
    return [GameResult(f"p{i}", f"p{j}", outcome) for i, j, outcome in ring + rows if i != j]


@given(outcomes, st.permutations(range(5)))
@settings(max_examples=12)
def test_ratings_do_not_depend_on_order_or_names(rows, order):
    results = connected_results(rows)
    ratings = rate(results)
    names = {f"p{i}": f"p{j}" for i, j in enumerate(order)}
    renamed = rate([GameResult(names[r.first], names[r.second], r.result) for r in results[::-1]])
    for player, elo in elos(ratings).items():
        assert elos(renamed)[names[player]] == pytest.approx(elo, abs=1e-5)
    assert sum(elos(ratings).values()) == pytest.approx(0, abs=1e-6)


@given(outcomes)
@settings(max_examples=12)
def test_swapping_colours_negates_advantage(rows):
    results = connected_results(rows)
    ratings = rate(results)
    swapped = rate([GameResult(r.second, r.first, -r.result) for r in results])
    assert swapped.model.first_move_advantage == pytest.approx(
        -ratings.model.first_move_advantage, abs=1e-5
    )
    assert swapped.model.draw_elo == pytest.approx(ratings.model.draw_elo, abs=1e-5)
    assert elos(swapped) == pytest.approx(elos(ratings), abs=1e-5)


@given(outcomes)
@settings(max_examples=12)
def test_superiority_and_covariance_are_consistent(rows):
    ratings = rate(connected_results(rows))
    likelihoods, n = ratings.los(), len(ratings.player_ratings)
    assert likelihoods + likelihoods.T == pytest.approx(np.ones((n, n)))
    assert (likelihoods[np.triu_indices(n, 1)] >= 0.5).all()  # strongest first
    assert ratings.model.covariance[:n, :n].sum(axis=1) == pytest.approx(np.zeros(n), abs=1e-3)
    assert np.linalg.eigvalsh(ratings.model.covariance).min() > -1e-6
    rating = ratings.player_ratings[0]
    assert rating.interval.high - rating.elo == pytest.approx(
        1.96 * ratings.model.display_factor * ratings.model.covariance[0, 0] ** 0.5, rel=1e-3
    )


def test_derivatives_agree_with_finite_differences():
    random = np.random.default_rng(3)
    pairs = np.array(list(itertools.product(range(6), repeat=2)))
    first, second = random.permutation(pairs)[:25].T
    posterior = Posterior(first, second, random.random(25) * 9, random.random(25) * 9, 17.5)
    point = np.array([*random.normal(0, 0.7, 6), 0.2, 0.6])
    steps = 1e-5 * np.eye(8)
    slopes = [
        (posterior.log_density(point + s) - posterior.log_density(point - s)) / 2e-5 for s in steps
    ]
    assert posterior.gradient(point) == pytest.approx(np.array(slopes), abs=1e-4)
    bends = [(posterior.gradient(point - s) - posterior.gradient(point + s)) / 2e-5 for s in steps]
    assert posterior.negative_hessian(point) == pytest.approx(np.array(bends), abs=1e-4)


EXTREMES = {
    "one wins everything": games("a", "b", 500) + games("b", "a", 0, 0, 500),
    "first player wins": games("a", "b", 50) + games("b", "a", 50),
    "first player loses": games("a", "b", 0, 0, 50) + games("b", "a", 0, 0, 50),
    "one always first": games("a", "b", 50),
    "all drawn": games("a", "b", 0, 500) + games("b", "a", 0, 500),
    "one game": games("a", "b", 1),
    "one draw": games("a", "b", 0, 1),
    "a chain of wins": [g for i in range(30) for g in games(f"p{i:02}", f"p{i + 1:02}", 20)],
    "one game among many": games("a", "b", 20_000, 1, 0) + games("b", "c", 1),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_results_have_finite_ratings(name):
    ratings = rate(EXTREMES[name])
    numbers = [x for rating in ratings.player_ratings for x in [*rating.interval, *rating[2:]]]
    assert np.isfinite([*numbers, ratings.model.first_move_advantage, ratings.model.draw_elo]).all()
    assert 0 < ratings.model.draw_elo < 3000
    assert abs(ratings.model.first_move_advantage) < 3000
    assert all(
        rating.interval.low < rating.elo < rating.interval.high for rating in ratings.player_ratings
    )


def test_extreme_results_have_plausible_ratings():
    assert rate(EXTREMES["one wins everything"]).player_ratings[0].player == "a"
    assert rate(EXTREMES["all drawn"]).model.draw_elo > 500
    first = rate(EXTREMES["first player wins"])
    assert first.model.first_move_advantage > 200
    assert elos(first) == pytest.approx({"a": 0, "b": 0}, abs=1e-6)


def test_fixed_parameters_are_not_fitted():
    results = games("a", "b", 30, 5, 10) + games("b", "a", 30, 5, 10)
    ratings = rate(results, advantage=12.5, draw_elo=50)
    assert (ratings.model.first_move_advantage, ratings.model.draw_elo) == pytest.approx((12.5, 50))
    assert not ratings.model.covariance[2:].any()
    fitted = rate(results)
    assert fitted.model.first_move_advantage > 50
    assert fitted.model.covariance[2, 2] > 0


def test_rating_has_games_rates_and_mean_opponent():
    results = games("a", "b", 2, 1) + games("c", "a", 0, 0, 1) + games("b", "c", 1)
    rated = {rating.player: rating for rating in rate(results).player_ratings}
    assert (rated["a"].games, rated["a"].score_rate, rated["a"].draw_rate) == (4, 3.5 / 4, 0.25)
    assert rated["a"].mean_opponent_elo == pytest.approx((3 * rated["b"].elo + rated["c"].elo) / 4)
    assert rated["c"].score_rate == 0


def test_prior_is_negligible_with_many_games():
    """With 1,000 games per pair, the prior moves ratings by far less than their intervals."""
    results = games("a", "b", 300, 100, 100) + games("b", "a", 100, 100, 300)
    difference = rate(results, advantage=0).model.elo_difference("a", "b")
    expected = 200 * math.log10(0.6 / 0.4 * 0.8 / 0.2)  # from 60 % wins and 20 % losses
    assert difference.elo == pytest.approx(expected, abs=2)


def test_disconnected_players_are_refused():
    with pytest.raises(UserError, match="no finished game between two players"):
        rate([])
    with pytest.raises(UserError, match="no finished game between two players"):
        rate(games("a", "a", 3))
    disconnected = games("a", "b", 3) + games("c", "d", 1) + games("d", "e", 1)
    with pytest.raises(UserError, match=r"2 groups .*: c, d, e; a, b$"):
        rate(disconnected)
    assert connected_groups(tally(disconnected)) == [["c", "d", "e"], ["a", "b"]]
    chain = [g for i in range(20) for g in games(f"x{i:02}", f"x{i + 1:02}", 1)]
    with pytest.raises(UserError, match=r"x04 and 16 more; a, b$"):
        rate(chain + games("a", "b", 1))


@pytest.mark.parametrize("wrong", [{"advantage": math.nan}, {"draw_elo": -1.0}, {"draw_elo": 1e9}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(UserError, match=r"expected (0, or )?at least"):
        rate(games("a", "b", 1), **wrong)


def test_unknown_outcomes_raise_value_error():
    with pytest.raises(ValueError, match="1, 0 or -1"):
        tally([GameResult("a", "b", 2)])


def test_long_chain_of_players_is_rated():
    """The first player is 290,000 Elo ahead of the last, so Newton's method needs long steps."""
    row = [f"p{number:03}" for number in range(400)]
    ratings = rate([GameResult(*pair, 1) for pair in itertools.pairwise(row)])
    assert [each.player for each in ratings.player_ratings] == row
    elos = [each.elo for each in ratings.player_ratings]
    assert elos == pytest.approx([-elo for elo in reversed(elos)], rel=1e-6, abs=1e-3)


def test_lopsided_chains_of_players_are_rated():
    results = []
    for number, games in enumerate([37280, 35056, 1252, 175, 1]):
        results += [GameResult(f"p{number}", f"p{number + 1}", 1)] * games
    ratings = rate(results)
    assert [each.player for each in ratings.player_ratings] == [f"p{number}" for number in range(6)]
    assert np.isfinite([each.interval for each in ratings.player_ratings]).all()


def test_unknown_player_is_named_with_a_similar_one():
    rated = rate(games("anna", "bert", wins=1, losses=1))
    with pytest.raises(UserError, match=r'player "bret".*did you mean "bert"'):
        rated.elo_difference("anna", "bret")


def test_standard_errors_of_weighted_sums_follow_from_the_covariance():
    ratings = rate(games("a", "b", 30, 20, 10) + games("b", "c", 25, 5, 15) + games("c", "a", 9, 1))
    lead = ratings.elo_difference("a", "c").standard_error
    assert lead > ratings.player_ratings[0].standard_error
    assert ratings.standard_error({"a": 1.0, "c": -1.0}) == pytest.approx(lead)
    assert ratings.standard_error({"a": -2.0, "c": 2.0}) == pytest.approx(2.0 * lead)
    for rating in ratings.player_ratings:
        single = ratings.standard_error({rating.player: 1.0})
        assert single == pytest.approx(rating.standard_error)
    # The sum of all Elo is fixed, so it has no error.
    assert ratings.standard_error(dict.fromkeys("abc", 1.0)) == pytest.approx(0.0, abs=1e-3)
    with pytest.raises(UserError, match='unknown player "d"'):
        ratings.standard_error({"d": 1.0})
