"""What the value of a position is worth to the player who decides whether to go there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined

UTILITIES = CompiledInterface("utility")


class ZeroSum(NamedTuple):
    """What one player wins, the other loses, and less of it with every ply.

    discount: what a value is multiplied by for every ply that it lies ahead.
    """

    discount: float = 1.0


@UTILITIES.function
def seen_from_parent(utility: Any, value: Any) -> Any:
    """Return what is backed up to a node for a value that is backed up to its child."""
    raise AssertionError


class ZeroSumRule:
    """See `ZeroSum`."""

    @staticmethod
    def seen_from_parent(utility, value):
        return -np.float32(utility.discount) * value


UTILITIES.implement(ZeroSum, ZeroSumRule)


@inlined
def action_value(tree, b, child):
    """Return Q(s, a) of the action that leads to a visited child, for the player who takes it."""
    return seen_from_parent(tree.utility, tree.value[b, child])
