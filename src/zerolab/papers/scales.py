"""Reductions of the papers' presets at the scales `smoke`, `mini` and `small`.

Networks have a few thousand weights (`smoke`, `mini`) or about 56,000 (`small`), searches have
fewer simulations, and every example is learned under one random symmetry per epoch instead of all,
which would make learning take most of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerolab.studies.study import Scale

_TINY: Mapping[str, Any] = {"network.channels": 8, "network.hidden": [32, 16]}
_SMALL: Mapping[str, Any] = {"network.channels": 32, "network.hidden": [128, 64]}

CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        **_TINY, "iterations": 1, "selfplay.episodes": 4, "search.simulations": 4,
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
"""By dotted keys, on top of a preset of the papers."""

OPENINGS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 2, "paper": 0}
"""Random plies that open the games of tournaments, the same for both colours of a pair.

The papers have none, so two networks nearly repeat a few games."""
