"""A network's file by itself: the weights, and in its header what they are weights of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.store.arrays import Arrays, load_arrays, read_digest
from zerolab.store.checks import damaged, read_bytes

WEIGHTS = "weights"
"""The kind of these files."""

_LARGEST = 1 << 32


class StoredNetwork(NamedTuple):
    """A network as a file of a run has it."""

    content: bytes
    """The whole file."""
    digest: str
    """What identifies it; see `store.arrays.read_digest`."""
    game: str
    settings: Mapping[str, Any]
    """Of the architecture, `name` among them."""
    weights: Arrays


def read_network(path: Path) -> StoredNetwork:
    """Return the network in a file; raise UserError if it is missing, damaged or foreign."""
    weights, about = load_arrays(path, WEIGHTS)
    game, settings = about.get("game"), about.get("network")
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise damaged(path, "it does not say which network its weights are of")
    if not isinstance(game, str):
        raise damaged(path, "it does not say what its weights are of")
    content = read_bytes(path, _LARGEST)
    return StoredNetwork(content, read_digest(path, WEIGHTS), game, settings, weights)
