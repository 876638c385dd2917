"""Solved positions on which the papers' studies measure networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.rules.catalogue import canonical_game_name
from zerolab.studies.design import PlannedDataset


class _Limits(NamedTuple):
    """Limits that keep the time to solve the positions of a board reasonable."""

    first_ply: int
    """First ply from which positions are taken."""
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


def planned_positions(board: str, count: int, part: str = "") -> PlannedDataset:
    """Plan the solved positions of a board, each from a different game.

    A data set for the report needs the `part` of the study whose networks it measures.
    """
    name = canonical_game_name(board)
    limits = _LIMITS.get(name, _FROM_THE_START)
    settings = DatasetSettings(one_per_game=True, first_ply=limits.first_ply, nodes=limits.nodes)
    return PlannedDataset(name, name, count, settings, count * limits.seconds, part)
