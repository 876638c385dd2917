"""Compiled search over B trees: leaf selection, expansion and backup.

In each step, `select_leaves` descends every active tree until it reaches a position to evaluate.
The evaluator then evaluates the whole batch, and `expand_and_backup` uses the results. Simulations
that end in a finished game or a cached position are backed up immediately, so a batch contains only
positions to evaluate. Trees never influence each other.

Helpers are inlined; docs/decisions/0010 describes where branches around them are avoided.
"""

from __future__ import annotations

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import borrowed, copy_row, prefetch
from zerolab.search.evaluator import NO_ENTRY, find, reserve
from zerolab.search.mcts_solver import decided_value, is_decided
from zerolab.search.methods import seed_children
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
from zerolab.search.values import draw_probability
from zerolab.search.virtual_loss import is_waiting, simulations_to_begin, start_waiting

_AHEAD = 16
"""Number of cache entries to prefetch ahead of writes."""

_EXTENSION = 1 << 41
"""Part of a playout stream that seeds extended searches."""


@inlined
def _finish_simulation(
    game, methods, leaf_evaluator, tree, cache, search, step, b, node, key, workspace
):
    """Finish a simulation whose leaf needs no evaluation.

    Returns whether the simulation finished, and the cache entry of the leaf.
    """
    state = tree.states[b, node]
    if is_decided(tree.solver, tree, b, node):
        workspace.moves[0] = 0
        backup_value = decided_value(tree.solver, tree, b, node)
        search.counts[TERMINAL] += 1
        search.counts[SIMULATIONS] += backup(
            methods, tree, search, b, node, backup_value, workspace.moves, False
        )
        return True, NO_ENTRY
    entry = NO_ENTRY
    if step.deduplicate or step.cached:
        entry = find(cache, state, key, 1 if step.cached else step.number)
    if step.uniform or (entry != NO_ENTRY and cache.step[entry] < step.number):
        search.counts[CACHED] += not step.uniform
        priors = workspace.uniform if step.uniform else cache.priors[entry]
        estimate = np.float32(0.0) if step.uniform else cache.values[entry]
        evaluation = priors, estimate, draw_probability(tree.utility, cache.draws, entry)
        search.counts[SIMULATIONS] += expand_and_backup_leaf(
            game, methods, leaf_evaluator, tree, search, b, node, evaluation, workspace, False
        )
        seed_children(methods.fpu, tree, b, node, cache.action_values, entry)
        return True, entry
    return False, entry


@inlined
def _request(cache, search, step, b, node, state, key, entry, rows):
    """Request the evaluation of a leaf, mark it as waiting, and return the new batch size.

    `entry` is the cache entry of an equal position requested in this step, or NO_ENTRY.
    """
    place = search.waiting[b]
    search.leaf[b, place] = node
    if entry != NO_ENTRY and step.deduplicate:
        search.counts[DEDUPLICATED] += 1
        search.row[b, place] = cache.row[entry]
        return rows
    skip_cache = entry != NO_ENTRY or not (step.deduplicate or step.cached)
    search.entry[rows] = NO_ENTRY if skip_cache else reserve(cache, state, key, step.number, rows)
    copy_row(state, search.states[rows])
    search.row[b, place] = rows
    return rows + 1


@inlined
def _search_group(game, methods, leaf_evaluator, tree, cache, search, step, count, rows, workspace):
    """Run simulations of a group of trees until each is waiting for an evaluation or finished.

    The first simulations descend together, later ones individually. Leaves are requested in tree
    order. Returns the batch size and whether a tree ran out of nodes.
    """
    actions = workspace.mask.shape[0]
    full = False
    at = 0
    begin = 0
    end = count
    while at < count:
        descend(methods, tree, search, workspace, step, begin, end)
        materialise_leaves(game, tree, cache, workspace, step, begin, end)
        continues = False
        while at < count and not continues:
            b = workspace.trees[at]
            node = workspace.leaves[at]
            key = workspace.hashes[at]
            if is_waiting(methods.virtual_loss, tree, b, node):
                at += 1
                continue
            finished, entry = _finish_simulation(
                game, methods, leaf_evaluator, tree, cache, search, step, b, node, key, workspace
            )
            if finished:
                continues = simulations_to_begin(methods.virtual_loss, search, b) > 0
            else:
                state = tree.states[b, node]
                rows = _request(cache, search, step, b, node, state, key, entry, rows)
                continues = start_waiting(methods.virtual_loss, tree, search, b, node)
            if continues and not has_room(tree, b, actions * (1 + search.waiting[b])):
                full = True
                continues = False
            if not continues:
                at += 1
        begin = at
        end = at + 1
    return rows, full


@kernel
def extend_streams(search, trees):
    """Derive fresh playout streams from the current ones for some trees."""
    for b in trees:
        search.playout_key[b] = streams.fold(search.playout_key[b], _EXTENSION)


@kernel
def select_leaves(game, methods, leaf_evaluator, handle, step):
    """Run simulations until every active tree is waiting for an evaluation or finished.

    `handle` refers to the search's `Memory`. Returns the batch size and whether a tree ran out of
    nodes.
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
def store(handle, evaluations):
    """Store the evaluations of a batch in the cache."""
    memory = borrowed(handle.value)
    cache = memory.cache
    search = memory.state
    evaluations = borrowed(evaluations)
    rows = evaluations.values.shape[0]
    for row in range(rows):
        ahead = search.entry[min(row + _AHEAD, rows - 1)]
        prefetch(cache.states, (ahead,), 0)
        entry = search.entry[row]
        if entry != NO_ENTRY:
            copy_row(evaluations.priors[row], cache.priors[entry])
            cache.values[entry] = evaluations.values[row]
            if evaluations.draws.shape[0] > 0:
                cache.draws[entry] = evaluations.draws[row]
            if evaluations.action_values.shape[1] > 0:
                copy_row(evaluations.action_values[row], cache.action_values[entry])


@inlined
def _gather_waiting(tree, search, begin, end, place, workspace):
    """Collect the trees from `begin` to `end` - 1 with a waiting leaf at index `place`.

    Nodes needed by their backups are prefetched.
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
def expand_and_backup(game, methods, leaf_evaluator, handle, evaluations, begin, end):
    """Expand the waiting leaves of trees `begin` to `end` - 1 and back up their values.

    Returns the number of completed simulations. Disjoint ranges of trees can be processed in
    parallel, each with its own workspace and counts.
    """
    forest, _, search, workspace = borrowed(handle.value)
    tree = opened(forest)
    evaluations = borrowed(evaluations)
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
                draw = draw_probability(tree.utility, evaluations.draws, row)
                evaluation = evaluations.priors[row], evaluations.values[row], draw
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
                seed_children(methods.fpu, tree, b, node, evaluations.action_values, row)
        search.waiting[first:last] = 0
    return simulations
