"""Claims about the full grid, and levels, Elo, work and training time of its runs.

Measured times depend on the machine and are noisy because several runs share it. In a fit, noise in
a regressor biases its coefficient towards 0 and distorts the other coefficients. Counts of work
have no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.report.claims import Claim, Direction
from zerolab.report.table import TimeUnit
from zerolab.report.xy_plots import ScatterPoint
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.results import Results
from zerolab.training.records import LearnRecord, SelfPlayRecord


class UnitCosts(NamedTuple):
    """Time per unit of work."""

    simulation_seconds: float
    example_seconds: float
    iteration_seconds: float
    """Fixed time per iteration, including the gate."""


class CountedWork(NamedTuple):
    """Total work of a run, as counted in its records."""

    simulations: int
    """Number of simulations in all self-play searches."""
    examples: int
    """Number of training examples, including repetitions."""
    iterations: int

    def seconds(self, unit_costs: UnitCosts) -> float:
        """Return the time that the work takes at `unit_costs`."""
        return sum(count * cost for count, cost in zip(self, unit_costs, strict=True))


def counted_work(run: TrainedRun) -> CountedWork:
    """Return the work of a run, excluding gate games."""
    return CountedWork(
        sum(record.simulations for record in run.records_of(SelfPlayRecord)),
        sum(record.examples_seen for record in run.records_of(LearnRecord)),
        len(run.records_of(SelfPlayRecord)),
    )


def fit_unit_costs(runs: Sequence[TrainedRun]) -> UnitCosts:
    """Fit non-negative unit costs of work to the training times of `runs`.

    Self-play and learning each have a cost per unit and a cost per iteration. The costs minimise
    the squared relative errors, so short and long runs have equal weight. If there are no
    runs, all costs are 0.
    """
    if not runs:
        return UnitCosts(0.0, 0.0, 0.0)
    works = [counted_work(run) for run in runs]
    iterations = [each.iterations for each in works]
    simulation, selfplay = _fit([each.simulations for each in works], iterations,
                                [run.seconds_by_stage["selfplay"] for run in runs])  # fmt: skip
    example, learning = _fit([each.examples for each in works], iterations,
                            [run.seconds_by_stage["learn"] for run in runs])  # fmt: skip
    gates = sum(
        run.training_seconds - run.seconds_by_stage["selfplay"] - run.seconds_by_stage["learn"]
        for run in runs
    )
    return UnitCosts(simulation, example, selfplay + learning + max(0.0, gates) / sum(iterations))


def _fit(
    units: Sequence[int], iterations: Sequence[int], seconds: Sequence[float]
) -> tuple[float, float]:
    """Return the fitted cost per unit and per iteration."""
    from scipy.optimize import nnls

    counts = np.array([units, iterations], np.float64).T
    scale = counts.max(axis=0, initial=1.0)
    times = np.maximum(seconds, 1e-9)  # skipped stages take no time
    (unit, iteration), _ = nnls(counts / scale / times[:, None], np.ones(len(times)))
    return float(unit / scale[0]), float(iteration / scale[1])


def counted_time_deviation(runs: Sequence[TrainedRun], unit_costs: UnitCosts) -> float:
    """Return the standard deviation of log2(measured time / counted time)."""
    ratios = [
        math.log2(run.training_seconds / counted_work(run).seconds(unit_costs)) for run in runs
    ]
    return stdev(ratios) if len(ratios) > 1 else 0.0


GRID_SYMBOLS = ("I", "E", "m", "ep")
"""Symbols of the four hyper-parameters [Wang2020a, Table 2]."""

OUTER, INNER = "I", ("E", "m", "ep")
"""Number of iterations, and the hyper-parameters of the work within an iteration."""

RANDOM_AGENT = "random"


class RatedGridRun(NamedTuple):
    """Run of the grid with its tournament rating."""

    trained_run: TrainedRun
    tournament_key: str
    """Key of the tournament of the run's seed. Runs with the same seed share nothing else."""
    levels: tuple[int, ...]
    """Levels in the order of `GRID_SYMBOLS`."""
    elo: float
    """Elo relative to Random in the same tournament, on the scale of the Elo model."""
    elo_standard_error: float
    """Standard error of `elo`, excluding the error of Random's rating."""
    work: CountedWork

    @property
    def training_seconds(self) -> float:
        """Training time in seconds."""
        return self.trained_run.training_seconds

    def level(self, symbol: str) -> int:
        """Return the level of a hyper-parameter."""
        return self.levels[GRID_SYMBOLS.index(symbol)]


class Grid(NamedTuple):
    """Finished runs of the factorial design."""

    results: Results
    levels: Mapping[str, Sequence[int]]
    """Levels by symbol, in ascending order."""
    runs: Sequence[RatedGridRun]
    """Runs with a tournament rating."""
    unit_costs: UnitCosts
    """Unit costs of work, fitted to all finished runs."""

    @property
    def runs_by_tournament(self) -> list[list[RatedGridRun]]:
        """Runs grouped by tournament."""
        names = dict.fromkeys(run.tournament_key for run in self.runs)
        return [[run for run in self.runs if run.tournament_key == name] for name in names]

    def runs_at(self, **levels: int) -> list[RatedGridRun]:
        """Return the runs with the given levels."""
        return [
            run for run in self.runs
            if all(run.level(symbol) == level for symbol, level in levels.items())
        ]  # fmt: skip

    def runs_by_combination(self) -> dict[tuple[int, ...], list[RatedGridRun]]:
        """Return the runs by combination of levels, for combinations that have runs."""
        return {
            levels: runs
            for levels in product(*self.levels.values())
            if (runs := self.runs_at(**dict(zip(GRID_SYMBOLS, levels, strict=True))))
        }

    def counted_seconds(self, run: RatedGridRun) -> float:
        """Return the time of a run's work at `unit_costs`, in seconds."""
        return run.work.seconds(self.unit_costs)

    @property
    def bayes_elo_scales(self) -> list[float]:
        """Factors by which BayesElo scales the Elo of the tournaments, smallest first."""
        return sorted(
            ratings.model.display_factor
            for name in dict.fromkeys(run.tournament_key for run in self.runs)
            for ratings in self.results.tournaments[name].ratings.values()
        )


def read_grid(results: Results) -> Grid:
    """Read the finished runs and their ratings from the tournament of each seed."""
    levels = {
        symbol: sorted(int(level) for level in results.planned_levels(symbol))
        for symbol in GRID_SYMBOLS
    }
    return Grid(results, levels, [*_runs(results)], fit_unit_costs(results.runs))


def _runs(results: Results) -> Iterable[RatedGridRun]:
    for run in results.runs:
        tournament = results.tournaments.get(run.planned.part)
        if tournament is not None:
            levels = tuple(int(run.factors[symbol]) for symbol in GRID_SYMBOLS)
            yield RatedGridRun(
                run, run.planned.part, levels, *_elo(tournament, run), counted_work(run)
            )


def _elo(tournament: PlayedTournament, run: TrainedRun) -> tuple[float, float]:
    """Return the Elo of a run relative to Random and its standard error, on the model's scale.

    The model's scale is the same in all tournaments, unlike BayesElo's scale, which depends on the
    share of draws.
    """
    rating = tournament.final_rating(run)
    (ratings,) = tournament.ratings.values()
    (random_rating,) = tournament.ratings_of_agent(RANDOM_AGENT)
    elo = rating.elo_model - random_rating.elo_model
    return elo, rating.standard_error / ratings.model.display_factor


def mean_elo_point(
    runs: Sequence[RatedGridRun], costs: Sequence[float], unit: TimeUnit
) -> ScatterPoint:
    """Return the mean cost and Elo of the runs of one combination.

    `costs` are in seconds; the cost of the point is in `unit`.
    """
    elos = [run.elo for run in runs]
    return ScatterPoint(
        fmean(costs) / unit.seconds,
        fmean(elos),
        combination_name(runs[0].levels),
        math.sqrt(sum(run.elo_standard_error**2 for run in runs)) / len(runs),
        stdev(elos) if len(elos) > 1 else 0.0,
    )


def combination_name(levels: Sequence[int]) -> str:
    """Return the name of a combination, such as ``I 75, E 30, m 25, ep 5``."""
    return ", ".join(
        f"{symbol} {level}" for symbol, level in zip(GRID_SYMBOLS, levels, strict=True)
    )


_ABSTRACT, _FIG_4 = "[Wang2020a, abstract]", "[Wang2020a, section 6.2, Fig. 4]"


def _grid_claim(
    key: str,
    text: str,
    source: str,
    statistic: str,
    figure: str,
    gatekeeper: Claim | None = None,
    direction: Direction = "above",
    smallest: float = 10.0,
) -> Claim:
    gatekeeper_key = gatekeeper.key if gatekeeper else ""
    return Claim(key, text, source, statistic, 0.0, direction, smallest, gatekeeper_key, figure)


MORE_OF_ALL_CLAIM = _grid_claim(
    "more-of-each",
    "Generally, higher values of all four hyper-parameters (I, E, m, ep) lead to higher playing"
    " strength.",
    "[Wang2020a, conclusion]",
    "Elo per doubling of a hyper-parameter with the others unchanged, from a fit over all runs,"
    " minimum of four",
    "doubling",
)
ITERATIONS_SUBSUME_CLAIM = _grid_claim(
    "iterations-subsume",
    "Iterations subsume games, simulations and epochs. At equal time, more iterations are worth"
    " more than more of any of these.",
    _ABSTRACT,
    f"Elo per doubling of {OUTER} minus Elo per doubling of {', '.join(INNER)}, each at equal"
    " counted time, smallest difference",
    "doubling",
)
MORE_OF_EACH_CLAIMS = {
    symbol: _grid_claim(
        f"more-{HYPERPARAMETERS[symbol].title.replace(' ', '-')}",
        f"{'Generally, more' if symbol in ('m', 'ep') else 'More'} {HYPERPARAMETERS[symbol].title}"
        f" ({symbol}) train stronger players.",
        _FIG_4,
        f"Elo per doubling of {symbol} with the others unchanged, from a fit over all runs",
        "doubling",
        MORE_OF_ALL_CLAIM,
    )
    for symbol in GRID_SYMBOLS
}
OVERTRAINED_CLAIM = _grid_claim(
    "too-many-epochs",
    "Sometimes more training makes players weaker: with the largest I, E and m, the largest number"
    " of epochs is worse than the middle one.",
    _FIG_4,
    "mean Elo with the largest ep minus that with the middle ep, at the largest I, E and m",
    "elo", MORE_OF_ALL_CLAIM, "below", 30.0,
)  # fmt: skip
EPOCHS_SATURATED_CLAIM = _grid_claim(
    "epochs-bring-nothing",
    "With the largest I and E, more epochs within an iteration do not improve Elo.",
    "[Wang2020a, Fig. 6]",
    "Elo per doubling of ep with m unchanged, over the runs with the largest I and E",
    "elo", MORE_OF_ALL_CLAIM, "not above", 20.0,
)  # fmt: skip
LONG_SESSION_SIMULATIONS_CLAIM = _grid_claim(
    "simulations-help-long-sessions",
    "With the largest I and E, more simulations per move generally improve Elo.",
    "[Wang2020a, Fig. 6]",
    "Elo per doubling of m with ep unchanged, over the runs with the largest I and E",
    "elo", MORE_OF_ALL_CLAIM, smallest=20.0,
)  # fmt: skip
FEW_EPOCHS_CLAIM = _grid_claim(
    "few-epochs-best",
    "In long sessions, with the largest I and E, low numbers of epochs reach the highest Elo.",
    "[Wang2020a, section 6.2, Fig. 6]",
    "mean Elo with each smaller ep minus that with the largest, at the largest I and E, over all m"
    " (the figure has the best m), largest difference",
    "front-most", MORE_OF_ALL_CLAIM, smallest=20.0,
)  # fmt: skip
MORE_TIME_HELPS_CLAIM = _grid_claim(
    "more-time-helps",
    "In general, spending more time in self-play and in training gives higher Elo.",
    "[Wang2020a, section 6.2, Fig. 5]",
    "Elo per doubling of all self-play simulations and Elo per doubling of all training examples,"
    " from one fit over all runs, smaller of the two",
    "elo-both-times",
    MORE_OF_ALL_CLAIM,
)
HIGH_ELO_LOW_COST_CLAIM = _grid_claim(
    "high-elo-at-low-cost",
    "Combinations with little self-play and training time reach a high Elo: many iterations with"
    " few epochs and simulations (superiority at equal time is our, stricter reading).",
    "[Wang2020a, section 6.2, Fig. 5]",
    "Elo with the largest I and the smallest m and ep, over all E, minus that of all other runs at"
    " equal counted time, from a fit with log2 of the counted time and a constant per tournament",
    "elo-both-times", MORE_OF_ALL_CLAIM, smallest=20.0,
)  # fmt: skip
LONG_SESSION_FRUGAL_CLAIM = _grid_claim(
    "long-sessions-need-little",
    "Long sessions with many iterations can get by with few epochs and simulations.",
    "[Wang2020a, conclusion]",
    "mean Elo with the smallest m and ep minus that with the largest, at the largest I, over all E",
    "elo", MORE_OF_ALL_CLAIM, "not below", 50.0,
)  # fmt: skip
ITERATIONS_AND_GAMES_CLAIM = _grid_claim(
    "iterations-and-games-matter-more",
    "Iterations and games per iteration are more important for Elo than simulations and epochs.",
    _FIG_4,
    "Elo per doubling of I and of E minus Elo per doubling of m and of ep, with the others"
    " unchanged, minimum of four differences",
    "doubling",
    MORE_OF_ALL_CLAIM,
)
POSITIVE_INTERACTION_CLAIM = _grid_claim(
    "more-than-its-parts",
    "Self-play is more sample-efficient than the simple composition of its parts would predict"
    " (tested as a positive interaction, our reading).",
    "[Wang2020a, conclusion]",
    "change in Elo per doubling of I per doubling of E, m and ep together, from a fit over all runs"
    " with this product",
    "doubling", MORE_OF_ALL_CLAIM,
)  # fmt: skip
ITERATIONS_EQUAL_TIME_CLAIM = _grid_claim(
    "iterations-at-equal-time",
    "Within a limited budget, time is well spent on iterations. At equal time, more iterations"
    " train stronger players.",
    "[Wang2020a, conclusion]",
    f"Elo per doubling of {OUTER} at equal time, from a fit over all runs with log2 of the counted"
    " time and a constant per tournament",
    "doubling",
    ITERATIONS_SUBSUME_CLAIM,
)
ITERATIONS_LEAD_CLAIMS = {
    symbol: _grid_claim(
        f"iterations-above-{symbol}",
        f"Iterations subsume {HYPERPARAMETERS[symbol].title}. At equal time, more iterations are"
        f" worth more than more {HYPERPARAMETERS[symbol].title}.",
        _ABSTRACT,
        f"Elo per doubling of {OUTER} minus Elo per doubling of {symbol}, both at equal counted"
        " time",
        "doubling",
        ITERATIONS_SUBSUME_CLAIM,
    )
    for symbol in INNER
}
GRID_CLAIMS = (
    MORE_OF_ALL_CLAIM, ITERATIONS_SUBSUME_CLAIM, *MORE_OF_EACH_CLAIMS.values(), OVERTRAINED_CLAIM,
    EPOCHS_SATURATED_CLAIM, LONG_SESSION_SIMULATIONS_CLAIM, MORE_TIME_HELPS_CLAIM, FEW_EPOCHS_CLAIM,
    HIGH_ELO_LOW_COST_CLAIM, LONG_SESSION_FRUGAL_CLAIM, ITERATIONS_AND_GAMES_CLAIM,
    POSITIVE_INTERACTION_CLAIM, ITERATIONS_EQUAL_TIME_CLAIM, *ITERATIONS_LEAD_CLAIMS.values(),
)  # fmt: skip
"""All claims about the grid."""
