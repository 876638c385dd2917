"""The search trees of a batch: a structure of arrays, children of a node contiguous."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.search.utility import ZeroSum

UNSEEN = 3
"""The outcome of a node that no simulation has reached yet; its state is not set either."""

_PLAIN = ZeroSum()


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
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set once the outcome is
    utility: Any  # of values to the player who decides; see `search.utility`


def empty_tree(batch: int, nodes: int, words: int, statistics: int, utility: Any = _PLAIN) -> Tree:
    """Allocate trees without roots."""

    def array(dtype: Any, *shape: int) -> NDArray[Any]:
        return np.zeros((batch, *shape), dtype)

    return Tree(
        used=array(np.int32),
        parent=array(np.int32, nodes),
        first_child=array(np.int32, nodes),
        children=array(np.int16, nodes),
        action=array(np.int16, nodes),
        outcome=array(np.int8, nodes),
        visits=array(np.int32, nodes),
        value=array(np.float32, nodes),
        prior=array(np.float32, nodes),
        statistics=array(np.float32, nodes, statistics),
        states=array(np.uint64, nodes, words),
        utility=utility,
    )


def grown_tree(tree: Tree, nodes: int) -> Tree:
    """Return the same trees with room for more nodes."""
    batch, former = tree.parent.shape
    larger = empty_tree(batch, nodes, tree.states.shape[2], tree.statistics.shape[2], tree.utility)
    larger.used[:] = tree.used
    for field in Tree._fields[1:-1]:
        getattr(larger, field)[:, :former] = getattr(tree, field)
    return larger
