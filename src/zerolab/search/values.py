"""Values backed up through a tree, and their worth to the side to move.

A *signal* is what one simulation passes from its leaf to the root: a value, or a value and the
probability of a draw. It is always that of the player to move at the node where it arrives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zerolab.core.compiled import CompiledInterface, inlined

UTILITIES = CompiledInterface("utility")


class ZeroSum(NamedTuple):
    """What one player wins, the other loses, and less of it with every ply; draws are worth 0.

    discount: what a value is multiplied by for every ply that it lies ahead. Signals are values.
    """

    discount: float = 1.0


class WithDraws(NamedTuple):
    """Q = P(win) - P(loss) + draw_value * P(draw), for both players [Clausen2021].

    Since a draw is worth the same to both, its probability is backed up beside the zero-sum part,
    the value. What a discount takes off a value counts as a draw, as if each ply could end the game
    as one. Signals are pairs of a value and a probability.
    """

    discount: float
    draw_value: float


@UTILITIES.function
def draw_of(utility: Any, draws: Any, row: int) -> Any:
    """Return the probability of a draw in a row of float32[N], if it counts; else 0."""
    raise AssertionError


@UTILITIES.function
def signal_of(utility: Any, value: float, draw: float) -> Any:
    """Return the signal of a value and the probability of a draw."""
    raise AssertionError


@UTILITIES.function
def seen_from_parent(utility: Any, signal: Any) -> Any:
    """Return what arrives at a node for a signal that has arrived at its child."""
    raise AssertionError


@UTILITIES.function
def add(utility: Any, tree: Any, b: int, node: int, signal: Any, visits: int) -> None:
    """Add a signal to a node's mean, of which it is the `visits`-th."""
    raise AssertionError


@UTILITIES.function
def exchange(
    utility: Any, tree: Any, b: int, node: int, former: Any, signal: Any, visits: int
) -> None:
    """Put a signal in the place of a former one, in a node's mean of `visits` signals."""
    raise AssertionError


@UTILITIES.function
def action_value(utility: Any, tree: Any, b: int, child: int) -> Any:
    """Return Q(s, a) of the action that leads to a visited child, for the player who takes it."""
    raise AssertionError


@UTILITIES.function
def node_value(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return Q(s), the worth of a visited node for its mover."""
    raise AssertionError


@UTILITIES.function
def draw_worth(utility: Any, tree: Any, b: int, node: int) -> Any:
    """Return the part of Q(s) that draws make up."""
    raise AssertionError


@UTILITIES.function
def worth(utility: Any, b: int, signal: Any) -> Any:
    """Return what a signal in tree `b` is worth to the player whose it is."""
    raise AssertionError


@UTILITIES.function
def settled(utility: Any, tree: Any, b: int, node: int, result: int, plies: int) -> Any:
    """Return the signal of a game with this result after some plies, and make it a node's mean."""
    raise AssertionError


class ZeroSumRule:
    """See `ZeroSum`."""

    @staticmethod
    def draw_of(utility, draws, row):
        return np.float32(0.0)

    @staticmethod
    def signal_of(utility, value, draw):
        return np.float32(value)

    @staticmethod
    def seen_from_parent(utility, signal):
        return -np.float32(utility.discount) * signal

    @staticmethod
    def add(utility, tree, b, node, signal, visits):
        tree.value[b, node] += (signal - tree.value[b, node]) / np.float32(visits)

    @staticmethod
    def exchange(utility, tree, b, node, former, signal, visits):
        tree.value[b, node] += (signal - former) / np.float32(visits)

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
    def worth(utility, b, signal):
        return signal

    @staticmethod
    def settled(utility, tree, b, node, result, plies):
        signal = np.float32(result * utility.discount ** np.float64(plies))
        tree.value[b, node] = signal
        return signal


@inlined
def _earlier(utility, value, draw):
    """Return what a value and the probability of a draw count one ply earlier, for one player."""
    kept = np.float32(utility.discount)
    return kept * value, draw + (np.float32(1.0) - kept) * (np.float32(1.0) - draw)


class WithDrawsRule:
    """See `WithDraws`."""

    @staticmethod
    def draw_of(utility, draws, row):
        return draws[row]

    @staticmethod
    def signal_of(utility, value, draw):
        return np.float32(value), np.float32(draw)

    @staticmethod
    def seen_from_parent(utility, signal):
        return _earlier(utility, -signal[0], signal[1])

    @staticmethod
    def add(utility, tree, b, node, signal, visits):
        tree.value[b, node] += (signal[0] - tree.value[b, node]) / np.float32(visits)
        former = tree.draws[b, node] if visits > 1 else np.float32(0.0)
        tree.draws[b, node] = former + (signal[1] - former) / np.float32(visits)

    @staticmethod
    def exchange(utility, tree, b, node, former, signal, visits):
        tree.value[b, node] += (signal[0] - former[0]) / np.float32(visits)
        tree.draws[b, node] += (signal[1] - former[1]) / np.float32(visits)

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
    def worth(utility, b, signal):
        return signal[0] + np.float32(utility.draw_value) * signal[1]

    @staticmethod
    def settled(utility, tree, b, node, result, plies):
        kept = utility.discount ** np.float64(plies)
        value = np.float32(result * kept)
        draw = np.float32(1.0 - kept if result else 1.0)
        tree.value[b, node] = value
        tree.draws[b, node] = draw
        return value, draw


UTILITIES.implement(ZeroSum, ZeroSumRule)
UTILITIES.implement(WithDraws, WithDrawsRule)
