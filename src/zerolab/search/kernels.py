"""The compiled search over B trees: select leaves, expand them, back their values up.

One step: `select_leaves` descends every active tree until it meets a position that needs the
evaluator, the evaluator answers the whole batch, `expand_and_backup` takes the answers.
Simulations that end in a finished game or a known position are backed up at once, so a batch holds
only positions to evaluate. Trees never influence each other.

Helpers are inlined, and branches around them are avoided where docs/decisions/0010 says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import borrowed, prefetch
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.cache import NO_SLOT, find, reserve
from zerolab.search.interface import (
    first_node,
    leaf_value,
    prepare,
    prepare_root,
    score,
    seed,
    takes_tie,
    update,
)
from zerolab.search.proofs import (
    PROVEN,
    decided,
    forget,
    is_decided,
    is_open,
    settle,
    unless_lost,
)
from zerolab.search.tree import UNSEEN, has_room, opened, prefetch_nodes
from zerolab.search.utility import add, draw_of, seen_from_parent, signal_of

NO_LEAF = -1

GROUP = 32
"""How many trees are searched together: while memory of one is on its way, others go on."""

_EXPECTED_CHILDREN = 8
"""Of a node that has not been seen; only guesses what to load."""

_TIES = 1 << 40
"""The part of a playout stream that breaks ties; simulations, which have the others, are fewer."""
_EXTENSION = 1 << 41
"""The part of a playout stream that a search goes on with when it is extended."""


class Methods(NamedTuple):
    """What the kernels are compiled for; each is a type registered in `search.interface`."""

    selection: Any
    fpu: Any
    tie_break: Any
    leaf_evaluator: Any
    root: Any


class StepOptions(NamedTuple):
    """How one step is run."""

    number: int
    """This step's, counted from 1."""
    deduplicate: bool
    """Request equal positions of the step once."""
    cached: bool
    """Use evaluations of earlier steps."""
    uniform: bool
    """Evaluations are uniform and need no batch."""
    noise_fraction: float
    noise_concentration: float


class SearchState(NamedTuple):
    """What the search keeps for each tree between kernels, and the batch of the current step."""

    active: NDArray[np.bool_]  # [B] searching
    remaining: NDArray[np.int32]  # [B] simulations still to run
    leaf: NDArray[np.int32]  # [B] the node waiting for its evaluation, or NO_LEAF
    row: NDArray[np.int32]  # [B] that evaluation's row in the batch
    playout_key: NDArray[np.uint64]  # [B] random stream of leaf evaluators and ties
    noise_key: NDArray[np.uint64]  # [B] random stream of root noise
    root_due: NDArray[np.bool_]  # [B] whether the root rule has yet to prepare the root
    noisy: NDArray[np.bool_]  # [B] whether this search has noise at its root
    budget: NDArray[np.int32]  # [B] simulations asked for at the start
    root: Any  # what the root rule keeps
    states: NDArray[np.uint64]  # [B, words] the positions to evaluate
    slot: NDArray[np.int64]  # [B] where in the cache the answer to a row goes, or NO_SLOT
    counts: NDArray[np.int64]  # [6] see COUNTS


class Answers(NamedTuple):
    """Evaluations of a batch of N positions; what is not wanted is empty."""

    priors: NDArray[np.float32]  # [N, actions]
    values: NDArray[np.float32]  # [N]
    draws: NDArray[np.float32]  # [N] or [0]
    action_values: NDArray[np.float32]  # [N, actions] or [N, 0]


class Workspace(NamedTuple):
    """Scratch memory of one thread."""

    mask: NDArray[np.bool_]  # [actions] legal actions
    state: NDArray[np.uint64]  # [words] the position of a playout
    moves: NDArray[np.int32]  # [1 + MOST_PLIES] length and actions of a playout
    uniform: NDArray[np.float32]  # [actions] equal priors
    trees: NDArray[np.int64]  # [GROUP] a group of trees
    leaves: NDArray[np.int64]  # [GROUP] the nodes where they are, at last their leaves
    live: NDArray[np.int64]  # [GROUP] the places in the group of those still on their way


COUNTS = ("simulations", "evaluated", "deduplicated", "cached", "terminal", "proven")
_SIMULATIONS, _EVALUATED, _DEDUPLICATED, _CACHED, _TERMINAL = range(PROVEN)


def empty_workspace(game: Game) -> Workspace:
    """Allocate scratch memory."""
    actions = rules.actions(game)
    return Workspace(
        np.zeros(actions, np.bool_),
        np.zeros(rules.words(game), np.uint64),
        np.zeros(1 + rules.MOST_PLIES, np.int32),
        np.ones(actions, np.float32),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
    )


@inlined
def _best_child(methods, tree, b, node, tie_key):
    """Return the child with the highest score; `tie_key` is a random stream of the simulation."""
    shared = prepare(methods.selection, methods.fpu, tree, b, node)
    first = tree.first_child[b, node]
    best = first
    highest = unless_lost(
        tree.proofs, tree, b, first, score(methods.selection, tree, b, first, shared)
    )
    ties = 1
    for child in range(first + 1, first + tree.children[b, node]):
        own = unless_lost(
            tree.proofs, tree, b, child, score(methods.selection, tree, b, child, shared)
        )
        if own > highest:
            highest = own
            best = child
            ties = 1
        elif own == highest:
            ties += 1
            if takes_tie(methods.tie_break, tie_key, node, child, ties):
                best = child
    return best


@inlined
def _see(game, tree, b, node):
    """Compute the state and the outcome of a node that no simulation has reached before."""
    parent = tree.states[b, tree.parent[b, node]]
    state = tree.states[b, node]
    rules.apply(game, parent, tree.action[b, node], state)
    tree.outcome[b, node] = rules.outcome(game, state)


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
        forget(tree.proofs, tree, b, child)
        for k in range(tree.statistics.shape[2]):
            tree.statistics[b, child, k] = np.float32(0.0)
    tree.first_child[b, node] = first
    tree.children[b, node] = count
    tree.used[b] = first + count


@inlined
def _backup(methods, tree, search, b, leaf, signal, moves):
    """Add one signal to the means on the path to the root, as each node's mover sees it.

    Returns 1 for a simulation, 0 for the evaluation of a bare root, which is none.
    """
    node = leaf
    child = -1
    arriving = signal
    while node >= 0:
        arriving = settle(tree.proofs, tree, search.counts, b, node, child, arriving)
        visits = tree.visits[b, node] + 1
        tree.visits[b, node] = visits
        add(tree.utility, tree, b, node, arriving, visits)
        arriving = seen_from_parent(tree.utility, arriving)
        child = node
        node = tree.parent[b, node]
    update(methods.selection, tree, b, leaf, signal, moves)
    if leaf == 0:
        return 0
    search.remaining[b] = search.remaining[b] - 1 if is_open(tree.proofs, tree, b, 0) else 0
    return 1


@inlined
def _expand_and_backup_leaf(
    game, methods, tree, search, b, node, priors, estimate, draw, workspace
):
    """Expand an evaluated node and back up the value that the leaf evaluator gives it.

    A bare root keeps the evaluator's: N simulations of plain MCTS count N playouts. The leaf
    evaluator is asked even there, and its answer dropped: a branch around it makes every simulation
    of all trees up to two thirds slower (docs/decisions/0010). Returns what `_backup` does.
    """
    moves = workspace.moves
    _expand(game, tree, b, node, priors, workspace.mask)
    moves[0] = 0
    key = streams.fold(search.playout_key[b], search.remaining[b])
    state = tree.states[b, node]
    value = leaf_value(methods.leaf_evaluator, game, state, estimate, key, workspace.state, moves)
    if node == 0:
        moves[0] = 0
        value = estimate
    signal = signal_of(tree.utility, value, draw)
    return _backup(methods, tree, search, b, node, signal, moves)


@inlined
def _request(cache, search, step, b, node, state, slot, rows):
    """Let a tree wait for a node's evaluation; return the length of the batch.

    `slot` is that of an equal position requested in this step, or NO_SLOT.
    """
    search.leaf[b] = node
    if slot != NO_SLOT and step.deduplicate:
        search.counts[_DEDUPLICATED] += 1
        search.row[b] = cache.row[slot]
        return rows
    known = slot != NO_SLOT or not (step.deduplicate or step.cached)
    search.slot[rows] = NO_SLOT if known else reserve(cache, state, step.number, rows)
    search.states[rows] = state
    search.row[b] = rows
    return rows + 1


@inlined
def _prepare_root_if_due(methods, tree, search, step, b):
    if search.root_due[b] and tree.first_child[b, 0] != 0:
        prepare_root(methods.root, tree, search, step, b)
        search.root_due[b] = False


@inlined
def _gather(tree, search, begin, end, workspace):
    """Collect the trees from `begin` to `end` - 1 that have a simulation to run.

    Returns their number, and whether some tree ran out of nodes.
    """
    actions = workspace.mask.shape[0]
    nodes = 1 + min(actions, _EXPECTED_CHILDREN)
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
def _descend(game, methods, tree, search, workspace, step, begin, end):
    """Follow the best children, in trees `begin` to `end` - 1 of a group, to unexpanded nodes.

    All trees go down by one level in turn, and meanwhile the nodes that each needs next are
    loaded. States of new leaves are computed.
    """
    live = 0
    for i in range(begin, end):
        b = workspace.trees[i]
        _prepare_root_if_due(methods, tree, search, step, b)
        node = first_node(methods.root, methods, tree, search, b)
        workspace.leaves[i] = node
        if tree.first_child[b, node] != 0 and is_open(tree.proofs, tree, b, node):
            workspace.live[live] = i
            live += 1
    while live > 0:
        still = 0
        for at in range(live):
            i = workspace.live[at]
            b = workspace.trees[i]
            key = streams.fold(streams.fold(search.playout_key[b], _TIES), search.remaining[b])
            node = _best_child(methods, tree, b, workspace.leaves[i], key)
            workspace.leaves[i] = node
            first = tree.first_child[b, node]
            if first != 0 and is_open(tree.proofs, tree, b, node):
                prefetch_nodes(tree, b, first, tree.children[b, node])
                workspace.live[still] = i
                still += 1
            else:
                prefetch(tree.states, b, node, 0)
                prefetch(tree.states, b, tree.parent[b, node], 0)
        live = still
    for i in range(begin, end):
        b = workspace.trees[i]
        node = workspace.leaves[i]
        if tree.outcome[b, node] == UNSEEN:
            _see(game, tree, b, node)


@inlined
def _finish_simulation(game, methods, tree, cache, search, step, b, node, workspace):
    """End a simulation whose leaf needs no evaluation; return whether that is so, and its slot."""
    state = tree.states[b, node]
    if is_decided(tree.proofs, tree, b, node):
        workspace.moves[0] = 0
        signal = decided(tree.proofs, tree, b, node)
        search.counts[_TERMINAL] += 1
        search.counts[_SIMULATIONS] += _backup(
            methods, tree, search, b, node, signal, workspace.moves
        )
        return True, NO_SLOT
    slot = NO_SLOT
    if step.deduplicate or step.cached:
        slot = find(cache, state, 1 if step.cached else step.number)
    if step.uniform or (slot != NO_SLOT and cache.step[slot] < step.number):
        search.counts[_CACHED] += not step.uniform
        priors = workspace.uniform if step.uniform else cache.priors[slot]
        estimate = np.float32(0.0) if step.uniform else cache.values[slot]
        draw = draw_of(tree.utility, cache.draws, slot)
        search.counts[_SIMULATIONS] += _expand_and_backup_leaf(
            game, methods, tree, search, b, node, priors, estimate, draw, workspace
        )
        seed(methods.fpu, tree, b, node, cache.action_values, slot)
        return True, slot
    return False, slot


@inlined
def _search_group(game, methods, tree, cache, search, step, count, rows, workspace):
    """Run simulations of a group of trees until each waits for an evaluation or has none left.

    The first simulations descend together, later ones alone; leaves are requested in the order
    of the trees. Returns the length of the batch and whether some tree ran out of nodes.
    """
    actions = workspace.mask.shape[0]
    full = False
    at = 0
    begin = 0
    end = count
    while at < count:
        _descend(game, methods, tree, search, workspace, step, begin, end)
        goes_on = False
        while at < count and not goes_on:
            b = workspace.trees[at]
            node = workspace.leaves[at]
            ended, slot = _finish_simulation(
                game, methods, tree, cache, search, step, b, node, workspace
            )
            if ended:
                goes_on = search.remaining[b] > 0
                if goes_on and not has_room(tree, b, actions):
                    full = True
                    goes_on = False
            else:
                state = tree.states[b, node]
                rows = _request(cache, search, step, b, node, state, slot, rows)
            if not goes_on:
                at += 1
        begin = at
        end = at + 1
    return rows, full


@kernel
def extend_streams(search, slots):
    """Give the searches of trees `slots` fresh playout streams, derived from their former ones."""
    for b in slots:
        search.playout_key[b] = streams.fold(search.playout_key[b], _EXTENSION)


@kernel
def select_leaves(game, methods, forest, cache, search, step, workspace):
    """Run simulations until every active tree waits for an evaluation or has none left to run.

    Returns the length of the batch and whether some tree ran out of nodes.
    """
    tree = opened(forest)
    search = borrowed(search)
    cache = borrowed(cache)
    workspace = borrowed(workspace)
    trees = search.active.shape[0]
    rows = 0
    full = False
    for begin in range(0, trees, GROUP):
        end = min(begin + GROUP, trees)
        count, stopped = _gather(tree, search, begin, end, workspace)
        full |= stopped
        rows, stopped = _search_group(
            game, methods, tree, cache, search, step, count, rows, workspace
        )
        full |= stopped
    search.counts[_EVALUATED] += rows
    return rows, full


@kernel
def store(cache, search, answers):
    """Store the evaluations of a batch in the cache."""
    cache = borrowed(cache)
    search = borrowed(search)
    answers = borrowed(answers)
    for row in range(answers.values.shape[0]):
        slot = search.slot[row]
        if slot != NO_SLOT:
            cache.priors[slot] = answers.priors[row]
            cache.values[slot] = answers.values[row]
            if answers.draws.shape[0] > 0:
                cache.draws[slot] = answers.draws[row]
            if answers.action_values.shape[1] > 0:
                cache.action_values[slot] = answers.action_values[row]


@inlined
def _gather_waiting(tree, search, begin, end, workspace):
    """Collect the trees from `begin` to `end` - 1 whose leaves wait; load what a backup needs."""
    count = 0
    nodes = min(workspace.mask.shape[0], _EXPECTED_CHILDREN)
    for b in range(begin, end):
        node = search.leaf[b]
        if node != NO_LEAF:
            prefetch_nodes(tree, b, node, 1)
            prefetch(tree.states, b, node, 0)
            prefetch_nodes(tree, b, tree.used[b], nodes)
            workspace.trees[count] = b
            workspace.leaves[count] = node
            workspace.live[count] = count
            count += 1
    live = count
    while live > 0:
        still = 0
        for at in range(live):
            i = workspace.live[at]
            b = workspace.trees[i]
            node = tree.parent[b, workspace.leaves[i]]
            if node >= 0:
                prefetch_nodes(tree, b, node, 1)
                workspace.leaves[i] = node
                workspace.live[still] = i
                still += 1
        live = still
    return count


@kernel
def expand_and_backup(game, methods, forest, search, answers, workspace, begin, end):
    """Expand the waiting leaves of trees `begin` to `end` - 1 and back up their values.

    `answers` are those to the batch. Returns how many simulations that ends. Disjoint ranges of
    trees may be expanded at the same time.
    """
    tree = opened(forest)
    search = borrowed(search)
    answers = borrowed(answers)
    workspace = borrowed(workspace)
    simulations = 0
    for first in range(begin, end, GROUP):
        count = _gather_waiting(tree, search, first, min(first + GROUP, end), workspace)
        for i in range(count):
            b = workspace.trees[i]
            node = np.int64(search.leaf[b])
            search.leaf[b] = NO_LEAF
            row = search.row[b]
            priors = answers.priors[row]
            estimate = answers.values[row]
            draw = draw_of(tree.utility, answers.draws, row)
            simulations += _expand_and_backup_leaf(
                game, methods, tree, search, b, node, priors, estimate, draw, workspace
            )
            seed(methods.fpu, tree, b, node, answers.action_values, row)
    return simulations
