"""[Wang2020a, Tables 1, 3 and 4, Figs 2 and 3]: twelve hyper-parameters, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from zerolab.studies.design import Design, Level, PlannedTournament, one_at_a_time, planned_run
from zerolab.studies.interface import Scale, Study, register_study
from zerolab.studies.report.document import Document
from zerolab.studies.results import Results
from zerolab.studies.small_runs import CHANGES, OPENINGS

GAME = "othello:6x6"


class Factor(NamedTuple):
    """A hyper-parameter of [Wang2020a, Table 1]."""

    setting: str
    paper: tuple[float, float, float]
    """Least, default and greatest value."""
    hours: tuple[float, float]
    """Published hours with the least and the greatest value [Wang2020a, Table 3]."""


DEFAULT_HOURS = 44.0
"""Published hours with all defaults [Wang2020a, Table 3]."""

FACTORS: Mapping[str, Factor] = {
    "I": Factor("iterations", (50, 100, 150), (23.8, 60.3)),
    "E": Factor("selfplay.episodes", (10, 50, 100), (17.4, 87.7)),
    "T'": Factor("selfplay.sampled_plies", (10, 15, 20), (41.6, 40.4)),
    "m": Factor("search.simulations", (25, 100, 200), (26.0, 64.8)),
    "c": Factor("search.selection.c", (0.5, 1.0, 2.0), (50.7, 49.1)),
    "rs": Factor("learn.window", (1, 20, 40), (26.5, 50.7)),
    "ep": Factor("learn.epochs", (5, 10, 15), (43.4, 55.7)),
    "bs": Factor("learn.batch_size", (32, 64, 96), (47.7, 37.7)),
    "lr": Factor("learn.learning_rate", (0.001, 0.005, 0.01), (47.8, 40.3)),
    "d": Factor("network.dropout", (0.2, 0.3, 0.4), (51.9, 51.4)),
    "n": Factor("gate.games", (20, 40, 100), (33.5, 57.4)),
    "u": Factor("gate.threshold", (0.5, 0.6, 0.7), (39.7, 40.4)),
}
"""By the paper's symbols. T' counts plies from 1, so that T' - 1 plies are sampled."""

_REDUCED: Mapping[Scale, Mapping[str, tuple[float, float, float]]] = {
    "smoke": {
        "I": (1, 1, 2), "E": (2, 4, 8), "m": (2, 4, 8), "rs": (1, 1, 2), "ep": (1, 2, 3),
        "bs": (16, 32, 48), "n": (2, 4, 6),
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
"""Values that a smaller scale has instead, in about the same proportions."""
_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 1}
_GAMES: Mapping[Scale, int] = {"smoke": 2, "mini": 10, "small": 10, "paper": 10}


def levels(scale: Scale, symbol: str) -> tuple[float, float, float]:
    """Return the least, the default and the greatest value of a hyper-parameter at a scale."""
    return _REDUCED[scale].get(symbol, FACTORS[symbol].paper)


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
        runs = []
        for chosen in one_at_a_time(values, default):
            for seed in range(_SEEDS[scale]):
                factors = {"changed": changed(chosen, default)}
                runs.append(
                    planned_run("sweep", GAME, "wang2020a", factors, _changes(scale, chosen), seed)
                )
        entrants = {run.label: run for run in runs}
        simulations = f"simulations={default['m']:g}&selection.c={default['c']:g}"
        tournament = PlannedTournament(
            "sweep", GAME, entrants, games=_GAMES[scale], openings=OPENINGS[scale],
            options=simulations,
        )  # fmt: skip
        return Design(runs, [tournament])

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        raise NotImplementedError


def changed(chosen: Mapping[str, Level], default: Mapping[str, Level]) -> str:
    """Return what differs from the defaults, such as ``m=200``; ``default`` if nothing does."""
    return next(
        (f"{symbol}={value:g}" for symbol, value in chosen.items() if value != default[symbol]),
        "default",
    )


def _changes(scale: Scale, chosen: Mapping[str, Level]) -> dict[str, Any]:
    changes = {FACTORS[symbol].setting: value for symbol, value in chosen.items()}
    sampled = FACTORS["T'"].setting
    return {**CHANGES[scale], **changes, sampled: int(changes[sampled]) - 1}
