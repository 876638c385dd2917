"""The exchangeable parts of a search: selection, first-play urgency, ties, leaf values, root.

Selection rules, first-play urgency rules, leaf evaluators and root rules are NamedTuples,
registered with the functions below; kernels are compiled for the types they are given. Each but
first-play urgency has a folder, with one file for each rule; other packages add theirs by a module
that the entry point ``zerolab.search`` names.
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
    probability of a draw. The functions of `search.values` read it: `worth` makes a number of it,
    `seen_from_parent` takes it up the tree. `moves` int32[1 + MAX_PLIES] is the length and the
    actions of a playout from the leaf (see `rules.playout`), the length being 0 without one.
    """
    raise AssertionError


@FPUS.function
def wanted(rule: Any) -> tuple[ExtraOutput, ...]:
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


class FirstTie(NamedTuple):
    """The child of the lowest action, as in the papers' framework [AZG]."""


class FirstTieRule:
    """See `FirstTie`."""

    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        return False


class RandomTie(NamedTuple):
    """One of them uniformly at random."""


class RandomTieRule:
    """Reservoir sampling: the k-th of equal children replaces the one chosen so far with 1 / k."""

    @staticmethod
    def takes_tie(rule, key, node, child, ties):
        random = streams.bits(streams.fold(key, node), child)
        return streams.below(random, ties) == 0


TIE_BREAKS.implement(FirstTie, FirstTieRule)
TIE_BREAKS.implement(RandomTie, RandomTieRule)

TIE_BREAK_TYPES: Mapping[str, type] = {"first": FirstTie, "random": RandomTie}
"""By the names that settings have for them."""


class Methods(NamedTuple):
    """How a tree is searched; each is a type registered in `search.methods`.

    Kernels are compiled for them. What takes all of them is compiled anew for each combination, so
    the leaf evaluator, which few functions need, is not among them.
    """

    selection: Any
    fpu: Any
    tie_break: Any
    root: Any
    wave: Any
