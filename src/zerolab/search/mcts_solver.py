"""MCTS-Solver [Winands2008]: proven results of nodes.

A node is proven once its game is over, once one of its actions is proven to win, or once all of its
actions are proven. Proofs travel up the tree with the simulation that completes them, whose value
is exact from there on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.search.values import backup_value_of, set_exact

SOLVERS = CompiledInterface("solver of nodes")

PROVEN = 5
"""Index of the number of proven nodes in `SearchState.counts`."""

SCALE = 1 << 30
"""Factor that turns probabilities into integer weights."""


class NoSolver(NamedTuple):
    """No proofs: only finished games have a known result."""


class MctsSolver(NamedTuple):
    """Every node may have a proven result, and its distance in plies to the end of the game.

    A win is as short as the shortest proof found, which need not be the shortest win; a loss is as
    long as the longest proof of the replies to it.
    """


@SOLVERS.function
def clear_proof(solver: Any, tree: Any, b: int, node: int) -> None:
    """Clear the proof of a new node."""
    raise AssertionError


@SOLVERS.function
def is_open(solver: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a node is unproven, so that simulations below it are of use."""
    raise AssertionError


@SOLVERS.function
def is_decided(solver: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a leaf's result is known."""
    raise AssertionError


@SOLVERS.function
def decided_value(solver: Any, tree: Any, b: int, node: int) -> Any:
    """Return the backup value of a leaf whose result is known."""
    raise AssertionError


@SOLVERS.function
def propagate_proof(
    solver: Any, tree: Any, counts: Any, b: int, node: int, child: int, backup_value: Any
) -> Any:
    """Return the backup value at a node, exact if its child's proof proves the node.

    At the leaf of a simulation, `child` is -1. `counts` are those of `SearchState`.
    """
    raise AssertionError


@SOLVERS.function
def unless_lost(solver: Any, tree: Any, b: int, child: int, score: float) -> float:
    """Return a child's score, or minus infinity if the move to it is proven to lose."""
    raise AssertionError


@SOLVERS.function
def is_lost(solver: Any, tree: Any, b: int, child: int) -> bool:
    """Return whether the move to a child is proven to lose."""
    raise AssertionError


@SOLVERS.function
def restrict_to_proofs(solver: Any, tree: Any, b: int, weights: Any) -> None:
    """Adjust weights [actions] of root actions to proofs.

    At a won root, the quickest wins found share all weight; at a lost one, the slowest losses.
    Elsewhere losing actions get none; where that leaves nothing, the others get their priors.
    """
    raise AssertionError


class _NoSolverRule:
    @staticmethod
    def clear_proof(solver, tree, b, node):
        pass

    @staticmethod
    def is_open(solver, tree, b, node):
        return True

    @staticmethod
    def is_decided(solver, tree, b, node):
        return tree.outcome[b, node] != ONGOING

    @staticmethod
    def decided_value(solver, tree, b, node):
        result = tree.outcome[b, node]
        return backup_value_of(tree.utility, result, 1.0 if result == DRAW else 0.0)

    @staticmethod
    def propagate_proof(solver, tree, counts, b, node, child, backup_value):
        return backup_value

    @staticmethod
    def unless_lost(solver, tree, b, child, score):
        return score

    @staticmethod
    def is_lost(solver, tree, b, child):
        return False

    @staticmethod
    def restrict_to_proofs(solver, tree, b, weights):
        pass


@inlined
def _record(tree, b, node, result, distance):
    tree.proven[b, node] = result
    tree.distance[b, node] = distance


@inlined
def _exact(tree, b, node):
    """Set a proven node's mean to its exact value, and return that value."""
    return set_exact(tree.utility, tree, b, node, tree.proven[b, node], tree.distance[b, node])


@inlined
def _prove(tree, b, node):
    """Prove a node from its children, if they suffice, by the quickest win or the slowest loss.

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
    """Give weight 1 to the root actions whose children have this proof, and 0 to all others."""
    weights[:] = 0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.children[b, 0]):
        if tree.proven[b, child] == result and tree.distance[b, child] == distance:
            weights[tree.action[b, child]] = 1


class _MctsSolverRule:
    @staticmethod
    def clear_proof(solver, tree, b, node):
        tree.proven[b, node] = ONGOING

    @staticmethod
    def is_open(solver, tree, b, node):
        return tree.proven[b, node] == ONGOING

    @staticmethod
    def is_decided(solver, tree, b, node):
        return tree.outcome[b, node] != ONGOING or tree.proven[b, node] != ONGOING

    @staticmethod
    def decided_value(solver, tree, b, node):
        if tree.proven[b, node] == ONGOING:
            _record(tree, b, node, tree.outcome[b, node], 0)
        return _exact(tree, b, node)

    @staticmethod
    def propagate_proof(solver, tree, counts, b, node, child, backup_value):
        if tree.proven[b, node] == ONGOING:
            if child < 0 or tree.proven[b, child] == ONGOING:
                return backup_value
            if not _prove(tree, b, node):
                return backup_value
            counts[PROVEN] += 1
        return _exact(tree, b, node)

    @staticmethod
    def unless_lost(solver, tree, b, child, score):
        return np.float32(-np.inf) if tree.proven[b, child] == WIN else score

    @staticmethod
    def is_lost(solver, tree, b, child):
        return tree.proven[b, child] == WIN

    @staticmethod
    def restrict_to_proofs(solver, tree, b, weights):
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


SOLVERS.implement(NoSolver, _NoSolverRule)
SOLVERS.implement(MctsSolver, _MctsSolverRule)
