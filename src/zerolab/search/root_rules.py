"""Root rules: PUCT with Dirichlet noise and forced playouts, and Gumbel [Danihelka2022].

Gumbel plans all root simulations in advance. Its policy improves on the prior even if only some
actions have been visited, so a few simulations are enough for a training target.
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

_MIN_PRIOR = np.float32(1.1754944e-38)
_MIN_UNIFORM = 2.0**-54


class Gumbel(NamedTuple):
    """Sequential halving with scores g(a) + logits(a) + sigma(q(a)).

    g(a) is drawn from Gumbel(0) in self-play and 0 elsewhere. sigma(q) = (visit_weight + max_b
    N(b)) * value_scale * q, with Q in [-1, 1], and logits(a) is the logarithm of the prior
    [Danihelka2022, Algorithms 1 and 2]. The move is the best of the most visited actions. Policies
    are softmax(logits + sigma(completed Q)), where unvisited actions have the value v_mix
    [Danihelka2022, Eq. 33]. Searches start from bare roots: trees are not kept between moves even
    with `reuse_tree`. Below the root, the selection rule applies.

    considered: maximum number of sampled actions. [Danihelka2022]: 16. visit_weight: c_visit.
    [Danihelka2022], [mctx]: 50. value_scale: c_scale. [Danihelka2022]: 1 in board games, 0.1 on
    Atari; [mctx]: 0.1, with values rescaled to [0, 1].
    """

    considered: Annotated[int, Field(ge=1, le=10_000)] = 16
    visit_weight: Annotated[float, Field(ge=0)] = 50.0
    value_scale: Annotated[float, Field(gt=0)] = 0.1


class GumbelState(NamedTuple):
    """State of the root of each tree; children are numbered from 0."""

    scores: NDArray[np.float32]  # [B, actions] g + logits
    value: NDArray[np.float32]  # [B] worth of the root according to the evaluator


@inlined
def considered_visits(considered, simulations, number):
    """Return the current visit count of the child to choose in simulation `number`, from 0.

    Sequential halving splits the simulations equally into ceil(log2(considered)) phases. Each phase
    divides its simulations equally among the remaining children and then drops the worse half.
    Simulations left over from rounding go to the last two children [mctx,
    get_table_of_considered_visits].
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
    """Return v_mix, the value of unvisited actions, and the factor of sigma.

    v_mix = (v + sum_b N(b) * sum_visited pi(a) q(a) / sum_visited pi(a)) / (1 + sum_b N(b)).
    """
    first = tree.first_child[b, 0]
    total = 0
    max_visits = 0
    mass = 0.0
    weighted = 0.0
    for child in range(first, first + tree.children[b, 0]):
        visits = tree.visits[b, child]
        if visits > 0:
            prior = max(tree.prior[b, child], _MIN_PRIOR)
            total += visits
            max_visits = max(max_visits, visits)
            mass += prior
            weighted += prior * action_value(tree.utility, tree, b, child)
    mixed = np.float64(search.root.value[b])
    if total > 0:
        mixed = (mixed + total * weighted / mass) / (1 + total)
    return mixed, (rule.visit_weight + max_visits) * rule.value_scale


@inlined
def _sigma(tree, b, child, mixed, factor):
    """Return sigma of the completed value of an action."""
    value = (
        np.float64(action_value(tree.utility, tree, b, child))
        if tree.visits[b, child] > 0
        else mixed
    )
    return factor * value


@inlined
def _best(rule, tree, search, b, visits):
    """Return the best child of the root with exactly `visits` visits, or -1 if there is none.

    Children that are not proven losses take precedence.
    """
    mixed, factor = _completion(rule, tree, search, b)
    first = tree.first_child[b, 0]
    best = -1
    highest = -np.inf
    hopeless = True
    for child in range(first, first + tree.children[b, 0]):
        if tree.visits[b, child] == visits:
            lost = is_lost(tree.solver, tree, b, child)
            child_score = search.root.scores[b, child - first] + _sigma(
                tree, b, child, mixed, factor
            )
            if best < 0 or (hopeless and not lost) or (child_score > highest and lost == hopeless):
                best = child
                highest = child_score
                hopeless = lost
    return best


@inlined
def _most_visited(tree, b):
    """Return the highest visit count among the root's children that are not proven losses."""
    first = tree.first_child[b, 0]
    max_visits = 0
    for child in range(first, first + tree.children[b, 0]):
        if not is_lost(tree.solver, tree, b, child):
            max_visits = max(max_visits, tree.visits[b, child])
    return max_visits


@inlined
def _write_policy(rule, tree, search, b, scale, weights):
    """Write `scale` times softmax(logits + sigma(completed Q))."""
    mixed, factor = _completion(rule, tree, search, b)
    first = tree.first_child[b, 0]
    count = tree.children[b, 0]
    logits = np.empty(count, np.float64)
    for i in range(count):
        prior = max(tree.prior[b, first + i], _MIN_PRIOR)
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
            logit = math.log(max(tree.prior[b, first + i], _MIN_PRIOR))
            if search.noisy[b]:
                key = streams.fold(search.noise_key[b], i)
                uniform = max(streams.uniform(key, 0), _MIN_UNIFORM)
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
    """Selection as below the root, with policies proportional to visits.

    forced_playouts: k of [Wu2019, Section 3.2]; 0 disables forced playouts. In searches with noise,
    every visited child of the root gets at least sqrt(k * P(s, a) * sum_b N(s, b)) visits, where P
    includes the noise. Policies exclude visits made only for this reason: visits are removed from
    all children except the most visited one while their scores stay below its score, and children
    with a single remaining visit are dropped. [Wu2019]: 2.
    """

    forced_playouts: Annotated[float, Field(ge=0, le=100)] = 0.0


class _NoState(NamedTuple):
    """Empty state for rules that need none."""


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
    """Return a child's visits without forced playouts.

    Visits are removed only while the score, computed with the child's current value, stays below
    `limit` [Wu2019, Section 3.2].
    """
    all_visits = tree.visits[b, child]
    forced = math.sqrt(rule.forced_playouts * tree.prior[b, child] * total)
    minimum = max(1, all_visits - np.int64(forced))
    visits = all_visits
    while visits > minimum:
        tree.visits[b, child] = visits - 1
        if score(methods.selection, tree, b, child, shared) >= limit:
            break
        visits -= 1
    tree.visits[b, child] = all_visits
    return visits if visits > 1 else 0


@inlined
def _prune(rule, methods, tree, b, weights):
    """Remove forced playouts from weights that contain visit counts."""
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
            visits = _pruned(rule, methods, tree, b, child, total, limit, shared)
            weights[tree.action[b, child]] = visits


@inlined
def write_visits(tree, b, weights):
    """Write the visit counts of root actions."""
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
