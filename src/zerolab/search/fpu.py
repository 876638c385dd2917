"""First-play urgency (fpu): the value that children without visits are taken to have."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import register_fpu


class Zero(NamedTuple):
    """Q(s, a) = 0: an unvisited child counts as a draw.

    [Wang2019], [Wang2020a], [Wang2020b]: this rule.
    """


@register_fpu("zero", Zero)
class ZeroRule:
    """See `Zero`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(0.0)


class Parent(NamedTuple):
    """Q(s, a) = V(s) - reduction: an unvisited child is a little worse than its parent's mean.

    [Wu2019] reduces by 0.2 times the square root of the prior mass already visited.
    """

    reduction: Annotated[float, Field(ge=0, le=2)] = 0.2


@register_fpu("parent", Parent)
class ParentRule:
    """See `Parent`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return tree.value[b, node] - np.float32(rule.reduction)


class Fixed(NamedTuple):
    """Q(s, a) = value for every unvisited child.

    value: Q of unvisited children, from -1 (lost) to 1 (won). [Clausen2021]: 0.8545 on a scale
    [0, 1], which is 2 * 0.8545 - 1 = 0.709 here.
    """

    value: Annotated[float, Field(ge=-1, le=1)] = 0.0


@register_fpu("fixed", Fixed)
class FixedRule:
    """See `Fixed`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(rule.value)
