"""Sweep and screening of twelve hyper-parameters, and full grid of four of them [Wang2020a]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.planning import (
    OPENING_PLIES,
    PRESET_CHANGES,
    full_factorial,
    one_factor_at_a_time,
)
from zerolab.studies.design import (
    Design,
    FactorLevel,
    PlannedRun,
    PlannedTournament,
    plan_run,
)
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results


class Hyperparameter(NamedTuple):
    """Hyper-parameter of [Wang2020a, Table 1]."""

    setting_key: str
    """Dotted key of the setting."""
    published_values: tuple[float, float, float]
    """Smallest, default and largest published value."""
    published_hours: tuple[float, float]
    """Published hours with the smallest and the largest value [Wang2020a, Table 3]."""
    title: str
    """Name in reports."""

    @property
    def published_exponent(self) -> float:
        """Exponent b in hours ~ value^b between the smallest and the largest published value."""
        low, high = self.published_hours
        return math.log(high / low) / math.log(self.published_values[2] / self.published_values[0])


DEFAULT_HOURS = 44.0
"""Published hours with all defaults [Wang2020a, Table 3]."""

HYPERPARAMETERS: Mapping[str, Hyperparameter] = {
    "I": Hyperparameter("iterations", (50, 100, 150), (23.8, 60.3), "iterations"),
    "E": Hyperparameter("selfplay.episodes", (10, 50, 100), (17.4, 87.7), "games per iteration"),
    "T'": Hyperparameter(
        "selfplay.temperature_plies", (10, 15, 20), (41.6, 40.4), "first greedy ply"
    ),
    "m": Hyperparameter("search.simulations", (25, 100, 200), (26.0, 64.8), "simulations per move"),
    "c": Hyperparameter("search.selection.c", (0.5, 1.0, 2.0), (50.7, 49.1), "exploration"),
    "rs": Hyperparameter(
        "learn.window", (1, 20, 40), (26.5, 50.7), "iterations in the replay buffer"
    ),
    "ep": Hyperparameter("learn.epochs", (5, 10, 15), (43.4, 55.7), "epochs"),
    "bs": Hyperparameter("learn.batch_size", (32, 64, 96), (47.7, 37.7), "batch size"),
    "lr": Hyperparameter(
        "learn.learning_rate", (0.001, 0.005, 0.01), (47.8, 40.3), "learning rate"
    ),
    "d": Hyperparameter("network.dropout", (0.2, 0.3, 0.4), (51.9, 51.4), "dropout"),
    "n": Hyperparameter("gate.games", (20, 40, 100), (33.5, 57.4), "games per gate"),
    "u": Hyperparameter("gate.threshold", (0.5, 0.6, 0.7), (39.7, 40.4), "gate threshold"),
}
"""Hyper-parameters by symbol in the paper.

T' counts plies from 1, so moves are sampled in T' - 1 plies."""

_REDUCED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "smoke": {
        "I": (1, 1, 2), "E": (2, 4, 8), "T'": (15, 15, 20), "m": (2, 2, 4), "c": (1.0, 1.0, 2.0),
        "rs": (1, 1, 2), "ep": (2, 2, 3), "bs": (32, 32, 48), "lr": (0.005, 0.005, 0.01),
        "d": (0.3, 0.3, 0.4), "n": (2, 2, 4), "u": (0.6, 0.6, 0.7),
    },
    "mini": {
        "I": (4, 8, 12), "E": (4, 20, 40), "m": (6, 24, 48), "rs": (1, 3, 6), "n": (6, 12, 30),
    },
    "small": {
        "I": (12, 25, 38), "E": (8, 40, 80), "m": (12, 50, 100), "rs": (1, 8, 16),
        "n": (10, 20, 50),
    },
    "paper": {},
}  # fmt: skip
"""Values that differ from the published ones at smaller scales, in about the same proportions."""

GRID_LEVELS: Mapping[Scale, Mapping[str, tuple[int, ...]]] = {
    "smoke": {"I": (1, 2), "E": (2, 3), "m": (2, 4), "ep": (1, 2)},
    "mini": {"I": (2, 4, 6), "E": (10, 20, 30), "m": (8, 16, 24), "ep": (5, 10, 15)},
    "small": {"I": (8, 16, 24), "E": (10, 20, 30), "m": (16, 32, 48), "ep": (5, 10, 15)},
    "paper": {"I": (25, 50, 75), "E": (10, 20, 30), "m": (25, 50, 75), "ep": (5, 10, 15)},
}
"""Levels of the full grid [Wang2020a, Table 2], reduced at smaller scales."""

DEFAULT_LEVEL = "default"
"""Level of the ``changed`` factor in runs with default settings."""
TOURNAMENT_PART = "tournament"
"""Part that contains the tournaments of the sweep. Other parts are named after the changed
parameter, or `DEFAULT_LEVEL`."""
SCREENING_PART = "screening"
"""Name of the screening's only part."""
PAIR_FACTOR = "pair"
"""Factor of the screening: the number of a run's mirrored pair."""

_BOARD: Mapping[Scale, str] = {
    "smoke": "othello:4x4",
    "mini": "othello:6x6",
    "small": "othello:6x6",
    "paper": "othello:6x6",
}
_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 2}
"""Runs per value. The paper has one, which leaves no degrees of freedom for tests."""
_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 10, "small": 10, "paper": 10}
_SCREENING_ROWS, _SMOKE_ROWS = 24, 8
_SCREENING_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 2}
_SCREENING_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 4, "small": 4, "paper": 10}
_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 1}
_GRID_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 4, "small": 10, "paper": 10}


def scaled_values(scale: str, symbol: str) -> tuple[float, float, float]:
    """Return the smallest, default and largest value of a hyper-parameter at a scale.

    At the `smoke` scale, most of the smallest values equal the default, to reduce the number of
    runs.
    """
    return _REDUCED[scale].get(symbol, HYPERPARAMETERS[symbol].published_values)


def changed_level(scale: str, symbol: str, value: FactorLevel) -> str:
    """Return the level of the ``changed`` factor for a value: `DEFAULT_LEVEL`, or ``m=200``."""
    return DEFAULT_LEVEL if value == scaled_values(scale, symbol)[1] else f"{symbol}={value:g}"


@register_study
class HyperparameterSweepStudy(Study):
    """Sweep twelve hyper-parameters of self-play one at a time: losses, hours and strength.

    Train on 6x6 Othello with three values of each of twelve hyper-parameters, keeping the others at
    their defaults. Report the losses of each epoch, the hours of each stage and the published
    hours. Rank the hyper-parameters by their effect on losses, time and Elo in tournaments between
    the final networks of each seed.

    Examples:
      zerolab study hyperparameter-sweep
      zerolab study hyperparameter-sweep --scale small --workers 4
      zerolab study hyperparameter-sweep --scale paper --status
    """

    name: ClassVar[str] = "hyperparameter-sweep"

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        values = {symbol: scaled_values(scale, symbol) for symbol in HYPERPARAMETERS}
        default = {symbol: three_values[1] for symbol, three_values in values.items()}
        runs = [
            _sweep_run(scale, combination, seed, number)
            for number, combination in enumerate(one_factor_at_a_time(values, default))
            for seed in seeds
        ]
        tournaments = [
            _tournament(TOURNAMENT_PART, scale, runs, seed, _GAMES[scale]) for seed in seeds
        ]
        return Design(runs, tournaments)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.hyperparameters.sweep import sweep_verdicts

        return sweep_verdicts(results)

    def report(self, results: Results) -> Document:
        from zerolab.papers.hyperparameters.sweep import sweep_report

        return sweep_report(results)


def _sweep_run(
    scale: Scale, values: Mapping[str, FactorLevel], seed: int, group: int
) -> PlannedRun:
    """Return a run in the part named after its changed hyper-parameter."""
    names = (changed_level(scale, symbol, value) for symbol, value in values.items())
    name = next((name for name in names if name != DEFAULT_LEVEL), DEFAULT_LEVEL)
    return plan_run(
        name.partition("=")[0],
        _BOARD[scale],
        "wang2020a",
        {"changed": name},
        _changes(scale, values),
        seed,
        group=group,
    )


def _changes(scale: Scale, values: Mapping[str, FactorLevel]) -> dict[str, Any]:
    """Return the changes to the preset for values of all twelve hyper-parameters."""
    settings = {HYPERPARAMETERS[symbol].setting_key: value for symbol, value in values.items()}
    sampled_plies = HYPERPARAMETERS["T'"].setting_key
    return {**PRESET_CHANGES[scale], **settings, sampled_plies: int(settings[sampled_plies]) - 1}


def _tournament(
    part: str, scale: Scale, runs: Sequence[PlannedRun], seed: int, games: int
) -> PlannedTournament:
    """Plan the tournament of one seed's runs, which all search with the default m and c."""
    simulations, c = (scaled_values(scale, symbol)[1] for symbol in ("m", "c"))
    return PlannedTournament(
        part,
        _BOARD[scale],
        {run.label: run for run in runs if run.factors["seed"] == seed},
        games_per_pair=games,
        opening_plies=OPENING_PLIES[scale],
        search_options=f"simulations={simulations:g}&selection.c={c:g}",
        seed=seed,
    )


@register_study
class HyperparameterScreeningStudy(Study):
    """Screen twelve hyper-parameters, all changed together: effects on time, losses and strength.

    Train on 6x6 Othello with the smallest or the largest value of each of twelve hyper-parameters,
    in 24 combinations and their mirror images. Every run contributes to all effects, so far fewer
    runs are needed than when changing one hyper-parameter at a time. The final networks of each
    seed play a tournament.

    Examples:
      zerolab study hyperparameter-screening
      zerolab study hyperparameter-screening --scale small --workers 4
      zerolab study hyperparameter-screening --scale paper --status
    """

    name: ClassVar[str] = "hyperparameter-screening"

    def seed_count(self, scale: Scale) -> int:
        return _SCREENING_SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        runs = [
            plan_run(
                SCREENING_PART,
                _BOARD[scale],
                "wang2020a",
                {PAIR_FACTOR: number % _SCREENING_ROWS, **values},
                _changes(scale, values),
                seed,
                group=number,
            )
            for number, values in enumerate(_screened_values(scale))
            for seed in seeds
        ]
        tournaments = [
            _tournament(SCREENING_PART, scale, runs, seed, _SCREENING_GAMES[scale])
            for seed in seeds
        ]
        return Design(runs, tournaments)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.hyperparameters.sweep import screening_verdicts

        return screening_verdicts(results)

    def report(self, results: Results) -> Document:
        from zerolab.papers.hyperparameters.sweep import screening_report

        return screening_report(results)


def _screened_values(scale: Scale) -> list[dict[str, FactorLevel]]:
    """Return the values of each combination; at the `smoke` scale, only a few, without mirrors."""
    rows = plackett_burman(_SCREENING_ROWS)[:, : len(HYPERPARAMETERS)]
    return [
        {
            symbol: scaled_values(scale, symbol)[2 if level > 0 else 0]
            for symbol, level in zip(HYPERPARAMETERS, row, strict=True)
        }
        for row in (rows[:_SMOKE_ROWS] if scale == "smoke" else fold_over(rows))
    ]


@register_study
class HyperparameterCorrelationStudy(Study):
    """Vary iterations, episodes, simulations and epochs together: Elo against time, Pareto fronts.

    Train on 6x6 Othello with all 81 combinations of three values each of I, E, m and ep, without
    gates. Random and the final networks of each seed play a tournament. The report shows heat maps
    of Elo, Elo against self-play time and learning time, and whether more iterations are worth more
    than more work within each iteration.

    Examples:
      zerolab study hyperparameter-correlation
      zerolab study hyperparameter-correlation --scale small --workers 4
      zerolab study hyperparameter-correlation --scale paper --status
    """

    name: ClassVar[str] = "hyperparameter-correlation"

    def seed_count(self, scale: Scale) -> int:
        return _GRID_SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        runs, tournaments = [], []
        middle = GRID_LEVELS[scale]["m"][1 if len(GRID_LEVELS[scale]["m"]) > 2 else 0]
        for seed in seeds:
            part = f"seed-{seed}"
            trained = [
                plan_run(
                    part,
                    _BOARD[scale],
                    "wang2020a",
                    combination,
                    _grid_changes(scale, combination),
                    seed,
                    group=number,
                )
                for number, combination in enumerate(full_factorial(GRID_LEVELS[scale]))
            ]
            runs += trained
            tournaments.append(
                PlannedTournament(
                    part,
                    _BOARD[scale],
                    {run.label: run for run in trained},
                    games_per_pair=_GRID_GAMES[scale],
                    opening_plies=OPENING_PLIES[scale],
                    search_options=f"simulations={middle}",
                    seed=seed,
                )
            )
        return Design(runs, tournaments)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.hyperparameters.correlation import correlation_verdicts

        return correlation_verdicts(results)

    def report(self, results: Results) -> Document:
        from zerolab.papers.hyperparameters.correlation import correlation_report

        return correlation_report(results)


def _grid_changes(scale: Scale, values: Mapping[str, Any]) -> dict[str, Any]:
    reduced = {
        key: value for key, value in PRESET_CHANGES[scale].items() if not key.startswith("gate")
    }
    changes = {HYPERPARAMETERS[symbol].setting_key: value for symbol, value in values.items()}
    return {**reduced, "gate": "always", **changes}


def plackett_burman(run_count: int) -> NDArray[np.int64]:
    """Return the design of [Plackett1946], which has one fewer factor than runs.

    The result is int64[runs, factors], with -1 for the low level and 1 for the high level. Each
    column has as many low as high levels, and any two columns are orthogonal. The rows are the
    rotations of a row that marks the quadratic residues of ``run_count - 1`` [Paley1933], and a row
    of low levels. Raises ValueError unless ``run_count - 1`` is a prime congruent to 3 modulo 4.
    """
    prime = run_count - 1
    if prime % 4 != 3 or any(prime % divisor == 0 for divisor in range(2, prime)):
        raise ValueError(
            f"{run_count} runs: expected a multiple of 4 that is one more than a prime"
        )
    residues = {x * x % prime for x in range(prime)}
    first = np.array([1 if x in residues else -1 for x in range(prime)], np.int64)
    rotations = [np.roll(first, shift) for shift in range(prime)]
    return np.stack([*rotations, np.full(prime, -1)])


def fold_over(design: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a two-level design followed by its mirror image, with all levels swapped.

    In a mirrored pair of runs, all main effects change sign, and no interaction of two factors
    does. Main effects are therefore orthogonal to these interactions [Box1951].
    """
    return np.concatenate([design, -design])
