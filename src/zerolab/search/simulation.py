"""Parts of a simulation: descent to a leaf, expansion and backup.

All functions are inlined into kernels. The trees of a group take turns descending one level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.memory import assume_non_negative, prefetch
from zerolab.rules import boards, rules
from zerolab.search.evaluator import hash_state, prefetch_entry, prefetch_tags
from zerolab.search.methods import (
    descent_start,
    leaf_value,
    prepare_root,
    selection_score,
    shared_score_terms,
    update_statistics,
)
from zerolab.search.simulation_options import (
    clear_proof,
    is_unproven,
    propagate_proof,
    record_backup,
    score_unless_losing,
    unstarted_simulations,
)
from zerolab.search.tree import UNSEEN_OUTCOME, has_room, prefetch_nodes
from zerolab.search.values import seen_from_parent, to_backup_value

EXPECTED_CHILDREN = 8
"""Assumed number of children of a new node, for prefetching."""

_TIES = 1 << 40
"""Constant folded into a playout stream to derive the stream that breaks ties.

Simulations fold in smaller numbers.
"""


@inlined
def takes_tie(methods, search_state, b, node, child, ties):
    """Return whether the `ties`-th child with the highest score replaces the best child so far.

    With random ties, the k-th child replaces it with probability 1/k, as in reservoir sampling.
    """
    if not methods.breaks_ties_randomly:
        return False
    key = streams.fold_in(search_state.playout_key[b], _TIES)
    key = streams.fold_in(key, unstarted_simulations(methods.virtual_loss, search_state, b))
    random = streams.random_bits(streams.fold_in(key, node), child)
    return streams.random_below(random, ties) == 0


@inlined
def _best_child(methods, tree, search_state, b, node):
    """Return the child with the highest score."""
    shared = shared_score_terms(methods.selection, methods.fpu, tree, b, node)
    first: Any = np.int64(tree.first_child[b, node])  # the same type as other children
    best = first
    highest = score_unless_losing(
        tree.solver, tree, b, first, selection_score(methods.selection, tree, b, first, shared)
    )
    ties = 1
    for child in range(first + 1, first + tree.child_count[b, node]):
        child_score = score_unless_losing(
            tree.solver, tree, b, child, selection_score(methods.selection, tree, b, child, shared)
        )
        if child_score > highest:
            highest = child_score
            best = child
            ties = 1
        elif child_score == highest:
            ties += 1
            if takes_tie(methods, search_state, b, node, child, ties):
                best = child
    return best


@inlined
def _compute_state(game, tree, b, node):
    """Compute the state and the outcome of a node on its first visit."""
    parent = tree.states[b, tree.parent[b, node]]
    state = tree.states[b, node]
    rules.apply(game, parent, tree.action[b, node], state)
    tree.outcome[b, node] = rules.outcome(game, state)


@inlined
def _prepare_root_once(methods, tree, search_state, options, b):
    if search_state.is_root_unprepared[b] and tree.first_child[b, 0] != 0:
        prepare_root(methods.root_rule, tree, search_state, options, b)
        search_state.is_root_unprepared[b] = False


@inlined
def gather_trees(tree, search_state, begin, end, workspace):
    """Collect the trees from `begin` to `end` - 1 that have simulations to run.

    Trees without room for all leaves of a step are left out. Memory grows with the fullest tree, so
    if a lack of room cut steps short, the result for a tree would depend on other trees. Returns
    the number of collected trees and whether a tree ran out of nodes.
    """
    actions = workspace.legal_mask.shape[0]
    leaves = search_state.waiting_leaves.shape[1]
    nodes = 1 + min(actions, EXPECTED_CHILDREN)
    count = 0
    is_full = False
    for b in range(begin, end):
        if search_state.is_active[b] and search_state.remaining_simulations[b] > 0:
            if has_room(tree, b, actions * min(leaves, search_state.remaining_simulations[b])):
                prefetch_nodes(tree, b, 0, nodes)
                workspace.trees[count] = b
                count += 1
            else:
                is_full = True
    return count, is_full


@inlined
def descend(methods, tree, search_state, workspace, options, begin, end):
    """Descend along the best children to unexpanded or proven nodes in trees `begin` to `end` - 1.

    While other trees take their turns, the next nodes of a tree are prefetched.
    """
    unfinished_count = 0
    for i in range(begin, end):
        b = workspace.trees[i]
        _prepare_root_once(methods, tree, search_state, options, b)
        node = descent_start(methods.root_rule, methods, tree, search_state, b)
        workspace.nodes[i] = node
        if tree.first_child[b, node] != 0 and is_unproven(tree.solver, tree, b, node):
            workspace.unfinished[unfinished_count] = i
            unfinished_count += 1
    while unfinished_count > 0:
        kept_count = 0
        for at in range(unfinished_count):
            i = workspace.unfinished[at]
            b = workspace.trees[i]
            node = _best_child(methods, tree, search_state, b, workspace.nodes[i])
            workspace.nodes[i] = node
            first = tree.first_child[b, node]
            if first != 0 and is_unproven(tree.solver, tree, b, node):
                prefetch_nodes(tree, b, np.int64(first), np.int64(tree.child_count[b, node]))
                workspace.unfinished[kept_count] = i
                kept_count += 1
            else:
                prefetch(tree.states, (b, node), 0)
                prefetch(tree.states, (b, np.int64(tree.parent[b, node])), 0)
        unfinished_count = kept_count


@inlined
def compute_leaf_states(game, tree, cache, workspace, options, begin, end):
    """Compute the states of new leaves in trees `begin` to `end` - 1 of a group.

    With deduplication or a cache, hash the states and prefetch their cache entries.
    """
    for i in range(begin, end):
        b = workspace.trees[i]
        node = workspace.nodes[i]
        if tree.outcome[b, node] == UNSEEN_OUTCOME:
            _compute_state(game, tree, b, node)
        if options.deduplicate or options.use_cache:
            key = hash_state(tree.states[b, node])
            workspace.hashes[i] = key
            prefetch_tags(cache, key)
    if options.deduplicate or options.use_cache:
        for i in range(begin, end):
            prefetch_entry(cache, workspace.hashes[i])


_GATHER = np.uint64(0x0102040810204080)
"""Multiplier that collects the lowest bits of eight bytes in the highest byte."""


@inlined
def _pack_bits(words, start):
    """Pack the 64 bytes of uint64[n] that begin at byte `start`, each 0 or 1, into 64 bits."""
    bits = np.uint64(0)
    first = start // 8
    for i in range(min(8, words.shape[0] - first)):
        gathered = (words[first + i] * _GATHER) >> np.uint64(56)
        bits |= gathered << np.uint64(8 * i)
    return bits


@inlined
def _expand(tree, b, node, priors, workspace):
    """Add a child to a node for every legal action in `workspace.legal_mask`.

    Priors are renormalised, or set to equal values if their sum is zero or not finite.
    """
    first = assume_non_negative(tree.node_count[b])
    count = assume_non_negative(0)
    total = np.float32(0.0)
    if workspace.legal_words.shape[0] == 1:
        for action in range(workspace.legal_mask.shape[0]):
            if workspace.legal_mask[action]:
                tree.action[b, first + count] = action
                tree.prior[b, first + count] = priors[action]
                total += priors[action]
                count += 1
    else:
        for start in range(0, workspace.legal_mask.shape[0], 64):
            legal = _pack_bits(workspace.legal_words, start)
            while legal:
                action = start + boards.lowest_bit_index(legal)
                legal &= legal - boards.ONE
                tree.action[b, first + count] = action
                tree.prior[b, first + count] = priors[action]
                total += priors[action]
                count += 1
    usable = total > np.float32(0.0) and np.isfinite(total)
    for each in range(first, first + count):
        child = assume_non_negative(each)
        prior = tree.prior[b, child] / total if usable else np.float32(1.0 / count)
        tree.prior[b, child] = prior
        tree.parent[b, child] = node
        tree.first_child[b, child] = 0
        tree.outcome[b, child] = UNSEEN_OUTCOME
        tree.visits[b, child] = 0
        tree.value[b, child] = np.float32(0.0)
        clear_proof(tree.solver, tree, b, child)
        for k in range(tree.statistics.shape[2]):
            tree.statistics[b, child, k] = np.float32(0.0)
    tree.first_child[b, node] = first
    tree.child_count[b, node] = count
    tree.node_count[b] = first + count


@inlined
def backup(methods, tree, search_state, b, leaf, backup_value, playout_moves, was_waiting):
    """Add a backup value to the mean of every node on the path to the root.

    At each node, the value is converted to the point of view of the side to move. Returns the
    number of simulations: 1, or 0 for the evaluation of an unexpanded root, which is not a
    simulation.
    """
    node = leaf
    child = -1
    node_backup = backup_value
    while node >= 0:
        node_backup = propagate_proof(
            tree.solver, tree, search_state.work_counts, b, node, child, node_backup
        )
        record_backup(methods.virtual_loss, tree, b, node, node_backup, was_waiting)
        node_backup = seen_from_parent(tree.utility, node_backup)
        child = node
        node = tree.parent[b, node]
    update_statistics(methods.selection, tree, b, leaf, backup_value, playout_moves)
    if leaf == 0:
        return 0
    search_state.remaining_simulations[b] = (
        search_state.remaining_simulations[b] - 1 if is_unproven(tree.solver, tree, b, 0) else 0
    )
    return 1


@inlined
def expand_and_backup_leaf(
    game, methods, leaf_evaluator, tree, search_state, b, node, evaluation, workspace, was_waiting
):
    """Expand an evaluated node and back up its value; return the result of `backup`.

    The leaf evaluator provides the value. An unexpanded root keeps the value of the evaluator, so
    that N simulations of plain MCTS use N playouts. The leaf evaluator is called at unexpanded
    roots too, but its result is ignored: a branch around the call would make all simulations up to
    two thirds slower (docs/decisions/0010).
    """
    priors, evaluator_value, draw = evaluation
    playout_moves = workspace.playout_moves
    state = tree.states[b, node]
    rules.legal(game, state, workspace.legal_mask)
    _expand(tree, b, node, priors, workspace)
    playout_moves[0] = 0
    key = streams.fold_in(search_state.playout_key[b], search_state.remaining_simulations[b])
    value = leaf_value(
        leaf_evaluator, game, state, evaluator_value, key, workspace.playout_state, playout_moves
    )
    if node == 0:
        playout_moves[0] = 0
        value = evaluator_value
    backup_value = to_backup_value(tree.utility, value, draw)
    return backup(methods, tree, search_state, b, node, backup_value, playout_moves, was_waiting)
