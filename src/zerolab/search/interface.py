"""What the search's kernels leave open: selection, first-play urgency, leaf values, evaluation.

Selection rules, first-play urgency rules and leaf evaluators are NamedTuples, registered with the
functions below; kernels are compiled for the types they are given. A selection rule or a leaf
evaluator is one file in `selections` or `leaf_evaluators`; other packages add theirs by a module
that the entry point ``zerolab.search`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface
from zerolab.core.config import Choice, choice_from
from zerolab.core.registry import Registry

SELECTIONS = CompiledInterface("selection rule")
FPUS = CompiledInterface("first-play urgency rule")
TIE_BREAKS = CompiledInterface("tie break")
LEAF_EVALUATORS = CompiledInterface("leaf evaluator")

SELECTION_SETTINGS: Registry[type[Choice]] = Registry("selection rule")
FPU_SETTINGS: Registry[type[Choice]] = Registry("first-play urgency rule")
LEAF_EVALUATOR_SETTINGS: Registry[type[Choice]] = Registry("leaf evaluator")


def _registering(
    interface: CompiledInterface, settings: Registry[type[Choice]]
) -> Callable[[str, type], Callable[[type], type]]:
    def register(name: str, kind: type) -> Callable[[type], type]:
        def decorate(implementation: type) -> type:
            interface.implement(kind, implementation)
            settings.add(name, choice_from(kind, name))
            return implementation

        return decorate

    return register


register_selection = _registering(SELECTIONS, SELECTION_SETTINGS)
register_fpu = _registering(FPUS, FPU_SETTINGS)
register_leaf_evaluator = _registering(LEAF_EVALUATORS, LEAF_EVALUATOR_SETTINGS)


class Evaluator(Protocol):
    """Gives priors and values for a batch of positions; search knows nothing else of a network."""

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of uint64[N, words] states.

        Priors may give weight to illegal actions: the search masks and renormalises them. Values
        lie in [-1, 1] and are those of the player to move. The search asks once for equal states
        of a batch and may reuse answers (see `SearchSettings.deduplicate` and `.cache`).
        """
        ...


class UniformEvaluator:
    """Equal priors and the value 0: a search without a network.

    The search recognises this evaluator and then runs whole inside one kernel, without batches.
    """

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return ones and zeros; see `Evaluator.evaluate`."""
        count = len(states)
        return np.ones((count, self.actions), np.float32), np.zeros(count, np.float32)


@SELECTIONS.function
def statistics(rule: Any) -> int:
    """Return K: how many numbers of its own the rule keeps at every node in `Tree.statistics`."""
    raise AssertionError


@SELECTIONS.function
def with_budget(rule: Any, simulations: int) -> Any:
    """Return the rule with what depends on the number of simulations per move filled in."""
    raise AssertionError


@SELECTIONS.function
def prepare(rule: Any, fpu: Any, tree: Any, b: int, node: int) -> Any:
    """Return what the scores of all children of a node have in common."""
    raise AssertionError


@SELECTIONS.function
def score(rule: Any, tree: Any, b: int, child: int, shared: Any) -> float:
    """Return a child's score; the search descends to the highest (ties: `takes_tie`)."""
    raise AssertionError


@SELECTIONS.function
def update(rule: Any, tree: Any, b: int, leaf: int, value: float, moves: Any) -> None:
    """Update the rule's statistics with one simulation, after its backup.

    `value` is the leaf's for the mover there. `moves` int32[1 + MOST_PLIES] is the length and the
    actions of a playout from the leaf (see `rules.playout`), the length being 0 without one.
    """
    raise AssertionError


@FPUS.function
def fpu_value(rule: Any, tree: Any, b: int, node: int) -> float:
    """Return the value that unvisited children of a node are taken to have for its mover."""
    raise AssertionError


@TIE_BREAKS.function
def takes_tie(rule: Any, key: int, node: int, child: int, ties: int) -> bool:
    """Return whether a child replaces the best so far of a node, whose score it equals.

    It is the `ties`-th child with this score. `key` is a random stream of the simulation.
    """
    raise AssertionError


@LEAF_EVALUATORS.function
def playouts(rule: Any) -> int:
    """Return the number of random playouts per leaf."""
    raise AssertionError


@LEAF_EVALUATORS.function
def leaf_value(
    rule: Any, game: Any, state: Any, estimate: float, key: int, scratch: Any, moves: Any
) -> float:
    """Return the value of a new, ongoing leaf for its mover.

    `state` is uint64[words], `estimate` the evaluator's value, `key` a random stream of the
    simulation, `scratch` uint64[words] to play on; `moves`, which may be written, is that of
    `update`.
    """
    raise AssertionError


class Selection:
    """Base of selection rules without statistics of their own."""

    @staticmethod
    def statistics(rule):
        return 0

    @staticmethod
    def with_budget(rule, simulations):
        return rule

    @staticmethod
    def update(rule, tree, b, leaf, value, moves):
        pass


class LeafEvaluator:
    """Base of leaf evaluators without playouts."""

    @staticmethod
    def playouts(rule):
        return 0
