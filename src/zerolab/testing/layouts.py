"""Laws of where actions and planes lie on the board."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.rules import encoding, host
from zerolab.rules.interface import Game
from zerolab.rules.layouts import ActionLayout, action_layout, plane_names
from zerolab.testing.samples import random_games, require


def check_action_layout(game: Game) -> None:
    """Check that actions change what lies in their places, and that symmetries move both alike."""
    if encoding.ENCODINGS.implementation(type(game)).actions_over is None:  # type: ignore[attr-defined]
        return
    try:
        layout = action_layout(game)
    except UserError as error:
        raise AssertionError(f"{game}: {error}") from None
    place_of = _places_of_cells(game, layout)
    _check_symmetries(game, layout, place_of)
    for played in random_games(game):
        for before, after in pairwise(played):
            action = after.history[-1]
            if action >= layout.places:
                continue
            planes = host.encode(game, before.state)[0], -host.encode(game, after.state)[0]
            changed = place_of[(planes[0] != planes[1]).ravel()]
            require(
                action in changed,
                before,
                f"action {action} changes nothing in its place among the {layout.over}",
            )


def check_plane_names(game: Game) -> None:
    """Check that names of planes differ, that none is without its plane, and plane 0's is fixed."""
    names = plane_names(game)
    require(len(set(names)) == len(names), game, f"two planes have the same name: {names}")
    count = encoding.planes(game)
    require(len(names) <= count, game, f"{len(names)} names of {count} planes: {names}")
    require(names[:1] == ("pieces",), game, f'plane 0 must have the name "pieces": {names}')


def _places_of_cells(game: Game, layout: ActionLayout) -> NDArray[np.int64]:
    """Return int64[cells]: the place that every cell is in."""
    rows, columns = game[:2]
    cells = np.arange(rows * columns)
    places: dict[str, NDArray[np.int64]] = {
        "cells": cells, "columns": cells % columns, "rows": cells // columns
    }  # fmt: skip
    return places[layout.over]


def _check_symmetries(game: Game, layout: ActionLayout, place_of: NDArray[np.int64]) -> None:
    cells, actions = host.symmetry_tables(game)
    for symmetry, (moved, images) in enumerate(zip(cells, actions, strict=True)):
        expected = images[place_of]
        require(
            np.array_equal(place_of[moved], expected),
            game,
            f"symmetry {symmetry} does not move actions as it moves the {layout.over}",
        )
