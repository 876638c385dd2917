"""The compiled search over B trees: select leaves, expand them, back their values up.

One step: `select_leaves` descends every active tree until it meets a position that needs the
evaluator, the evaluator answers the whole batch, `expand_and_backup` takes the answers.
Simulations that end in a finished game or a known position are backed up at once, so a batch holds
only positions to evaluate. Trees never influence each other.

Helpers are inlined, and branches around them are avoided where docs/decisions/0010 says so.
"""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import borrowed, copy_row, prefetch
from zerolab.search.evaluator import NO_SLOT, find, reserve
from zerolab.search.mcts_solver import decided, is_decided
from zerolab.search.methods import seed
from zerolab.search.simulation import (
    EXPECTED_CHILDREN,
    backup,
    descend,
    expand_and_backup_leaf,
    gather,
    materialise_leaves,
)
from zerolab.search.tree import (
    CACHED,
    DEDUPLICATED,
    EVALUATED,
    GROUP,
    SIMULATIONS,
    TERMINAL,
    has_room,
    opened,
    prefetch_nodes,
)
from zerolab.search.values import draw_of
from zerolab.search.virtual_loss import begin_to_wait, is_waiting, to_begin

_AHEAD = 16
"""How many entries of the cache before it is written one is asked for."""

_EXTENSION = 1 << 41
"""The part of a playout stream that a search goes on with when it is extended."""


@inlined
def _finish_simulation(
    game, methods, leaf_evaluator, tree, cache, search, step, b, node, key, workspace
):
    """End a simulation whose leaf needs no evaluation; return whether that is so, and its slot."""
    state = tree.states[b, node]
    if is_decided(tree.proofs, tree, b, node):
        workspace.moves[0] = 0
        signal = decided(tree.proofs, tree, b, node)
        search.counts[TERMINAL] += 1
        search.counts[SIMULATIONS] += backup(
            methods, tree, search, b, node, signal, workspace.moves, False
        )
        return True, NO_SLOT
    slot = NO_SLOT
    if step.deduplicate or step.cached:
        slot = find(cache, state, key, 1 if step.cached else step.number)
    if step.uniform or (slot != NO_SLOT and cache.step[slot] < step.number):
        search.counts[CACHED] += not step.uniform
        priors = workspace.uniform if step.uniform else cache.priors[slot]
        estimate = np.float32(0.0) if step.uniform else cache.values[slot]
        evaluation = priors, estimate, draw_of(tree.utility, cache.draws, slot)
        search.counts[SIMULATIONS] += expand_and_backup_leaf(
            game, methods, leaf_evaluator, tree, search, b, node, evaluation, workspace, False
        )
        seed(methods.fpu, tree, b, node, cache.action_values, slot)
        return True, slot
    return False, slot


@inlined
def _request(cache, search, step, b, node, state, key, slot, rows):
    """Request the evaluation of a leaf that is about to wait; return the length of the batch.

    `slot` is that of an equal position requested in this step, or NO_SLOT.
    """
    place = search.waiting[b]
    search.leaf[b, place] = node
    if slot != NO_SLOT and step.deduplicate:
        search.counts[DEDUPLICATED] += 1
        search.row[b, place] = cache.row[slot]
        return rows
    known = slot != NO_SLOT or not (step.deduplicate or step.cached)
    search.slot[rows] = NO_SLOT if known else reserve(cache, state, key, step.number, rows)
    copy_row(state, search.states[rows])
    search.row[b, place] = rows
    return rows + 1


@inlined
def _search_group(game, methods, leaf_evaluator, tree, cache, search, step, count, rows, workspace):
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
        descend(methods, tree, search, workspace, step, begin, end)
        materialise_leaves(game, tree, cache, workspace, step, begin, end)
        goes_on = False
        while at < count and not goes_on:
            b = workspace.trees[at]
            node = workspace.leaves[at]
            key = workspace.hashes[at]
            if is_waiting(methods.wave, tree, b, node):
                at += 1
                continue
            ended, slot = _finish_simulation(
                game, methods, leaf_evaluator, tree, cache, search, step, b, node, key, workspace
            )
            if ended:
                goes_on = to_begin(methods.wave, search, b) > 0
            else:
                state = tree.states[b, node]
                rows = _request(cache, search, step, b, node, state, key, slot, rows)
                goes_on = begin_to_wait(methods.wave, tree, search, b, node)
            if goes_on and not has_room(tree, b, actions * (1 + search.waiting[b])):
                full = True
                goes_on = False
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
def select_leaves(game, methods, leaf_evaluator, handle, step):
    """Run simulations until every active tree waits for an evaluation or has none left to run.

    `handle` is that of the search's `Memory`. Returns the length of the batch and whether some tree
    ran out of nodes.
    """
    forest, cache, search, workspace = borrowed(handle.value)
    tree = opened(forest)
    trees = search.active.shape[0]
    rows = 0
    full = False
    for begin in range(0, trees, GROUP):
        end = min(begin + GROUP, trees)
        count, stopped = gather(tree, search, begin, end, workspace)
        full |= stopped
        rows, stopped = _search_group(
            game, methods, leaf_evaluator, tree, cache, search, step, count, rows, workspace
        )
        full |= stopped
    search.counts[EVALUATED] += rows
    return rows, full


@kernel
def store(handle, answers):
    """Store the evaluations of a batch in the cache."""
    memory = borrowed(handle.value)
    cache = memory.cache
    search = memory.state
    answers = borrowed(answers)
    rows = answers.values.shape[0]
    for row in range(rows):
        ahead = search.slot[min(row + _AHEAD, rows - 1)]
        prefetch(cache.states, (ahead,), 0)
        slot = search.slot[row]
        if slot != NO_SLOT:
            copy_row(answers.priors[row], cache.priors[slot])
            cache.values[slot] = answers.values[row]
            if answers.draws.shape[0] > 0:
                cache.draws[slot] = answers.draws[row]
            if answers.action_values.shape[1] > 0:
                copy_row(answers.action_values[row], cache.action_values[slot])


@inlined
def _gather_waiting(tree, search, begin, end, place, workspace):
    """Collect the trees from `begin` to `end` - 1 where a leaf waits in its `place`.

    What their backups need is loaded meanwhile.
    """
    count = 0
    nodes = min(workspace.mask.shape[0], EXPECTED_CHILDREN)
    for b in range(begin, end):
        if place < search.waiting[b]:
            node = search.leaf[b, place]
            prefetch_nodes(tree, b, node, 1)
            prefetch(tree.states, (b, node), 0)
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
def expand_and_backup(game, methods, leaf_evaluator, handle, answers, begin, end):
    """Expand the waiting leaves of trees `begin` to `end` - 1 and back up their values.

    `answers` are those to the batch. Returns how many simulations that ends. Disjoint ranges of
    trees may be expanded at the same time, with a workspace and counts of their own.
    """
    forest, _, search, workspace = borrowed(handle.value)
    tree = opened(forest)
    answers = borrowed(answers)
    simulations = 0
    for first in range(begin, end, GROUP):
        last = min(first + GROUP, end)
        for place in range(search.leaf.shape[1]):
            count = _gather_waiting(tree, search, first, last, place, workspace)
            if count == 0:
                break
            for i in range(count):
                b = workspace.trees[i]
                node = np.int64(search.leaf[b, place])
                row = search.row[b, place]
                draw = draw_of(tree.utility, answers.draws, row)
                evaluation = answers.priors[row], answers.values[row], draw
                simulations += expand_and_backup_leaf(
                    game,
                    methods,
                    leaf_evaluator,
                    tree,
                    search,
                    b,
                    node,
                    evaluation,
                    workspace,
                    True,
                )
                seed(methods.fpu, tree, b, node, answers.action_values, row)
        search.waiting[first:last] = 0
    return simulations
