"""PUCT [Rosin2011] as in [Silver2018] and [Wang2021b, Alg. 4], first-play urgency, and UCT.

First-play urgency (FPU) is the assumed value of unvisited children. `search.values` computes the Q
of visited children.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.methods import (
    FPU_INTERFACE,
    FpuRule,
    SelectionRule,
    child_fpu_value,
    fpu_for_kernels,
    node_fpu_value,
    register_fpu,
    register_selection,
)
from zerolab.search.values import action_value, draw_contribution, node_value


class Puct(NamedTuple):
    """Score Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a)), with Q in [-1, 1].

    [Silver2018] calls the second term U(s, a). N(s) includes the node's own evaluation, so priors
    already decide the first selection.

    c: exploration constant. [Wang2019], [Wang2020a], [Wang2020b]: 1.0 ([Wang2020a] sweeps 0.5 to
    2). [Clausen2021]: 3.09, published as 1.545 for Q in [0, 1]; evolved within [0.5, 8].
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("puct", Puct)
class PuctRule(SelectionRule):
    """Implementation of `Puct` and base class of its variants."""

    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(node_fpu_value(fpu, tree, b, node))

    @staticmethod
    def selection_score(rule, tree, b, child, shared):
        exploration, fpu, shared_value = shared
        visits = tree.visits[b, child]
        unvisited_value = child_fpu_value(fpu, tree, b, child, shared_value)
        value = action_value(tree.utility, tree, b, child) if visits > 0 else unvisited_value
        return value + exploration * tree.prior[b, child] / np.float32(1 + visits)


class AffineFpu(NamedTuple):
    """Q(s, a) = parent_weight * V(s) + offset for unvisited children."""

    parent_weight: float
    offset: float


class _AffineFpuRule(FpuRule):
    @staticmethod
    def node_fpu_value(rule, tree, b, node):
        parent_value = node_value(tree.utility, tree, b, node)
        return np.float32(rule.parent_weight) * parent_value + np.float32(rule.offset)


FPU_INTERFACE.implement(AffineFpu, _AffineFpuRule)


class _AffineFpuSpecialCase(FpuRule):
    """Base class of special cases of `AffineFpu`."""

    @staticmethod
    def node_fpu_value(rule, tree, b, node):
        return node_fpu_value(fpu_for_kernels(rule), tree, b, node)


class ZeroFpu(NamedTuple):
    """Q(s, a) = 0 for unvisited children.

    [Wang2019], [Wang2020a] and [Wang2020b] use this rule.
    """


@register_fpu("zero", ZeroFpu)
class _ZeroFpuRule(_AffineFpuSpecialCase):
    @staticmethod
    def fpu_for_kernels(rule):
        return AffineFpu(0.0, 0.0)


class ParentFpu(NamedTuple):
    """Q(s, a) = V(s) - reduction for unvisited children.

    reduction: amount subtracted from the parent's mean value. [Wu2019]: 0.2 times the square root
    of the visited prior mass, which depends on the node.
    """

    reduction: Annotated[float, Field(ge=0, le=2)] = 0.2


@register_fpu("parent", ParentFpu)
class _ParentFpuRule(_AffineFpuSpecialCase):
    @staticmethod
    def fpu_for_kernels(rule):
        return AffineFpu(1.0, -rule.reduction)


class FixedFpu(NamedTuple):
    """Q(s, a) = value for unvisited children.

    value: Q of unvisited children, from -1 (loss) to 1 (win). [Clausen2021]: 0.8545 for Q in
    [0, 1], which is 2 * 0.8545 - 1 = 0.709 here.
    """

    value: Annotated[float, Field(ge=-1, le=1)] = 0.0


@register_fpu("fixed", FixedFpu)
class _FixedFpuRule(_AffineFpuSpecialCase):
    @staticmethod
    def fpu_for_kernels(rule):
        return AffineFpu(0.0, rule.value)


class ActionValuesFpu(NamedTuple):
    """Q(s, a) = the network's action value, the third head of [Clausen2021].

    The network needs the ``action_values`` head. Draws are assumed to be as likely as at the
    parent. A child that loses all of its visits keeps its Q from the previous search, except that
    draws are assumed to be as likely as at the parent.
    """


@register_fpu("action_values", ActionValuesFpu)
class _ActionValuesFpuRule(FpuRule):
    """Rule that stores the assumed Q of an unvisited child, negated, in place of its mean value.

    The stored number is that of the network and excludes draws. Unlike a mean value, it is one ply
    earlier, so the discount does not apply to it again.
    """

    @staticmethod
    def extra_outputs(rule):
        return ("action_values",)

    @staticmethod
    def node_fpu_value(rule, tree, b, node):
        return draw_contribution(tree.utility, tree, b, node)

    @staticmethod
    def child_fpu_value(rule, tree, b, child, shared):
        return shared - tree.value[b, child]

    @staticmethod
    def init_child_values(rule, tree, b, node, action_values, row):
        first = tree.first_child[b, node]
        for child in range(first, first + tree.child_count[b, node]):
            tree.value[b, child] = -action_values[row, tree.action[b, child]]

    @staticmethod
    def reset_child_value(rule, tree, b, child):
        tree.value[b, child] *= np.float32(tree.utility.discount)


class Uct(NamedTuple):
    """Score Q(s, a) + c * sqrt(ln N(s) / N(s, a)), with Q in [-1, 1]; priors are ignored.

    The score is infinite for unvisited children, so every child is visited once before any child is
    visited twice, and first-play urgency has no effect.

    c: exploration constant. [Kocsis2006]: 2 * C_p = 1.41, with C_p = 1 / sqrt(2), for Q in [0, 1],
    which is 2.83 for Q in [-1, 1].
    """

    c: Annotated[float, Field(ge=0)] = 1.0


@register_selection("uct", Uct)
class _UctRule(SelectionRule):
    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        return np.float32(rule.c * math.sqrt(math.log(tree.visits[b, node])))

    @staticmethod
    def selection_score(rule, tree, b, child, shared):
        visits = tree.visits[b, child]
        if visits == 0:
            return np.float32(np.inf)
        return shared / math.sqrt(np.float32(visits)) + action_value(tree.utility, tree, b, child)
