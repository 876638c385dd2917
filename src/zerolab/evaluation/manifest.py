"""What a file of solved positions contains, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zerolab.evaluation.grading import expected_of_random, non_trivial
from zerolab.evaluation.positions import SCHEMA, Positions, content_digest
from zerolab.rules.catalogue import game_name


def describe(positions: Positions, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a file: its settings and counts, and how hard its positions are.

    `about` are the settings and counts in the file's metadata. Their order does not matter: it is
    another one where a resumed command reads it back from the file.
    """
    best = positions.best
    strongest = (positions.values == best[:, None]).sum(axis=1)
    plies, numbers = np.unique(positions.plies, return_counts=True)
    expected = expected_of_random(positions)
    return {
        "schema": SCHEMA,
        "game": game_name(positions.game),
        "positions": len(positions),
        **dict(sorted(about.items())),
        "non_trivial": int(non_trivial(positions).sum()),
        "correct_moves": _mean(strongest),
        "random_strong": _mean(expected.strong),
        "random_weak": _mean(expected.weak),
        "won": int((best > 0).sum()),
        "drawn": int((best == 0).sum()),
        "lost": int((best < 0).sum()),
        "by_ply": {str(p): int(n) for p, n in zip(plies, numbers, strict=True)},
        "digest": content_digest(positions, about),
    }


def summary(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return a manifest as lines for people."""
    found, wanted = manifest["positions"], manifest["requested"]
    lines = [
        f"{path}: {found} positions of {manifest['games']} games;"
        f" left out {manifest['duplicates']} equal or mirrored,"
        f" {manifest['all_optimal']} where every move is best, {manifest['unsolved']} not solved",
        f"{manifest['won']} won, {manifest['drawn']} drawn, {manifest['lost']} lost;"
        f" {manifest['correct_moves']:.2f} best moves on average; random play:"
        f" {manifest['random_strong']:.1%} strong, {manifest['random_weak']:.1%} weak",
    ]
    missing = f"only {found} of {wanted} positions found: further games had no new ones"
    return [missing, *lines] if found < wanted else lines


def _mean(numbers: Any) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None
