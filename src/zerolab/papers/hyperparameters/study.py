"""Twelve hyper-parameters one at a time, and four of them together [Wang2020a]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from zerolab.papers.hyperparameters.correlation import correlation_report
from zerolab.papers.hyperparameters.factors import DEFAULT, FACTORS, LEVELS, changed, levels
from zerolab.papers.hyperparameters.sweep import sweep_report
from zerolab.papers.hyperparameters.sweep_runs import TOURNAMENT
from zerolab.papers.scales import CHANGES, OPENINGS
from zerolab.report.document import Document
from zerolab.studies.design import (
    Design,
    Level,
    PlannedRun,
    PlannedTournament,
    full_product,
    one_at_a_time,
    planned_run,
)
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study, register_study

_BOARD: Mapping[Scale, str] = {
    "smoke": "othello:4x4",
    "mini": "othello:6x6",
    "small": "othello:6x6",
    "paper": "othello:6x6",
}

_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 1}
_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 10, "small": 10, "paper": 10}


@register_study
class HyperparameterSweep(Study):
    """Sweep twelve hyper-parameters of self-play one at a time: losses, hours and strength.

    6x6 Othello with three values of each of twelve hyper-parameters, the others at their defaults.
    Losses of every epoch, hours of every stage beside the published ones, and which parameters
    matter: their effect on losses, time and the Elo of a tournament between all final networks.

    Examples:
      zerolab study hyperparameter-sweep
      zerolab study hyperparameter-sweep --scale small --workers 4
      zerolab study hyperparameter-sweep --scale paper --status
    """

    name: ClassVar[str] = "hyperparameter-sweep"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        values = {symbol: levels(scale, symbol) for symbol in FACTORS}
        default = {symbol: each[1] for symbol, each in values.items()}
        runs = [
            _run(scale, chosen, seed, number)
            for number, chosen in enumerate(one_at_a_time(values, default))
            for seed in range(_SEEDS[scale])
        ]
        tournament = PlannedTournament(
            TOURNAMENT,
            _BOARD[scale],
            {run.label: run for run in runs},
            games=_GAMES[scale],
            openings=OPENINGS[scale],
            options=f"simulations={default['m']:g}&selection.c={default['c']:g}",
        )
        return Design(runs, [tournament])

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return sweep_report(results)


def _run(scale: Scale, chosen: Mapping[str, Level], seed: int, group: int) -> PlannedRun:
    """Return a run, in the part that is called by what it changes."""
    name = _changed(scale, chosen)
    part, changes = name.partition("=")[0], _changes(scale, chosen)
    return planned_run(
        part, _BOARD[scale], "wang2020a", {"changed": name}, changes, seed, group=group
    )


def _changed(scale: Scale, chosen: Mapping[str, Level]) -> str:
    names = (changed(scale, symbol, value) for symbol, value in chosen.items())
    return next((name for name in names if name != DEFAULT), DEFAULT)


def _changes(scale: Scale, chosen: Mapping[str, Level]) -> dict[str, Any]:
    changes = {FACTORS[symbol].setting: value for symbol, value in chosen.items()}
    sampled = FACTORS["T'"].setting
    return {**CHANGES[scale], **changes, sampled: int(changes[sampled]) - 1}


_GRID_BOARD: Mapping[Scale, str] = {
    "smoke": "othello:4x4",
    "mini": "othello:6x6",
    "small": "othello:6x6",
    "paper": "othello:6x6",
}

_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 1}
_GRID_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 4, "small": 10, "paper": 10}


@register_study
class HyperparameterCorrelation(Study):
    """Vary iterations, episodes, simulations and epochs together: Elo against time, Pareto fronts.

    6x6 Othello with three values each of I, E, m and ep in all 81 combinations, without gates. The
    final networks and Random play a tournament. Heat maps of Elo, Elo against the time of self-play
    and learning, and whether iterations matter more than what is done within them.

    Examples:
      zerolab study hyperparameter-correlation
      zerolab study hyperparameter-correlation --scale small --workers 4
      zerolab study hyperparameter-correlation --scale paper --status
    """

    name: ClassVar[str] = "hyperparameter-correlation"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        runs, tournaments = [], []
        middle = LEVELS[scale]["m"][1 if len(LEVELS[scale]["m"]) > 2 else 0]
        for seed in range(_GRID_SEEDS[scale]):
            part = f"seed-{seed}"
            trained = [
                planned_run(
                    part,
                    _GRID_BOARD[scale],
                    "wang2020a",
                    chosen,
                    _grid_changes(scale, chosen),
                    seed,
                    group=number,
                )
                for number, chosen in enumerate(full_product(LEVELS[scale]))
            ]
            runs += trained
            tournaments.append(
                PlannedTournament(
                    part,
                    _GRID_BOARD[scale],
                    {run.label: run for run in trained},
                    games=_GRID_GAMES[scale],
                    openings=OPENINGS[scale],
                    options=f"simulations={middle}",
                )
            )
        return Design(runs, tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return correlation_report(results)


def _grid_changes(scale: Scale, chosen: Mapping[str, Any]) -> dict[str, Any]:
    reduced = {key: value for key, value in CHANGES[scale].items() if not key.startswith("gate")}
    changes = {FACTORS[symbol].setting: value for symbol, value in chosen.items()}
    return {**reduced, "gate": "always", **changes}
