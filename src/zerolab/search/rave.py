"""RAVE [Gelly2011], rapid action value estimation, combined with PUCT [Wang2020b]."""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.core.compiled import inlined
from zerolab.search.methods import (
    SELECTION_INTERFACE,
    SelectionRule,
    child_fpu_value,
    node_fpu_value,
    register_root_rule,
    register_selection,
)
from zerolab.search.root_rules import PuctRootRule, write_visits
from zerolab.search.simulation_options import MOVE_WEIGHT_SCALE
from zerolab.search.values import action_value, moved_mean, scalar_value, seen_from_parent

_COUNT, _TOTAL, _MEAN = 0, 1, 4
_EXACT = np.float32(2**24)
_REMAINDER = 2  # distance in columns from a count to its rounding remainder


class Rave(NamedTuple):
    """Score (1 - beta) * U(s, a) + beta * U_rave(s, a), with beta = sqrt(k / (3 * N(s) + k)).

    U is the whole score of `Puct`. U_rave(s, a) = Q_rave + c * P * sqrt(N_rave(s)) / (1 + N_rave)
    uses the same c, prior and first-play urgency. N_rave(s, a) and Q_rave(s, a) are the number and
    the mean value of the simulations in which the side to move in s played a in s or later. With
    `proven_values`, a simulation that proves a node is credited with the value of its leaf even
    above that node, whereas Q receives the proven value.

    c: exploration constant. [Wang2020b]: 1.0. equivalence: k, by default the number of simulations
    per move, as in [Wang2020b]; 0 is equivalent to PUCT. all_movers: also count later actions of
    the opponent. playout_moves: also count playout moves, as in [Gelly2007] and [Gelly2011];
    otherwise count only moves in the tree, which is one possible reading of [Wang2020b]. With
    several playouts per leaf, the moves of the last playout are credited with the mean value of all
    playouts. reading: by default, actions are counted from s onwards, as in [Gelly2011]; with
    literal, as in the text of [Wang2020b], actions of both players are counted if they occur
    strictly after s (t1 < t2) and did not occur earlier in the simulation. all_movers then has no
    effect. Visited actions can then have N_rave = 0, and first-play urgency takes the place of
    their Q_rave, so fpu = "action_values", which is known only until the first visit, is refused.
    """

    c: Annotated[float, Field(ge=0)] = 1.0
    equivalence: Annotated[float, Field(ge=0)] | None = None
    all_movers: bool = False
    playout_moves: bool = True
    reading: Literal["literal"] | None = None


class LiteralReadingRave(NamedTuple):
    """`Rave` with reading = "literal", a separate type, so that other kernels omit its code.

    c, equivalence and playout_moves are the same as in `Rave`.
    """

    c: float
    equivalence: float
    playout_moves: bool


@inlined
def _increment(tree, b, node, column):
    """Add 1 to a count with Kahan summation; plain float32 would stop at 2^24.

    The remainder is stored `_REMAINDER` columns after the count. Scores read only the count. With
    float64 or uint32 instead, the search was 8 % slower on Gobang.
    """
    before = tree.statistics[b, node, column]
    if before < _EXACT:
        tree.statistics[b, node, column] = before + np.float32(1)
        return
    remainder = tree.statistics[b, node, column + _REMAINDER] + np.float32(1)
    after = before + remainder
    tree.statistics[b, node, column] = after
    tree.statistics[b, node, column + _REMAINDER] = remainder - (after - before)


@inlined
def _add_rave_value(tree, b, node, action, value):
    """Add a value for the side to move to the Q_rave of an action, if the action is legal."""
    first = np.int64(tree.first_child[b, node])
    if first == 0:
        return
    # Children are sorted by action, so the index of a child never exceeds its action number.
    child = first + min(action, np.int64(tree.child_count[b, node] - 1))
    while child >= first and tree.action[b, child] > action:
        child -= 1
    if child >= first and tree.action[b, child] == action:
        _increment(tree, b, child, _COUNT)
        _increment(tree, b, node, _TOTAL)
        mean = tree.statistics[b, child, _MEAN]
        count = tree.statistics[b, child, _COUNT]
        tree.statistics[b, child, _MEAN] = moved_mean(mean, value - mean, count)


@inlined
def _credit(rule, tree, b, node, is_own_action, action, backup_value):
    """Credit an action played at or after a node to this node and its ancestors.

    `is_own_action` is true if the side to move at the node played the action. The backup value is
    from the point of view of the side to move. Each node is credited only with the first occurrence
    of an action, so crediting stops at a node to which the same action led.
    """
    while node >= 0:
        if is_own_action or rule.all_movers:
            _add_rave_value(tree, b, node, action, scalar_value(tree.utility, b, backup_value))
        is_own_action = not is_own_action
        if (is_own_action or rule.all_movers) and tree.action[b, node] == action:
            return
        backup_value = seen_from_parent(tree.utility, backup_value)
        node = np.int64(tree.parent[b, node])


@inlined
def _discount_counts(tree, b, node, visits, former_visits, counts_visits):
    """Scale N_rave of a node's children; rounding preserves the sum.

    If `counts_visits`, N_rave includes the visits of a child and does not fall below them.
    """
    first = tree.first_child[b, node]
    before = np.int64(0)
    total = np.int64(0)
    for child in range(first, first + tree.child_count[b, node]):
        count = np.int64(tree.statistics[b, child, _COUNT])
        after = before + count
        kept = after * visits // former_visits - before * visits // former_visits
        if counts_visits:
            kept = min(count, max(kept, np.int64(tree.visits[b, child])))
        tree.statistics[b, child, _COUNT] = np.float32(kept)
        tree.statistics[b, child, _COUNT + _REMAINDER] = np.float32(0)
        if kept == 0:
            tree.statistics[b, child, _MEAN] = np.float32(0)
        before = after
        total += kept
    tree.statistics[b, node, _TOTAL] = np.float32(total)
    tree.statistics[b, node, _TOTAL + _REMAINDER] = np.float32(0)


@register_selection("rave", Rave)
class _RaveRule(SelectionRule):
    """Statistics per node: N_rave(s) - 1, and N_rave and Q_rave of the action that led to the node.

    Both counts have a remainder; see `_increment`. N(s) and N_rave(s) include the node's own
    evaluation, as in `Puct`.
    """

    @staticmethod
    def statistics_width(rule):
        return 5

    @staticmethod
    def with_simulations(rule, simulations):
        k = float(simulations) if rule.equivalence is None else rule.equivalence
        if rule.reading == "literal":
            return LiteralReadingRave(rule.c, k, rule.playout_moves)
        return rule._replace(equivalence=k)

    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        visits = tree.visits[b, node]
        exploration = np.float32(rule.c * math.sqrt(visits))
        rave_exploration = np.float32(rule.c * math.sqrt(1.0 + tree.statistics[b, node, _TOTAL]))
        beta = np.float32(math.sqrt(rule.equivalence / (3.0 * visits + rule.equivalence)))
        return (
            exploration,
            rave_exploration,
            beta,
            fpu,
            np.float32(node_fpu_value(fpu, tree, b, node)),
        )

    @staticmethod
    def selection_score(rule, tree, b, child, shared):
        """Compute the score without branches; means are loaded even if they are not used.

        Unpredictable branches here would halve the speed of the whole search.
        """
        exploration, rave_exploration, beta, fpu, shared_value = shared
        unvisited_value = child_fpu_value(fpu, tree, b, child, shared_value)
        prior = tree.prior[b, child]
        visits = tree.visits[b, child]
        value = action_value(tree.utility, tree, b, child)
        value = value if visits > 0 else unvisited_value
        puct = value + exploration * prior / np.float32(1 + visits)
        count = tree.statistics[b, child, _COUNT]
        mean = tree.statistics[b, child, _MEAN]
        mean = mean if count > 0 else unvisited_value
        rave_score = mean + rave_exploration * prior / (np.float32(1) + count)
        return (np.float32(1) - beta) * puct + beta * rave_score

    @staticmethod
    def forget_children(rule, tree, b, node):
        tree.statistics[b, node, _TOTAL] = np.float32(0)
        tree.statistics[b, node, _TOTAL + _REMAINDER] = np.float32(0)

    @staticmethod
    def discount_children(rule, tree, b, node, visits, former_visits):
        _discount_counts(tree, b, node, visits, former_visits, counts_visits=True)

    @staticmethod
    def update_statistics(rule, tree, b, leaf, backup_value, playout_moves):
        node = leaf
        node_backup = backup_value
        while tree.parent[b, node] >= 0:
            node_backup = seen_from_parent(tree.utility, node_backup)
            action = np.int64(tree.action[b, node])
            node = np.int64(tree.parent[b, node])
            _credit(rule, tree, b, node, True, action, node_backup)
        if rule.playout_moves:
            for ply in range(playout_moves[0]):
                if not _occurred_earlier(playout_moves, ply, rule.all_movers):
                    action = np.int64(playout_moves[1 + ply])
                    _credit(rule, tree, b, leaf, ply % 2 == 0, action, backup_value)


@inlined
def _occurred_earlier(playout_moves, ply, all_movers):
    """Return whether a ply's action was already credited at an earlier ply of the playout."""
    for earlier in range(0 if all_movers else ply % 2, ply, 1 if all_movers else 2):
        if playout_moves[1 + earlier] == playout_moves[1 + ply]:
            return True
    return False


@inlined
def _led_to(tree, b, node, action):
    """Return whether an action led to a node or to one of its ancestors."""
    while tree.parent[b, node] >= 0:
        if tree.action[b, node] == action:
            return True
        node = tree.parent[b, node]
    return False


@inlined
def _credit_ancestors(tree, b, node, action, backup_value):
    """Credit an action to all ancestors of a node, given the backup value at the node."""
    while tree.parent[b, node] >= 0:
        backup_value = seen_from_parent(tree.utility, backup_value)
        node = np.int64(tree.parent[b, node])
        _add_rave_value(tree, b, node, action, scalar_value(tree.utility, b, backup_value))


class _LiteralReadingRaveRule(_RaveRule):
    """RAVE that credits the first occurrence of an action to all states strictly before it."""

    @staticmethod
    def with_simulations(rule, simulations):
        return rule

    @staticmethod
    def discount_children(rule, tree, b, node, visits, former_visits):
        _discount_counts(tree, b, node, visits, former_visits, counts_visits=False)

    @staticmethod
    def update_statistics(rule, tree, b, leaf, backup_value, playout_moves):
        node = leaf
        node_backup = backup_value
        while tree.parent[b, node] >= 0:
            action = np.int64(tree.action[b, node])
            node_backup = seen_from_parent(tree.utility, node_backup)
            node = np.int64(tree.parent[b, node])
            if not _led_to(tree, b, node, action):
                _credit_ancestors(tree, b, node, action, node_backup)
        if rule.playout_moves:
            for ply in range(playout_moves[0]):
                action = np.int64(playout_moves[1 + ply])
                occurred = _occurred_earlier(playout_moves, ply, True)
                if not occurred and not _led_to(tree, b, leaf, action):
                    if ply > 0:
                        value = scalar_value(tree.utility, b, backup_value)
                        _add_rave_value(tree, b, leaf, action, value)
                    _credit_ancestors(tree, b, leaf, action, backup_value)


SELECTION_INTERFACE.implement(LiteralReadingRave, _LiteralReadingRaveRule)


class RaveValuesRoot(NamedTuple):
    """Policy from the normalised Q_rave, as in line 3 of RAVE's algorithm in [Wang2020b].

    The policy is proportional to (Q_rave(s, a) + 1) / 2 for actions with N_rave(s, a) > 0, or to
    the visit counts if Q_rave is -1 for all of these. This policy is the training target; the move
    is sampled from it or is its most probable action. Simulations are distributed as with `puct`.
    Needs the `rave` selection rule.
    """


@inlined
def _write_rave_values(tree, b, weights):
    """Write (Q_rave + 1) / 2 of root actions to float64[actions]; return their sum."""
    weights[:] = 0
    total = 0.0
    first = tree.first_child[b, 0]
    for child in range(first, first + tree.child_count[b, 0]):
        if tree.statistics[b, child, _COUNT] > 0:
            weight = max(0.0, (np.float64(tree.statistics[b, child, _MEAN]) + 1.0) / 2.0)
            weights[tree.action[b, child]] = weight
            total += weight
    return total


@register_root_rule("rave_values", RaveValuesRoot)
class _RaveValuesRootRule(PuctRootRule):
    @staticmethod
    def descent_start(rule, methods, tree, search_state, b):
        return 0

    @staticmethod
    def write_policy(rule, methods, tree, search_state, b, weights):
        if _write_rave_values(tree, b, weights) <= 0.0:
            write_visits(tree, b, weights)

    @staticmethod
    def write_move_weights(rule, methods, tree, search_state, b, sample, weights):
        shares = np.empty(weights.shape[0], np.float64)
        total = _write_rave_values(tree, b, shares)
        if total <= 0.0:
            write_visits(tree, b, weights)
            return
        for action in range(weights.shape[0]):
            weights[action] = np.int64(MOVE_WEIGHT_SCALE * (shares[action] / total))
