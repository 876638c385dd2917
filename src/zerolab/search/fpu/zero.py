"""Unvisited children are draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zerolab.search.interface import register_fpu


class Zero(NamedTuple):
    """An unvisited child counts as a draw (the papers W, H and L)."""


@register_fpu("zero", Zero)
class ZeroRule:
    """See `Zero`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(0.0)
