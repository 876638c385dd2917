"""Every game of the package passes the conformance kit, at the corners of its sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerolab.rules.catalogue import game_name, registered_games
from zerolab.testing import CHECKS


def _games() -> list[Any]:
    """Return each game at its smallest and largest size, tall and wide, and off centre."""
    games = []
    for entry in registered_games().values():
        if not entry.rules.__module__.startswith("zerolab."):
            continue
        (low, high), (_, widest), *others = entry.sizes().values()
        for rows, columns in [(low, low), (high, widest), (5, 5), (low, widest), (high, 5)]:
            tail = [min(4, rows, columns)] * len(others)
            games.append(entry.kind(rows, columns, *tail))
    return games


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("game", _games(), ids=game_name)
def test_law(game: Any, check: Callable[[Any], None]) -> None:
    check(game)
