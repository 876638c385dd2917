"""What a search has found out about one position, for people and notebooks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.rules.interface import LOSS, WIN
from zerolab.search.proofs import Proofs
from zerolab.search.tree import Tree


class SearchResult(NamedTuple):
    """The root of one tree; values lie in [-1, 1] and are those of the player to move."""

    visits: NDArray[np.int32]  # [actions] N(s, a)
    values: NDArray[np.float32]  # [actions] Q(s, a), 0 where unvisited
    priors: NDArray[np.float32]  # [actions] P(s, a), root noise included; 0 where illegal
    value: float
    """V(s): the mean of all values backed up to the root."""
    principal_variation: tuple[int, ...]
    """The root rule's choice, then the most visited actions in turn."""

    @property
    def policy(self) -> NDArray[np.float64]:
        """The visit distribution float64[actions]; all zero before the first visit."""
        shares: NDArray[np.float64] = self.visits / max(1, int(self.visits.sum()))
        return shares

    @property
    def best_action(self) -> int:
        """The first action of the principal variation."""
        line = self.principal_variation
        return line[0] if line else int(self.visits.argmax())


def principal_variation(tree: Tree, b: int, chosen: int | None = None) -> tuple[int, ...]:
    """Return the most visited actions from the root of tree `b` on, as far as there are visits.

    Of equally visited actions the lowest is taken. Where results are proven, they decide. At the
    root `chosen` is taken, if it is given.
    """
    line: list[int] = []
    node = 0
    while (first := int(tree.first_child[b, node])) != 0:
        preferences = _preferences(tree, b, node)
        if node == 0 and chosen is not None:
            preferences = tree.action[b, first : first + len(preferences)] == chosen
        if not preferences.any():
            break
        node = first + int(preferences.argmax())
        line.append(int(tree.action[b, node]))
    return tuple(line)


def _preferences(tree: Tree, b: int, node: int) -> NDArray[Any]:
    """Return by how much the children of an expanded node are preferred: visits, and proofs."""
    first = tree.first_child[b, node]
    children = slice(first, first + tree.children[b, node])
    visits = tree.visits[b, children]
    if not isinstance(tree.proofs, Proofs):
        return visits
    proven, result = tree.proven[b, children], tree.proven[b, node]
    if result in (WIN, LOSS):
        return (proven == -result) & (tree.distance[b, children] == tree.distance[b, node] - 1)
    return np.where(proven == WIN, 0, visits)
