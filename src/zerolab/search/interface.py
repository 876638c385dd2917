"""What the search's kernels leave open: selection, first-play urgency, leaf values, evaluation.

Selection rules, first-play urgency rules, leaf evaluators and root rules are NamedTuples,
registered with the functions below; kernels are compiled for the types they are given. Each but
first-play urgency has a folder, with one file for each rule; other packages add theirs by a module
that the entry point ``zerolab.search`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import CompiledInterface
from zerolab.core.config import Choice, choice_from
from zerolab.core.errors import UserError
from zerolab.core.registry import Registry

SELECTIONS = CompiledInterface("selection rule")
FPUS = CompiledInterface("first-play urgency rule")
TIE_BREAKS = CompiledInterface("tie break")
LEAF_EVALUATORS = CompiledInterface("leaf evaluator")
ROOT_RULES = CompiledInterface("root rule")

SELECTION_SETTINGS: Registry[type[Choice]] = Registry("selection rule")
FPU_SETTINGS: Registry[type[Choice]] = Registry("first-play urgency rule")
LEAF_EVALUATOR_SETTINGS: Registry[type[Choice]] = Registry("leaf evaluator")
ROOT_RULE_SETTINGS: Registry[type[Choice]] = Registry("root rule")


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
register_root_rule = _registering(ROOT_RULES, ROOT_RULE_SETTINGS)


Answer = Literal["draws", "action_values"]
"""What a search may want of an evaluator beyond priors and values."""

_NEEDS = {"draws": "probabilities of a draw (draw_value)", "action_values": "action values (fpu)"}


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


class Evaluation(NamedTuple):
    """What an evaluator says about N positions; what was not wanted is None."""

    priors: NDArray[np.float32]
    """float32[N, actions]; see `Evaluator.evaluate`."""
    values: NDArray[np.float32]
    """float32[N]: P(win) - P(loss) of the player to move."""
    draws: NDArray[np.float32] | None = None
    """float32[N]: P(draw)."""
    action_values: NDArray[np.float32] | None = None
    """float32[N, actions]: the value of each action for the player who takes it."""

    def rows(self, rows: slice) -> Evaluation:
        """Return the evaluations of some of the positions."""
        draws, action_values = self.draws, self.action_values
        return Evaluation(
            self.priors[rows],
            self.values[rows],
            None if draws is None else draws[rows],
            None if action_values is None else action_values[rows],
        )


@runtime_checkable
class DetailedEvaluator(Evaluator, Protocol):
    """An evaluator that can say more than priors and values."""

    def evaluate_more(
        self, states: NDArray[np.uint64], wanted: Collection[Answer]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32] | None,
        NDArray[np.float32] | None,
    ]:
        """Return the fields of an `Evaluation`; those that are not wanted are None.

        Raises UserError where something is wanted that is not known.
        """
        ...


def read(
    evaluator: Evaluator, states: NDArray[np.uint64], wanted: Collection[Answer]
) -> Evaluation:
    """Evaluate uint64[N, words] states; raise UserError if the evaluator lacks what is wanted."""
    if not wanted:
        return Evaluation(*evaluator.evaluate(states))
    require(evaluator, wanted)
    assert isinstance(evaluator, DetailedEvaluator)
    return Evaluation(*evaluator.evaluate_more(states, wanted))


def require(evaluator: Evaluator, wanted: Collection[Answer]) -> None:
    """Raise UserError if more than priors and values is wanted of an evaluator without more."""
    if wanted and not isinstance(evaluator, DetailedEvaluator):
        needed = " and ".join(_NEEDS[each] for each in sorted(wanted))
        raise UserError(f"the search needs {needed}: expected a network with a head for it")


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
def update(rule: Any, tree: Any, b: int, leaf: int, signal: Any, moves: Any) -> None:
    """Update the rule's statistics with one simulation, after its backup.

    `signal` is what the leaf says to the mover there: its value, and with a draw value also the
    probability of a draw. The functions of `search.utility` read it: `worth` makes a number of it,
    `seen_from_parent` takes it up the tree. `moves` int32[1 + MOST_PLIES] is the length and the
    actions of a playout from the leaf (see `rules.playout`), the length being 0 without one.
    """
    raise AssertionError


@FPUS.function
def wanted(rule: Any) -> tuple[Answer, ...]:
    """Return what the rule needs of an evaluator beyond priors and values; see `Evaluation`."""
    raise AssertionError


@FPUS.function
def fpu_value(rule: Any, tree: Any, b: int, node: int) -> float:
    """Return the value that unvisited children of a node are taken to have for its mover.

    Where they differ, it is what `first_play` needs to know of the node.
    """
    raise AssertionError


@FPUS.function
def first_play(rule: Any, tree: Any, b: int, child: int, shared: float) -> float:
    """Return the value that an unvisited child is taken to have for the mover of its parent.

    `shared` is the parent's `fpu_value`.
    """
    raise AssertionError


@FPUS.function
def seed(rule: Any, tree: Any, b: int, node: Any, action_values: Any, row: int) -> None:
    """Take in the evaluator's values of a new node's actions, a row of float32[N, actions]."""
    raise AssertionError


@FPUS.function
def forget_value(rule: Any, tree: Any, b: int, child: int) -> None:
    """Make a child an unvisited one, whose visits have been dropped."""
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


@ROOT_RULES.function
def root_state(rule: Any, slots: int, actions: int) -> Any:
    """Return what the rule keeps for each of `slots` trees: a NamedTuple of arrays."""
    raise AssertionError


@ROOT_RULES.function
def plans(rule: Any) -> bool:
    """Return whether the rule plans the simulations of a bare root ahead, with noise of its own."""
    raise AssertionError


@ROOT_RULES.function
def prepare_root(rule: Any, tree: Any, search: Any, step: Any, b: int) -> None:
    """Prepare an expanded root, once per search, for instance by noise; see `SearchState`."""
    raise AssertionError


@ROOT_RULES.function
def first_node(rule: Any, methods: Any, tree: Any, search: Any, b: int) -> int:
    """Return where a simulation begins to descend by the selection rule: 0 or a child of it."""
    raise AssertionError


@ROOT_RULES.function
def weigh_policy(rule: Any, methods: Any, tree: Any, search: Any, b: int, weights: Any) -> None:
    """Write a finished search's policy into float64[actions], which need not add up to 1."""
    raise AssertionError


@ROOT_RULES.function
def weigh_moves(
    rule: Any, methods: Any, tree: Any, search: Any, b: int, sample: bool, weights: Any
) -> None:
    """Write weights of moves into int64[actions], less than 2**32 in all.

    A move is drawn in proportion to them where `sample` is set; else the highest one is taken.
    """
    raise AssertionError


class FirstPlay:
    """Base of first-play urgency rules by which all unvisited children of a node are equal."""

    @staticmethod
    def wanted(rule):
        return ()

    @staticmethod
    def first_play(rule, tree, b, child, shared):
        return shared

    @staticmethod
    def seed(rule, tree, b, node, action_values, row):
        pass

    @staticmethod
    def forget_value(rule, tree, b, child):
        tree.value[b, child] = np.float32(0.0)


class Selection:
    """Base of selection rules without statistics of their own."""

    @staticmethod
    def statistics(rule):
        return 0

    @staticmethod
    def with_budget(rule, simulations):
        return rule

    @staticmethod
    def update(rule, tree, b, leaf, signal, moves):
        pass


class LeafEvaluator:
    """Base of leaf evaluators without playouts."""

    @staticmethod
    def playouts(rule):
        return 0
