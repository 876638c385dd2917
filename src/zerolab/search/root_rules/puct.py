"""The root as any other node, with Dirichlet noise; forced playouts make the most of the noise."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.search.interface import prepare, register_root_rule, score
from zerolab.search.proofs import is_lost


class PuctRoot(NamedTuple):
    """The selection rule decides, as below the root; policies are the shares of the visits.

    forced_playouts: k of [Wu2019, Section 3.2], 0 for none. In searches with noise, a child of the
    root that has been visited gets at least sqrt(k * P(s, a) * sum_b N(s, b)) visits, P with its
    noise. Policies leave out visits that are owed to that alone: from every child but the most
    visited one, up to as many are taken as leave its score below that one's, and children left
    with a single visit are dropped. [Wu2019]: 2.
    """

    forced_playouts: Annotated[float, Field(ge=0, le=100)] = 0.0


class _NoState(NamedTuple):
    """Nothing is kept."""


@inlined
def _add_root_noise(tree, b, key, fraction, concentration):
    """Mix Dirichlet noise into the priors of the root's children [Silver2018, Methods].

    P(s, a) <- (1 - fraction) * P(s, a) + fraction * eta_a, eta ~ Dir(concentration / actions).
    """
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
def _pruned(rule, methods, tree, b, child, total, limit, shared):
    """Return a child's visits without forced ones, as long as its score stays below a limit.

    The score is that of the child's value as it is [Wu2019, Section 3.2].
    """
    all_visits = tree.visits[b, child]
    forced = math.sqrt(rule.forced_playouts * tree.prior[b, child] * total)
    least = max(1, all_visits - np.int64(forced))
    kept = all_visits
    while kept > least:
        tree.visits[b, child] = kept - 1
        if score(methods.selection, tree, b, child, shared) >= limit:
            break
        kept -= 1
    tree.visits[b, child] = all_visits
    return kept if kept > 1 else 0


@inlined
def _prune(rule, methods, tree, b, weights):
    """Take the forced visits out of weights that are visits."""
    first = tree.first_child[b, 0]
    last = first + tree.children[b, 0]
    best = -1
    total = 0
    for child in range(first, last):
        total += tree.visits[b, child]
        lost = is_lost(tree.proofs, tree, b, child)
        if not lost and (best < 0 or tree.visits[b, child] > tree.visits[b, best]):
            best = child
    if best < 0:
        return
    shared = prepare(methods.selection, methods.fpu, tree, b, 0)
    limit = score(methods.selection, tree, b, best, shared)
    for child in range(first, last):
        if child != best:
            kept = _pruned(rule, methods, tree, b, child, total, limit, shared)
            weights[tree.action[b, child]] = kept


@inlined
def write_visits(tree, b, weights):
    """Write the visits of the root's actions."""
    weights[:] = 0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.children[b, 0]):
        weights[tree.action[b, child]] = tree.visits[b, child]


@register_root_rule("puct", PuctRoot)
class PuctRootRule:
    """See `PuctRoot`."""

    @staticmethod
    def root_state(rule, slots, actions):
        return _NoState()

    @staticmethod
    def plans(rule):
        return False

    @staticmethod
    def prepare_root(rule, tree, search, step, b):
        key = search.noise_key[b]
        _add_root_noise(tree, b, key, step.noise_fraction, step.noise_concentration)

    @staticmethod
    def first_node(rule, methods, tree, search, b):
        first = tree.first_child[b, 0]
        if rule.forced_playouts > 0.0 and search.noisy[b] and first != 0:
            owed = rule.forced_playouts * (tree.visits[b, 0] - 1)
            for child in range(first, first + tree.children[b, 0]):
                visits = np.float64(tree.visits[b, child])
                few = 0.0 < visits * visits < owed * tree.prior[b, child]
                if few and not is_lost(tree.proofs, tree, b, child):
                    return child
        return 0

    @staticmethod
    def weigh_policy(rule, methods, tree, search, b, weights):
        write_visits(tree, b, weights)
        if rule.forced_playouts > 0.0 and search.noisy[b]:
            _prune(rule, methods, tree, b, weights)

    @staticmethod
    def weigh_moves(rule, methods, tree, search, b, sample, weights):
        write_visits(tree, b, weights)
