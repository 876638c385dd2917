"""MCTS-Solver [Winands2008]: proven results of nodes.

A node is proven once its game is over, once one of its actions is proven to win, or once all of
its actions are proven. Proofs travel up the tree with the simulation that completes them, and its
value is exact from there on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.search.values import settled, signal_of

SOLVERS = CompiledInterface("kind of proofs")

PROVEN = 5
"""The place of the number of proven nodes in `SearchState.counts`."""

SCALE = 1 << 30
"""What probabilities are multiplied by to become whole weights."""


class NoSolver(NamedTuple):
    """Means alone count; only what is finished is known."""


class MctsSolver(NamedTuple):
    """Every node may have a proven result, and the plies to the end of the game that prove it.

    A win is as short as the shortest proof found, which need not be the shortest win; a loss as
    long as the longest proof of the replies to it.
    """


@SOLVERS.function
def forget(proofs: Any, tree: Any, b: int, node: int) -> None:
    """Prepare for a new node."""
    raise AssertionError


@SOLVERS.function
def is_open(proofs: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether simulations still have something to find out below a node."""
    raise AssertionError


@SOLVERS.function
def is_decided(proofs: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a leaf's result is known."""
    raise AssertionError


@SOLVERS.function
def decided(proofs: Any, tree: Any, b: int, node: int) -> Any:
    """Return the signal of a leaf whose result is known."""
    raise AssertionError


@SOLVERS.function
def propagate(
    proofs: Any, tree: Any, counts: Any, b: int, node: int, child: int, signal: Any
) -> Any:
    """Return the signal that arrives at a node by way of a child, exact if that proves the node.

    At the leaf of a simulation, `child` is -1. `counts` are those of `SearchState`.
    """
    raise AssertionError


@SOLVERS.function
def unless_lost(proofs: Any, tree: Any, b: int, child: int, score: float) -> float:
    """Return a child's score, or minus infinity if the move there is proven to lose."""
    raise AssertionError


@SOLVERS.function
def is_lost(proofs: Any, tree: Any, b: int, child: int) -> bool:
    """Return whether the move that leads to a child is proven to lose."""
    raise AssertionError


@SOLVERS.function
def restrict(proofs: Any, tree: Any, b: int, weights: Any) -> None:
    """Change weights [actions] of root actions to what is proven about them.

    Of a won root, the quickest wins found share all weight, of a lost one the slowest losses; else
    losing actions have none. Where that leaves nothing, the priors of the others are taken.
    """
    raise AssertionError


class NoSolverRule:
    """See `NoProofs`."""

    @staticmethod
    def forget(proofs, tree, b, node):
        pass

    @staticmethod
    def is_open(proofs, tree, b, node):
        return True

    @staticmethod
    def is_decided(proofs, tree, b, node):
        return tree.outcome[b, node] != ONGOING

    @staticmethod
    def decided(proofs, tree, b, node):
        result = tree.outcome[b, node]
        return signal_of(tree.utility, result, 1.0 if result == DRAW else 0.0)

    @staticmethod
    def propagate(proofs, tree, counts, b, node, child, signal):
        return signal

    @staticmethod
    def unless_lost(proofs, tree, b, child, score):
        return score

    @staticmethod
    def is_lost(proofs, tree, b, child):
        return False

    @staticmethod
    def restrict(proofs, tree, b, weights):
        pass


@inlined
def _record(tree, b, node, result, distance):
    tree.proven[b, node] = result
    tree.distance[b, node] = distance


@inlined
def _exact(tree, b, node):
    """Return the signal of a proven node, and make it the node's mean."""
    return settled(tree.utility, tree, b, node, tree.proven[b, node], tree.distance[b, node])


@inlined
def _prove(tree, b, node):
    """Prove a node from its children, if they suffice: the quickest win, a draw, the slowest loss.

    Returns whether they do.
    """
    first = tree.first_child[b, node]
    best = LOSS
    length = -1
    complete = True
    for child in range(first, first + tree.children[b, node]):
        if tree.proven[b, child] == ONGOING:
            complete = False
            continue
        own = -tree.proven[b, child]
        plies = 1 + tree.distance[b, child]
        if own > best or length < 0 or (own == best and (plies < length) == (best == WIN)):
            best = own
            length = plies
    if best == WIN or complete:
        _record(tree, b, node, best, length)
        return True
    return False


@inlined
def _fill(weights, tree, b, result, distance):
    """Give weight 1 to the root's actions whose children have this proof, and 0 to all others."""
    weights[:] = 0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.children[b, 0]):
        if tree.proven[b, child] == result and tree.distance[b, child] == distance:
            weights[tree.action[b, child]] = 1


class MctsSolverRule:
    """See `Proofs`."""

    @staticmethod
    def forget(proofs, tree, b, node):
        tree.proven[b, node] = ONGOING

    @staticmethod
    def is_open(proofs, tree, b, node):
        return tree.proven[b, node] == ONGOING

    @staticmethod
    def is_decided(proofs, tree, b, node):
        return tree.outcome[b, node] != ONGOING or tree.proven[b, node] != ONGOING

    @staticmethod
    def decided(proofs, tree, b, node):
        if tree.proven[b, node] == ONGOING:
            _record(tree, b, node, tree.outcome[b, node], 0)
        return _exact(tree, b, node)

    @staticmethod
    def propagate(proofs, tree, counts, b, node, child, signal):
        if tree.proven[b, node] == ONGOING:
            if child < 0 or tree.proven[b, child] == ONGOING:
                return signal
            if not _prove(tree, b, node):
                return signal
            counts[PROVEN] += 1
        return _exact(tree, b, node)

    @staticmethod
    def unless_lost(proofs, tree, b, child, score):
        return np.float32(-np.inf) if tree.proven[b, child] == WIN else score

    @staticmethod
    def is_lost(proofs, tree, b, child):
        return tree.proven[b, child] == WIN

    @staticmethod
    def restrict(proofs, tree, b, weights):
        result = tree.proven[b, 0]
        if result in (WIN, LOSS):
            _fill(weights, tree, b, -result, tree.distance[b, 0] - 1)
            return
        first = tree.first_child[b, 0]
        last = first + tree.children[b, 0]
        total = 0.0
        for child in range(first, last):
            if tree.proven[b, child] == WIN:
                weights[tree.action[b, child]] = 0
            total += weights[tree.action[b, child]]
        if total > 0.0:
            return
        for child in range(first, last):
            if tree.proven[b, child] != WIN:
                weights[tree.action[b, child]] = 1 + tree.prior[b, child] * SCALE


SOLVERS.implement(NoSolver, NoSolverRule)
SOLVERS.implement(MctsSolver, MctsSolverRule)
