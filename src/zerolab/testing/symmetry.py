"""Checks of symmetries, action layouts and plane names."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.rules import encoding, python
from zerolab.rules.encoding import ActionLayout, action_layout, plane_names
from zerolab.rules.rules import ONGOING, Game, State
from zerolab.testing.samples import Sample, positions, random_games, require, unwritten_state


def check_symmetry_tables(game: Game) -> None:
    """Check that the symmetries are a group of permutations and that number 0 is the identity."""
    cells, actions = python.symmetry_tables(game)
    for noun, images in (("cell", cells), ("action", actions)):
        identity = np.arange(images.shape[1])
        is_identity = np.array_equal(images[0], identity)
        require(is_identity, game, f"symmetry 0 must not move any {noun}")
        for number, image in enumerate(images):
            is_permutation = np.array_equal(np.sort(image), identity)
            require(
                is_permutation,
                game,
                f"transform_{noun} of symmetry {number} is not a permutation: {image.tolist()}",
            )
    numbers = _numbers(game)
    require(len(numbers) == len(cells), game, "two symmetries are equal")
    for first in range(len(cells)):
        for second in range(len(cells)):
            product = _key(cells[second][cells[first]], actions[second][actions[first]])
            require(
                product in numbers,
                game,
                f"symmetry {first} followed by {second} is not a symmetry of the game",
            )


def check_symmetric_positions(game: Game) -> None:
    """Check that symmetries commute with outcomes, legal actions, successors and planes."""
    cells, actions = python.symmetry_tables(game)
    for sample in positions(game):
        for symmetry in range(encoding.symmetries(game)):
            image = _image(sample, symmetry)
            outcome = python.outcome(game, image)
            require(
                outcome == sample.outcome,
                sample,
                f"symmetry {symmetry} changes the outcome {sample.outcome} to {outcome}",
            )
            _check_planes(sample, image, symmetry, cells[symmetry])
            if sample.outcome == ONGOING:
                _check_actions(sample, image, symmetry, actions[symmetry])


def check_symmetries_invert(game: Game) -> None:
    """Check that the inverse of every symmetry undoes it."""
    cells, actions = python.symmetry_tables(game)
    numbers = _numbers(game)
    for symmetry in range(len(cells)):
        inverse = numbers.get(_key(np.argsort(cells[symmetry]), np.argsort(actions[symmetry])))
        require(inverse is not None, game, f"symmetry {symmetry} has no inverse")
        for sample in positions(game):
            image = python.transform(game, sample.state, symmetry)
            restored = python.transform(game, image, inverse or 0)
            is_restored = np.array_equal(restored, sample.state)
            require(is_restored, sample, f"symmetry {inverse} does not undo symmetry {symmetry}")


def _key(cells: NDArray[Any], actions: NDArray[Any]) -> tuple[int, ...]:
    return (*cells.tolist(), *actions.tolist())


def _numbers(game: Game) -> dict[tuple[int, ...], int]:
    cells, actions = python.symmetry_tables(game)
    return {_key(cells[number], actions[number]): number for number in range(len(cells))}


def _image(sample: Sample, symmetry: int) -> State:
    before, image = sample.state.copy(), unwritten_state(sample.game)
    python.write_transform(sample.game, sample.state, symmetry, image)
    require(np.array_equal(before, sample.state), sample, "transform changes the state")
    is_complete = np.array_equal(image, python.transform(sample.game, sample.state, symmetry))
    require(is_complete, sample, "transform does not write every word of `out`")
    is_valid = symmetry != 0 or np.array_equal(image, before)
    require(is_valid, sample, "symmetry 0 changes the state")
    return image


def _check_planes(sample: Sample, image: State, symmetry: int, cells: NDArray[Any]) -> None:
    """Check the planes of the image against planes permuted with `transform_cell`.

    Training permutes planes in the same way.
    """
    both = python.encode_batch(sample.game, np.stack((sample.state, image)))
    planes, image_planes = both.reshape(2, encoding.planes(sample.game), -1)
    permuted = np.empty_like(planes)
    permuted[:, cells] = planes
    require(
        np.array_equal(permuted, image_planes),
        sample,
        f"the planes of the image under symmetry {symmetry} differ from the planes permuted with"
        " transform_cell",
    )


def _check_actions(sample: Sample, image: State, symmetry: int, actions: NDArray[Any]) -> None:
    game = sample.game
    mask = python.legal(game, sample.state)
    permuted = np.empty_like(mask)
    permuted[actions] = mask
    require(
        np.array_equal(permuted, python.legal(game, image)),
        sample,
        f"the legal actions of the image under symmetry {symmetry} differ from those permuted with"
        " transform_action",
    )
    for action in np.flatnonzero(mask).tolist():
        child = python.apply(game, sample.state, action)
        require(
            np.array_equal(
                python.apply(game, image, int(actions[action])),
                python.transform(game, child, symmetry),
            ),
            sample,
            f"action {action} and symmetry {symmetry} give different states in different orders",
        )


def check_action_layout(game: Game) -> None:
    """Check that actions change their places on the board and that symmetries preserve both."""
    if encoding.ENCODINGS.implementation(type(game)).actions_over is None:  # type: ignore[attr-defined]
        return
    try:
        layout = action_layout(game)
    except UserError as error:
        raise AssertionError(f"{game}: {error}") from None
    place_of = _places_of_cells(game, layout)
    _check_symmetries(game, layout, place_of)
    for samples in random_games(game):
        for before, after in pairwise(samples):
            action = after.history[-1]
            if action >= layout.places:
                continue
            planes = python.encode(game, before.state)[0], -python.encode(game, after.state)[0]
            changed = place_of[(planes[0] != planes[1]).ravel()]
            require(
                action in changed,
                before,
                f"action {action} does not change its place among the {layout.over}",
            )


def check_plane_names(game: Game) -> None:
    """Check that plane names are distinct, that each has a plane, and that plane 0 is "pieces"."""
    names = plane_names(game)
    require(len(set(names)) == len(names), game, f"two planes have the same name: {names}")
    count = encoding.planes(game)
    require(len(names) <= count, game, f"{len(names)} names for {count} planes: {names}")
    require(names[:1] == ("pieces",), game, f'plane 0 must have the name "pieces": {names}')


def _places_of_cells(game: Game, layout: ActionLayout) -> NDArray[np.int64]:
    """Return int64[cells]: the place of every cell."""
    rows, columns = game[:2]
    cells = np.arange(rows * columns)
    places: dict[str, NDArray[np.int64]] = {
        "cells": cells, "columns": cells % columns, "rows": cells // columns
    }  # fmt: skip
    return places[layout.over]


def _check_symmetries(game: Game, layout: ActionLayout, place_of: NDArray[np.int64]) -> None:
    cells, actions = python.symmetry_tables(game)
    for symmetry, (cell_images, action_images) in enumerate(zip(cells, actions, strict=True)):
        expected = action_images[place_of]
        require(
            np.array_equal(place_of[cell_images], expected),
            game,
            f"symmetry {symmetry} moves actions differently from the {layout.over}",
        )
