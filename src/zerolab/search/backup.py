"""How a leaf is expanded, and what it says backed up. All of it is inlined into kernels."""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.memory import non_negative
from zerolab.rules import boards
from zerolab.rules import interface as rules
from zerolab.search.interface import leaf_value, update
from zerolab.search.proofs import forget, is_open, propagate
from zerolab.search.tree import UNSEEN
from zerolab.search.utility import seen_from_parent, signal_of
from zerolab.search.waves import arrive

_GATHER = np.uint64(0x0102040810204080)
"""Multiplied by it, the lowest bits of eight bytes meet in the highest byte."""


@inlined
def _bits(words, start):
    """Return 64 bytes from byte `start` of uint64[n] on, each 0 or 1, as bits."""
    bits = np.uint64(0)
    first = start // 8
    for i in range(min(8, words.shape[0] - first)):
        gathered = (words[first + i] * _GATHER) >> np.uint64(56)
        bits |= gathered << np.uint64(8 * i)
    return bits


@inlined
def _expand(tree, b, node, priors, workspace):
    """Give a node the children in `workspace.mask`, their priors renormalised, or equal if zero."""
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
        forget(tree.proofs, tree, b, child)
        for k in range(tree.statistics.shape[2]):
            tree.statistics[b, child, k] = np.float32(0.0)
    tree.first_child[b, node] = first
    tree.children[b, node] = count
    tree.used[b] = first + count


@inlined
def backup(methods, tree, search, b, leaf, signal, moves, waited):
    """Add one signal to the means on the path to the root, as each node's mover sees it.

    Returns 1 for a simulation, 0 for the evaluation of a bare root, which is none.
    """
    node = leaf
    child = -1
    arriving = signal
    while node >= 0:
        arriving = propagate(tree.proofs, tree, search.counts, b, node, child, arriving)
        arrive(methods.wave, tree, b, node, arriving, waited)
        arriving = seen_from_parent(tree.utility, arriving)
        child = node
        node = tree.parent[b, node]
    update(methods.selection, tree, b, leaf, signal, moves)
    if leaf == 0:
        return 0
    search.remaining[b] = search.remaining[b] - 1 if is_open(tree.proofs, tree, b, 0) else 0
    return 1


@inlined
def expand_and_backup_leaf(
    game, methods, leaf_evaluator, tree, search, b, node, evaluation, workspace, waited
):
    """Expand an evaluated node and back up the value that the leaf evaluator gives it.

    A bare root keeps the evaluator's: N simulations of plain MCTS count N playouts. The leaf
    evaluator is asked even there, and its answer dropped: a branch around it makes every simulation
    of all trees up to two thirds slower (docs/decisions/0010). Returns what `backup` does.
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
    signal = signal_of(tree.utility, value, draw)
    return backup(methods, tree, search, b, node, signal, moves, waited)
