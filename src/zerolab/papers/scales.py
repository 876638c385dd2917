"""Reduced versions of the papers' presets at the scales `smoke`, `mini` and `small`.

Networks have a few thousand weights (`smoke`, `mini`) or about 56,000 (`small`), and searches run
fewer simulations. Each epoch trains on each example under one random symmetry, because training
under all symmetries would dominate the running time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerolab.studies.study import Scale

_TINY: Mapping[str, Any] = {"network.channels": 8, "network.hidden": [32, 16]}
_SMALL: Mapping[str, Any] = {"network.channels": 32, "network.hidden": [128, 64]}

CHANGES: Mapping[Scale, Mapping[str, Any]] = {
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

OPENINGS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 0}
"""Random plies at the start of tournament games, shared by both games of a colour-swapped pair.

The papers use none, so two networks play the same few games repeatedly."""

WANG2019_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 8, "small": 6, "paper": 8}
"""Runs per loss function in the studies based on [Wang2019]."""
_WANG2019_ITERATIONS: Mapping[Scale, Mapping[str, int]] = {
    "smoke": {"5x5": 1, "6x6": 1},
    "mini": {"5x5": 12, "6x6": 6},
    "small": {"5x5": 32, "6x6": 16},
    "paper": {"5x5": 200, "6x6": 100},
}
"""Training iterations by board size, for each scale."""
_LONGER: Mapping[tuple[Scale, str, str], int] = {("mini", "connect_four", "6x6"): 24}
"""Iterations of boards on which the losses hardly fall in the usual number, by scale."""


def wang2019_changes(scale: Scale, game: str, size: str) -> dict[str, Any]:
    """Return the changes to the preset `wang2019` for a scale, game and board size."""
    iterations = _LONGER.get((scale, game, size), _WANG2019_ITERATIONS[scale][size])
    return {**CHANGES[scale], "iterations": iterations}
