"""The report on four hyper-parameters finds effects that were put into made-up runs."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from made_up_runs import made_up_results

from zerolab.studies.analyses.hyperparameters import correlation as report
from zerolab.studies.analyses.hyperparameters.grid import SYMBOLS, read_grid
from zerolab.studies.analyses.hyperparameters.regression import (
    INNER_CLAIMS,
    LEAD_CLAIMS,
    MORE_CLAIM,
    OUTER_CLAIM,
    fit,
    grid_findings,
    lead,
)
from zerolab.studies.claims import Missing, judge
from zerolab.studies.hyperparameter_correlation import HyperparameterCorrelation
from zerolab.studies.report.document import ClaimTable
from zerolab.studies.report.provenance import Provenance
from zerolab.studies.results import Results
from zerolab.studies.statistics import bootstrap

WORTH = {"I": 120.0, "E": 30.0, "m": 20.0, "ep": -10.0}
"""Elo per doubling, all others equal."""
COST = {"I": 1.0, "E": 0.9, "m": 0.6, "ep": 0.3}
"""Doublings of time per doubling."""


def logs(planned):
    return {symbol: math.log2(planned.factors[symbol]) for symbol in SYMBOLS}


def measured(planned):
    spent = 2.0 ** sum(COST[symbol] * x for symbol, x in logs(planned).items())
    return {"seconds": {"selfplay": 0.75 * spent, "learn": 0.25 * spent, "gate": 0.0}}


def strength(planned):
    noise = np.random.default_rng([*planned.key.encode()]).normal()
    worth = sum(WORTH[symbol] * x for symbol, x in logs(planned).items())
    return worth + 10.0 * noise + 500.0 * planned.settings.seed


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setitem(bootstrap.__kwdefaults__, "draws", 400)


@pytest.fixture(scope="module")
def results():
    design = HyperparameterCorrelation().design("mini")
    return made_up_results("mini", design, measured, strength, error=5.0)


@pytest.fixture
def no_folders(monkeypatch):
    nowhere = Provenance(1, [], {}, [0], "a machine", 0.0)
    monkeypatch.setattr(report, "provenance", lambda results: nowhere)


def table(document, name):
    return next(each for each in document.tables if each.name == name).records()


def test_doublings_are_worth_what_they_are(results):
    """Seeds are 500 Elo apart, which no coefficient may show."""
    found = fit(read_grid(results))
    for symbol in SYMBOLS:
        assert found.elo[symbol].value == pytest.approx(WORTH[symbol], abs=5), symbol
        assert found.elo[symbol].low < WORTH[symbol] < found.elo[symbol].high
        assert found.time[symbol].value == pytest.approx(COST[symbol], abs=1e-6)


def test_worth_at_equal_time(results):
    """By hand: levels are independent, so c and d solve the normal equations of their variances."""
    found = fit(read_grid(results)).equal_time
    variance = {
        symbol: np.var([math.log2(level) for level in results.levels(symbol)]) for symbol in SYMBOLS
    }
    time_time = sum(COST[s] ** 2 * variance[s] for s in SYMBOLS)
    time_elo = sum(COST[s] * WORTH[s] * variance[s] for s in SYMBOLS)
    for s in SYMBOLS:
        own, shared = variance[s], COST[s] * variance[s]
        expected = np.linalg.solve(
            [[own, shared], [shared, time_time]], [WORTH[s] * own, time_elo]
        )[0]
        assert found[s].value == pytest.approx(expected, abs=6), s
    assert found["I"].value > 0 > max(found[s].value for s in ("E", "m", "ep"))


def test_the_lead_is_that_of_both_fits(results):
    grid = read_grid(results)
    found = fit(grid).equal_time
    for symbol in LEAD_CLAIMS:
        difference = lead(grid, symbol)
        expected = found["I"].value - found[symbol].value
        assert difference.value == pytest.approx(expected)
        assert difference.low < expected < difference.high


def test_claims_hold_where_they_were_built_in(results):
    words = {each.claim: each.word for each in judge(grid_findings(read_grid(results)))}
    claims = (MORE_CLAIM, OUTER_CLAIM, *LEAD_CLAIMS.values(), *INNER_CLAIMS.values())
    assert set(words) == set(claims)
    assert set(words.values()) == {"holds"}


def test_the_whole_report(results, no_folders):
    document = report.document(results)
    assert {each.name for each in document.pictures} == {
        "doubling", "elo", "elo-selfplay-time", "elo-learning-time", "front-most", "front",
    }  # fmt: skip
    rows = table(document, "runs")
    assert len(rows) == 162
    first = results.runs[0].planned
    assert [rows[0][symbol] for symbol in SYMBOLS] == [2, 10, 8, 5]
    assert rows[0]["Elo above Random"] == pytest.approx(strength(first) + 300)
    # The best of a seed is on its front, and nothing that costs more is.
    for seed in (0, 1):
        own = [row for row in rows if row["seed"] == seed]
        best = max(own, key=lambda row: row["Elo above Random"])
        assert best["on the front of its seed"] == "yes"
        dearer = [row for row in own if row["total (s)"] > best["total (s)"]]
        assert {row["on the front of its seed"] for row in dearer} <= {"no"}


def test_maps_have_the_means_of_seeds(results):
    grid = read_grid(results)
    for i, e in product((2, 6), (10, 30)):
        runs = grid.at(I=i, E=e, m=8, ep=5)
        assert [run.seed for run in runs] == [0, 1]
    assert len(grid.combinations()) == 81


@pytest.mark.parametrize(("kept", "played"), [(0, 0), (1, 1), (5, 0), (100, 1)])
def test_whatever_is_finished_is_shown(results, no_folders, kept, played):
    tournaments = dict([*results.tournaments.items()][:played])
    part = Results("mini", results.design, results.runs[:kept], tournaments)
    document = report.document(part)
    (claims,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert {each.word for each in claims.verdicts} == {"no data"}
    assert bool(document.pictures) == bool(kept and played)


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_one_seed(scale, no_folders):
    """The published design has one run of every combination; fits have intervals all the same."""
    design = HyperparameterCorrelation().design(scale)
    alone = made_up_results(scale, design, measured, strength)
    document = report.document(alone)
    (claims,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert all(math.isfinite(each.estimate.low) for each in claims.verdicts)


def test_time_that_is_nothing_but_iterations_tells_nothing(results):
    """Then no run of equal time has other iterations."""

    def only_iterations(planned):
        return {"seconds": {"selfplay": planned.factors["I"], "learn": 0.0, "gate": 0.0}}

    made_up = made_up_results("mini", results.design, only_iterations, strength)
    grid = read_grid(made_up)
    assert isinstance(lead(grid, "E"), Missing)
    assert math.isinf(fit(grid).equal_time["I"].high)
