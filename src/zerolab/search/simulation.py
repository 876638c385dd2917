"""Parts of a simulation: descent to a leaf, expansion and backup.

All functions are inlined into kernels. The trees of a group descend in turn, one level at a time.
"""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.memory import non_negative, prefetch
from zerolab.rules import boards, rules
from zerolab.search.evaluator import hash_state, prefetch_entry, prefetch_tags
from zerolab.search.mcts_solver import clear_proof, is_open, propagate_proof, score_unless_lost
from zerolab.search.methods import (
    first_node,
    leaf_value,
    prepare,
    prepare_root,
    score,
    takes_tie,
    update,
)
from zerolab.search.tree import UNSEEN, has_room, prefetch_nodes
from zerolab.search.values import backup_value_of, seen_from_parent
from zerolab.search.virtual_loss import count_visit, simulations_to_begin

EXPECTED_CHILDREN = 8
"""Guess of the number of children of a new node, for prefetching."""

_TIES = 1 << 40
"""Part of a playout stream that breaks ties; simulations use smaller numbers."""


@inlined
def _best_child(methods, tree, b, node, tie_key):
    """Return the child with the highest score; `tie_key` is a random stream of the simulation."""
    shared = prepare(methods.selection, methods.fpu, tree, b, node)
    first = tree.first_child[b, node]
    best = first
    highest = score_unless_lost(
        tree.solver, tree, b, first, score(methods.selection, tree, b, first, shared)
    )
    ties = 1
    for child in range(first + 1, first + tree.children[b, node]):
        child_score = score_unless_lost(
            tree.solver, tree, b, child, score(methods.selection, tree, b, child, shared)
        )
        if child_score > highest:
            highest = child_score
            best = child
            ties = 1
        elif child_score == highest:
            ties += 1
            if takes_tie(methods.tie_break, tie_key, node, child, ties):
                best = child
    return best


@inlined
def _materialise(game, tree, b, node):
    """Compute the state and the outcome of a node on its first visit."""
    parent = tree.states[b, tree.parent[b, node]]
    state = tree.states[b, node]
    rules.apply(game, parent, tree.action[b, node], state)
    tree.outcome[b, node] = rules.outcome(game, state)


@inlined
def _prepare_root_once(methods, tree, search, step, b):
    if search.root_unprepared[b] and tree.first_child[b, 0] != 0:
        prepare_root(methods.root, tree, search, step, b)
        search.root_unprepared[b] = False


@inlined
def _tie_key(methods, search, b):
    """Return the random stream that breaks ties in the next simulation."""
    key = streams.fold(search.playout_key[b], _TIES)
    return streams.fold(key, simulations_to_begin(methods.virtual_loss, search, b))


@inlined
def gather(tree, search, begin, end, workspace):
    """Collect the trees from `begin` to `end` - 1 with simulations to run.

    Returns their number and whether a tree ran out of nodes.
    """
    actions = workspace.mask.shape[0]
    nodes = 1 + min(actions, EXPECTED_CHILDREN)
    count = 0
    full = False
    for b in range(begin, end):
        if search.active[b] and search.remaining[b] > 0:
            if has_room(tree, b, actions):
                prefetch_nodes(tree, b, 0, nodes)
                workspace.trees[count] = b
                count += 1
            else:
                full = True
    return count, full


@inlined
def descend(methods, tree, search, workspace, step, begin, end):
    """Follow the best children to unexpanded nodes in trees `begin` to `end` - 1 of a group.

    The trees take turns to descend by one level while the next nodes are prefetched.
    """
    live = 0
    for i in range(begin, end):
        b = workspace.trees[i]
        _prepare_root_once(methods, tree, search, step, b)
        node = first_node(methods.root, methods, tree, search, b)
        workspace.leaves[i] = node
        if tree.first_child[b, node] != 0 and is_open(tree.solver, tree, b, node):
            workspace.live[live] = i
            live += 1
    while live > 0:
        still = 0
        for at in range(live):
            i = workspace.live[at]
            b = workspace.trees[i]
            key = _tie_key(methods, search, b)
            node = _best_child(methods, tree, b, workspace.leaves[i], key)
            workspace.leaves[i] = node
            first = tree.first_child[b, node]
            if first != 0 and is_open(tree.solver, tree, b, node):
                prefetch_nodes(tree, b, first, tree.children[b, node])
                workspace.live[still] = i
                still += 1
            else:
                prefetch(tree.states, (b, node), 0)
                prefetch(tree.states, (b, tree.parent[b, node]), 0)
        live = still


@inlined
def materialise_leaves(game, tree, cache, workspace, step, begin, end):
    """Compute the states of new leaves in trees `begin` to `end` - 1 of a group.

    If states are hashed, their cache entries are prefetched.
    """
    for i in range(begin, end):
        b = workspace.trees[i]
        node = workspace.leaves[i]
        if tree.outcome[b, node] == UNSEEN:
            _materialise(game, tree, b, node)
        if step.deduplicate or step.cached:
            key = hash_state(tree.states[b, node])
            workspace.hashes[i] = key
            prefetch_tags(cache, key)
    if step.deduplicate or step.cached:
        for i in range(begin, end):
            prefetch_entry(cache, workspace.hashes[i])


_GATHER = np.uint64(0x0102040810204080)
"""Multiplier that gathers the lowest bits of eight bytes in the highest byte."""


@inlined
def _bits(words, start):
    """Pack 64 bytes of uint64[n] from byte `start`, each 0 or 1, into 64 bits."""
    bits = np.uint64(0)
    first = start // 8
    for i in range(min(8, words.shape[0] - first)):
        gathered = (words[first + i] * _GATHER) >> np.uint64(56)
        bits |= gathered << np.uint64(8 * i)
    return bits


@inlined
def _expand(tree, b, node, priors, workspace):
    """Add a child to a node for every legal action in `workspace.mask`.

    Priors are renormalised, or equal if their sum is zero or not finite.
    """
    first = non_negative(tree.used[b])
    count = non_negative(0)
    total = np.float32(0.0)
    if workspace.words.shape[0] == 1:
        for action in range(workspace.mask.shape[0]):
            if workspace.mask[action]:
                tree.action[b, first + count] = action
                tree.prior[b, first + count] = priors[action]
                total += priors[action]
                count += 1
    else:
        for start in range(0, workspace.mask.shape[0], 64):
            legal = _bits(workspace.words, start)
            while legal:
                action = start + boards.lowest_bit(legal)
                legal &= legal - boards.ONE
                tree.action[b, first + count] = action
                tree.prior[b, first + count] = priors[action]
                total += priors[action]
                count += 1
    usable = total > np.float32(0.0) and np.isfinite(total)
    for each in range(first, first + count):
        child = non_negative(each)
        prior = tree.prior[b, child] / total if usable else np.float32(1.0 / count)
        tree.prior[b, child] = prior
        tree.parent[b, child] = node
        tree.first_child[b, child] = 0
        tree.outcome[b, child] = UNSEEN
        tree.visits[b, child] = 0
        tree.value[b, child] = np.float32(0.0)
        clear_proof(tree.solver, tree, b, child)
        for k in range(tree.statistics.shape[2]):
            tree.statistics[b, child, k] = np.float32(0.0)
    tree.first_child[b, node] = first
    tree.children[b, node] = count
    tree.used[b] = first + count


@inlined
def backup(methods, tree, search, b, leaf, backup_value, moves, waited):
    """Add a backup value to the mean of every node on the path to the root.

    At each node the value is from the view of the side to move. Returns the number of simulations:
    1, or 0 for the evaluation of a bare root, which is not a simulation.
    """
    node = leaf
    child = -1
    arriving = backup_value
    while node >= 0:
        arriving = propagate_proof(tree.solver, tree, search.counts, b, node, child, arriving)
        count_visit(methods.virtual_loss, tree, b, node, arriving, waited)
        arriving = seen_from_parent(tree.utility, arriving)
        child = node
        node = tree.parent[b, node]
    update(methods.selection, tree, b, leaf, backup_value, moves)
    if leaf == 0:
        return 0
    search.remaining[b] = search.remaining[b] - 1 if is_open(tree.solver, tree, b, 0) else 0
    return 1


@inlined
def expand_and_backup_leaf(
    game, methods, leaf_evaluator, tree, search, b, node, evaluation, workspace, waited
):
    """Expand an evaluated node, back up the leaf evaluator's value, and return `backup`'s result.

    A bare root uses the value of the evaluator, so that N simulations of plain MCTS use N playouts.
    The leaf evaluator is called at bare roots as well, but its result is ignored: a branch around
    the call makes all simulations up to two thirds slower (docs/decisions/0010).
    """
    priors, estimate, draw = evaluation
    moves = workspace.moves
    state = tree.states[b, node]
    rules.legal(game, state, workspace.mask)
    _expand(tree, b, node, priors, workspace)
    moves[0] = 0
    key = streams.fold(search.playout_key[b], search.remaining[b])
    value = leaf_value(leaf_evaluator, game, state, estimate, key, workspace.state, moves)
    if node == 0:
        moves[0] = 0
        value = estimate
    backup_value = backup_value_of(tree.utility, value, draw)
    return backup(methods, tree, search, b, node, backup_value, moves, waited)
