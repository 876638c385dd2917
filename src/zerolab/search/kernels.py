"""Compiled search over B trees: leaf selection, expansion and backup.

In each step, `select_leaves` descends every active tree until it reaches a position to evaluate.
The evaluator then evaluates the whole batch, and `expand_and_backup` uses the results. Simulations
that end in a finished game or, with one leaf per step, a cached position are backed up immediately,
so a batch contains only positions to evaluate. Trees never influence each other.

Helpers are inlined. A call inside a branch can be slow (docs/decisions/0010). A helper is compiled
once for each combination of types, so indices are cast to the same type wherever it is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import borrowed_view, copy_row, prefetch
from zerolab.search.evaluator import CACHED_ROW, NO_ENTRY, find_entry, reserve_entry
from zerolab.search.methods import init_child_values
from zerolab.search.simulation import (
    EXPECTED_CHILDREN,
    backup,
    compute_leaf_states,
    descend,
    expand_and_backup_leaf,
    gather_trees,
)
from zerolab.search.simulation_options import (
    cached_leaves_wait,
    decided_value,
    is_decided,
    is_waiting,
    mark_waiting,
    unstarted_simulations,
)
from zerolab.search.tree import (
    CACHED_INDEX,
    DEDUPLICATED_INDEX,
    EVALUATED_INDEX,
    SIMULATIONS_INDEX,
    TERMINAL_INDEX,
    TREES_PER_GROUP,
    has_room,
    kernel_tree_arrays,
    prefetch_nodes,
)
from zerolab.search.values import draw_probability

_AHEAD = 16
"""Distance, in entries, by which prefetching runs ahead of writes to the cache."""

_EXTENSION = 1 << 41
"""Constant folded into a playout stream to derive the stream of an extended search."""


@inlined
def _finish_simulation(
    game, methods, leaf_evaluator, tree, cache, search_state, options, workspace, at
):
    """Finish the simulation at index `at` of a group if its leaf needs no evaluation.

    Returns whether the simulation finished, and the cache entry of the leaf.
    """
    b = workspace.trees[at]
    node = workspace.nodes[at]
    state = tree.states[b, node]
    if is_decided(tree.solver, tree, b, node):
        workspace.playout_moves[0] = 0
        backup_value = decided_value(tree.solver, tree, b, node)
        search_state.work_counts[TERMINAL_INDEX] += 1
        search_state.work_counts[SIMULATIONS_INDEX] += backup(
            methods, tree, search_state, b, node, backup_value, workspace.playout_moves, False
        )
        return True, NO_ENTRY
    entry = NO_ENTRY
    if options.deduplicate or options.use_cache:
        earliest = 1 if options.use_cache else options.step_number
        entry = find_entry(cache, state, workspace.hashes[at], earliest)
    if options.skip_evaluator or (
        not cached_leaves_wait(methods.virtual_loss)
        and entry != NO_ENTRY
        and cache.request_step[entry] < options.step_number
    ):
        search_state.work_counts[CACHED_INDEX] += not options.skip_evaluator
        priors = workspace.uniform_priors if options.skip_evaluator else cache.priors[entry]
        evaluator_value = np.float32(0.0) if options.skip_evaluator else cache.values[entry]
        evaluation = (
            priors,
            evaluator_value,
            draw_probability(tree.utility, cache.draw_probabilities, entry),
        )
        search_state.work_counts[SIMULATIONS_INDEX] += expand_and_backup_leaf(
            game, methods, leaf_evaluator, tree, search_state, b, node, evaluation, workspace, False
        )
        init_child_values(methods.fpu, tree, b, node, cache.action_values, entry)
        return True, entry
    return False, entry


@inlined
def _request_evaluation(
    virtual_loss, tree, cache, search_state, options, workspace, at, entry, batch_size
):
    """Add the leaf at index `at` of a group to the waiting leaves; return the new batch size.

    `entry` is the cache entry of an equal position requested in this step or, if cached leaves
    wait, in an earlier one; NO_ENTRY if there is none.
    """
    b = workspace.trees[at]
    node = workspace.nodes[at]
    state = tree.states[b, node]
    place = search_state.waiting_count[b]
    search_state.waiting_leaves[b, place] = node
    if cached_leaves_wait(virtual_loss) and entry != NO_ENTRY:
        if cache.request_step[entry] < options.step_number:
            cache.request_step[entry] = options.step_number  # keeps the entry during this step
            cache.batch_row[entry] = CACHED_ROW
        if cache.batch_row[entry] == CACHED_ROW:
            search_state.work_counts[CACHED_INDEX] += 1
            search_state.batch_rows[b, place] = -1 - entry
            return batch_size
    if entry != NO_ENTRY and options.deduplicate:
        search_state.work_counts[DEDUPLICATED_INDEX] += 1
        search_state.batch_rows[b, place] = cache.batch_row[entry]
        return batch_size
    skip_cache = entry != NO_ENTRY or not (options.deduplicate or options.use_cache)
    search_state.cache_entries[batch_size] = (
        NO_ENTRY
        if skip_cache
        else reserve_entry(cache, state, workspace.hashes[at], options.step_number, batch_size)
    )
    copy_row(state, search_state.leaf_states[batch_size])
    search_state.batch_rows[b, place] = batch_size
    return batch_size + 1


@inlined
def _search_group(
    game, methods, leaf_evaluator, tree, cache, search_state, options, count, batch_size, workspace
):
    """Run simulations until every tree of a group is waiting for an evaluation or has finished.

    The first simulations of all trees descend together, and later ones descend one at a time.
    Leaves are requested in the order of the trees. Returns the batch size and whether a tree ran
    out of nodes.
    """
    actions = workspace.legal_mask.shape[0]
    is_full = False
    at = 0
    begin = 0
    end = count
    while at < count:
        descend(methods, tree, search_state, workspace, options, begin, end)
        compute_leaf_states(game, tree, cache, workspace, options, begin, end)
        continues = False
        while at < count and not continues:
            b = workspace.trees[at]
            node = workspace.nodes[at]
            if is_waiting(methods.virtual_loss, tree, b, node):
                at += 1
                continue
            is_finished, entry = _finish_simulation(
                game, methods, leaf_evaluator, tree, cache, search_state, options, workspace, at
            )
            if is_finished:
                continues = unstarted_simulations(methods.virtual_loss, search_state, b) > 0
            else:
                batch_size = _request_evaluation(
                    methods.virtual_loss,
                    tree,
                    cache,
                    search_state,
                    options,
                    workspace,
                    at,
                    entry,
                    batch_size,
                )
                continues = mark_waiting(methods.virtual_loss, tree, search_state, b, node)
            if continues and not has_room(tree, b, actions * (1 + search_state.waiting_count[b])):
                is_full = True
                continues = False
            if not continues:
                at += 1
        begin = at
        end = at + 1
    return batch_size, is_full


@kernel
def renew_playout_keys(search_state, trees):
    """Derive fresh playout streams of some trees from the current streams."""
    for b in trees:
        search_state.playout_key[b] = streams.fold_in(search_state.playout_key[b], _EXTENSION)


@inlined
def _is_interrupted(search_state):
    """Return whether leaves are still waiting because the last step did not end."""
    for b in range(search_state.waiting_count.shape[0]):
        if search_state.waiting_count[b] > 0:
            return True
    return False


@inlined
def _drop_batch(cache, search_state):
    """Empty the cache entries reserved by an interrupted step for which no leaf waits any more."""
    for row in range(search_state.batch_size[0]):
        entry = search_state.cache_entries[row]
        if entry != NO_ENTRY:
            cache.request_step[entry] = 0


@kernel
def select_leaves(game, methods, leaf_evaluator, handle, options):
    """Run simulations until every active tree is waiting for an evaluation or has finished.

    If the last step was interrupted, for example by an exception in the evaluator, its batch is
    still in place and is requested again. `handle` refers to the `SearchMemory` of the search.
    Returns the batch size and whether a tree ran out of nodes.
    """
    forest, cache, search_state, workspace = borrowed_view(handle.value)
    if _is_interrupted(search_state):
        return search_state.batch_size[0], False
    _drop_batch(cache, search_state)
    tree = kernel_tree_arrays(forest)
    trees = search_state.is_active.shape[0]
    batch_size = 0
    is_full = False
    for begin in range(0, trees, TREES_PER_GROUP):
        end = min(begin + TREES_PER_GROUP, trees)
        count, ran_out = gather_trees(tree, search_state, begin, end, workspace)
        is_full |= ran_out
        batch_size, ran_out = _search_group(
            game,
            methods,
            leaf_evaluator,
            tree,
            cache,
            search_state,
            options,
            count,
            batch_size,
            workspace,
        )
        is_full |= ran_out
    search_state.work_counts[EVALUATED_INDEX] += batch_size
    search_state.batch_size[0] = batch_size
    return batch_size, is_full


@kernel
def cache_evaluations(handle, evaluations):
    """Store the evaluations of a batch in the cache."""
    memory = borrowed_view(handle.value)
    cache = memory.cache
    search_state = memory.search_state
    evaluations = borrowed_view(evaluations)
    batch_size = evaluations.values.shape[0]
    for row in range(batch_size):
        ahead = search_state.cache_entries[min(row + _AHEAD, batch_size - 1)]
        prefetch(cache.states, (ahead,), 0)
        entry = search_state.cache_entries[row]
        if entry != NO_ENTRY:
            copy_row(evaluations.priors[row], cache.priors[entry])
            cache.values[entry] = evaluations.values[row]
            if evaluations.draw_probabilities.shape[0] > 0:
                cache.draw_probabilities[entry] = evaluations.draw_probabilities[row]
            if evaluations.action_values.shape[1] > 0:
                copy_row(evaluations.action_values[row], cache.action_values[entry])


@inlined
def _gather_waiting_leaves(tree, search_state, begin, end, place, workspace):
    """Collect the trees from `begin` to `end` - 1 that have a waiting leaf at index `place`.

    Returns their number, and prefetches the nodes that their backups need.
    """
    count = 0
    nodes = min(workspace.legal_mask.shape[0], EXPECTED_CHILDREN)
    for b in range(begin, end):
        if place < search_state.waiting_count[b]:
            node = np.int64(search_state.waiting_leaves[b, place])
            prefetch_nodes(tree, b, node, 1)
            prefetch(tree.states, (b, node), 0)
            prefetch_nodes(tree, b, np.int64(tree.node_count[b]), nodes)
            workspace.trees[count] = b
            workspace.nodes[count] = node
            workspace.unfinished[count] = count
            count += 1
    unfinished_count = count
    while unfinished_count > 0:
        kept_count = 0
        for at in range(unfinished_count):
            i = workspace.unfinished[at]
            b = workspace.trees[i]
            node = np.int64(tree.parent[b, workspace.nodes[i]])
            if node >= 0:
                prefetch_nodes(tree, b, node, 1)
                workspace.nodes[i] = node
                workspace.unfinished[kept_count] = i
                kept_count += 1
        unfinished_count = kept_count
    return count


@kernel
def expand_and_backup(game, methods, leaf_evaluator, handle, evaluations, begin, end):
    """Expand the waiting leaves of trees `begin` to `end` - 1 and back up their values.

    Returns the number of completed simulations. Disjoint ranges of trees can be processed in
    parallel, each with its own workspace and counts.
    """
    forest, cache, search_state, workspace = borrowed_view(handle.value)
    tree = kernel_tree_arrays(forest)
    evaluations = borrowed_view(evaluations)
    simulations = 0
    for first in range(begin, end, TREES_PER_GROUP):
        last = min(first + TREES_PER_GROUP, end)
        for place in range(search_state.waiting_leaves.shape[1]):
            count = _gather_waiting_leaves(tree, search_state, first, last, place, workspace)
            if count == 0:
                break
            for i in range(count):
                b = workspace.trees[i]
                node = np.int64(search_state.waiting_leaves[b, place])
                row: Any = np.int64(search_state.batch_rows[b, place])
                if cached_leaves_wait(methods.virtual_loss) and row < 0:
                    entry = -1 - row
                    evaluation = (
                        cache.priors[entry],
                        cache.values[entry],
                        draw_probability(tree.utility, cache.draw_probabilities, entry),
                    )
                else:
                    evaluation = (
                        evaluations.priors[row, ::1],  # strided like the rows of the cache
                        evaluations.values[row],
                        draw_probability(tree.utility, evaluations.draw_probabilities, row),
                    )
                simulations += expand_and_backup_leaf(
                    game,
                    methods,
                    leaf_evaluator,
                    tree,
                    search_state,
                    b,
                    node,
                    evaluation,
                    workspace,
                    True,
                )
                if cached_leaves_wait(methods.virtual_loss) and row < 0:
                    init_child_values(methods.fpu, tree, b, node, cache.action_values, -1 - row)
                else:
                    init_child_values(methods.fpu, tree, b, node, evaluations.action_values, row)
        search_state.waiting_count[first:last] = 0
    return simulations
