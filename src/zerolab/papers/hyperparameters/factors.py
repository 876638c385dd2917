"""Swept hyper-parameters, their values and the published hours [Wang2020a]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.studies.design import Level
from zerolab.studies.study import Scale


class Factor(NamedTuple):
    """A hyper-parameter of [Wang2020a, Table 1]."""

    setting: str
    paper: tuple[float, float, float]
    """Least, default and greatest value."""
    hours: tuple[float, float]
    """Published hours with the least and the greatest value [Wang2020a, Table 3]."""
    title: str


DEFAULT_HOURS = 44.0
"""Published hours with all defaults [Wang2020a, Table 3]."""

FACTORS: Mapping[str, Factor] = {
    "I": Factor("iterations", (50, 100, 150), (23.8, 60.3), "iterations"),
    "E": Factor("selfplay.episodes", (10, 50, 100), (17.4, 87.7), "games of an iteration"),
    "T'": Factor("selfplay.temperature_plies", (10, 15, 20), (41.6, 40.4), "first greedy ply"),
    "m": Factor("search.simulations", (25, 100, 200), (26.0, 64.8), "simulations of a move"),
    "c": Factor("search.selection.c", (0.5, 1.0, 2.0), (50.7, 49.1), "exploration"),
    "rs": Factor("learn.window", (1, 20, 40), (26.5, 50.7), "iterations to learn from"),
    "ep": Factor("learn.epochs", (5, 10, 15), (43.4, 55.7), "epochs"),
    "bs": Factor("learn.batch_size", (32, 64, 96), (47.7, 37.7), "batch size"),
    "lr": Factor("learn.learning_rate", (0.001, 0.005, 0.01), (47.8, 40.3), "learning rate"),
    "d": Factor("network.dropout", (0.2, 0.3, 0.4), (51.9, 51.4), "dropout"),
    "n": Factor("gate.games", (20, 40, 100), (33.5, 57.4), "games of a gate"),
    "u": Factor("gate.threshold", (0.5, 0.6, 0.7), (39.7, 40.4), "threshold of the gate"),
}
"""By the paper's symbols. T' counts plies from 1, so that T' - 1 plies are sampled."""

_REDUCED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
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

LEVELS: Mapping[Scale, Mapping[str, tuple[int, ...]]] = {
    "smoke": {"I": (1, 2), "E": (2, 3), "m": (2, 4), "ep": (1, 2)},
    "mini": {"I": (2, 4, 6), "E": (10, 20, 30), "m": (8, 16, 24), "ep": (5, 10, 15)},
    "small": {"I": (8, 16, 24), "E": (10, 20, 30), "m": (16, 32, 48), "ep": (5, 10, 15)},
    "paper": {"I": (25, 50, 75), "E": (10, 20, 30), "m": (25, 50, 75), "ep": (5, 10, 15)},
}
"""Of the factorial design: [Wang2020a, Table 2], and in the same proportions."""

DEFAULT = "default"
"""What is changed in a run with all defaults."""


def levels(scale: str, symbol: str) -> tuple[float, float, float]:
    """Return the least, the default and the greatest value of a hyper-parameter at a scale.

    Two of them may be equal at `smoke`.
    """
    return _REDUCED[scale].get(symbol, FACTORS[symbol].paper)


def changed(scale: str, symbol: str, value: Level) -> str:
    """Return what a run changes that has this value, such as ``m=200``, or `DEFAULT`."""
    return DEFAULT if value == levels(scale, symbol)[1] else f"{symbol}={value:g}"
