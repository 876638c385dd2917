"""The compiled search over B trees: select leaves, expand and back them up, move the roots.

One step: `select_leaves` descends in every active tree until it meets a position that needs the
evaluator, the evaluator answers the whole batch, `expand_and_backup` takes it. Simulations that
end in a finished game or a known position are backed up at once, so that a batch holds nothing
else than positions to evaluate. Trees never influence each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import ONGOING
from zerolab.search.cache import NOWHERE, find, reserve
from zerolab.search.interface import leaf_value, prepare, score, update
from zerolab.search.tree import UNSEEN

NO_LEAF = -1


class SearchState(NamedTuple):
    """What the search keeps for each tree between kernels, and the batch of the current step."""

    active: NDArray[np.bool_]  # [B] searching
    remaining: NDArray[np.int32]  # [B] simulations still to run
    leaf: NDArray[np.int32]  # [B] the node waiting for its evaluation, or NO_LEAF
    row: NDArray[np.int32]  # [B] that evaluation's row in the batch
    playout_key: NDArray[np.uint64]  # [B] random stream of leaf evaluators
    noise_key: NDArray[np.uint64]  # [B] random stream of root noise
    noise_due: NDArray[np.bool_]  # [B] whether the root's priors still lack their noise
    states: NDArray[np.uint64]  # [B, words] the positions to evaluate
    slot: NDArray[np.int64]  # [B] where in the cache the answer to a row goes, or NOWHERE
    counts: NDArray[np.int64]  # [5] see COUNTS


COUNTS = ("simulations", "evaluated", "deduplicated", "cached", "terminal")
_SIMULATIONS, _EVALUATED, _DEDUPLICATED, _CACHED, _TERMINAL = range(5)


@inlined
def _best_child(selection, fpu, tree, b, node):
    shared = prepare(selection, fpu, tree, b, node)
    first = tree.first_child[b, node]
    best = first
    highest = score(selection, tree, b, first, shared)
    for child in range(first + 1, first + tree.children[b, node]):
        rating = score(selection, tree, b, child, shared)
        if rating > highest:
            highest = rating
            best = child
    return best


@inlined
def _descend(game, selection, fpu, tree, b):
    """Follow the best children to a node that is not expanded, and make its state known."""
    node = 0
    while tree.first_child[b, node] != 0:
        node = _best_child(selection, fpu, tree, b, node)
    if tree.outcome[b, node] == UNSEEN:
        parent = tree.states[b, tree.parent[b, node]]
        state = tree.states[b, node]
        rules.apply(game, parent, tree.action[b, node], state)
        tree.outcome[b, node] = rules.outcome(game, state)
    return node


@inlined
def _expand(game, tree, b, node, priors, mask):
    """Give a node its legal children, their priors renormalised, or equal if all are zero."""
    rules.legal(game, tree.states[b, node], mask)
    first = tree.used[b]
    count = 0
    total = np.float32(0.0)
    for action in range(mask.shape[0]):
        if mask[action]:
            child = first + count
            tree.action[b, child] = action
            tree.prior[b, child] = priors[action]
            total += priors[action]
            count += 1
    usable = total > np.float32(0.0) and np.isfinite(total)
    for child in range(first, first + count):
        prior = tree.prior[b, child] / total if usable else np.float32(1.0 / count)
        tree.prior[b, child] = prior
        tree.parent[b, child] = node
        tree.first_child[b, child] = 0
        tree.outcome[b, child] = UNSEEN
        tree.visits[b, child] = 0
        tree.value[b, child] = np.float32(0.0)
        for k in range(tree.statistics.shape[2]):
            tree.statistics[b, child, k] = np.float32(0.0)
    tree.first_child[b, node] = first
    tree.children[b, node] = count
    tree.used[b] = first + count


@inlined
def _backup(selection, tree, b, leaf, value, moves):
    """Add one value to the means on the path to the root, its sign alternating (negamax)."""
    node = leaf
    signed = value
    while node >= 0:
        visits = tree.visits[b, node] + 1
        tree.visits[b, node] = visits
        tree.value[b, node] += (signed - tree.value[b, node]) / np.float32(visits)
        signed = -signed
        node = tree.parent[b, node]
    update(selection, tree, b, leaf, value, moves)


@inlined
def _finish(selection, tree, search, b, node, value, moves):
    """Back up a simulation and return 1, or 0 for the evaluation of a bare root, which is none."""
    _backup(selection, tree, b, node, value, moves)
    if node == 0:
        return 0
    search.remaining[b] -= 1
    return 1


@inlined
def _expand_and_backup_leaf(
    game, selection, leaf, tree, search, b, node, priors, estimate, workspace
):
    """Expand an evaluated node and back up the value that the leaf evaluator gives it.

    A bare root keeps the evaluator's: N simulations of plain MCTS count N playouts. The leaf evaluator
    is asked even there, and its answer dropped: a branch around it makes every simulation of all
    trees up to two thirds slower (decision 0010). Returns what `_finish` does.
    """
    mask, scratch, moves = workspace
    _expand(game, tree, b, node, priors, mask)
    moves[0] = 0
    key = streams.fold(search.playout_key[b], search.remaining[b])
    value = leaf_value(leaf, game, tree.states[b, node], estimate, key, scratch, moves)
    if node == 0:
        moves[0] = 0
        value = estimate
    return _finish(selection, tree, search, b, node, np.float32(value), moves)


@inlined
def _add_root_noise(tree, b, key, fraction, concentration):
    """Mix Dirichlet noise into the priors of the root's children (AlphaZero, Methods)."""
    first = tree.first_child[b, 0]
    count = tree.children[b, 0]
    alpha = concentration / count
    total = 0.0
    noise = np.empty(count, np.float64)
    for i in range(count):
        noise[i] = streams.gamma(streams.fold(key, i), alpha)
        total += noise[i]
    if total <= 0.0:
        return
    for i in range(count):
        mixed = (1.0 - fraction) * tree.prior[b, first + i] + fraction * noise[i] / total
        tree.prior[b, first + i] = np.float32(mixed)


@inlined
def _workspace(game):
    mask = np.zeros(rules.actions(game), np.bool_)
    return mask, np.zeros(rules.words(game), np.uint64), np.zeros(1 + rules.MOST_PLIES, np.int32)


@kernel
def select_leaves(
    game, selection, fpu, leaf, tree, cache, search, step, deduplicate, reuse, uniform, noise
):
    """Run simulations until every active tree waits for an evaluation or has none left to run.

    `step` is this step's, counted from 1; `deduplicate` and `reuse` switch the two uses of the cache;
    `uniform` says that evaluations are uniform and need no batch; `noise` is (fraction,
    concentration). Returns the length of the batch and whether some tree ran out of nodes.
    """
    workspace = _workspace(game)
    actions = workspace[0].shape[0]
    uniform_priors = np.ones(actions, np.float32)
    fraction, concentration = noise
    earliest = 1 if reuse else step
    rows = 0
    short = False
    for b in range(search.active.shape[0]):
        if not search.active[b]:
            continue
        while search.remaining[b] > 0:
            if tree.used[b] + actions > tree.parent.shape[1]:
                short = True
                break
            if search.noise_due[b] and tree.first_child[b, 0] != 0:
                _add_root_noise(tree, b, search.noise_key[b], fraction, concentration)
                search.noise_due[b] = False
            node = _descend(game, selection, fpu, tree, b)
            if tree.outcome[b, node] != ONGOING:
                workspace[2][0] = 0
                search.counts[_TERMINAL] += 1
                value = np.float32(tree.outcome[b, node])
                search.counts[_SIMULATIONS] += _finish(
                    selection, tree, search, b, node, value, workspace[2]
                )
                continue
            slot = NOWHERE
            if deduplicate or reuse:
                slot = find(cache, tree.states[b, node], earliest)
            if uniform or (slot != NOWHERE and cache.step[slot] < step):
                search.counts[_CACHED] += not uniform
                priors = uniform_priors if uniform else cache.priors[slot]
                estimate = np.float32(0.0) if uniform else cache.values[slot]
                search.counts[_SIMULATIONS] += _expand_and_backup_leaf(
                    game, selection, leaf, tree, search, b, node, priors, estimate, workspace
                )
                continue
            search.leaf[b] = node
            if slot != NOWHERE and deduplicate:
                search.counts[_DEDUPLICATED] += 1
                search.row[b] = cache.row[slot]
                break
            state = tree.states[b, node]
            known = slot != NOWHERE or not (deduplicate or reuse)
            search.slot[rows] = NOWHERE if known else reserve(cache, state, step, rows)
            search.states[rows] = state
            search.row[b] = rows
            rows += 1
            break
    search.counts[_EVALUATED] += rows
    return rows, short


@kernel
def store(cache, search, rows, priors, values):
    """Keep the evaluations of a batch in the cache."""
    for row in range(rows):
        slot = search.slot[row]
        if slot != NOWHERE:
            cache.priors[slot] = priors[row]
            cache.values[slot] = values[row]


@kernel
def expand_and_backup(game, selection, leaf, tree, search, priors, values, begin, end):
    """Give the waiting leaves of trees `begin` to `end` - 1 their evaluations.

    Returns how many simulations that ends. Different trees may be expanded at the same time.
    """
    workspace = _workspace(game)
    simulations = 0
    for b in range(begin, end):
        node = search.leaf[b]
        if node == NO_LEAF:
            continue
        search.leaf[b] = NO_LEAF
        row = search.row[b]
        simulations += _expand_and_backup_leaf(
            game, selection, leaf, tree, search, b, node, priors[row], values[row], workspace
        )
    return simulations


@kernel
def set_root(game, tree, slots, states):
    """Make the state i the bare root of tree `slots[i]`."""
    for i in range(slots.shape[0]):
        b = slots[i]
        tree.states[b, 0] = states[i]
        tree.outcome[b, 0] = rules.outcome(game, states[i])
        tree.parent[b, 0] = -1
        tree.first_child[b, 0] = 0
        tree.children[b, 0] = 0
        tree.visits[b, 0] = 0
        tree.value[b, 0] = np.float32(0.0)
        tree.statistics[b, 0] = np.float32(0.0)
        tree.used[b] = 1


@inlined
def _keep_subtree(tree, b, root, moved):
    """Move the subtree of a node to the front of its tree's arrays.

    Children come after their parents, so one pass in ascending order moves every node to its
    final place, never over one that is still to be moved; siblings stay contiguous.
    """
    used = tree.used[b]
    moved[:used] = -1
    moved[root] = 0
    kept = 1
    for node in range(root + 1, used):
        parent = tree.parent[b, node]
        if parent >= 0 and moved[parent] >= 0:
            moved[node] = kept
            kept += 1
    for node in range(root, used):
        target = moved[node]
        if target < 0:
            continue
        tree.parent[b, target] = -1 if node == root else moved[tree.parent[b, node]]
        first = tree.first_child[b, node]
        tree.first_child[b, target] = moved[first] if first != 0 else 0
        tree.children[b, target] = tree.children[b, node]
        tree.action[b, target] = tree.action[b, node]
        tree.outcome[b, target] = tree.outcome[b, node]
        tree.visits[b, target] = tree.visits[b, node]
        tree.value[b, target] = tree.value[b, node]
        tree.prior[b, target] = tree.prior[b, node]
        tree.statistics[b, target] = tree.statistics[b, node]
        tree.states[b, target] = tree.states[b, node]
    tree.used[b] = kept


@kernel
def advance(game, tree, slots, played, reuse_tree):
    """Make the child that action `played[i]` leads to the root of tree `slots[i]`.

    Its subtree is kept if it has been searched and `reuse_tree` says so.
    """
    moved = np.empty(tree.parent.shape[1], np.int32)
    state = np.empty(rules.words(game), np.uint64)
    for i in range(slots.shape[0]):
        b = slots[i]
        root = -1
        first = tree.first_child[b, 0]
        if reuse_tree and first != 0:
            for child in range(first, first + tree.children[b, 0]):
                if tree.action[b, child] == played[i] and tree.first_child[b, child] != 0:
                    root = child
        if root > 0:
            _keep_subtree(tree, b, root, moved)
        else:
            rules.apply(game, tree.states[b, 0], played[i], state)
            one = np.full(1, b, np.int64)
            set_root(game, tree, one, state.reshape(1, -1))


@kernel
def root_children(tree, slots, visits, values):
    """Write the visit counts and mean values of root actions, [n, actions] int32 and float32.

    Values are those of the player who chooses; actions without visits have value 0.
    """
    visits[:] = 0
    values[:] = np.float32(0.0)
    for i in range(slots.shape[0]):
        b = slots[i]
        first = tree.first_child[b, 0]
        for child in range(first, first + tree.children[b, 0]):
            visits[i, tree.action[b, child]] = tree.visits[b, child]
            values[i, tree.action[b, child]] = -tree.value[b, child]


@kernel
def choose(visits, keys, sample, chosen):
    """Choose root actions from visit counts int32[n, actions] into int64[n].

    In proportion to the visits where `sample[i]`, else the most visited, ties broken at random.
    """
    for i in range(visits.shape[0]):
        total = 0
        most = 0
        for action in range(visits.shape[1]):
            total += visits[i, action]
            most = max(most, visits[i, action])
        if not sample[i]:
            total = 0
            for action in range(visits.shape[1]):
                total += visits[i, action] == most
        drawn = streams.below(streams.bits(keys[i], 0), total)
        for action in range(visits.shape[1]):
            if sample[i]:
                drawn -= visits[i, action]
            elif visits[i, action] == most:
                drawn -= 1
            if drawn < 0:
                chosen[i] = action
                break
