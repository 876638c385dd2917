"""What a file of solved positions contains, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zerolab.evaluation.positions import SCHEMA, Positions, content_digest
from zerolab.evaluation.scoring import expected_of_random, gives_choice
from zerolab.rules.catalogue import game_name


def describe(positions: Positions, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a file: its settings and counts, and how hard its positions are.

    `about` is what the file's metadata say of its making.
    """
    best = positions.best
    strongest = (positions.values == best[:, None]).sum(axis=1)
    plies, numbers = np.unique(positions.plies, return_counts=True)
    expected = expected_of_random(positions)
    return {
        "schema": SCHEMA,
        "game": game_name(positions.game),
        "positions": len(positions),
        **about,
        "non_trivial": int(gives_choice(positions).sum()),
        "correct_moves": _mean(strongest),
        "random_strong": _mean(expected.strong),
        "random_weak": _mean(expected.weak),
        "won": int((best > 0).sum()),
        "drawn": int((best == 0).sum()),
        "lost": int((best < 0).sum()),
        "by_ply": {str(p): int(n) for p, n in zip(plies, numbers, strict=True)},
        "digest": content_digest(positions, about),
    }


def _mean(numbers: Any) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None
