"""Virtual loss [Chaslot2008]: several leaves of a tree per step.

One leaf keeps each simulation informed by all before it, and batches are as large as there are
trees. A single large search has no other trees to fill its batches with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.rules.rules import ONGOING
from zerolab.search.mcts_solver import is_open
from zerolab.search.values import add, exchange, signal_of

VIRTUAL_LOSSES = CompiledInterface("kind of wave")


class NoVirtualLoss(NamedTuple):
    """A tree waits as soon as one of its leaves does."""


class VirtualLoss(NamedTuple):
    """Virtual loss [Chaslot2008, Section 4.4; Segal2010].

    A simulation whose leaf waits counts at once in every node on its path, as a loss for the player
    who moved there, so that the next one prefers other paths. The backup puts the leaf's value in
    the place of that loss: once no leaf waits, visits and means are those of the simulations alone.
    A simulation that ends at a leaf that waits already is given up, and with it the tree's turn.

    most: leaves that may wait at once.
    """

    most: int


@VIRTUAL_LOSSES.function
def most_leaves(wave: Any) -> int:
    """Return how many leaves of a tree may wait at once."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def to_begin(wave: Any, search: Any, b: int) -> int:
    """Return how many simulations a tree has still to begin."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def is_waiting(wave: Any, tree: Any, b: int, node: int) -> bool:
    """Return whether a simulation's leaf waits for the evaluation that another one requested."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def begin_to_wait(wave: Any, tree: Any, search: Any, b: int, leaf: int) -> bool:
    """Note that a leaf waits; return whether its tree may begin another simulation."""
    raise AssertionError


@VIRTUAL_LOSSES.function
def arrive(wave: Any, tree: Any, b: int, node: int, signal: Any, waited: bool) -> None:
    """Count a signal at a node, with the visit of its simulation unless the leaf has waited."""
    raise AssertionError


@inlined
def _visit(tree, b, node, signal):
    visits = tree.visits[b, node] + 1
    tree.visits[b, node] = visits
    add(tree.utility, tree, b, node, signal, visits)


@inlined
def _virtual(tree, node):
    """Return what a node's mover seems to get: a win, since the other one loses who moved here.

    Nobody moved to the root.
    """
    return signal_of(tree.utility, 1.0 if node > 0 else 0.0, 0.0)


class NoVirtualLossRule:
    """See `OneLeaf`."""

    @staticmethod
    def most_leaves(wave):
        return 1

    @staticmethod
    def to_begin(wave, search, b):
        return search.remaining[b]

    @staticmethod
    def is_waiting(wave, tree, b, node):
        return False

    @staticmethod
    def begin_to_wait(wave, tree, search, b, leaf):
        search.waiting[b] = 1
        return False

    @staticmethod
    def arrive(wave, tree, b, node, signal, waited):
        _visit(tree, b, node, signal)


class VirtualLossRule:
    """See `SeveralLeaves`."""

    @staticmethod
    def most_leaves(wave):
        return wave.most

    @staticmethod
    def to_begin(wave, search, b):
        return search.remaining[b] - search.waiting[b]

    @staticmethod
    def is_waiting(wave, tree, b, node):
        # Whoever visits a leaf of an ongoing game expands it, unless it has to wait.
        is_leaf = tree.first_child[b, node] == 0 and tree.outcome[b, node] == ONGOING
        return is_leaf and tree.visits[b, node] > 0 and is_open(tree.proofs, tree, b, node)

    @staticmethod
    def begin_to_wait(wave, tree, search, b, leaf):
        node = leaf
        while node >= 0:
            _visit(tree, b, node, _virtual(tree, node))
            node = tree.parent[b, node]
        search.waiting[b] += 1
        return search.waiting[b] < min(wave.most, search.remaining[b])

    @staticmethod
    def arrive(wave, tree, b, node, signal, waited):
        if not waited:
            _visit(tree, b, node, signal)
        elif is_open(tree.proofs, tree, b, node):
            visits = tree.visits[b, node]
            exchange(tree.utility, tree, b, node, _virtual(tree, node), signal, visits)


VIRTUAL_LOSSES.implement(NoVirtualLoss, NoVirtualLossRule)
VIRTUAL_LOSSES.implement(VirtualLoss, VirtualLossRule)
