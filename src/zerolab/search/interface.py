"""What the search's kernels leave open: selection, first play, leaf values, evaluation.

A selection rule, a first-play urgency rule and a leaf evaluator are NamedTuples,
registered with the functions below; the kernels are compiled for the types they are given. A new rule is one new file here.
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
LEAF_EVALUATORS = CompiledInterface("leaf evaluator")

SELECTION_SETTINGS: Registry[type[Choice]] = Registry("selection rule")
FPU_SETTINGS: Registry[type[Choice]] = Registry("first-play urgency rule")
LEAF_EVALUATOR_SETTINGS: Registry[type[Choice]] = Registry("leaf evaluator")


def _registering(
    family: CompiledInterface, settings: Registry[type[Choice]]
) -> Callable[[str, type], Callable[[type], type]]:
    def register(name: str, kind: type) -> Callable[[type], type]:
        def decorate(implementation: type) -> type:
            family.implement(kind, implementation)
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
        are those of the player to move. Equal states must get equal answers.
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
    """Return how many numbers of its own the rule keeps at every node, in ``tree.statistics``."""
    raise AssertionError


@SELECTIONS.function
def with_budget(rule: Any, simulations: int) -> Any:
    """Return the rule with what depends on the number of simulations a move filled in."""
    raise AssertionError


@SELECTIONS.function
def prepare(rule: Any, fpu: Any, tree: Any, b: int, node: int) -> Any:
    """Return what the scores of all children of a node have in common."""
    raise AssertionError


@SELECTIONS.function
def score(rule: Any, tree: Any, b: int, child: int, shared: Any) -> float:
    """Return a child's score; the search descends to the highest, the first among equals."""
    raise AssertionError


@SELECTIONS.function
def update(rule: Any, tree: Any, b: int, leaf: int, value: float, moves: Any) -> None:
    """Learn from one simulation, after its backup.

    `value` is the leaf's for the mover there. `moves` is the count and the actions of a playout
    from the leaf (see `rules.playout`), the count being 0 where there was none.
    """
    raise AssertionError


@FPUS.function
def fpu_value(rule: Any, tree: Any, b: int, node: int) -> float:
    """Return the value that unvisited children of a node are taken to have for its mover."""
    raise AssertionError


@LEAF_EVALUATORS.function
def playouts(rule: Any) -> int:
    """Return how many random playouts a leaf's value takes."""
    raise AssertionError


@LEAF_EVALUATORS.function
def leaf_value(
    rule: Any, game: Any, state: Any, estimate: float, key: int, scratch: Any, moves: Any
) -> float:
    """Return the value of a new, ongoing leaf for its mover.

    `estimate` is the evaluator's value, `key` a random stream of this simulation's own, `scratch`
    uint64[words] to play on; `moves` is described at `update`.
    """
    raise AssertionError


class Selection:
    """Base of selection rules that keep nothing of their own."""

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
    """Base of leaf evaluators that play nothing out."""

    @staticmethod
    def playouts(rule):
        return 0
