"""Report on four hyper-parameters, for invented runs with known effects.

The tests stay in one file because they share the invented results of a whole grid.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from made_up_runs import design_of, made_up_results

from zerolab.papers.hyperparameters import correlation as report
from zerolab.papers.hyperparameters import regression
from zerolab.papers.hyperparameters.correlation import grid_statistics
from zerolab.papers.hyperparameters.grid import (
    EPOCHS_SATURATED_CLAIM,
    FEW_EPOCHS_CLAIM,
    GRID_CLAIMS,
    GRID_SYMBOLS,
    ITERATIONS_AND_GAMES_CLAIM,
    ITERATIONS_EQUAL_TIME_CLAIM,
    ITERATIONS_LEAD_CLAIMS,
    ITERATIONS_SUBSUME_CLAIM,
    MORE_OF_ALL_CLAIM,
    MORE_OF_EACH_CLAIMS,
    MORE_TIME_HELPS_CLAIM,
    OVERTRAINED_CLAIM,
    POSITIVE_INTERACTION_CLAIM,
    counted_time_deviation,
    counted_work,
    fit_unit_costs,
    read_grid,
)
from zerolab.papers.hyperparameters.study import HyperparameterCorrelationStudy
from zerolab.ratings.ratings import Ratings
from zerolab.report.claims import ClaimTable
from zerolab.report.table import Interval
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.studies.results import Results

WORTH = {"I": 120.0, "E": 30.0, "m": 20.0, "ep": -10.0}
"""Elo per doubling with all other parameters fixed."""
COST = {"I": 1.0, "E": 0.9, "m": 0.6, "ep": 0.3}
"""Doublings of time per doubling."""

pytestmark = pytest.mark.usefixtures("no_folders")


def logs(planned):
    return {symbol: math.log2(planned.factors[symbol]) for symbol in GRID_SYMBOLS}


def measured(planned):
    """Return exact times, with counts at 1 microsecond per simulation and 10 per sample."""
    spent = 2.0 ** sum(COST[symbol] * x for symbol, x in logs(planned).items())
    each = 1e6 * spent / planned.factors["I"]
    return {
        "seconds": {"selfplay": 0.75 * spent, "learn": 0.25 * spent, "gate": 0.0},
        "simulations": round(0.75 * each),
        "samples": round(0.025 * each),
    }


def badly_measured(planned, seed):
    """Return `measured` with random time errors of a factor of about 1.4."""
    random = np.random.default_rng([*planned.part.encode(), *planned.label.encode(), seed])
    error = 2.0 ** random.normal(0.0, 0.5)
    exact = measured(planned)
    return {**exact, "seconds": {k: v * error for k, v in exact["seconds"].items()}}


def strength(planned):
    worth = sum(WORTH[symbol] * x for symbol, x in logs(planned).items())
    return worth + strength_noise(planned) + 500.0 * planned.factors["seed"]


def strength_noise(planned):
    random = np.random.default_rng([*planned.part.encode(), *planned.label.encode()])
    return 10.0 * random.normal()


@pytest.fixture(scope="module")
def results():
    design = design_of(HyperparameterCorrelationStudy, "mini")
    return made_up_results("mini", design, measured, strength, error=5.0)


def table(document, name):
    return next(each for each in document.tables if each.name == name).records()


def test_effects_of_doublings_are_recovered(results):
    """Seeds are 500 Elo apart, which must not affect coefficients."""
    found = regression.fit_grid(read_grid(results))
    for symbol in GRID_SYMBOLS:
        assert found.elo_coefficients[symbol].value == pytest.approx(WORTH[symbol], abs=5), symbol
        assert (
            found.elo_coefficients[symbol].interval.low
            < WORTH[symbol]
            < found.elo_coefficients[symbol].interval.high
        )
        assert found.measured_time_coefficients[symbol].value == pytest.approx(
            COST[symbol], abs=1e-6
        )
        assert found.counted_time_coefficients[symbol].value == pytest.approx(
            COST[symbol], abs=1e-4
        )


def test_effects_at_equal_time_agree_with_normal_equations(results):
    """Levels are independent, so the normal equations only contain their variances."""
    found = regression.fit_grid(read_grid(results)).elo_at_equal_counted_time
    variance = {
        symbol: np.var([math.log2(level) for level in results.planned_levels(symbol)])
        for symbol in GRID_SYMBOLS
    }
    time_time = sum(COST[s] ** 2 * variance[s] for s in GRID_SYMBOLS)
    time_elo = sum(COST[s] * WORTH[s] * variance[s] for s in GRID_SYMBOLS)
    for s in GRID_SYMBOLS:
        own, shared = variance[s], COST[s] * variance[s]
        expected = np.linalg.solve(
            [[own, shared], [shared, time_time]], [WORTH[s] * own, time_elo]
        )[0]
        assert found[s].value == pytest.approx(expected, abs=6), s
    assert found["I"].value > 0 > max(found[s].value for s in ("E", "m", "ep"))


def test_lead_is_the_difference_of_fitted_effects(results):
    grid = read_grid(results)
    found = regression.fit_grid(grid).elo_at_equal_counted_time
    for symbol in ITERATIONS_LEAD_CLAIMS:
        difference = regression.lead_of_iterations(grid, regression.fit_grid(grid), symbol)
        expected = found["I"].value - found[symbol].value
        assert difference.value == pytest.approx(expected)
        assert difference.interval.low < expected < difference.interval.high


CONTRADICTED = {MORE_OF_ALL_CLAIM, MORE_OF_EACH_CLAIMS["ep"]}
"""Claims that do not hold for the invented runs, because epochs make them weaker."""


TIME_CLAIMS = (
    ITERATIONS_SUBSUME_CLAIM,
    ITERATIONS_EQUAL_TIME_CLAIM,
    *ITERATIONS_LEAD_CLAIMS.values(),
)


def words_of(results):
    grid = read_grid(results)
    return {each.claim: each.word for each in judge_claims(grid_statistics(grid))}


def test_built_in_claims_hold(results):
    words = words_of(results)
    assert set(words) == set(GRID_CLAIMS)
    # Losing 10 Elo per doubling of epochs, or 6 from ep = 10 to 15, decides nothing in one cell.
    assert words.pop(OVERTRAINED_CLAIM) == "undecided"
    assert words.pop(FEW_EPOCHS_CLAIM) == "undecided"
    assert words.pop(POSITIVE_INTERACTION_CLAIM) in (
        "equal",
        "undecided",
    )  # the effects are additive
    assert words[ITERATIONS_AND_GAMES_CLAIM] == "holds"
    # Examples come from games, which help, and from epochs, which do not.
    assert words.pop(MORE_TIME_HELPS_CLAIM) != "does not hold"
    assert {claim for claim, word in words.items() if word != "holds"} == CONTRADICTED
    assert {words[claim] for claim in CONTRADICTED} == {"does not hold"}


@pytest.mark.parametrize("turn", [-1.0, 1.0])
def test_epochs_that_stop_helping(turn):
    """One seed shows the effect of epochs at the largest I and E, mainly at the largest m."""
    design = design_of(HyperparameterCorrelationStudy, "mini", 1)

    def elo(planned):
        i, e, m, ep = logs(planned).values()
        worth = 100 * i + 40 * e + 30 * m + 60 * ep + strength_noise(planned)
        if (planned.factors["I"], planned.factors["E"]) != (6, 30):
            return worth
        is_last = (planned.factors["m"], planned.factors["ep"]) == (24, 15)
        return worth + turn * (120 * (ep - math.log2(10)) + 100 * is_last)

    words = words_of(made_up_results("mini", design, measured, elo))
    assert words[MORE_OF_ALL_CLAIM] == "holds"
    expected = "holds" if turn < 0 else "does not hold"
    assert (words[EPOCHS_SATURATED_CLAIM], words[OVERTRAINED_CLAIM]) == (expected, expected)


@pytest.mark.parametrize(("of_epochs", "word"), [(-60.0, "holds"), (60.0, "does not hold")])
def test_inner_hyperparameters_that_hurt_or_matter_most(of_epochs, word):
    """Epochs are worth less than all others, or more than all others."""
    design = design_of(HyperparameterCorrelationStudy, "mini", 1)

    def elo(planned):
        i, e, _, ep = logs(planned).values()
        return 30 * i + 30 * e + of_epochs * ep + strength_noise(planned)

    words = words_of(made_up_results("mini", design, measured, elo))
    assert (words[FEW_EPOCHS_CLAIM], words[ITERATIONS_AND_GAMES_CLAIM]) == (word, word)


def test_late_epochs_are_those_of_the_largest_levels(results):
    """The estimates agree with a fit by hand of the 2 x 9 runs with the largest I and E."""
    grid = read_grid(results)
    late = grid.runs_at(I=6, E=30)
    assert len(late) == 18
    x = [
        [math.log2(run.level("ep")), math.log2(run.level("m")), run.tournament_key == "seed-100", 1]
        for run in late
    ]
    slopes = np.linalg.lstsq(np.array(x, float), [run.elo for run in late], rcond=None)[0]
    assert regression.elo_in_long_sessions(grid, "ep", "m").value == pytest.approx(slopes[0])
    assert regression.elo_in_long_sessions(grid, "m", "ep").value == pytest.approx(slopes[1])
    most, middle = (
        np.mean([run.elo for run in grid.runs_at(I=6, E=30, m=24, ep=ep)]) for ep in (15, 10)
    )
    step = regression.elo_change_at_most_epochs(grid)
    assert step.value == pytest.approx(most - middle)
    # Each mean is of two runs with noise of 10 Elo.
    assert step.standard_error == pytest.approx(10.0, rel=0.15)
    assert step.degrees_of_freedom == 162 - 17  # constant, 4 linear, 10 products, time, tournament


def test_work_of_selfplay_and_of_training_is_separated():
    """Elo depends on both counts, and the seeds' tournaments are 500 Elo apart."""
    design = design_of(HyperparameterCorrelationStudy, "mini")

    def work(planned):
        i, e, m, ep = (planned.factors[symbol] for symbol in GRID_SYMBOLS)
        counts = {"simulations": 20 * e * m, "samples": 10 * e * ep}
        return {"seconds": dict.fromkeys(("selfplay", "learn", "gate"), 1.0 * i), **counts}

    def elo(planned):
        i, e, m, ep = logs(planned).values()
        return 40 * (i + e + m) + 15 * (i + e + ep) + 500 * planned.factors["seed"]

    found = regression.elo_per_doubled_work(read_grid(made_up_results("mini", design, work, elo)))
    assert [each.value for each in found] == pytest.approx([40.0, 15.0])


def test_iterations_and_games_are_compared_with_simulations_and_epochs(results):
    """In the invented results, the smallest lead is games over simulations: 30 - 20 Elo."""
    leads = regression.leads_of_iterations_and_games(read_grid(results))
    assert [each.value for each in leads] == pytest.approx([100.0, 130.0, 10.0, 40.0], abs=5)
    grid = read_grid(results)
    fitted = regression.fit_grid(grid).elo_coefficients
    assert leads[2].value == pytest.approx(fitted["E"].value - fitted["m"].value)
    means = [np.mean([run.elo for run in grid.runs_at(I=6, E=30, ep=ep)]) for ep in (5, 10, 15)]
    epochs = [each.value for each in regression.leads_of_few_epochs(grid)]
    assert epochs == pytest.approx([means[0] - means[2], means[1] - means[2]])


@pytest.mark.parametrize(("gain", "word"), [(90.0, "holds"), (-90.0, "does not hold")])
def test_iterations_are_worth_more_with_more_work_in_each(gain, word):
    """Doubling E, m and ep together, or one three times, adds `gain` to the worth of I."""
    design = design_of(HyperparameterCorrelationStudy, "mini", 1)

    def elo(planned):
        i, e, m, ep = logs(planned).values()
        return 300 * i + gain * i * (e + m + ep) / 3 + strength_noise(planned)

    results = made_up_results("mini", design, measured, elo)
    found = regression.interaction_of_iterations(read_grid(results))
    assert found.value == pytest.approx(gain, abs=3 * found.standard_error)
    assert found.standard_error < 6
    assert words_of(results)[POSITIVE_INTERACTION_CLAIM] == word


def test_cheap_long_runs_are_compared_at_equal_time_and_with_costly_ones(results):
    """The lead at equal time is an indicator's coefficient, alongside log2 of the time."""
    grid = read_grid(results)
    cheap, costly = grid.runs_at(I=6, m=8, ep=5), grid.runs_at(I=6, m=24, ep=15)
    x = [
        [run in cheap, math.log2(grid.counted_seconds(run)), run.tournament_key == "seed-100", 1]
        for run in grid.runs
    ]
    lead = np.linalg.lstsq(np.array(x, float), [run.elo for run in grid.runs], rcond=None)[0][0]
    assert lead > 20
    assert regression.lead_at_equal_time(grid).value == pytest.approx(lead)
    difference = np.mean([run.elo for run in cheap]) - np.mean([run.elo for run in costly])
    assert regression.lead_over_costly_runs(grid).value == pytest.approx(difference)


def largest_mean(document):
    return max(row["mean Elo above Random"] for row in table(document, "front-shares"))


def test_report_is_complete(results):
    document = report.correlation_report(results)
    assert {each.name for each in document.pictures} == {
        "doubling", "elo", "elo-selfplay-time", "elo-learning-time", "elo-both-times",
        "front-most-selfplay", "front-most", "front",
    }  # fmt: skip
    figures = {each.name: each.figure for each in document.pictures}
    (points,) = figures["elo-both-times"].axes[0].collections
    x, y = np.array(points.get_offsets()).T
    assert x == pytest.approx(3 * y)  # invented self-play takes three quarters of the time
    assert (len(x), max(points.get_array())) == (81, pytest.approx(largest_mean(document)))
    a, b = (figures[name].axes[0] for name in ("front-most-selfplay", "front-most"))
    assert a.get_xlim()[1] == pytest.approx(0.75 * b.get_xlim()[1])
    rows = table(document, "runs")
    assert len(rows) == 162
    first = results.runs[0].planned
    assert [rows[0][symbol] for symbol in GRID_SYMBOLS] == [2, 10, 8, 5]
    assert rows[0]["Elo above Random"] == pytest.approx(strength(first) + 300)
    assert "(simulations=16)" in document.limitations
    # The best mean is on the front, and nothing that costs more is.
    own = table(document, "front-shares")
    assert len(own) == 81
    cost = next(name for name in own[0] if name.startswith("mean time"))
    best = max(own, key=lambda row: row["mean Elo above Random"])
    assert best["on the front"] == "yes"
    assert {row["on the front"] for row in own if row[cost] > best[cost]} <= {"no"}


def test_maps_have_the_means_of_seeds(results):
    grid = read_grid(results)
    for i, e in product((2, 6), (10, 30)):
        runs = grid.runs_at(I=i, E=e, m=8, ep=5)
        assert [run.tournament_key for run in runs] == ["seed-100", "seed-101"]
    assert len(grid.runs_by_combination()) == 81


@pytest.mark.parametrize(("kept", "played"), [(0, 0), (1, 1), (5, 0), (100, 1)])
def test_partial_results_are_reported(results, kept, played):
    tournaments = dict([*results.tournaments.items()][:played])
    part = Results("mini", results.design, results.runs[:kept], tournaments)
    document = report.correlation_report(part)
    (claims,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert {each.word for each in claims.verdicts} == {"no data"}
    assert bool(document.pictures) == bool(kept and played)


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_single_seed_has_finite_intervals(scale):
    """The published design has one run of every combination; fits still have intervals."""
    design = design_of(HyperparameterCorrelationStudy, scale)
    alone = made_up_results(scale, design, measured, strength)
    document = report.correlation_report(alone)
    (claims,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert all(math.isfinite(each.estimate.low) for each in claims.verdicts)


def test_time_proportional_to_iterations_gives_no_estimate(results):
    """Runs of equal time have equal iterations."""

    def only_iterations(planned):
        seconds = {"selfplay": planned.factors["I"], "learn": 0.0, "gate": 0.0}
        return {"seconds": seconds}  # and every iteration counts the same work

    made_up = made_up_results("mini", results.design, only_iterations, strength)
    grid = read_grid(made_up)
    fits = regression.fit_grid(grid)
    assert isinstance(regression.lead_of_iterations(grid, fits, "E"), MissingEstimate)
    assert isinstance(grid_statistics(grid)[ITERATIONS_SUBSUME_CLAIM], MissingEstimate)
    assert math.isinf(fits.elo_at_equal_measured_time["I"].interval.high)
    assert math.isinf(fits.elo_at_equal_counted_time["I"].interval.high)


def test_time_noise_does_not_change_claims(results):
    """Errors of times bias the effects at equal measured time far more than at counted time."""
    exact = regression.fit_grid(read_grid(results)).elo_at_equal_counted_time
    deviations = []
    for seed in range(5):
        measure = partial(badly_measured, seed=seed)
        grid = read_grid(made_up_results("mini", results.design, measure, strength))
        words = {each.claim: each.word for each in judge_claims(grid_statistics(grid))}
        assert {words[claim] for claim in TIME_CLAIMS} == {"holds"}
        fits = regression.fit_grid(grid)
        deviations.append([
            [abs(effects[symbol].value - exact[symbol].value) for symbol in GRID_SYMBOLS]
            for effects in (fits.elo_at_equal_counted_time, fits.elo_at_equal_measured_time)
        ])  # fmt: skip
    counted, timed = np.median(deviations, axis=0)
    assert np.all(counted < 0.5 * timed)  # at most 0.2 in twelve other groups of five seeds


def test_unit_costs_are_recovered(results):
    found = fit_unit_costs(results.runs)
    assert found[:2] == pytest.approx((1e-6, 1e-5), rel=1e-3)
    assert found.iteration_seconds == pytest.approx(0.0, abs=1e-3)
    assert counted_time_deviation(results.runs, fit_unit_costs(results.runs)) == pytest.approx(
        0.0, abs=1e-3
    )
    run = results.runs[0]
    assert counted_work(run).simulations == 2 * measured(run.planned)["simulations"]
    assert counted_work(run).iterations == 2


def test_tournament_scales_are_removed(results):
    """One tournament has many draws, so BayesElo multiplies its Elo by 0.73."""
    tournament = results.tournaments["seed-100"]
    ((key, ratings),) = tournament.ratings.items()
    model = replace(ratings.model, draw_elo=200.0)
    stretched = replace(tournament)
    by_name = {
        rating.player: rating._replace(
            interval=Interval(*(model.display_factor * end for end in rating.interval))
        )
        for rating in ratings.player_ratings
    }
    stretched.__dict__["ratings"] = {key: Ratings([*by_name.values()], model)}
    tournaments = {**results.tournaments, "seed-100": stretched}
    grid = read_grid(replace(results, tournaments=tournaments))
    assert grid.bayes_elo_scales == pytest.approx([0.730, 1.0], abs=0.001)
    for run, other in zip(grid.runs, read_grid(results).runs, strict=True):
        assert (run.elo, run.elo_standard_error) == pytest.approx(
            (other.elo, other.elo_standard_error)
        )


def test_spread_excludes_tournament_differences(results):
    """Runs have noise of 10 Elo, with measurement errors of 5; seeds are 500 apart."""
    found = regression.elo_spread_between_runs(read_grid(results))
    assert found.observed_sd == pytest.approx(10.0, rel=0.2)
    assert found.measurement_standard_error == pytest.approx(5.0)
    assert regression.residuals(read_grid(results)).degrees_of_freedom == 162 - 81 - 1


def equal_best_elo(planned):
    """Return an Elo for which the two most expensive combinations are equally strong."""
    place = [int(planned.factors[symbol]) for symbol in GRID_SYMBOLS]
    return 1000.0 if place in ([6, 30, 24, 10], [6, 30, 24, 15]) else 0.0


def test_front_shares_reveal_lucky_combinations(results):
    """Of two equal combinations, the cheaper is always on the front, the other only by luck."""
    jitter = {run.key: np.random.default_rng([*run.key.encode()]).normal()
              for run in results.design.runs}  # fmt: skip
    made_up = made_up_results(
        "mini", results.design, measured, lambda run: equal_best_elo(run) + 10 * jitter[run.key]
    )
    grid = read_grid(made_up)
    shares = dict(
        zip(grid.runs_by_combination(), regression.pareto_front_shares(grid), strict=True)
    )
    assert shares[6, 30, 24, 10] == 1.0
    assert 0.02 < shares[6, 30, 24, 15] < 0.98
    assert shares[6, 30, 16, 15] < 0.3
    assert shares[2, 10, 8, 5] == 1.0  # the cheapest
