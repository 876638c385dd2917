"""A tree over positions in which equal ones are one node, searched a whole game at a time.

It is a second type of tree beside that of `search.tree`: there every simulation adds one leaf, and
millions of them a second have to be fast; here every new node costs a whole search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game


class Node:
    """A position that games have reached."""

    __slots__ = ("actions", "chosen", "outcome", "priors", "state", "visits", "worth")

    def __init__(self, state: NDArray[np.uint64], outcome: int) -> None:
        self.state = state
        """uint64[words]"""
        self.outcome = outcome
        """ONGOING, or the result for the mover."""
        self.visits = 0
        """N(s): games that went through it, those under way included."""
        self.worth = 0
        """The sum of their results for the mover; a game under way counts as won, which is lost
        for the player who chose to come here."""
        self.actions = np.empty(0, np.int64)
        """int64[k]: the legal ones; none before `TranspositionTree.expand`."""
        self.priors = np.empty(0, np.float32)
        """float32[k]"""
        self.chosen = np.empty(0, np.int64)
        """int64[k]: N(s, a), how often each action was taken here."""

    @property
    def is_expanded(self) -> bool:
        """Whether it is known which actions lead on, and how promising they are."""
        return len(self.actions) > 0


class TranspositionTree:
    """PUCT over whole games; see `BigTree` for the formula."""

    def __init__(self, game: Game, c: float, first_play: float) -> None:
        self._game = game
        self._c = c
        self._first_play = first_play
        self._nodes: dict[bytes, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def begin(self) -> Node:
        """Begin a game; return the first position."""
        state = host.start(self._game)
        return self._visit(state, ONGOING)

    def expand(self, node: Node, policy: NDArray[np.float32]) -> None:
        """Take in the policy float32[actions] that a search of a node's position has found."""
        node.actions = np.flatnonzero(host.legal(self._game, node.state))
        node.priors = policy[node.actions]
        node.chosen = np.zeros(len(node.actions), np.int64)

    def descend(self, node: Node) -> tuple[int, Node]:
        """Take the action of the highest score, the lowest of equal ones, and go there.

        The node must be expanded.
        """
        states = np.repeat(node.state[None], len(node.actions), axis=0)
        rows = np.arange(len(states))
        outcomes = host.apply_batch(self._game, states, rows, node.actions)
        behind = [self._nodes.get(state.tobytes()) for state in states]
        visits = np.array([child.visits if child else 0 for child in behind])
        worth = np.array([child.worth if child else 0 for child in behind])
        values = np.where(visits > 0, -worth / np.maximum(visits, 1), self._first_play)
        exploration = self._c * math.sqrt(node.visits) * node.priors / (1 + node.chosen)
        best = int(np.argmax(values + exploration))
        node.chosen[best] += 1
        return int(node.actions[best]), self._visit(states[best].copy(), int(outcomes[best]))

    def _visit(self, state: NDArray[np.uint64], outcome: int) -> Node:
        key = state.tobytes()
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(state, outcome)
        node.visits += 1
        node.worth += 1
        return node

    @staticmethod
    def back_up(path: Sequence[Node]) -> None:
        """Take in the result of a game, given all its positions, of which the last one is final."""
        result = path[-1].outcome
        for node in reversed(path):
            node.worth += result - 1
            result = -result
