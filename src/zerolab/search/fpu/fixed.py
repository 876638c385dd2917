"""Unvisited children have one value everywhere."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.search.interface import register_fpu


class Fixed(NamedTuple):
    """An unvisited child has one value everywhere, in [-1, 1].

    C's 0.8545, a probability of winning in [0, 1], is 2 * 0.8545 - 1 = 0.709 here.
    """

    value: Annotated[float, Field(ge=-1, le=1)] = 0.0


@register_fpu("fixed", Fixed)
class FixedRule:
    """See `Fixed`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(rule.value)
