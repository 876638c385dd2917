"""Root rules: PUCT with Dirichlet noise and forced playouts, and Gumbel [Danihelka2022].

Gumbel plans all root simulations in advance. Its policy improves on the prior even if only some
actions have been visited, so even a few simulations provide a useful training target.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core import streams
from zerolab.core.compiled import inlined
from zerolab.search.methods import register_root_rule, selection_score, shared_score_terms
from zerolab.search.simulation import takes_tie
from zerolab.search.simulation_options import MOVE_WEIGHT_SCALE, is_losing_move
from zerolab.search.values import action_value, node_value

_MIN_PRIOR = np.float32(1.1754944e-38)
_MIN_UNIFORM = 2.0**-54
_MIN_TOTAL = 1e-300
"""Sum of variates below which they may have underflowed."""
_MANY = 1 << 40
"""More visits than any node has."""


class GumbelRoot(NamedTuple):
    """Sequential halving with scores g(a) + logits(a) + sigma(q(a)).

    g(a) is drawn from Gumbel(0) in searches with noise, as in self-play, and is 0 elsewhere.
    sigma(q) = (visit_weight + max_b N(b)) * value_scale * q, with q in [-1, 1], and logits(a) is
    the logarithm of the prior [Danihelka2022, Algorithms 1 and 2]. The move with the highest score
    among the most visited actions is played; in searches without noise, sampled moves follow the
    policy instead. Policies are softmax(logits + sigma(completed Q)), where unvisited actions have
    the value v_mix [Danihelka2022, Eq. 33]. Searches start from unexpanded roots, so
    trees are not kept between moves, even with `reuse_tree`. Below the root, the selection rule
    applies. With `proven_values`, other actions take the place of proven losses.

    considered: maximum number of sampled actions. [Danihelka2022]: 16. visit_weight: c_visit.
    [Danihelka2022], [mctx]: 50. value_scale: c_scale. [Danihelka2022]: 1 in board games, 0.1 on
    Atari; [mctx]: 0.1, with values rescaled to [0, 1].
    """

    considered: Annotated[int, Field(ge=1, le=10_000)] = 16
    visit_weight: Annotated[float, Field(ge=0, le=1_000_000)] = 50.0
    value_scale: Annotated[float, Field(gt=0, le=1_000_000)] = 0.1


class GumbelRootState(NamedTuple):
    """State of `GumbelRoot` for each of B trees; children of a root are numbered from 0."""

    noisy_logits: NDArray[np.float32]  # [B, actions] g + logits
    evaluator_value: NDArray[np.float32]  # [B] value of the root before its children are visited


@inlined
def considered_visits(considered, simulations, simulation_number):
    """Return the visit count that makes a child eligible in simulation `simulation_number`.

    Simulations are numbered from 0. Sequential halving splits them equally into
    ceil(log2(considered)) phases. Each phase divides its simulations equally among the remaining
    children and then drops the worse half. Simulations left over by rounding go to the last two
    children [mctx, get_table_of_considered_visits].
    """
    if considered <= 1:
        return simulation_number
    phases = 0
    while (1 << phases) < considered:
        phases += 1
    visits = 0
    while True:
        each = max(1, simulations // (phases * considered))
        if simulation_number < each * considered:
            return visits + simulation_number // considered
        simulation_number -= each * considered
        visits += each
        considered = max(2, considered // 2)


@inlined
def _completion_terms(rule, tree, search_state, b):
    """Return the value of unvisited actions, v_mix, and the factor of sigma.

    v_mix = (v + sum_b N(b) * sum_visited pi(a) q(a) / sum_visited pi(a)) / (1 + sum_b N(b)).
    """
    first = tree.first_child[b, 0]
    total = 0
    max_visits = 0
    mass = 0.0
    weighted = 0.0
    for child in range(first, first + tree.child_count[b, 0]):
        visits = tree.visits[b, child]
        if visits > 0:
            prior = max(tree.prior[b, child], _MIN_PRIOR)
            total += visits
            max_visits = max(max_visits, visits)
            mass += prior
            weighted += prior * action_value(tree.utility, tree, b, child)
    mixed = np.float64(search_state.root_rule_state.evaluator_value[b])
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
def _distance(visits, scheduled):
    """Return a number that orders children, smaller first, by how well they fit a schedule.

    Children with the scheduled number of visits come first, then those with fewer visits, and then
    those with more, in each case the closest number first.
    """
    return scheduled - visits if visits <= scheduled else _MANY + visits


@inlined
def _best_child(rule, methods, tree, search_state, b, scheduled):
    """Return the best child of the root with `scheduled` visits that is not a proven loss.

    If proven losses leave no such child, another one takes their place, the closest by `_distance`,
    so the next-best actions are considered in addition. Returns -1 if all actions are lost.
    """
    mixed, factor = _completion_terms(rule, tree, search_state, b)
    first = tree.first_child[b, 0]
    best = -1
    highest = -np.inf
    closest = 2 * _MANY
    ties = 1
    for child in range(first, first + tree.child_count[b, 0]):
        distance = _distance(np.int64(tree.visits[b, child]), scheduled)
        if distance <= closest and not is_losing_move(tree.solver, tree, b, child):
            child_score = search_state.root_rule_state.noisy_logits[b, child - first] + _sigma(
                tree, b, child, mixed, factor
            )
            if distance < closest or child_score > highest:
                best = child
                highest = child_score
                closest = distance
                ties = 1
            elif child_score == highest:
                ties += 1
                if takes_tie(methods, search_state, b, 0, child, ties):
                    best = child
    return best


@inlined
def _max_visits(tree, b):
    """Return the highest visit count of a root action that is not a proven loss."""
    first = tree.first_child[b, 0]
    max_visits = 0
    for child in range(first, first + tree.child_count[b, 0]):
        if not is_losing_move(tree.solver, tree, b, child):
            max_visits = max(max_visits, tree.visits[b, child])
    return max_visits


@inlined
def _write_improved_policy(rule, tree, search_state, b, scale, weights):
    """Write `scale` * softmax(logits + sigma(completed Q)) to `weights`, [actions]."""
    mixed, factor = _completion_terms(rule, tree, search_state, b)
    first = tree.first_child[b, 0]
    count = tree.child_count[b, 0]
    logits = np.empty(count, np.float64)
    for i in range(count):
        prior = max(tree.prior[b, first + i], _MIN_PRIOR)
        logits[i] = math.log(prior) + _sigma(tree, b, first + i, mixed, factor)
    logits -= logits.max()
    total = np.exp(logits).sum()
    weights[:] = 0
    for i in range(count):
        weights[tree.action[b, first + i]] = scale * math.exp(logits[i]) / total


@register_root_rule("gumbel", GumbelRoot)
class _GumbelRootRule:
    @staticmethod
    def empty_root_rule_state(rule, trees, actions):
        noisy_logits = np.zeros((trees, actions), np.float32)
        return GumbelRootState(noisy_logits, np.zeros(trees, np.float32))

    @staticmethod
    def has_fixed_schedule(rule):
        return True

    @staticmethod
    def prepare_root(rule, tree, search_state, options, b):
        search_state.root_rule_state.evaluator_value[b] = node_value(tree.utility, tree, b, 0)
        first = tree.first_child[b, 0]
        for i in range(tree.child_count[b, 0]):
            logit = math.log(max(tree.prior[b, first + i], _MIN_PRIOR))
            if search_state.has_noise[b]:
                key = streams.fold_in(search_state.noise_key[b], i)
                uniform = max(streams.uniform(key, 0), _MIN_UNIFORM)
                logit -= math.log(-math.log(uniform))
            search_state.root_rule_state.noisy_logits[b, i] = logit

    @staticmethod
    def descent_start(rule, methods, tree, search_state, b):
        if tree.first_child[b, 0] == 0:
            return 0
        considered = min(rule.considered, np.int64(tree.child_count[b, 0]))
        number = np.int64(tree.visits[b, 0]) - 1
        visits = considered_visits(
            considered, np.int64(search_state.requested_simulations[b]), number
        )
        return max(0, _best_child(rule, methods, tree, search_state, b, visits))

    @staticmethod
    def write_policy(rule, methods, tree, search_state, b, weights):
        _write_improved_policy(rule, tree, search_state, b, 1.0, weights)

    @staticmethod
    def write_move_weights(rule, methods, tree, search_state, b, sample, weights):
        if sample and not search_state.has_noise[b]:
            _write_improved_policy(
                rule, tree, search_state, b, np.float64(MOVE_WEIGHT_SCALE), weights
            )
            return
        weights[:] = 0
        most = np.int64(_max_visits(tree, b))
        best = _best_child(rule, methods, tree, search_state, b, most)
        if best >= 0:
            weights[tree.action[b, best]] = 1


class PuctRoot(NamedTuple):
    """Selection by the same rule as below the root, with policies proportional to visit counts.

    forced_playouts: k of [Wu2019, Section 3.2]; 0 disables forced playouts. In searches with noise,
    every visited child of the root receives at least sqrt(k * P(s, a) * sum_b N(s, b)) visits,
    where P includes the noise. Policies exclude forced visits: the most visited child keeps all
    visits, other children lose forced visits as long as their scores stay below its score, and
    children with a single remaining visit are dropped. [Wu2019]: 2.
    """

    forced_playouts: Annotated[float, Field(ge=0, le=100)] = 0.0


class _NoRootRuleState(NamedTuple):
    """Empty state of a root rule."""


@inlined
def _add_root_noise(tree, b, key, fraction, concentration):
    """Mix Dirichlet noise into the priors of the root's children [Silver2018, Methods].

    P(s, a) <- (1 - fraction) * P(s, a) + fraction * eta_a, eta ~ Dir(concentration / actions).
    At tiny concentrations, one action receives almost all noise.
    """
    first = tree.first_child[b, 0]
    count = tree.child_count[b, 0]
    alpha = concentration / count
    total = 0.0
    noise = np.empty(count, np.float64)
    for i in range(count):
        noise[i] = streams.gamma(streams.fold_in(key, i), alpha)
        total += noise[i]
    if total < _MIN_TOTAL:  # the ratios of the variates are still known
        for i in range(count):
            noise[i] = streams.log_small_gamma(streams.fold_in(key, i), alpha)
        noise = np.exp(noise - noise.max())
        total = noise.sum()
    for i in range(count):
        mixed = (1.0 - fraction) * tree.prior[b, first + i] + fraction * noise[i] / total
        tree.prior[b, first + i] = np.float32(mixed)


@inlined
def _pruned_visits(rule, methods, tree, b, child, total, limit, shared):
    """Return a child's visits without forced playouts.

    Visits are removed while the score, computed with the child's current value, stays below `limit`
    [Wu2019, Section 3.2].
    """
    all_visits = tree.visits[b, child]
    forced = math.sqrt(rule.forced_playouts * tree.prior[b, child] * total)
    minimum = max(1, all_visits - np.int64(forced))
    visits = all_visits
    while visits > minimum:
        tree.visits[b, child] = visits - 1
        if selection_score(methods.selection, tree, b, child, shared) >= limit:
            break
        visits -= 1
    tree.visits[b, child] = all_visits
    return visits if visits > 1 else 0


@inlined
def _prune_forced_playouts(rule, methods, tree, b, weights):
    """Remove forced playouts from `weights`, which contain visit counts."""
    first = tree.first_child[b, 0]
    last = first + tree.child_count[b, 0]
    best = -1
    total = 0
    for child in range(first, last):
        total += tree.visits[b, child]
        lost = is_losing_move(tree.solver, tree, b, child)
        if not lost and (best < 0 or tree.visits[b, child] > tree.visits[b, best]):
            best = child
    if best < 0:
        return
    shared = shared_score_terms(methods.selection, methods.fpu, tree, b, 0)
    limit = selection_score(methods.selection, tree, b, best, shared)
    for child in range(first, last):
        if child != best:
            visits = _pruned_visits(rule, methods, tree, b, child, total, limit, shared)
            weights[tree.action[b, child]] = visits


@inlined
def write_visits(tree, b, weights):
    """Write the visit counts of root actions to `weights`, [actions]."""
    weights[:] = 0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.child_count[b, 0]):
        weights[tree.action[b, child]] = tree.visits[b, child]


@register_root_rule("puct", PuctRoot)
class PuctRootRule:
    """Implementation of `PuctRoot`."""

    @staticmethod
    def empty_root_rule_state(rule, trees, actions):
        return _NoRootRuleState()

    @staticmethod
    def has_fixed_schedule(rule):
        return False

    @staticmethod
    def prepare_root(rule, tree, search_state, options, b):
        key = search_state.noise_key[b]
        _add_root_noise(tree, b, key, options.noise_fraction, options.noise_concentration)

    @staticmethod
    def descent_start(rule, methods, tree, search_state, b):
        first = tree.first_child[b, 0]
        if rule.forced_playouts > 0.0 and search_state.has_noise[b] and first != 0:
            owed = rule.forced_playouts * (tree.visits[b, 0] - 1)
            for child in range(first, first + tree.child_count[b, 0]):
                visits = np.float64(tree.visits[b, child])
                few = 0.0 < visits * visits < owed * tree.prior[b, child]
                if few and not is_losing_move(tree.solver, tree, b, child):
                    return child
        return 0

    @staticmethod
    def write_policy(rule, methods, tree, search_state, b, weights):
        write_visits(tree, b, weights)
        if rule.forced_playouts > 0.0 and search_state.has_noise[b]:
            _prune_forced_playouts(rule, methods, tree, b, weights)

    @staticmethod
    def write_move_weights(rule, methods, tree, search_state, b, sample, weights):
        write_visits(tree, b, weights)
