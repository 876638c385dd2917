"""A network's file by itself: the weights, and in its header what they are weights of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.store.arrays import Arrays, load_arrays, read_digest
from zerolab.store.checks import damaged, read_bytes

WEIGHTS = "weights"
"""The kind of these files."""
OPTIMIZER = "optimizer state"
"""The kind of files of an optimiser's state, which belongs to a network."""

_LARGEST = 1 << 32


class StoredNetwork(NamedTuple):
    """A network as a file of a run has it."""

    content: bytes
    """The whole file."""
    digest: str
    """What identifies it; see `store.arrays.read_digest`."""
    game: str
    iteration: int
    settings: Mapping[str, Any]
    """Of the architecture, `name` among them."""
    weights: Arrays


def read_network(path: Path) -> StoredNetwork:
    """Return the network in a file; raise UserError if it is missing, damaged or foreign."""
    weights, about = load_arrays(path, WEIGHTS)
    game, iteration, settings = (about.get(key) for key in ("game", "iteration", "network"))
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise damaged(path, "it does not say which network its weights are of")
    if not isinstance(game, str) or not isinstance(iteration, int):
        raise damaged(path, "it does not say what its weights are of")
    content = read_bytes(path, _LARGEST)
    return StoredNetwork(content, read_digest(path, WEIGHTS), game, iteration, settings, weights)


def read_optimizer(path: Path, network: StoredNetwork) -> Arrays:
    """Return the state of the optimiser in a file; raise UserError unless it is the network's."""
    state, about = load_arrays(path, OPTIMIZER)
    if (about.get("game"), about.get("iteration")) != (network.game, network.iteration):
        raise damaged(path, f"it is not of network {network.iteration} of {network.game}")
    return state
