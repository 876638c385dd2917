"""Virtual loss [Chaslot2008]: several leaves of a tree per step.

With one leaf per step, each simulation knows the results of all before it, and batches are as large
as the number of trees. A single large search needs several leaves to fill a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import ONGOING
from zerolab.search.mcts_solver import is_open
from zerolab.search.values import add_to_mean, backup_value_of, replace_in_mean

VIRTUAL_LOSSES = CompiledInterface("kind of virtual loss")


class NoVirtualLoss(NamedTuple):
    """A tree waits as soon as one of its leaves does."""


class VirtualLoss(NamedTuple):
    """Virtual loss [Chaslot2008, Section 4.4; Segal2010].

    A simulation whose leaf waits for its evaluation counts at once in every node on its path, as a
    loss for the player who moved there, so that the next simulation prefers other paths. The backup
    replaces that loss by the leaf's value: once no leaf waits, visits and means are those of the
    simulations alone. A simulation that ends at a waiting leaf is abandoned, and with it the tree's
    turn.

    leaves: maximum number of leaves that wait at once.
    """

    leaves: int


@VIRTUAL_LOSSES.function
def max_leaves(virtual_loss: Any) -> int:
    """Return the maximum number of leaves of a tree that wait at once."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def left_to_begin(virtual_loss: Any, search: Any, b: int) -> int:
    """Return the number of simulations that a tree has yet to begin."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def is_waiting(virtual_loss: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a simulation's leaf already waits for an evaluation."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def start_waiting(virtual_loss: Any, tree: Any, search: Any, b: int, leaf: int) -> bool:
    """Mark a leaf as waiting; return whether its tree may begin another simulation."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def count_visit(
    virtual_loss: Any, tree: Any, b: int, node: int, backup_value: Any, waited: bool
) -> None:
    """Count a backup value at a node, and its simulation's visit unless the leaf has waited."""
    raise AssertionError


@inlined
def _visit(tree, b, node, backup_value):
    visits = tree.visits[b, node] + 1
    tree.visits[b, node] = visits
    add_to_mean(tree.utility, tree, b, node, backup_value, visits)


@inlined
def _virtual(tree, node):
    """Return a waiting node's value for its mover: a win, a loss for the player who moved there.

    Nobody moved to the root.
    """
    return backup_value_of(tree.utility, 1.0 if node > 0 else 0.0, 0.0)


class _NoVirtualLossRule:
    @staticmethod
    def max_leaves(virtual_loss):
        return 1

    @staticmethod
    def left_to_begin(virtual_loss, search, b):
        return search.remaining[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        return False

    @staticmethod
    def start_waiting(virtual_loss, tree, search, b, leaf):
        search.waiting[b] = 1
        return False

    @staticmethod
    def count_visit(virtual_loss, tree, b, node, backup_value, waited):
        _visit(tree, b, node, backup_value)


class _VirtualLossRule:
    @staticmethod
    def max_leaves(virtual_loss):
        return virtual_loss.leaves

    @staticmethod
    def left_to_begin(virtual_loss, search, b):
        return search.remaining[b] - search.waiting[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        # A simulation that visits a leaf of an ongoing game expands it, unless it has to wait.
        is_leaf = tree.first_child[b, node] == 0 and tree.outcome[b, node] == ONGOING
        return is_leaf and tree.visits[b, node] > 0 and is_open(tree.solver, tree, b, node)

    @staticmethod
    def start_waiting(virtual_loss, tree, search, b, leaf):
        node = leaf
        while node >= 0:
            _visit(tree, b, node, _virtual(tree, node))
            node = tree.parent[b, node]
        search.waiting[b] += 1
        return search.waiting[b] < min(virtual_loss.leaves, search.remaining[b])

    @staticmethod
    def count_visit(virtual_loss, tree, b, node, backup_value, waited):
        if not waited:
            _visit(tree, b, node, backup_value)
        elif is_open(tree.solver, tree, b, node):
            visits = tree.visits[b, node]
            replace_in_mean(tree.utility, tree, b, node, _virtual(tree, node), backup_value, visits)


VIRTUAL_LOSSES.implement(NoVirtualLoss, _NoVirtualLossRule)
VIRTUAL_LOSSES.implement(VirtualLoss, _VirtualLossRule)
