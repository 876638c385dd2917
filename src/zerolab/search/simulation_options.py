"""Options of simulations: MCTS-Solver [Winands2008], which proves results, and virtual loss.

A node is proven when its game is over, when one of its actions is a proven win, or when all its
actions are proven. The simulation that completes a proof propagates it up the tree and backs up the
exact value from that node onwards.

With one leaf per step, each simulation uses the results of all earlier simulations, and the batch
size is at most the number of trees. A single large search needs several leaves per step to fill a
batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.search.values import replace_in_mean, set_exact_value, to_backup_value, update_mean

NODE_SOLVER_INTERFACE = CompiledInterface("node solver")

PROVEN_INDEX = 5
"""Index of the number of proven nodes in `SearchState.work_counts`; last in `WORK_COUNT_NAMES`."""

MOVE_WEIGHT_SCALE = 1 << 30
"""Factor for converting probabilities to integer weights."""


class NoSolver(NamedTuple):
    """Solver without proofs: only finished games have a known result."""


class MctsSolver(NamedTuple):
    """Solver that records proven results and their distance to the end of the game in plies.

    A proven win has the distance of the quickest win known when the node is proven; a faster win
    may exist. A proven loss or draw has the distance of the slowest action with this result.
    """


@NODE_SOLVER_INTERFACE.declare
def clear_proof(solver: Any, tree: Any, b: int, node: int) -> None:
    """Clear the proof of a new node."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def is_unproven(solver: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a node is unproven, so that further simulations below it are useful."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def is_decided(solver: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether the result of a leaf is known: the game is over, or the node is proven."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def decided_value(solver: Any, tree: Any, b: int, node: int) -> Any:
    """Return the backup value of a leaf with a known result."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def propagate_proof(
    solver: Any, tree: Any, counts: Any, b: int, node: int, child: int, backup_value: Any
) -> Any:
    """Return the backup value at a node, which becomes exact if the node is proven.

    A proof of the child may prove the node. At the leaf of a simulation, `child` is -1. `counts` is
    `SearchState.work_counts`.
    """
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def score_unless_losing(solver: Any, tree: Any, b: int, child: int, score: float) -> float:
    """Return a child's score, or minus infinity if the move to it is a proven loss."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def is_losing_move(solver: Any, tree: Any, b: int, child: int) -> bool:
    """Return whether the move to a child is a proven loss."""
    raise AssertionError


@NODE_SOLVER_INTERFACE.declare
def apply_proofs_to_weights(solver: Any, tree: Any, b: int, weights: Any) -> None:
    """Adjust the weights [actions] of root actions to proven results.

    At a proven win, only the quickest known wins have weight; at a proven loss, only the slowest
    known losses. Otherwise losing actions have weight 0. If no weight remains, the other actions
    are weighted by their priors.
    """
    raise AssertionError


class _NoSolverRule:
    @staticmethod
    def clear_proof(solver, tree, b, node):
        pass

    @staticmethod
    def is_unproven(solver, tree, b, node):
        return True

    @staticmethod
    def is_decided(solver, tree, b, node):
        return tree.outcome[b, node] != ONGOING

    @staticmethod
    def decided_value(solver, tree, b, node):
        result = tree.outcome[b, node]
        return to_backup_value(tree.utility, result, 1.0 if result == DRAW else 0.0)

    @staticmethod
    def propagate_proof(solver, tree, counts, b, node, child, backup_value):
        return backup_value

    @staticmethod
    def score_unless_losing(solver, tree, b, child, score):
        return score

    @staticmethod
    def is_losing_move(solver, tree, b, child):
        return False

    @staticmethod
    def apply_proofs_to_weights(solver, tree, b, weights):
        pass


@inlined
def _record_proof(tree, b, node, result, distance):
    tree.proven_result[b, node] = result
    tree.proven_distance[b, node] = distance


@inlined
def _set_exact_value(tree, b, node):
    """Set the mean of a proven node to its exact value and return that value."""
    return set_exact_value(
        tree.utility, tree, b, node, tree.proven_result[b, node], tree.proven_distance[b, node]
    )


@inlined
def _prove(tree, b, node):
    """Prove a node from its children if possible, with the quickest win or the slowest loss.

    Returns whether the node is now proven.
    """
    first = tree.first_child[b, node]
    best = LOSS
    length = -1
    complete = True
    for child in range(first, first + tree.child_count[b, node]):
        if tree.proven_result[b, child] == ONGOING:
            complete = False
            continue
        result = -tree.proven_result[b, child]
        plies = 1 + tree.proven_distance[b, child]
        if result > best or length < 0 or (result == best and (plies < length) == (best == WIN)):
            best = result
            length = plies
    if best == WIN or complete:
        _record_proof(tree, b, node, best, length)
        return True
    return False


@inlined
def _weigh_equal_proofs(weights, tree, b, result, distance):
    """Give weight 1 to root actions whose child has this result and distance, and 0 to others."""
    weights[:] = 0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.child_count[b, 0]):
        if tree.proven_result[b, child] == result and tree.proven_distance[b, child] == distance:
            weights[tree.action[b, child]] = 1


class _MctsSolverRule:
    @staticmethod
    def clear_proof(solver, tree, b, node):
        tree.proven_result[b, node] = ONGOING

    @staticmethod
    def is_unproven(solver, tree, b, node):
        return tree.proven_result[b, node] == ONGOING

    @staticmethod
    def is_decided(solver, tree, b, node):
        return tree.outcome[b, node] != ONGOING or tree.proven_result[b, node] != ONGOING

    @staticmethod
    def decided_value(solver, tree, b, node):
        if tree.proven_result[b, node] == ONGOING:
            _record_proof(tree, b, node, tree.outcome[b, node], 0)
        return _set_exact_value(tree, b, node)

    @staticmethod
    def propagate_proof(solver, tree, counts, b, node, child, backup_value):
        if tree.proven_result[b, node] == ONGOING:
            if child < 0 or tree.proven_result[b, child] == ONGOING:
                return backup_value
            if not _prove(tree, b, node):
                return backup_value
            counts[PROVEN_INDEX] += 1
        return _set_exact_value(tree, b, node)

    @staticmethod
    def score_unless_losing(solver, tree, b, child, score):
        return np.float32(-np.inf) if tree.proven_result[b, child] == WIN else score

    @staticmethod
    def is_losing_move(solver, tree, b, child):
        return tree.proven_result[b, child] == WIN

    @staticmethod
    def apply_proofs_to_weights(solver, tree, b, weights):
        result = tree.proven_result[b, 0]
        if result in (WIN, LOSS):
            _weigh_equal_proofs(weights, tree, b, -result, tree.proven_distance[b, 0] - 1)
            return
        first = tree.first_child[b, 0]
        last = first + tree.child_count[b, 0]
        total = 0.0
        for child in range(first, last):
            if tree.proven_result[b, child] == WIN:
                weights[tree.action[b, child]] = 0
            total += weights[tree.action[b, child]]
        if total > 0.0:
            return
        for child in range(first, last):
            if tree.proven_result[b, child] != WIN:
                weights[tree.action[b, child]] = 1 + tree.prior[b, child] * MOVE_WEIGHT_SCALE


NODE_SOLVER_INTERFACE.implement(NoSolver, _NoSolverRule)
NODE_SOLVER_INTERFACE.implement(MctsSolver, _MctsSolverRule)


VIRTUAL_LOSS_INTERFACE = CompiledInterface("virtual loss rule")


class NoVirtualLoss(NamedTuple):
    """One leaf per step: a tree stops as soon as it has a waiting leaf."""


class VirtualLoss(NamedTuple):
    """Virtual loss [Chaslot2008, Section 4.4; Segal2010].

    While a leaf is waiting for its evaluation, its simulation counts as a loss at every node on the
    path, for the player who moved to that node. The next simulations therefore prefer other paths.
    The backup replaces the loss with the value of the leaf. Once no leaf is waiting, visits and
    means contain only real results. A simulation that ends at a waiting leaf is abandoned, and the
    tree selects no more leaves in this step.

    max_waiting_leaves: maximum number of waiting leaves per tree.
    """

    max_waiting_leaves: int


@VIRTUAL_LOSS_INTERFACE.declare
def max_waiting_leaves(virtual_loss: Any) -> int:
    """Return the maximum number of waiting leaves per tree."""
    raise AssertionError


@VIRTUAL_LOSS_INTERFACE.declare
def unstarted_simulations(virtual_loss: Any, search_state: Any, b: int) -> int:
    """Return the number of simulations that a tree has not begun yet."""
    raise AssertionError


@VIRTUAL_LOSS_INTERFACE.declare
def cached_leaves_wait(virtual_loss: Any) -> bool:
    """Return whether leaves with cached evaluations wait until the end of the step like others.

    Otherwise the positions that other trees have evaluated would change which leaves are selected.
    """
    raise AssertionError


@VIRTUAL_LOSS_INTERFACE.declare
def is_waiting(virtual_loss: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a leaf is already waiting for an evaluation."""
    raise AssertionError


@VIRTUAL_LOSS_INTERFACE.declare
def mark_waiting(virtual_loss: Any, tree: Any, search_state: Any, b: int, leaf: int) -> bool:
    """Mark a leaf as waiting; return whether its tree can begin another simulation."""
    raise AssertionError


@VIRTUAL_LOSS_INTERFACE.declare
def record_backup(
    virtual_loss: Any, tree: Any, b: int, node: int, backup_value: Any, was_waiting: bool
) -> None:
    """Add a backup value to a node, and count a visit unless the leaf was waiting."""
    raise AssertionError


@inlined
def _add_visit(tree, b, node, backup_value):
    visits = tree.visits[b, node] + 1
    tree.visits[b, node] = visits
    update_mean(tree.utility, tree, b, node, backup_value, visits)


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
        return search_state.remaining_simulations[b]

    @staticmethod
    def cached_leaves_wait(virtual_loss):
        return False

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
        return search_state.remaining_simulations[b] - search_state.waiting_count[b]

    @staticmethod
    def cached_leaves_wait(virtual_loss):
        return True

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
            virtual_loss.max_waiting_leaves, search_state.remaining_simulations[b]
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


VIRTUAL_LOSS_INTERFACE.implement(NoVirtualLoss, _NoVirtualLossRule)
VIRTUAL_LOSS_INTERFACE.implement(VirtualLoss, _VirtualLossRule)
