"""Virtual loss [Chaslot2008]: several leaves per tree and step.

With one leaf per step, each simulation uses the results of all earlier simulations, and the batch
size is at most the number of trees. A single large search needs several leaves per step to fill a
batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import ONGOING
from zerolab.search.mcts_solver import is_unproven
from zerolab.search.values import add_to_mean, replace_in_mean, to_backup_value

VIRTUAL_LOSSES = CompiledInterface("virtual loss rule")


class NoVirtualLoss(NamedTuple):
    """One leaf per step: a tree stops as soon as it has a waiting leaf."""


class VirtualLoss(NamedTuple):
    """Virtual loss [Chaslot2008, Section 4.4; Segal2010].

    While a leaf is waiting for its evaluation, its simulation counts as a loss at every node on the
    path, for the player who moved to that node, so the next simulations prefer other paths. The
    backup replaces the loss with the value of the leaf. Once no leaf is waiting, visits and means
    contain only real results. A simulation that ends at a waiting leaf is abandoned, and the tree
    selects no more leaves in this step.

    max_waiting_leaves: maximum number of waiting leaves per tree.
    """

    max_waiting_leaves: int


@VIRTUAL_LOSSES.declare
def max_waiting_leaves(virtual_loss: Any) -> int:
    """Return the maximum number of waiting leaves per tree."""
    raise AssertionError


@VIRTUAL_LOSSES.declare
def unstarted_simulations(virtual_loss: Any, search_state: Any, b: int) -> int:
    """Return the number of simulations that a tree has not begun yet."""
    raise AssertionError


@VIRTUAL_LOSSES.declare
def is_waiting(virtual_loss: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a leaf is already waiting for an evaluation."""
    raise AssertionError


@VIRTUAL_LOSSES.declare
def mark_waiting(virtual_loss: Any, tree: Any, search_state: Any, b: int, leaf: int) -> bool:
    """Mark a leaf as waiting; return whether its tree can begin another simulation."""
    raise AssertionError


@VIRTUAL_LOSSES.declare
def record_backup(
    virtual_loss: Any, tree: Any, b: int, node: int, backup_value: Any, was_waiting: bool
) -> None:
    """Add a backup value to a node, and count a visit unless the leaf was waiting."""
    raise AssertionError


@inlined
def _add_visit(tree, b, node, backup_value):
    visits = tree.visits[b, node] + 1
    tree.visits[b, node] = visits
    add_to_mean(tree.utility, tree, b, node, backup_value, visits)


@inlined
def _virtual_value(tree, node):
    """Return the temporary value at a node: a win for the side to move, or 0 at the root.

    No player moved to the root, so no player loses there.
    """
    return to_backup_value(tree.utility, 1.0 if node > 0 else 0.0, 0.0)


class _NoVirtualLossRule:
    @staticmethod
    def max_waiting_leaves(virtual_loss):
        return 1

    @staticmethod
    def unstarted_simulations(virtual_loss, search_state, b):
        return search_state.remaining[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        return False

    @staticmethod
    def mark_waiting(virtual_loss, tree, search_state, b, leaf):
        search_state.waiting_count[b] = 1
        return False

    @staticmethod
    def record_backup(virtual_loss, tree, b, node, backup_value, was_waiting):
        _add_visit(tree, b, node, backup_value)


class _VirtualLossRule:
    @staticmethod
    def max_waiting_leaves(virtual_loss):
        return virtual_loss.max_waiting_leaves

    @staticmethod
    def unstarted_simulations(virtual_loss, search_state, b):
        return search_state.remaining[b] - search_state.waiting_count[b]

    @staticmethod
    def is_waiting(virtual_loss, tree, b, node):
        # Simulations expand the ongoing leaves that they visit, unless the leaf is waiting.
        is_leaf = tree.first_child[b, node] == 0 and tree.outcome[b, node] == ONGOING
        return is_leaf and tree.visits[b, node] > 0 and is_unproven(tree.solver, tree, b, node)

    @staticmethod
    def mark_waiting(virtual_loss, tree, search_state, b, leaf):
        node = leaf
        while node >= 0:
            _add_visit(tree, b, node, _virtual_value(tree, node))
            node = tree.parent[b, node]
        search_state.waiting_count[b] += 1
        return search_state.waiting_count[b] < min(
            virtual_loss.max_waiting_leaves, search_state.remaining[b]
        )

    @staticmethod
    def record_backup(virtual_loss, tree, b, node, backup_value, was_waiting):
        if not was_waiting:
            _add_visit(tree, b, node, backup_value)
        elif is_unproven(tree.solver, tree, b, node):
            visits = tree.visits[b, node]
            replace_in_mean(
                tree.utility, tree, b, node, _virtual_value(tree, node), backup_value, visits
            )


VIRTUAL_LOSSES.implement(NoVirtualLoss, _NoVirtualLossRule)
VIRTUAL_LOSSES.implement(VirtualLoss, _VirtualLossRule)
