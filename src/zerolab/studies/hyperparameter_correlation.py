"""[Wang2020a, Table 2, Figs 4 to 6]: how four hyper-parameters together act on Elo and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from zerolab.studies.analyses.hyperparameters.correlation import document
from zerolab.studies.analyses.hyperparameters.values import FACTORS, LEVELS
from zerolab.studies.design import Design, PlannedTournament, full_product, planned_run
from zerolab.studies.interface import Scale, Study, register_study
from zerolab.studies.report.document import Document
from zerolab.studies.results import Results
from zerolab.studies.small_runs import CHANGES, OPENINGS

_BOARD: Mapping[Scale, str] = {
    "smoke": "othello:4x4",
    "mini": "othello:6x6",
    "small": "othello:6x6",
    "paper": "othello:6x6",
}

_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 1}
_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 4, "small": 10, "paper": 10}


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
        for seed in range(_SEEDS[scale]):
            part = f"seed-{seed}"
            trained = [
                planned_run(
                    part,
                    _BOARD[scale],
                    "wang2020a",
                    chosen,
                    _changes(scale, chosen),
                    seed,
                    group=number,
                )
                for number, chosen in enumerate(full_product(LEVELS[scale]))
            ]
            runs += trained
            tournaments.append(
                PlannedTournament(
                    part,
                    _BOARD[scale],
                    {run.label: run for run in trained},
                    games=_GAMES[scale],
                    openings=OPENINGS[scale],
                    options=f"simulations={middle}",
                )
            )
        return Design(runs, tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return document(results)


def _changes(scale: Scale, chosen: Mapping[str, Any]) -> dict[str, Any]:
    reduced = {key: value for key, value in CHANGES[scale].items() if not key.startswith("gate")}
    changes = {FACTORS[symbol].setting: value for symbol, value in chosen.items()}
    return {**reduced, "gate": "always", **changes}
