"""Checks of symmetries and action layouts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules, encoding, rules
from zerolab.rules.encoding import ActionLayout, action_layout
from zerolab.rules.rules import ONGOING, Game, State
from zerolab.testing.random_games import (
    SamplePosition,
    expect,
    garbage_state,
    random_games,
    sample_positions,
)


def check_symmetry_tables(game: Game) -> None:
    """Check that the symmetries are a group of permutations and that number 0 is the identity."""
    cells, actions = compiled_rules.symmetry_tables(game)
    for noun, images in (("cell", cells), ("action", actions)):
        identity = np.arange(images.shape[1])
        is_identity = np.array_equal(images[0], identity)
        expect(is_identity, game, f"symmetry 0 must not move any {noun}")
        for number, image in enumerate(images):
            is_permutation = np.array_equal(np.sort(image), identity)
            expect(
                is_permutation,
                game,
                f"transform_{noun} of symmetry {number} is not a permutation: {image.tolist()}",
            )
    numbers = _numbers(game)
    expect(len(numbers) == len(cells), game, "two symmetries are equal")
    for first in range(len(cells)):
        for second in range(len(cells)):
            product = _key(cells[second][cells[first]], actions[second][actions[first]])
            expect(
                product in numbers,
                game,
                f"symmetry {first} followed by {second} is not a symmetry of the game",
            )


def check_symmetric_positions(game: Game) -> None:
    """Check that symmetries commute with outcomes, legal actions, successors and planes."""
    cells, actions = compiled_rules.symmetry_tables(game)
    for sample in sample_positions(game):
        successors = _successors(sample)
        for symmetry in range(encoding.symmetry_count(game)):
            image = _image(sample, symmetry)
            outcome = compiled_rules.outcome(game, image)
            expect(
                outcome == sample.outcome,
                sample,
                f"symmetry {symmetry} changes the outcome {sample.outcome} to {outcome}",
            )
            _check_planes(sample, image, symmetry, cells[symmetry])
            if sample.outcome == ONGOING:
                _check_actions(sample, successors, image, symmetry, actions[symmetry])


def check_symmetries_invert(game: Game) -> None:
    """Check that every symmetry has an inverse, which restores every sample position."""
    cells, actions = compiled_rules.symmetry_tables(game)
    numbers = _numbers(game)
    for symmetry in range(len(cells)):
        inverse = numbers.get(_key(np.argsort(cells[symmetry]), np.argsort(actions[symmetry])))
        expect(inverse is not None, game, f"symmetry {symmetry} has no inverse")
        for sample in sample_positions(game):
            image = compiled_rules.transform(game, sample.state, symmetry)
            restored = compiled_rules.transform(game, image, inverse or 0)
            is_restored = np.array_equal(restored, sample.state)
            expect(is_restored, sample, f"symmetry {inverse} does not undo symmetry {symmetry}")


def _key(cells: NDArray[Any], actions: NDArray[Any]) -> tuple[int, ...]:
    return (*cells.tolist(), *actions.tolist())


def _numbers(game: Game) -> dict[tuple[int, ...], int]:
    cells, actions = compiled_rules.symmetry_tables(game)
    return {_key(cells[number], actions[number]): number for number in range(len(cells))}


def _image(sample: SamplePosition, symmetry: int) -> State:
    before, image = sample.state.copy(), garbage_state(sample.game)
    compiled_rules.write_transform(sample.game, sample.state, symmetry, image)
    expect(np.array_equal(before, sample.state), sample, "transform changes the state")
    is_complete = np.array_equal(
        image, compiled_rules.transform(sample.game, sample.state, symmetry)
    )
    expect(is_complete, sample, "transform does not write every word of `out`")
    is_valid = symmetry != 0 or np.array_equal(image, before)
    expect(is_valid, sample, "symmetry 0 changes the state")
    return image


def _check_planes(sample: SamplePosition, image: State, symmetry: int, cells: NDArray[Any]) -> None:
    """Check that the planes of the image are those of the position, permuted with `transform_cell`.

    Training permutes planes in the same way.
    """
    both = compiled_rules.encode_batch(sample.game, np.stack((sample.state, image)))
    planes, image_planes = both.reshape(2, encoding.plane_count(sample.game), -1)
    permuted = np.empty_like(planes)
    permuted[:, cells] = planes
    expect(
        np.array_equal(permuted, image_planes),
        sample,
        f"the planes of the image under symmetry {symmetry} differ from the planes permuted with"
        " transform_cell",
    )


def _successors(sample: SamplePosition) -> dict[int, State]:
    """Return the states after all legal actions; empty if the game has ended."""
    if sample.outcome != ONGOING:
        return {}
    legal = np.flatnonzero(compiled_rules.legal(sample.game, sample.state)).tolist()
    return {action: compiled_rules.apply(sample.game, sample.state, action) for action in legal}


def _check_actions(
    sample: SamplePosition,
    successors: dict[int, State],
    image: State,
    symmetry: int,
    actions: NDArray[Any],
) -> None:
    game = sample.game
    mask = np.zeros(rules.action_count(game), np.bool_)
    mask[list(successors)] = True
    permuted = np.empty_like(mask)
    permuted[actions] = mask
    expect(
        np.array_equal(permuted, compiled_rules.legal(game, image)),
        sample,
        f"the legal actions of the image under symmetry {symmetry} differ from those permuted with"
        " transform_action",
    )
    for action, child in successors.items():
        expect(
            np.array_equal(
                compiled_rules.apply(game, image, int(actions[action])),
                compiled_rules.transform(game, child, symmetry),
            ),
            sample,
            f"applying symmetry {symmetry} before or after action {action} gives different states",
        )


def check_action_layout(game: Game) -> None:
    """Check that actions change their places, and that symmetries move actions with their places.

    Games whose actions have no places are not checked.
    """
    if encoding.ENCODING_INTERFACE.implementation(type(game)).action_places is None:  # type: ignore[attr-defined]
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
            if action >= layout.place_count:
                continue
            planes = (
                compiled_rules.encode(game, before.state)[0],
                -compiled_rules.encode(game, after.state)[0],
            )
            changed = place_of[(planes[0] != planes[1]).ravel()]
            expect(
                action in changed,
                before,
                f"action {action} does not change its place among the {layout.places}",
            )


def _places_of_cells(game: Game, layout: ActionLayout) -> NDArray[np.int64]:
    """Return the place of every cell, int64[cells]."""
    rows, columns = game[:2]
    cells = np.arange(rows * columns)
    places: dict[str, NDArray[np.int64]] = {
        "cells": cells, "columns": cells % columns, "rows": cells // columns
    }  # fmt: skip
    return places[layout.places]


def _check_symmetries(game: Game, layout: ActionLayout, place_of: NDArray[np.int64]) -> None:
    cells, actions = compiled_rules.symmetry_tables(game)
    for symmetry, (cell_images, action_images) in enumerate(zip(cells, actions, strict=True)):
        expected = action_images[place_of]
        expect(
            np.array_equal(place_of[cell_images], expected),
            game,
            f"symmetry {symmetry} moves actions differently from the {layout.places}",
        )
