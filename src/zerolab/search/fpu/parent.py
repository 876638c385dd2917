"""Unvisited children are a little worse than their parent."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import register_fpu


class Parent(NamedTuple):
    """An unvisited child counts as its parent's mean value less a reduction."""

    reduction: Annotated[float, Field(ge=0, le=2)] = 0.2


@register_fpu("parent", Parent)
class ParentRule:
    """See `Parent`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return tree.value[b, node] - np.float32(rule.reduction)
