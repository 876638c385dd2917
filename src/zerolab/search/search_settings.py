"""Search settings, with values from the papers, and settings that differ between trees.

`PuctPerTree`, `FixedFpuPerTree` and `DrawValueUtilityPerTree` have an array, with one value per
tree, in place of a number. They are separate types, so that kernels for other searches are compiled
without them.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core.config import Settings, variant_annotation
from zerolab.core.errors import quoted
from zerolab.core.registry import load_plugins
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import (
    FPU_INTERFACE,
    FPU_SETTINGS,
    LEAF_EVALUATOR_SETTINGS,
    ROOT_RULE_SETTINGS,
    SELECTION_INTERFACE,
    SELECTION_SETTINGS,
    FpuRule,
    SearchMethods,
    extra_outputs,
    fpu_for_kernels,
    has_fixed_schedule,
    node_fpu_value,
    playouts_per_leaf,
    with_simulations,
)
from zerolab.search.puct import PuctRule
from zerolab.search.simulation_options import NoVirtualLoss, VirtualLoss
from zerolab.search.tree import StepOptions
from zerolab.search.values import (
    UTILITY_INTERFACE,
    DrawValueUtility,
    DrawValueUtilityRule,
    ZeroSumUtility,
)

import_module("zerolab.search.puct")
import_module("zerolab.search.rave")
import_module("zerolab.search.root_rules")
load_plugins("search")


class RootNoise(Settings):
    """Dirichlet noise in root priors, redrawn for every move [Silver2018, Methods].

    P(s, a) becomes (1 - fraction) * P(s, a) + fraction * eta_a, eta ~ Dir(alpha).
    """

    fraction: float = Field(default=0.0, ge=0, le=1)
    """Weight of the noise. [Wang2019], [Wang2020a], [Wang2020b]: 0. [Clausen2021], [Silver2018]:
    0.25."""

    concentration: float = Field(default=10.0, ge=1e-4, le=1_000_000)
    """alpha * number of legal actions. [Clausen2021]: 20.38."""

    inherited_visits: float = Field(default=0.0, ge=0, le=1)
    """Weight of the visits that a root with noise inherits from the tree of the previous move. 1
    keeps all visits, which dampens the noise; values between 0 and 1 discount the visits, and
    RAVE's counts (docs/decisions/0011). 0 discards the subtree after every move, even before a
    search without noise, such as a quick search of `playout_cap`; the evaluations of the subtree
    stay in the cache. No effect if `noise.fraction` is 0."""


class SearchSettings(Settings):
    """Settings of the search for a move."""

    simulations: int = Field(default=100, ge=1, le=1_000_000)
    """m: simulations per move. The evaluation of a new root does not count as one. [Wang2019],
    [Wang2020a], [Wang2020b]: 100 ([Wang2020a] sweeps 25 to 200). [Clausen2021]: 343."""

    selection: variant_annotation(SELECTION_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=SELECTION_SETTINGS["puct"]
    )
    """Rule that selects the child to visit. [Wang2019], [Wang2020a]: PUCT with c = 1.
    [Wang2020b]: also RAVE in the first iterations."""

    fpu: variant_annotation(FPU_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=FPU_SETTINGS["zero"]
    )
    """First-play urgency, the assumed value of unvisited children. [Wang2019], [Wang2020a],
    [Wang2020b]: zero. [Clausen2021]: fixed."""

    tie_break: Literal["first", "random"] = "first"
    """Choice between children with equal scores: the child with the lowest action number, as in
    [AZG], or a random child. With "first", plain MCTS never tries the last cells of a board with
    more cells than the search has simulations."""

    leaf_evaluator: variant_annotation(LEAF_EVALUATOR_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=LEAF_EVALUATOR_SETTINGS["network"]
    )
    """Source of the values of new leaves. [Wang2019], [Wang2020a]: network. [Wang2020b]: also
    playouts in the first iterations."""

    discount: float = Field(default=1.0, gt=0, le=1)
    """Discount factor per ply, in search and value targets. Below 1, earlier wins are worth more
    and later losses cost less. Playout results are not discounted within the playout. [Wang2019],
    [Wang2020a], [Wang2020b], [Clausen2021]: 1."""

    draw_value: float = Field(default=0.0, ge=-1, le=1)
    """Value of a draw for the side to move: Q = P(win) - P(loss) + draw_value * P(draw). Nonzero
    values need a network that predicts draw probabilities. [Clausen2021]: 0.383, published as
    0.6913 for Q in [0, 1]; [Wang2019], [Wang2020a], [Wang2020b]: 0."""

    proven_values: bool = False
    """Propagate proven wins, draws and losses up the tree with MCTS-Solver [Winands2008]. The
    quickest proven win is played. Selection rules never choose a proven loss, and no simulation
    descends below a proven node, although simulations can end at proven draws. [Clausen2021] lists
    this option as terminal propagation."""

    root: variant_annotation(ROOT_RULE_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=ROOT_RULE_SETTINGS["puct"]
    )
    """Rule that distributes simulations at the root and derives the policy and the move.
    [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: puct. The text of [Wang2020b] suggests
    rave_values with RAVE."""

    noise: RootNoise = RootNoise()
    """Noise in root priors during self-play. [Wang2019], [Wang2020a], [Wang2020b]: none."""

    reuse_tree: bool = True
    """Keep the subtree of the move played, subject to `noise.inherited_visits` if there is noise.
    [Wang2019], [Wang2020a], [Wang2020b]: kept within an episode."""

    deduplicate: bool = True
    """Evaluate equal positions within a step only once. In bfloat16, evaluations do not depend on
    the batch, so this saves work without changing results. In float32, the last bits depend on the
    batch, so the search can choose differently between two nearly equal moves
    (docs/decisions/0002)."""

    cache: int = Field(default=1 << 16, ge=0, le=1 << 26)
    """Number of positions whose evaluations are cached until the network changes; 0 disables the
    cache. Results can change only under the same conditions as with `deduplicate`."""

    leaves_per_step: int = Field(default=1, ge=1, le=4096)
    """Maximum number of leaves per tree and step, selected with virtual loss [Chaslot2008]. Several
    leaves fill the batches of a single large search; 1 is better when many games are searched in
    parallel. [Wang2019], [Wang2020a], [Wang2020b]: 1."""

    @property
    def extra_outputs(self) -> frozenset[ExtraOutput]:
        """Evaluator outputs that the search needs in addition to priors and values."""
        draws: tuple[ExtraOutput, ...] = ("draws",) if self.draw_value != 0 else ()
        return frozenset((*extra_outputs(self.fpu.build()), *draws))

    @model_validator(mode="after")
    def _compatible(self) -> SearchSettings:
        if self.draw_value != 0 and playouts_per_leaf(self.leaf_evaluator.build()):
            raise ValueError(
                f"draw_value = {self.draw_value}: playouts provide no draw probabilities; expected"
                ' leaf_evaluator = "network"'
            )
        if self.root.name == "rave_values" and self.selection.name != "rave":
            raise ValueError(
                f'root = "rave_values" needs Q_rave, but selection = {quoted(self.selection.name)}:'
                ' expected selection = "rave"'
            )
        if self.fpu.name == "action_values" and getattr(self.selection, "reading", None):
            raise ValueError(
                'fpu = "action_values": selection.reading = "literal" also needs assumed values of'
                ' visited children; expected another rule, such as "parent"'
            )
        if self.leaves_per_step > 1 and has_fixed_schedule(self.root.build()):
            raise ValueError(
                f'leaves_per_step = {self.leaves_per_step}: root = "{self.root.name}" plans'
                " simulations one at a time; expected 1"
            )
        return self

    def check_self_play(self) -> None:
        """Raise ValueError, naming the settings, if root noise and root rule are incompatible.

        This applies only to self-play. Players without noise can use any root rule, so a match can
        use a root rule other than the one used in training.
        """
        if self.noise.fraction > 0 and has_fixed_schedule(self.root.build()):
            raise ValueError(
                f'search.noise.fraction = {self.noise.fraction}: search.root = "{self.root.name}"'
                " draws its own noise; expected 0"
            )
        if getattr(self.root, "forced_playouts", 0) > 0 and self.noise.fraction == 0:
            raise ValueError(
                f"search.root.forced_playouts = {self.root.forced_playouts} has no effect without"
                " noise: expected search.noise.fraction above 0, such as 0.25"
            )


def mcts_settings(simulations: int) -> SearchSettings:
    """Return settings of plain MCTS: UCT [Kocsis2006], one random playout per leaf, no network.

    Ties go to the lowest action number, as in [AZG]; `tie_break` = "random" is a fairer opponent.
    """
    return _with_playouts(simulations, "uct")


def rave_settings(simulations: int) -> SearchSettings:
    """Return settings of PUCT with RAVE: equal priors, one random playout per leaf, no network.

    This is zerolab's interpretation of RAVE in [Wang2021b, Table 5.1]; see `rave.Rave`.
    """
    return _with_playouts(simulations, "rave")


def _with_playouts(simulations: int, selection: str) -> SearchSettings:
    values = {"simulations": simulations, "selection": selection, "leaf_evaluator": "playout"}
    return SearchSettings.model_validate(values)


class PerTreeSettings(NamedTuple):
    """Settings of B trees. A field is None if the value in `SearchSettings` applies to all trees.

    An element can be changed whenever its tree is not being searched.
    """

    c: NDArray[np.float64] | None = None
    """float64[B]: `Puct.c` of each tree."""
    fpu: NDArray[np.float64] | None = None
    """float64[B]: `FixedFpu.value` of each tree."""
    draw_value: NDArray[np.float64] | None = None
    """float64[B]: `SearchSettings.draw_value` of each tree. If set, the search needs
    draw probabilities even if the value is 0."""

    def check(self, settings: SearchSettings) -> None:
        """Raise ValueError if the rules in `settings` do not support a value per tree."""
        if self.c is not None and settings.selection.name != "puct":
            name = quoted(settings.selection.name)
            raise ValueError(f'selection = {name} does not support c per tree: expected "puct"')
        if self.fpu is not None and settings.fpu.name != "fixed":
            name = quoted(settings.fpu.name)
            raise ValueError(f'fpu = {name} does not support a value per tree: expected "fixed"')

    def search_methods(self, settings: SearchSettings) -> SearchMethods:
        """Return the rules of a search."""
        leaves = settings.leaves_per_step
        return SearchMethods(
            with_simulations(self._selection_rule(settings), settings.simulations),
            self._fpu_rule(settings),
            settings.tie_break == "random",
            settings.root.build(),
            NoVirtualLoss() if leaves == 1 else VirtualLoss(leaves),
        )

    def _selection_rule(self, settings: SearchSettings) -> Any:
        return settings.selection.build() if self.c is None else PuctPerTree(self.c)

    def _fpu_rule(self, settings: SearchSettings) -> Any:
        return (
            fpu_for_kernels(settings.fpu.build()) if self.fpu is None else FixedFpuPerTree(self.fpu)
        )

    def utility(self, settings: SearchSettings) -> Any:
        """Return the utility, which converts backup values to numbers."""
        if self.draw_value is not None:
            return DrawValueUtilityPerTree(settings.discount, self.draw_value)
        if settings.draw_value != 0:
            return DrawValueUtility(settings.discount, settings.draw_value)
        return ZeroSumUtility(settings.discount)

    def extra_outputs(self, settings: SearchSettings) -> frozenset[ExtraOutput]:
        """Return the evaluator outputs that the search needs in addition to priors and values."""
        outputs = settings.extra_outputs
        return outputs if self.draw_value is None else outputs | {"draws"}


def first_step_options(settings: SearchSettings, uniform: bool) -> StepOptions:
    """Return the options before the first step; uniform evaluations are free and not cached."""
    return StepOptions(
        step_number=0,
        deduplicate=settings.deduplicate and not uniform,
        use_cache=settings.cache > 0 and not uniform,
        skip_evaluator=uniform,
        noise_fraction=settings.noise.fraction,
        noise_concentration=settings.noise.concentration,
    )


class PuctPerTree(NamedTuple):
    """`Puct` with a separate c for each tree."""

    c: NDArray[np.float64]  # [B]


class _PuctPerTreeRule(PuctRule):
    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c[b] * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(node_fpu_value(fpu, tree, b, node))


class FixedFpuPerTree(NamedTuple):
    """`FixedFpu` with a separate value for each tree."""

    value: NDArray[np.float64]  # [B]


class _FixedFpuPerTreeRule(FpuRule):
    @staticmethod
    def node_fpu_value(rule, tree, b, node):
        return np.float32(rule.value[b])


class DrawValueUtilityPerTree(NamedTuple):
    """`DrawValueUtility` with a separate draw value for each tree."""

    discount: float
    draw_value: NDArray[np.float64]  # [B]


class _DrawValueUtilityPerTreeRule(DrawValueUtilityRule):
    @staticmethod
    def draw_contribution(utility, tree, b, node):
        return np.float32(utility.draw_value[b]) * tree.draw_probability[b, node]

    @staticmethod
    def scalar_value(utility, b, backup_value):
        return backup_value[0] + np.float32(utility.draw_value[b]) * backup_value[1]


SELECTION_INTERFACE.implement(PuctPerTree, _PuctPerTreeRule)
FPU_INTERFACE.implement(FixedFpuPerTree, _FixedFpuPerTreeRule)
UTILITY_INTERFACE.implement(DrawValueUtilityPerTree, _DrawValueUtilityPerTreeRule)
