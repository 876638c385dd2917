"""The search trees of a batch: an array of nodes, in which children of a node are contiguous.

Where many trees are searched in turn, each is out of the processor's caches when its turn comes,
so what counts is how few cache lines a simulation touches, and how early it asks for them
(docs/decisions/0016). A node is half a line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.core.memory import LINE, borrowed, prefetch
from zerolab.search.proofs import NoProofs
from zerolab.search.utility import ZeroSum

FIRST_NODES = 1024
"""How many nodes a tree has room for at first; it grows when they are used up."""

UNSEEN = 3
"""The outcome of a node that no simulation has reached yet; its state is not set either."""

_PLAIN = ZeroSum()
_NO_PROOFS = NoProofs()

NODE = np.dtype(
    {
        "names": [
            "visits", "value", "prior", "first_child", "parent", "children", "action", "outcome",
            "proven", "distance", "draws",
        ],
        "formats": ["<i4", "<f4", "<f4", "<i4", "<i4", "<i2", "<i2", "i1", "i1", "<i2", "<f4"],
        "offsets": [0, 4, 8, 12, 16, 20, 22, 24, 25, 26, 28],
        "itemsize": 32,
    }
)  # fmt: skip
"""A node in memory; see `Tree` for what its fields mean."""

_NODE_BYTES = NODE.itemsize

_SPARE = 2
"""Nodes at the end of each tree that are never used. Without them, trees would begin at multiples
of a power of two, and their roots compete for the same few places of a processor's cache."""


class Forest(NamedTuple):
    """B trees as they lie in memory, all arrays contiguous: what kernels are called with."""

    used: NDArray[np.int32]  # [B] nodes in use
    nodes: NDArray[np.void]  # [B, nodes] NODE
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set once the outcome is
    utility: Any  # what values are worth; see `search.utility`
    proofs: Any  # whether results are proven; see `search.proofs`


class Tree(NamedTuple):
    """B trees of up to `nodes` nodes; node 0 of each is its root.

    Values are stored from the view of the player to move at the node (negamax).
    """

    used: NDArray[np.int32]  # [B] nodes in use
    parent: NDArray[np.int32]  # [B, nodes] -1 at the root
    first_child: NDArray[np.int32]  # [B, nodes] 0 until expanded
    children: NDArray[np.int16]  # [B, nodes] number of legal actions, once expanded
    action: NDArray[np.int16]  # [B, nodes] the action that led here
    outcome: NDArray[np.int8]  # [B, nodes] UNSEEN, ONGOING or the result for the mover
    visits: NDArray[np.int32]  # [B, nodes] simulations that passed here, and its evaluation
    value: NDArray[np.float32]  # [B, nodes] mean of the values backed up
    prior: NDArray[np.float32]  # [B, nodes] probability of the action at the parent
    proven: NDArray[np.int8]  # [B, nodes] ONGOING or the mover's proven result; see `proofs`
    distance: NDArray[np.int16]  # [B, nodes] plies to the end of the game, where proven
    draws: NDArray[np.float32]  # [B, nodes] mean probability of a draw; see `utility`
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set once the outcome is
    utility: Any  # what values are worth; see `search.utility`
    proofs: Any  # whether results are proven; see `search.proofs`


def empty_forest(
    batch: int,
    nodes: int,
    words: int,
    statistics: int,
    utility: Any = _PLAIN,
    proofs: Any = _NO_PROOFS,
) -> Forest:
    """Allocate trees without roots, with room for `nodes` nodes each."""
    width = nodes + _SPARE
    return Forest(
        used=np.zeros(batch, np.int32),
        nodes=np.zeros((batch, width), NODE),
        statistics=np.zeros((batch, width, statistics), np.float32),
        states=np.zeros((batch, width, words), np.uint64),
        utility=utility,
        proofs=proofs,
    )


def empty_tree(batch: int, nodes: int, words: int, statistics: int) -> Tree:
    """Allocate trees without roots, as selection rules see them."""
    return by_field(empty_forest(batch, nodes, words, statistics))


def node_bytes(words: int, statistics: int) -> int:
    """Return the memory that a node takes, whose state has `words` words."""
    return _NODE_BYTES + 8 * words + 4 * statistics


def grown(forest: Forest) -> Forest:
    """Return the same trees with room for twice as many nodes."""
    batch, width, words = forest.states.shape
    nodes, own = 2 * (width - _SPARE), forest.statistics.shape[2]
    larger = empty_forest(batch, nodes, words, own, forest.utility, forest.proofs)
    larger.used[:] = forest.used
    for field in ("nodes", "statistics", "states"):
        getattr(larger, field)[:, :width] = getattr(forest, field)
    return larger


def by_field(forest):
    """Return the trees of a forest by their fields, views of its memory."""
    forest = borrowed(forest)
    nodes = forest.nodes
    return Tree(
        forest.used,
        nodes["parent"],
        nodes["first_child"],
        nodes["children"],
        nodes["action"],
        nodes["outcome"],
        nodes["visits"],
        nodes["value"],
        nodes["prior"],
        nodes["proven"],
        nodes["distance"],
        nodes["draws"],
        forest.statistics,
        forest.states,
        forest.utility,
        forest.proofs,
    )


opened = inlined(by_field)
"""The same within kernels."""


@inlined
def has_room(tree, b, nodes):
    """Return whether a tree has room for this many more nodes."""
    return tree.used[b] + nodes <= tree.states.shape[1] - _SPARE


@inlined
def prefetch_nodes(tree, b, first, count):
    """Begin to load `count` nodes from node `first` on; `visits` is their first field."""
    for line in range((count * _NODE_BYTES + LINE - 1) // LINE):
        prefetch(tree.visits, (b, first), line)
