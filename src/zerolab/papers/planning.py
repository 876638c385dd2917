"""Elements of plans: reduced presets, solved positions for measuring networks, factorial designs.

The scales `smoke`, `mini` and `small` are reduced versions of the papers' presets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.rules.catalogue import canonical_game_name
from zerolab.studies.design import FactorLevel, PlannedDataset
from zerolab.studies.study import Scale

_TINY: Mapping[str, Any] = {"network.channels": 8, "network.hidden": [32, 16]}
_SMALL: Mapping[str, Any] = {"network.channels": 32, "network.hidden": [128, 64]}

PRESET_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        **_TINY, "iterations": 1, "selfplay.episodes": 2, "search.simulations": 2,
        "learn.window": 2, "learn.epochs": 2, "learn.batch_size": 32,
        "learn.symmetries": "random", "gate.games": 2,
    },
    "mini": {
        **_TINY, "iterations": 8, "selfplay.episodes": 20, "search.simulations": 24,
        "learn.window": 3, "learn.symmetries": "random", "gate.games": 12,
    },
    "small": {
        **_SMALL, "iterations": 25, "selfplay.episodes": 40, "search.simulations": 50,
        "learn.window": 8, "learn.symmetries": "random", "gate.games": 20,
    },
    "paper": {},
}  # fmt: skip
"""Changes to a paper's preset at each scale, by dotted key."""

OPENING_PLIES: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 0}
"""Random plies at the start of tournament games, shared by both games of a colour-swapped pair.

The papers use none, so their networks play the same few games repeatedly."""

WANG2019_SEED_COUNTS: Mapping[Scale, int] = {"smoke": 1, "mini": 8, "small": 6, "paper": 8}
"""Runs per loss function in the studies based on [Wang2019]."""
_WANG2019_ITERATIONS: Mapping[Scale, Mapping[str, int]] = {
    "smoke": {"5x5": 1, "6x6": 1},
    "mini": {"5x5": 12, "6x6": 6},
    "small": {"5x5": 32, "6x6": 16},
    "paper": {"5x5": 200, "6x6": 100},
}
"""Training iterations by board size, for each scale."""
_LONGER: Mapping[tuple[Scale, str, str], int] = {("mini", "connect_four", "6x6"): 24}
"""Iterations for boards on which the usual number hardly reduces the losses."""


def wang2019_changes(scale: Scale, game: str, size: str) -> dict[str, Any]:
    """Return the changes to the `wang2019` preset for a scale, game and board size."""
    iterations = _LONGER.get((scale, game, size), _WANG2019_ITERATIONS[scale][size])
    return {**PRESET_CHANGES[scale], "iterations": iterations}


class _Limits(NamedTuple):
    """Limits that keep the time for solving the positions of a board short."""

    first_ply: int
    """Earliest ply from which positions are taken."""
    seconds: float
    """Estimated seconds per position on one core."""
    nodes: int | None = None
    """Largest number of search nodes per position, or None for no limit."""


_LIMITS: Mapping[str, _Limits] = {
    "othello:6x6": _Limits(18, 0.05),
    "connect_four:6x6": _Limits(10, 0.15),
    "gobang:6x6": _Limits(8, 0.15, nodes=200_000),
    "gobang:5x5": _Limits(8, 0.05, nodes=200_000),
}
"""Limits by canonical board name. Other boards use `_FROM_THE_START`."""
_FROM_THE_START = _Limits(0, 0.03)


def planned_dataset(board: str, count: int, part: str = "") -> PlannedDataset:
    """Plan the solved positions of a board, each from a different game.

    For a data set of the report, `part` is the part whose networks are measured on it.
    """
    name = canonical_game_name(board)
    limits = _LIMITS.get(name, _FROM_THE_START)
    settings = DatasetSettings(one_per_game=True, first_ply=limits.first_ply, nodes=limits.nodes)
    return PlannedDataset(name, name, count, settings, count * limits.seconds, part)


def full_factorial(levels: Mapping[str, Sequence[FactorLevel]]) -> Iterator[dict[str, FactorLevel]]:
    """Yield all combinations of the levels of the factors."""
    for combination in product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def one_factor_at_a_time(
    levels: Mapping[str, Sequence[FactorLevel]], default: Mapping[str, FactorLevel]
) -> Iterator[dict[str, FactorLevel]]:
    """Yield the default and all combinations that differ from it in exactly one factor."""
    yield dict(default)
    for name, values in levels.items():
        for value in values:
            if value != default[name]:
                yield {**default, name: value}
