"""Root rules: PUCT with Dirichlet noise and forced playouts, and Gumbel [Danihelka2022].

Gumbel plans every simulation of the root, and its policy improves on the prior even where only some
actions have been visited, so that few simulations suffice to learn from.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.search.mcts_solver import SCALE, is_lost
from zerolab.search.methods import prepare, register_root_rule, score
from zerolab.search.values import action_value, node_value

_LEAST_PRIOR = np.float32(1.1754944e-38)
_LEAST_UNIFORM = 2.0**-54


class Gumbel(NamedTuple):
    """Sequential halving by g(a) + logits(a) + sigma(q(a)), g(a) ~ Gumbel(0) in self-play, else 0.

    sigma(q) = (visit_weight + max_b N(b)) * value_scale * q, with Q in [-1, 1], and logits(a) is
    the logarithm of the prior [Danihelka2022, Algorithms 1 and 2]. The move is the best of the most
    visited actions; policies are softmax(logits + sigma(completed Q)), in which actions without
    visits have the value v_mix [Danihelka2022, Eq. 33]. Roots are bare: trees are not kept between
    moves even with `reuse_tree`. Below the root, the selection rule decides.

    considered: maximum number of sampled actions. [Danihelka2022]: 16. visit_weight: c_visit.
    [Danihelka2022], [mctx]: 50. value_scale: c_scale. [Danihelka2022]: 1 in board games, 0.1 on
    Atari; [mctx]: 0.1, with values rescaled to [0, 1].
    """

    considered: Annotated[int, Field(ge=1, le=10_000)] = 16
    visit_weight: Annotated[float, Field(ge=0)] = 50.0
    value_scale: Annotated[float, Field(gt=0)] = 0.1


class GumbelState(NamedTuple):
    """State of each tree's root; its children are numbered from 0."""

    scores: NDArray[np.float32]  # [B, actions] g + logits
    value: NDArray[np.float32]  # [B] the evaluator's worth of the root


@inlined
def considered_visits(considered, simulations, number):
    """Return the number of visits of the child to be chosen by the simulation `number`, from 0.

    Sequential halving gives each of its ceil(log2(considered)) phases as many simulations, shared
    equally by the children still considered; then it drops the worse half of them. Simulations left
    over by rounding are shared by the last two [mctx, get_table_of_considered_visits].
    """
    if considered <= 1:
        return number
    phases = 0
    while (1 << phases) < considered:
        phases += 1
    visits = 0
    while True:
        each = max(1, simulations // (phases * considered))
        if number < each * considered:
            return visits + number // considered
        number -= each * considered
        visits += each
        considered = max(2, considered // 2)


@inlined
def _completion(rule, tree, search, b):
    """Return v_mix, the value of actions without visits, and the factor of sigma.

    v_mix = (v + sum_b N(b) * sum_visited pi(a) q(a) / sum_visited pi(a)) / (1 + sum_b N(b)).
    """
    first = tree.first_child[b, 0]
    total = 0
    most = 0
    mass = 0.0
    weighted = 0.0
    for child in range(first, first + tree.children[b, 0]):
        visits = tree.visits[b, child]
        if visits > 0:
            prior = max(tree.prior[b, child], _LEAST_PRIOR)
            total += visits
            most = max(most, visits)
            mass += prior
            weighted += prior * action_value(tree.utility, tree, b, child)
    mixed = np.float64(search.root.value[b])
    if total > 0:
        mixed = (mixed + total * weighted / mass) / (1 + total)
    return mixed, (rule.visit_weight + most) * rule.value_scale


@inlined
def _sigma(tree, b, child, mixed, factor):
    """Return sigma of an action's completed value."""
    value = (
        np.float64(action_value(tree.utility, tree, b, child))
        if tree.visits[b, child] > 0
        else mixed
    )
    return factor * value


@inlined
def _best(rule, tree, search, b, visits):
    """Return the best of the root's children with `visits` visits that is not proven to lose.

    If all of them are, the best child with as many visits; -1 if there is none.
    """
    mixed, factor = _completion(rule, tree, search, b)
    first = tree.first_child[b, 0]
    best = -1
    highest = -np.inf
    hopeless = True
    for child in range(first, first + tree.children[b, 0]):
        if tree.visits[b, child] == visits:
            lost = is_lost(tree.solver, tree, b, child)
            own = search.root.scores[b, child - first] + _sigma(tree, b, child, mixed, factor)
            if best < 0 or (hopeless and not lost) or (own > highest and lost == hopeless):
                best = child
                highest = own
                hopeless = lost
    return best


@inlined
def _most_visited(tree, b):
    """Return the visits of the most visited child of the root that is not proven to lose."""
    first = tree.first_child[b, 0]
    most = 0
    for child in range(first, first + tree.children[b, 0]):
        if not is_lost(tree.solver, tree, b, child):
            most = max(most, tree.visits[b, child])
    return most


@inlined
def _write_policy(rule, tree, search, b, scale, weights):
    """Write softmax(logits + sigma(completed Q)), times a scale."""
    mixed, factor = _completion(rule, tree, search, b)
    first = tree.first_child[b, 0]
    count = tree.children[b, 0]
    logits = np.empty(count, np.float64)
    for i in range(count):
        prior = max(tree.prior[b, first + i], _LEAST_PRIOR)
        logits[i] = math.log(prior) + _sigma(tree, b, first + i, mixed, factor)
    logits -= logits.max()
    total = np.exp(logits).sum()
    weights[:] = 0
    for i in range(count):
        weights[tree.action[b, first + i]] = scale * math.exp(logits[i]) / total


@register_root_rule("gumbel", Gumbel)
class _GumbelRule:
    @staticmethod
    def root_state(rule, trees, actions):
        scores = np.zeros((trees, actions), np.float32)
        return GumbelState(scores, np.zeros(trees, np.float32))

    @staticmethod
    def plans_ahead(rule):
        return True

    @staticmethod
    def prepare_root(rule, tree, search, step, b):
        search.root.value[b] = node_value(tree.utility, tree, b, 0)
        first = tree.first_child[b, 0]
        for i in range(tree.children[b, 0]):
            logit = math.log(max(tree.prior[b, first + i], _LEAST_PRIOR))
            if search.noisy[b]:
                key = streams.fold(search.noise_key[b], i)
                uniform = max(streams.uniform(key, 0), _LEAST_UNIFORM)
                logit -= math.log(-math.log(uniform))
            search.root.scores[b, i] = logit

    @staticmethod
    def first_node(rule, methods, tree, search, b):
        if tree.first_child[b, 0] == 0:
            return 0
        considered = min(rule.considered, np.int64(tree.children[b, 0]))
        number = np.int64(tree.visits[b, 0]) - 1
        visits = considered_visits(considered, np.int64(search.budget[b]), number)
        return max(0, _best(rule, tree, search, b, visits))

    @staticmethod
    def weigh_policy(rule, methods, tree, search, b, weights):
        _write_policy(rule, tree, search, b, 1.0, weights)

    @staticmethod
    def weigh_moves(rule, methods, tree, search, b, sample, weights):
        if sample and not search.noisy[b]:
            _write_policy(rule, tree, search, b, np.float64(SCALE), weights)
            return
        weights[:] = 0
        best = _best(rule, tree, search, b, _most_visited(tree, b))
        if best >= 0:
            weights[tree.action[b, best]] = 1


class PuctRoot(NamedTuple):
    """The selection rule decides, as below the root; policies are the shares of the visits.

    forced_playouts: k of [Wu2019, Section 3.2], 0 for none. In searches with noise, a child of the
    root that has been visited gets at least sqrt(k * P(s, a) * sum_b N(s, b)) visits, P with its
    noise. Policies leave out visits due to that alone: from every child but the most visited one,
    as many are taken as leave its score below that one's, and children left with a single visit are
    dropped. [Wu2019]: 2.
    """

    forced_playouts: Annotated[float, Field(ge=0, le=100)] = 0.0


class _NoState(NamedTuple):
    """No state per tree."""


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
    """Return a child's visits without forced ones, while its score stays below a limit.

    The score is computed with the child's current value [Wu2019, Section 3.2].
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
    """Remove the forced visits from weights that are visits."""
    first = tree.first_child[b, 0]
    last = first + tree.children[b, 0]
    best = -1
    total = 0
    for child in range(first, last):
        total += tree.visits[b, child]
        lost = is_lost(tree.solver, tree, b, child)
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
class _PuctRootRule:
    @staticmethod
    def root_state(rule, trees, actions):
        return _NoState()

    @staticmethod
    def plans_ahead(rule):
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
                if few and not is_lost(tree.solver, tree, b, child):
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
