"""Values that simulations back up through a tree, and utilities that convert them to numbers.

Each simulation passes a *backup value* from its leaf to the root: either a value, or a value and a
draw probability. At every node, the backup value is from the point of view of the side to move.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import CompiledInterface, inlined

UTILITY_INTERFACE = CompiledInterface("utility")

_LARGE_COUNT = 4096
"""Means of at least this many values are rounded at random; for fewer, rounding to nearest is
accurate enough."""


@inlined
def moved_mean(mean, change, count):
    """Return the float32 mean of `count` values in [-1, 1] after one was added or replaced.

    `change` / `count` is the difference from the previous mean. Rounding to nearest would lose it
    if it is small, so for large counts the mean is rounded up or down at random, practically
    without a bias (docs/decisions/0015).
    """
    if count < _LARGE_COUNT or change == 0:
        return mean + change / np.float32(count)
    exact = np.float64(mean) + np.float64(change) / np.float64(count)
    unit = math.ldexp(1.0, math.frexp(exact)[1] - 24)  # distance between float32 numbers
    drawn = streams.uniform(np.uint64(count), np.int64((np.float64(mean) + 2.0) * 2.0**40))
    return np.float32(exact + (drawn - 0.5) * unit)


class ZeroSumUtility(NamedTuple):
    """Zero-sum values with a discount per ply; draws are worth 0. Backup values are numbers.

    discount: discount factor per ply.
    """

    discount: float = 1.0


class DrawValueUtility(NamedTuple):
    """Q = P(win) - P(loss) + draw_value * P(draw), for both players [Clausen2021].

    A draw is worth the same to both players, so its probability is backed up separately from the
    zero-sum value. Backup values are pairs of a value and a draw probability. Discounting moves
    probability to draws, as if each ply could end the game in a draw.
    """

    discount: float
    draw_value: float


@UTILITY_INTERFACE.declare
def draw_probability(utility: Any, draws: Any, row: int) -> Any:
    """Return the draw probability in a row of `draws`, float32[N]; 0 if the utility ignores it."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def to_backup_value(utility: Any, value: float, draw: float) -> Any:
    """Return the backup value for a value and a draw probability."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def seen_from_parent(utility: Any, backup_value: Any) -> Any:
    """Return a child's backup value from the parent's point of view."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def update_mean(utility: Any, tree: Any, b: int, node: int, backup_value: Any, visits: int) -> None:
    """Update the mean of a node with its `visits`-th backup value."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def replace_in_mean(
    utility: Any, tree: Any, b: int, node: int, previous: Any, backup_value: Any, visits: int
) -> None:
    """Replace the backup value `previous` in the mean of a node over `visits` values."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def action_value(utility: Any, tree: Any, b: int, child: int) -> Any:
    """Return Q(s, a) of the action that leads to a visited child, for the side to move in s."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def node_value(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return Q(s), the value of a visited node for the side to move, draws included."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def draw_contribution(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return the contribution of draws to Q(s)."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def scalar_value(utility: Any, b: int, backup_value: Any) -> Any:
    """Return a backup value of tree `b` as a number: Q for the side to move, draws included."""
    raise AssertionError


@UTILITY_INTERFACE.declare
def set_exact_value(utility: Any, tree: Any, b: int, node: int, result: int, plies: int) -> Any:
    """Set a node's mean to the exact value of a result after `plies` plies; return that value."""
    raise AssertionError


class _ZeroSumUtilityRule:
    @staticmethod
    def draw_probability(utility, draws, row):
        return np.float32(0.0)

    @staticmethod
    def to_backup_value(utility, value, draw):
        return np.float32(value)

    @staticmethod
    def seen_from_parent(utility, backup_value):
        return -np.float32(utility.discount) * backup_value

    @staticmethod
    def update_mean(utility, tree, b, node, backup_value, visits):
        mean = tree.value[b, node]
        tree.value[b, node] = moved_mean(mean, backup_value - mean, visits)

    @staticmethod
    def replace_in_mean(utility, tree, b, node, previous, backup_value, visits):
        mean = tree.value[b, node]
        tree.value[b, node] = moved_mean(mean, backup_value - previous, visits)

    @staticmethod
    def action_value(utility, tree, b, child):
        return -np.float32(utility.discount) * tree.value[b, child]

    @staticmethod
    def node_value(utility, tree, b, node):
        return tree.value[b, node]

    @staticmethod
    def draw_contribution(utility, tree, b, node):
        return np.float32(0.0)

    @staticmethod
    def scalar_value(utility, b, backup_value):
        return backup_value

    @staticmethod
    def set_exact_value(utility, tree, b, node, result, plies):
        backup_value = np.float32(result * utility.discount ** np.float64(plies))
        tree.value[b, node] = backup_value
        return backup_value


@inlined
def _earlier(utility, value, draw):
    """Return a value and a draw probability one ply earlier, for the same player."""
    discount = np.float32(utility.discount)
    return discount * value, draw + (np.float32(1.0) - discount) * (np.float32(1.0) - draw)


class DrawValueUtilityRule:
    """Implementation of `DrawValueUtility`."""

    @staticmethod
    def draw_probability(utility, draws, row):
        return draws[row]

    @staticmethod
    def to_backup_value(utility, value, draw):
        return np.float32(value), np.float32(draw)

    @staticmethod
    def seen_from_parent(utility, backup_value):
        return _earlier(utility, -backup_value[0], backup_value[1])

    @staticmethod
    def update_mean(utility, tree, b, node, backup_value, visits):
        mean = tree.value[b, node]
        tree.value[b, node] = moved_mean(mean, backup_value[0] - mean, visits)
        draws = tree.draw_probability[b, node] if visits > 1 else np.float32(0.0)
        tree.draw_probability[b, node] = moved_mean(draws, backup_value[1] - draws, visits)

    @staticmethod
    def replace_in_mean(utility, tree, b, node, previous, backup_value, visits):
        mean, draws = tree.value[b, node], tree.draw_probability[b, node]
        tree.value[b, node] = moved_mean(mean, backup_value[0] - previous[0], visits)
        tree.draw_probability[b, node] = moved_mean(draws, backup_value[1] - previous[1], visits)

    @staticmethod
    def action_value(utility, tree, b, child):
        value, draw = _earlier(utility, -tree.value[b, child], tree.draw_probability[b, child])
        return scalar_value(utility, b, (value, draw))

    @staticmethod
    def node_value(utility, tree, b, node):
        return tree.value[b, node] + draw_contribution(utility, tree, b, node)

    @staticmethod
    def draw_contribution(utility, tree, b, node):
        return np.float32(utility.draw_value) * tree.draw_probability[b, node]

    @staticmethod
    def scalar_value(utility, b, backup_value):
        return backup_value[0] + np.float32(utility.draw_value) * backup_value[1]

    @staticmethod
    def set_exact_value(utility, tree, b, node, result, plies):
        discount = utility.discount ** np.float64(plies)
        value = np.float32(result * discount)
        draw = np.float32(1.0 - discount if result else 1.0)
        tree.value[b, node] = value
        tree.draw_probability[b, node] = draw
        return value, draw


UTILITY_INTERFACE.implement(ZeroSumUtility, _ZeroSumUtilityRule)
UTILITY_INTERFACE.implement(DrawValueUtility, DrawValueUtilityRule)
