"""How trees go down to their leaves, many at a time. All of it is inlined into kernels."""

from __future__ import annotations

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.core.memory import prefetch
from zerolab.rules import interface as rules
from zerolab.search.cache import hash_state, prefetch_entry, prefetch_tags
from zerolab.search.interface import first_node, prepare, prepare_root, score, takes_tie
from zerolab.search.proofs import is_open, unless_lost
from zerolab.search.tree import UNSEEN, has_room, prefetch_nodes
from zerolab.search.waves import to_begin

EXPECTED_CHILDREN = 8
"""Of a node that has not been seen; only guesses what to load."""

_TIES = 1 << 40
"""The part of a playout stream that breaks ties; simulations, which have the others, are fewer."""


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
def _prepare_root_if_due(methods, tree, search, step, b):
    if search.root_due[b] and tree.first_child[b, 0] != 0:
        prepare_root(methods.root, tree, search, step, b)
        search.root_due[b] = False


@inlined
def _tie_key(methods, search, b):
    """Return the stream that breaks ties in the simulation that begins."""
    key = streams.fold(search.playout_key[b], _TIES)
    return streams.fold(key, to_begin(methods.wave, search, b))


@inlined
def gather(tree, search, begin, end, workspace):
    """Collect the trees from `begin` to `end` - 1 that have a simulation to run.

    Returns their number, and whether some tree ran out of nodes.
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
    """Follow the best children, in trees `begin` to `end` - 1 of a group, to unexpanded nodes.

    All trees go down by one level in turn, and meanwhile the nodes that each needs next are
    loaded.
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
            key = _tie_key(methods, search, b)
            node = _best_child(methods, tree, b, workspace.leaves[i], key)
            workspace.leaves[i] = node
            first = tree.first_child[b, node]
            if first != 0 and is_open(tree.proofs, tree, b, node):
                prefetch_nodes(tree, b, first, tree.children[b, node])
                workspace.live[still] = i
                still += 1
            else:
                prefetch(tree.states, (b, node), 0)
                prefetch(tree.states, (b, tree.parent[b, node]), 0)
        live = still


@inlined
def see_leaves(game, tree, cache, workspace, step, begin, end):
    """Compute the states of leaves that are new, in trees `begin` to `end` - 1 of a group.

    Where states are hashed, what the cache knows of them is loaded meanwhile.
    """
    for i in range(begin, end):
        b = workspace.trees[i]
        node = workspace.leaves[i]
        if tree.outcome[b, node] == UNSEEN:
            _see(game, tree, b, node)
        if step.deduplicate or step.cached:
            key = hash_state(tree.states[b, node])
            workspace.hashes[i] = key
            prefetch_tags(cache, key)
    if step.deduplicate or step.cached:
        for i in range(begin, end):
            prefetch_entry(cache, workspace.hashes[i])
