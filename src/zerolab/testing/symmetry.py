"""Laws of symmetries: what they do to cells, actions, positions, outcomes and planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import encoding, host
from zerolab.rules.interface import ONGOING, Game, State
from zerolab.testing.samples import Sample, positions, require, unwritten_state


def check_symmetry_tables(game: Game) -> None:
    """Check that the symmetries are a group of permutations whose number 0 changes nothing."""
    cells, actions = host.symmetry_tables(game)
    for noun, images in (("cell", cells), ("action", actions)):
        identity = np.arange(images.shape[1])
        untouched = np.array_equal(images[0], identity)
        require(untouched, game, f"symmetry 0 must leave every {noun} where it is")
        for number, image in enumerate(images):
            permutes = np.array_equal(np.sort(image), identity)
            require(
                permutes,
                game,
                f"transform_{noun} of symmetry {number} is no permutation: {image.tolist()}",
            )
    numbers = _numbers(game)
    require(len(numbers) == len(cells), game, "two symmetries are equal")
    for first in range(len(cells)):
        for then in range(len(cells)):
            both = _key(cells[then][cells[first]], actions[then][actions[first]])
            require(
                both in numbers, game, f"symmetry {first}, then {then}, is no symmetry of the game"
            )


def check_symmetric_positions(game: Game) -> None:
    """Check that outcomes, legal actions, successors and planes of images are as they must be."""
    cells, actions = host.symmetry_tables(game)
    for sample in positions(game):
        for symmetry in range(encoding.symmetries(game)):
            image = _image(sample, symmetry)
            outcome = host.outcome(game, image)
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
    cells, actions = host.symmetry_tables(game)
    numbers = _numbers(game)
    for symmetry in range(len(cells)):
        undo = numbers.get(_key(np.argsort(cells[symmetry]), np.argsort(actions[symmetry])))
        require(undo is not None, game, f"symmetry {symmetry} has no inverse")
        for sample in positions(game):
            image = host.transform(game, sample.state, symmetry)
            back = host.transform(game, image, undo or 0)
            undone = np.array_equal(back, sample.state)
            require(undone, sample, f"symmetry {undo} does not undo symmetry {symmetry}")


def _key(cells: NDArray[Any], actions: NDArray[Any]) -> tuple[int, ...]:
    return (*cells.tolist(), *actions.tolist())


def _numbers(game: Game) -> dict[tuple[int, ...], int]:
    cells, actions = host.symmetry_tables(game)
    return {_key(cells[number], actions[number]): number for number in range(len(cells))}


def _image(sample: Sample, symmetry: int) -> State:
    before, image = sample.state.copy(), unwritten_state(sample.game)
    host.write_transform(sample.game, sample.state, symmetry, image)
    require(np.array_equal(before, sample.state), sample, "transform changes the state")
    whole = np.array_equal(image, host.transform(sample.game, sample.state, symmetry))
    require(whole, sample, "transform does not write every word of `out`")
    untouched = symmetry != 0 or np.array_equal(image, before)
    require(untouched, sample, "symmetry 0 changes the state")
    return image


def _check_planes(sample: Sample, image: State, symmetry: int, cells: NDArray[Any]) -> None:
    """Check that planes permuted by `transform_cell`, as in training, are those of the image."""
    both = host.encode_batch(sample.game, np.stack((sample.state, image)))
    plain, transformed = both.reshape(2, encoding.planes(sample.game), -1)
    moved = np.empty_like(plain)
    moved[:, cells] = plain
    require(
        np.array_equal(moved, transformed),
        sample,
        f"the planes under symmetry {symmetry} are not those permuted by transform_cell",
    )


def _check_actions(sample: Sample, image: State, symmetry: int, actions: NDArray[Any]) -> None:
    game = sample.game
    mask = host.legal(game, sample.state)
    moved = np.empty_like(mask)
    moved[actions] = mask
    require(
        np.array_equal(moved, host.legal(game, image)),
        sample,
        f"the legal actions under symmetry {symmetry} are not those permuted by transform_action",
    )
    for action in np.flatnonzero(mask).tolist():
        after = host.apply(game, sample.state, action)
        require(
            np.array_equal(
                host.apply(game, image, int(actions[action])),
                host.transform(game, after, symmetry),
            ),
            sample,
            f"action {action}, then symmetry {symmetry}, is not the same in reverse order",
        )
