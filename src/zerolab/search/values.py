"""Values backed up through a tree, and their worth to the side to move.

Each simulation passes a *backup value* from its leaf to the root: a value, or a value and a draw
probability. At every node, it is from the view of the side to move there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined

UTILITIES = CompiledInterface("utility")


class ZeroSum(NamedTuple):
    """Zero-sum values with a discount per ply; draws are worth 0. Backup values are numbers.

    discount: factor per ply.
    """

    discount: float = 1.0


class WithDraws(NamedTuple):
    """Q = P(win) - P(loss) + draw_value * P(draw), for both players [Clausen2021].

    A draw is worth the same to both players, so its probability is backed up separately from the
    zero-sum value. Backup values are pairs of a value and a draw probability. Discounting moves
    probability to draws, as if each ply could end the game in a draw.
    """

    discount: float
    draw_value: float


@UTILITIES.function
def draw_probability(utility: Any, draws: Any, row: int) -> Any:
    """Return the draw probability in a row of float32[N] if the utility needs it, otherwise 0."""
    raise AssertionError


@UTILITIES.function
def backup_value_of(utility: Any, value: float, draw: float) -> Any:
    """Return the backup value for a value and a draw probability."""
    raise AssertionError


@UTILITIES.function
def seen_from_parent(utility: Any, backup_value: Any) -> Any:
    """Return a child's backup value from the view of its parent."""
    raise AssertionError


@UTILITIES.function
def add_to_mean(utility: Any, tree: Any, b: int, node: int, backup_value: Any, visits: int) -> None:
    """Add a backup value to the mean of a node, as the `visits`-th value."""
    raise AssertionError


@UTILITIES.function
def replace_in_mean(
    utility: Any, tree: Any, b: int, node: int, previous: Any, backup_value: Any, visits: int
) -> None:
    """Replace the backup value `previous` in the mean of a node over `visits` values."""
    raise AssertionError


@UTILITIES.function
def action_value(utility: Any, tree: Any, b: int, child: int) -> Any:
    """Return Q(s, a) of the action leading to a visited child, for the side to move in s."""
    raise AssertionError


@UTILITIES.function
def node_value(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return Q(s), the worth of a visited node to the side to move."""
    raise AssertionError


@UTILITIES.function
def draw_worth(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return the contribution of draws to Q(s)."""
    raise AssertionError


@UTILITIES.function
def worth(utility: Any, b: int, backup_value: Any) -> Any:
    """Return the worth of a backup value in tree `b` to its player."""
    raise AssertionError


@UTILITIES.function
def set_exact(utility: Any, tree: Any, b: int, node: int, result: int, plies: int) -> Any:
    """Set the mean of a node to the exact value of a result `plies` ahead; return that value."""
    raise AssertionError


class _ZeroSumRule:
    @staticmethod
    def draw_probability(utility, draws, row):
        return np.float32(0.0)

    @staticmethod
    def backup_value_of(utility, value, draw):
        return np.float32(value)

    @staticmethod
    def seen_from_parent(utility, backup_value):
        return -np.float32(utility.discount) * backup_value

    @staticmethod
    def add_to_mean(utility, tree, b, node, backup_value, visits):
        tree.value[b, node] += (backup_value - tree.value[b, node]) / np.float32(visits)

    @staticmethod
    def replace_in_mean(utility, tree, b, node, previous, backup_value, visits):
        tree.value[b, node] += (backup_value - previous) / np.float32(visits)

    @staticmethod
    def action_value(utility, tree, b, child):
        return -np.float32(utility.discount) * tree.value[b, child]

    @staticmethod
    def node_value(utility, tree, b, node):
        return tree.value[b, node]

    @staticmethod
    def draw_worth(utility, tree, b, node):
        return np.float32(0.0)

    @staticmethod
    def worth(utility, b, backup_value):
        return backup_value

    @staticmethod
    def set_exact(utility, tree, b, node, result, plies):
        backup_value = np.float32(result * utility.discount ** np.float64(plies))
        tree.value[b, node] = backup_value
        return backup_value


@inlined
def _earlier(utility, value, draw):
    """Return a value and a draw probability as of one ply earlier, for the same player."""
    discount = np.float32(utility.discount)
    return discount * value, draw + (np.float32(1.0) - discount) * (np.float32(1.0) - draw)


class WithDrawsRule:
    """Implementation of `WithDraws`."""

    @staticmethod
    def draw_probability(utility, draws, row):
        return draws[row]

    @staticmethod
    def backup_value_of(utility, value, draw):
        return np.float32(value), np.float32(draw)

    @staticmethod
    def seen_from_parent(utility, backup_value):
        return _earlier(utility, -backup_value[0], backup_value[1])

    @staticmethod
    def add_to_mean(utility, tree, b, node, backup_value, visits):
        tree.value[b, node] += (backup_value[0] - tree.value[b, node]) / np.float32(visits)
        previous = tree.draws[b, node] if visits > 1 else np.float32(0.0)
        tree.draws[b, node] = previous + (backup_value[1] - previous) / np.float32(visits)

    @staticmethod
    def replace_in_mean(utility, tree, b, node, previous, backup_value, visits):
        tree.value[b, node] += (backup_value[0] - previous[0]) / np.float32(visits)
        tree.draws[b, node] += (backup_value[1] - previous[1]) / np.float32(visits)

    @staticmethod
    def action_value(utility, tree, b, child):
        value, draw = _earlier(utility, -tree.value[b, child], tree.draws[b, child])
        return worth(utility, b, (value, draw))

    @staticmethod
    def node_value(utility, tree, b, node):
        return tree.value[b, node] + draw_worth(utility, tree, b, node)

    @staticmethod
    def draw_worth(utility, tree, b, node):
        return np.float32(utility.draw_value) * tree.draws[b, node]

    @staticmethod
    def worth(utility, b, backup_value):
        return backup_value[0] + np.float32(utility.draw_value) * backup_value[1]

    @staticmethod
    def set_exact(utility, tree, b, node, result, plies):
        discount = utility.discount ** np.float64(plies)
        value = np.float32(result * discount)
        draw = np.float32(1.0 - discount if result else 1.0)
        tree.value[b, node] = value
        tree.draws[b, node] = draw
        return value, draw


UTILITIES.implement(ZeroSum, _ZeroSumRule)
UTILITIES.implement(WithDraws, WithDrawsRule)
