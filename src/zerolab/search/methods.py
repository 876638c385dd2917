"""Interchangeable parts of a search: selection, first-play urgency, ties, leaf values, root rules.

Each part is a NamedTuple registered with one of the functions below. Kernels are compiled for the
types of their arguments. Other packages can add their own parts from a module named by the
entry-point group ``zerolab.search``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import CompiledInterface
from zerolab.core.config import Variant, variant_from
from zerolab.core.registry import Registry
from zerolab.search.evaluator import ExtraOutput

SELECTIONS = CompiledInterface("selection rule")
FPUS = CompiledInterface("first-play urgency rule")
TIE_BREAKS = CompiledInterface("tie break")
LEAF_EVALUATORS = CompiledInterface("leaf evaluator")
ROOT_RULES = CompiledInterface("root rule")

SELECTION_SETTINGS: Registry[type[Variant]] = Registry("selection rule")
FPU_SETTINGS: Registry[type[Variant]] = Registry("first-play urgency rule")
LEAF_EVALUATOR_SETTINGS: Registry[type[Variant]] = Registry("leaf evaluator")
ROOT_RULE_SETTINGS: Registry[type[Variant]] = Registry("root rule")


def _registering(
    interface: CompiledInterface, settings: Registry[type[Variant]]
) -> Callable[[str, type], Callable[[type], type]]:
    def register(name: str, kind: type) -> Callable[[type], type]:
        def decorate(implementation: type) -> type:
            interface.implement(kind, implementation)
            settings.add(name, variant_from(kind, name))
            return implementation

        return decorate

    return register


register_selection = _registering(SELECTIONS, SELECTION_SETTINGS)
register_fpu = _registering(FPUS, FPU_SETTINGS)
register_leaf_evaluator = _registering(LEAF_EVALUATORS, LEAF_EVALUATOR_SETTINGS)
register_root_rule = _registering(ROOT_RULES, ROOT_RULE_SETTINGS)


class Methods(NamedTuple):
    """Methods of a tree search, each of a registered type.

    Kernels that take this tuple are compiled for each combination of types. The leaf evaluator is
    passed separately because few functions need it.
    """

    selection: Any
    fpu: Any
    tie_break: Any
    root: Any
    virtual_loss: Any


@SELECTIONS.function
def statistics_width(rule: Any) -> int:
    """Return K, the number of columns of `Tree.statistics` that the rule needs per node."""
    raise AssertionError


@SELECTIONS.function
def with_budget(rule: Any, simulations: int) -> Any:
    """Return the rule with all fields set that depend on the simulations per move."""
    raise AssertionError


@SELECTIONS.function
def prepare(rule: Any, fpu: Any, tree: Any, b: int, node: int) -> Any:
    """Return the terms shared by the scores of all children of a node."""
    raise AssertionError


@SELECTIONS.function
def score(rule: Any, tree: Any, b: int, child: int, shared: Any) -> float:
    """Return a child's score; the search descends to the highest (see `takes_tie` for ties)."""
    raise AssertionError


@SELECTIONS.function
def update(rule: Any, tree: Any, b: int, leaf: int, backup_value: Any, moves: Any) -> None:
    """Update the rule's statistics after the backup of a simulation.

    The backup value is from the perspective of the side to move at the leaf. Functions of
    `search.values` read it: `worth` converts it to a number, `seen_from_parent` moves it one ply up
    the tree. `moves` int32[1 + MAX_PLIES] contains the length and the actions of a playout from the
    leaf (see `rules.playout`); the length is 0 if there was no playout.
    """
    raise AssertionError


@FPUS.function
def extra_outputs(rule: Any) -> tuple[ExtraOutput, ...]:
    """Return the evaluator outputs that the rule needs in addition to priors and values."""
    raise AssertionError


@FPUS.function
def fpu_value(rule: Any, tree: Any, b: int, node: int) -> float:
    """Return the assumed value of a node's unvisited children for the side to move at the node.

    Rules that distinguish between children return the part that depends only on the node.
    """
    raise AssertionError


@FPUS.function
def first_play(rule: Any, tree: Any, b: int, child: int, shared: float) -> float:
    """Return the assumed value of an unvisited child for the side to move at its parent.

    `shared` is the parent's `fpu_value`.
    """
    raise AssertionError


@FPUS.function
def seed_children(rule: Any, tree: Any, b: int, node: Any, action_values: Any, row: int) -> None:
    """Store the evaluator's action values, a row of float32[N, actions], in new children."""
    raise AssertionError


@FPUS.function
def reset_child(rule: Any, tree: Any, b: int, child: int) -> None:
    """Reset a child to unvisited after its visits have been dropped."""
    raise AssertionError


@TIE_BREAKS.function
def takes_tie(rule: Any, key: int, node: int, child: int, ties: int) -> bool:
    """Return whether a child replaces the best child so far, which has the same score.

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
    """Return the value of a new, ongoing leaf for the side to move.

    `state` is uint64[words], `estimate` the evaluator's value, `key` a random stream of the
    simulation, and `scratch` uint64[words] for playouts. `moves` is passed on to `update`; the leaf
    evaluator can write to it.
    """
    raise AssertionError


@ROOT_RULES.function
def root_state(rule: Any, trees: int, actions: int) -> Any:
    """Return the rule's state for `trees` trees as a NamedTuple of arrays."""
    raise AssertionError


@ROOT_RULES.function
def plans_ahead(rule: Any) -> bool:
    """Return whether the rule plans all simulations from a bare root and adds its own noise."""
    raise AssertionError


@ROOT_RULES.function
def prepare_root(rule: Any, tree: Any, search: Any, step: Any, b: int) -> None:
    """Prepare an expanded root once per search, for example with noise; see `SearchState`."""
    raise AssertionError


@ROOT_RULES.function
def first_node(rule: Any, methods: Any, tree: Any, search: Any, b: int) -> int:
    """Return the node at which the selection rule takes over: 0 or one of its children."""
    raise AssertionError


@ROOT_RULES.function
def weigh_policy(rule: Any, methods: Any, tree: Any, search: Any, b: int, weights: Any) -> None:
    """Write the policy of a finished search into float64[actions], not necessarily normalised."""
    raise AssertionError


@ROOT_RULES.function
def weigh_moves(
    rule: Any, methods: Any, tree: Any, search: Any, b: int, sample: bool, weights: Any
) -> None:
    """Write move weights into int64[actions]; their sum must be below 2**32.

    Moves are sampled in proportion to the weights if `sample` is set; otherwise the move with the
    highest weight is played.
    """
    raise AssertionError


class FirstPlay:
    """Base class of first-play urgency rules that treat all unvisited children of a node alike."""

    @staticmethod
    def extra_outputs(rule):
        return ()

    @staticmethod
    def first_play(rule, tree, b, child, shared):
        return shared

    @staticmethod
    def seed_children(rule, tree, b, node, action_values, row):
        pass

    @staticmethod
    def reset_child(rule, tree, b, child):
        tree.value[b, child] = np.float32(0.0)


class Selection:
    """Base class of selection rules without statistics."""

    @staticmethod
    def statistics_width(rule):
        return 0

    @staticmethod
    def with_budget(rule, simulations):
        return rule

    @staticmethod
    def update(rule, tree, b, leaf, backup_value, moves):
        pass


class LeafEvaluator:
    """Base class of leaf evaluators without playouts."""

    @staticmethod
    def playouts(rule):
        return 0


class FirstTie(NamedTuple):
    """The child with the lowest action number, as in [AZG]."""


class _FirstTieRule:
    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        return False


class RandomTie(NamedTuple):
    """One of the children, uniformly at random."""


class _RandomTieRule:
    """Reservoir sampling: the k-th tied child replaces the current choice with probability 1/k."""

    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        random = streams.bits(streams.fold(key, node), child)
        return streams.below(random, ties) == 0


TIE_BREAKS.implement(FirstTie, _FirstTieRule)
TIE_BREAKS.implement(RandomTie, _RandomTieRule)

TIE_BREAK_TYPES: Mapping[str, type] = {"first": FirstTie, "random": RandomTie}
"""Tie-break types by the value of the setting `tie_break`."""
