"""Interchangeable rules of a search: selection, first-play urgency, leaf values and the root.

Each rule is a NamedTuple registered with one of the functions below. Kernels are compiled for the
types of their arguments. The leaf evaluators are at the end of this module. Other packages can add
rules from a module named in the ``zerolab.search`` entry-point group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from zerolab.core.compiled import CompiledInterface
from zerolab.core.config import VariantSettings, variant_settings_class
from zerolab.core.registry import Registry
from zerolab.rules.rules import mean_playout_outcome
from zerolab.search.evaluator import ExtraOutput

SELECTION_INTERFACE = CompiledInterface("selection rule")
FPU_INTERFACE = CompiledInterface("first-play urgency rule")
LEAF_EVALUATOR_INTERFACE = CompiledInterface("leaf evaluator")
ROOT_RULE_INTERFACE = CompiledInterface("root rule")

SELECTION_SETTINGS: Registry[type[VariantSettings]] = Registry("selection rule")
FPU_SETTINGS: Registry[type[VariantSettings]] = Registry("first-play urgency rule")
LEAF_EVALUATOR_SETTINGS: Registry[type[VariantSettings]] = Registry("leaf evaluator")
ROOT_RULE_SETTINGS: Registry[type[VariantSettings]] = Registry("root rule")


def _registering(
    interface: CompiledInterface, settings: Registry[type[VariantSettings]]
) -> Callable[[str, type], Callable[[type], type]]:
    def register(name: str, kind: type) -> Callable[[type], type]:
        def decorate(implementation: type) -> type:
            interface.implement(kind, implementation)
            settings.add(name, variant_settings_class(kind, name))
            return implementation

        return decorate

    return register


register_selection = _registering(SELECTION_INTERFACE, SELECTION_SETTINGS)
register_fpu = _registering(FPU_INTERFACE, FPU_SETTINGS)
register_leaf_evaluator = _registering(LEAF_EVALUATOR_INTERFACE, LEAF_EVALUATOR_SETTINGS)
register_root_rule = _registering(ROOT_RULE_INTERFACE, ROOT_RULE_SETTINGS)


class SearchMethods(NamedTuple):
    """Rules of a tree search, most of which have a registered type.

    Kernels that take this tuple are compiled for each combination of types. The leaf evaluator is
    passed separately because few functions need it.
    """

    selection: Any
    fpu: Any
    breaks_ties_randomly: bool
    """True if ties between children are broken at random; otherwise the first child wins them."""
    root_rule: Any
    virtual_loss: Any


@SELECTION_INTERFACE.declare
def statistics_width(rule: Any) -> int:
    """Return K, the number of columns of `TreeArrays.statistics` that the rule needs per node."""
    raise AssertionError


@SELECTION_INTERFACE.declare
def with_simulations(rule: Any, simulations: int) -> Any:
    """Return the rule, filling in defaults that depend on the number of simulations per move."""
    raise AssertionError


@SELECTION_INTERFACE.declare
def shared_score_terms(rule: Any, fpu: Any, tree: Any, b: int, node: int) -> Any:
    """Return the terms shared by the scores of all children of a node."""
    raise AssertionError


@SELECTION_INTERFACE.declare
def selection_score(rule: Any, tree: Any, b: int, child: int, shared: Any) -> float:
    """Return a child's score; the search descends to the child with the highest score.

    `shared` is the result of `shared_score_terms` for the parent.
    """
    raise AssertionError


@SELECTION_INTERFACE.declare
def update_statistics(
    rule: Any, tree: Any, b: int, leaf: int, backup_value: Any, playout_moves: Any
) -> None:
    """Update the rule's statistics after the backup of a simulation.

    The backup value is from the point of view of the side to move at the leaf. Functions of
    `search.values` read it: `scalar_value` converts it to a number, and `seen_from_parent` moves it
    one ply up the tree. `playout_moves`, int32[1 + MAX_PLIES], contains the length and the actions
    of a playout from the leaf (see `rules.playout`); the length is 0 if there was no playout.
    """
    raise AssertionError


@SELECTION_INTERFACE.declare
def forget_children(rule: Any, tree: Any, b: int, node: int) -> None:
    """Reset a node's statistics about its children when the children are dropped."""
    raise AssertionError


@SELECTION_INTERFACE.declare
def discount_children(
    rule: Any, tree: Any, b: int, node: int, visits: np.int64, former_visits: np.int64
) -> None:
    """Discount a node's statistics about its children like their visits.

    The node's visits have been discounted from `former_visits` to `visits`, and those of its
    children in the same proportion.
    """
    raise AssertionError


@FPU_INTERFACE.declare
def extra_outputs(rule: Any) -> tuple[ExtraOutput, ...]:
    """Return the evaluator outputs that the rule needs in addition to priors and values."""
    raise AssertionError


@FPU_INTERFACE.declare
def fpu_for_kernels(rule: Any) -> Any:
    """Return an equivalent rule of the type for which kernels are compiled.

    Special cases of a rule thus share its machine code.
    """
    raise AssertionError


@FPU_INTERFACE.declare
def node_fpu_value(rule: Any, tree: Any, b: int, node: int) -> float:
    """Return the assumed value of a node's unvisited children for the side to move at the node.

    Rules that distinguish between children return the part of the value that depends only on the
    node.
    """
    raise AssertionError


@FPU_INTERFACE.declare
def child_fpu_value(rule: Any, tree: Any, b: int, child: int, shared: float) -> float:
    """Return the assumed value of an unvisited child for the side to move at its parent.

    `shared` is the parent's `node_fpu_value`.
    """
    raise AssertionError


@FPU_INTERFACE.declare
def init_child_values(
    rule: Any, tree: Any, b: int, node: Any, action_values: Any, row: int
) -> None:
    """Initialise the values of new children.

    Row `row` of `action_values`, float32[N, actions], contains the action values of the evaluator.
    """
    raise AssertionError


@FPU_INTERFACE.declare
def reset_child_value(rule: Any, tree: Any, b: int, child: int) -> None:
    """Replace the mean value of a child that has just lost all of its visits."""
    raise AssertionError


@LEAF_EVALUATOR_INTERFACE.declare
def leaf_evaluator_for_kernels(rule: Any) -> Any:
    """Return an equivalent rule of the type for which kernels are compiled."""
    raise AssertionError


@LEAF_EVALUATOR_INTERFACE.declare
def playouts_per_leaf(rule: Any) -> int:
    """Return the number of random playouts per leaf."""
    raise AssertionError


@LEAF_EVALUATOR_INTERFACE.declare
def leaf_value(
    rule: Any,
    game: Any,
    state: Any,
    evaluator_value: float,
    key: int,
    playout_state: Any,
    playout_moves: Any,
) -> float:
    """Return the value of a new, ongoing leaf for the side to move.

    `state` is uint64[words], `evaluator_value` the value of the evaluator, and `key` a random
    stream of the simulation. `playout_state`, uint64[words], is scratch memory. `playout_moves` is
    passed on to `update_statistics`; the leaf evaluator can write to it.
    """
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def empty_root_rule_state(rule: Any, trees: int, actions: int) -> Any:
    """Allocate the state of the rule for `trees` trees, as a NamedTuple of arrays."""
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def has_fixed_schedule(rule: Any) -> bool:
    """Return whether the rule fixes the schedule of its simulations from an unexpanded root.

    Such a rule also adds its own noise.
    """
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def prepare_root(rule: Any, tree: Any, search_state: Any, options: Any, b: int) -> None:
    """Prepare an expanded root once per search, for example by adding noise.

    `search_state` is the `SearchState`, and `options` are the `StepOptions`.
    """
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def descent_start(rule: Any, methods: Any, tree: Any, search_state: Any, b: int) -> int:
    """Return the node at which selection starts: the root, node 0, or one of its children."""
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def write_policy(
    rule: Any, methods: Any, tree: Any, search_state: Any, b: int, weights: Any
) -> None:
    """Write the unnormalised policy of a finished search to `weights`, float64[actions]."""
    raise AssertionError


@ROOT_RULE_INTERFACE.declare
def write_move_weights(
    rule: Any, methods: Any, tree: Any, search_state: Any, b: int, sample: bool, weights: Any
) -> None:
    """Write move weights to `weights`, int64[actions]; their sum must be below 2**32.

    If `sample` is true, the move is sampled in proportion to the weights; otherwise the move with
    the highest weight is played.
    """
    raise AssertionError


class FpuRule:
    """Base class of first-play urgency rules; by default, unvisited children share one value."""

    @staticmethod
    def extra_outputs(rule):
        return ()

    @staticmethod
    def fpu_for_kernels(rule):
        return rule

    @staticmethod
    def child_fpu_value(rule, tree, b, child, shared):
        return shared

    @staticmethod
    def init_child_values(rule, tree, b, node, action_values, row):
        pass

    @staticmethod
    def reset_child_value(rule, tree, b, child):
        tree.value[b, child] = np.float32(0.0)


class SelectionRule:
    """Base class of selection rules without statistics."""

    @staticmethod
    def statistics_width(rule):
        return 0

    @staticmethod
    def with_simulations(rule, simulations):
        return rule

    @staticmethod
    def update_statistics(rule, tree, b, leaf, backup_value, playout_moves):
        pass

    @staticmethod
    def forget_children(rule, tree, b, node):
        pass

    @staticmethod
    def discount_children(rule, tree, b, node, visits, former_visits):
        pass


class LeafEvaluatorRule:
    """Base class of leaf evaluators, without playouts."""

    @staticmethod
    def leaf_evaluator_for_kernels(rule):
        return rule

    @staticmethod
    def playouts_per_leaf(rule):
        return 0


class MixedValue(NamedTuple):
    """v = (1 - w) * v_network + w * v_playout, as in WRo and WRoRa of [Wang2020b].

    weight: w, which a warm start sets. [Wang2020b]: 1 - i / I' in iteration i + 1 of a warm start
    over I' iterations. playouts: number of playouts to average per leaf. [Wang2020b]: 1.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("mixed", MixedValue)
class _MixedValueRule(LeafEvaluatorRule):
    """Mixture bitwise equal to the network value at weight 0 and to the playout value at 1."""

    @staticmethod
    def playouts_per_leaf(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        played = mean_playout_outcome(game, state, rule.playouts, key, playout_state, playout_moves)
        return (1.0 - rule.weight) * evaluator_value + rule.weight * played


class NetworkValue(NamedTuple):
    """v = v_network."""


@register_leaf_evaluator("network", NetworkValue)
class _NetworkValueRule(LeafEvaluatorRule):
    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        return evaluator_value


class RandomPlayout(NamedTuple):
    """v = mean outcome of random playouts; priors still come from the evaluator [Wang2020b].

    Used by plain MCTS and by Rollout of [Wang2020b]. playouts: number of playouts to average per
    leaf. [Wang2020b]: 1.
    """

    playouts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


@register_leaf_evaluator("playout", RandomPlayout)
class _RandomPlayoutRule(LeafEvaluatorRule):
    @staticmethod
    def leaf_evaluator_for_kernels(rule):
        return MixedValue(1.0, rule.playouts)

    @staticmethod
    def playouts_per_leaf(rule):
        return rule.playouts

    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        return mean_playout_outcome(game, state, rule.playouts, key, playout_state, playout_moves)
