"""Settings of a search, with the papers' values."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from pydantic import Field, model_validator

from zerolab.core.config import Settings, variant_among
from zerolab.core.registry import load_plugins
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import (
    FPU_SETTINGS,
    LEAF_EVALUATOR_SETTINGS,
    ROOT_RULE_SETTINGS,
    SELECTION_SETTINGS,
    extra_outputs,
    plans_ahead,
    playouts,
)

import_module("zerolab.search.puct")
import_module("zerolab.search.rave")
import_module("zerolab.search.uct")
import_module("zerolab.search.leaf_evaluators")
import_module("zerolab.search.root_rules")
load_plugins("search")


class RootNoise(Settings):
    """Dirichlet noise in the priors of the root, drawn for every move [Silver2018, Methods].

    P(s, a) becomes (1 - fraction) * P(s, a) + fraction * eta_a, eta ~ Dir(alpha).
    """

    fraction: float = Field(default=0.0, ge=0, le=1)
    """Weight of the noise. [Wang2019], [Wang2020a], [Wang2020b]: 0. [Clausen2021], [Silver2018]:
    0.25."""

    concentration: float = Field(default=10.0, gt=0)
    """alpha * number of legal actions. [Clausen2021]: 20.38."""

    inherited_visits: float = Field(default=0.0, ge=0, le=1)
    """Weight of the visits that a subtree kept from the previous move brings to a root with noise:
    1 keeps them, which damps the noise; 0 discards the subtree, whose evaluations stay in the
    cache; values between discount them (docs/decisions/0011). No effect without noise."""


class SearchSettings(Settings):
    """The search of a move."""

    simulations: int = Field(default=100, ge=1, le=1_000_000)
    """m: simulations per move, each ending in a visit to a child of the root. [Wang2019],
    [Wang2020a], [Wang2020b]: 100 ([Wang2020a] sweeps 25 to 200). [Clausen2021]: 343."""

    selection: variant_among(SELECTION_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=SELECTION_SETTINGS["puct"]
    )
    """The rule that picks the child to descend to. [Wang2019], [Wang2020a]: PUCT with c = 1.
    [Wang2020b]: in the first iterations also RAVE."""

    fpu: variant_among(FPU_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=FPU_SETTINGS["zero"]
    )
    """First-play urgency: the value of unvisited children. [Wang2019], [Wang2020a], [Wang2020b]:
    zero. [Clausen2021]: fixed."""

    tie_break: Literal["first", "random"] = "first"
    """The child to descend to among those with equal scores: the one of the lowest action, as in
    [AZG], or one at random. With the first, plain MCTS never tries the last cells of a board that
    has more cells than it has simulations."""

    leaf_evaluator: variant_among(LEAF_EVALUATOR_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=LEAF_EVALUATOR_SETTINGS["network"]
    )
    """The value of new leaves. [Wang2019], [Wang2020a]: the network's. [Wang2020b]: in the first
    iterations also playouts."""

    discount: float = Field(default=1.0, gt=0, le=1)
    """Factor of a value for every ply that it lies ahead, in search and value targets: below 1,
    earlier wins are worth more, and later losses cost less. The result of a playout counts in full
    at its first position. [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: 1."""

    draw_value: float = Field(default=0.0, ge=-1, le=1)
    """Worth of a draw to the side to move: Q = P(win) - P(loss) + draw_value * P(draw). Values
    other than 0 need a network that predicts the probability of draws. [Clausen2021]: 0.383,
    published as 0.6913 for Q in [0, 1]; [Wang2019], [Wang2020a], [Wang2020b]: 0."""

    proven_values: bool = False
    """Let proven wins, draws and losses travel up the tree: MCTS-Solver [Winands2008]. The quickest
    proven win is played, proven losses are avoided, and no simulation is spent on proven nodes.
    [Clausen2021] names it as an option, terminal propagation."""

    root: variant_among(ROOT_RULE_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=ROOT_RULE_SETTINGS["puct"]
    )
    """The rule that spends the root's simulations and derives the policy and the move from them.
    [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: puct."""

    noise: RootNoise = RootNoise()
    """Noise in the root's priors, in self-play. [Wang2019], [Wang2020a], [Wang2020b]: none."""

    reuse_tree: bool = True
    """Keep the subtree of the move played; with root noise, `noise.inherited_visits` decides.
    [Wang2019], [Wang2020a], [Wang2020b]: kept within an episode."""

    deduplicate: bool = True
    """Evaluate equal positions of a step once. This changes only the amount of work where a network
    evaluates a position equally in every batch: in bfloat16. In float32 the last bits depend on the
    batch, so that a search may prefer another of two nearly equal moves (docs/decisions/0002)."""

    cache: int = Field(default=1 << 16, ge=0, le=1 << 26)
    """Positions whose evaluations are kept until the network changes; 0 keeps none. This changes
    only the amount of work, on the same condition as `deduplicate`."""

    leaves_per_step: int = Field(default=1, ge=1, le=4096)
    """Leaves of one tree that a step may evaluate together, by virtual loss [Chaslot2008]. Several
    leaves fill the batches of a single large search; 1 is better where many games are searched at
    once. [Wang2019], [Wang2020a], [Wang2020b]: 1."""

    @property
    def extra_outputs(self) -> frozenset[ExtraOutput]:
        """Outputs that the search needs of an evaluator beyond priors and values."""
        draws: tuple[ExtraOutput, ...] = ("draws",) if self.draw_value != 0 else ()
        return frozenset((*extra_outputs(self.fpu.build()), *draws))

    @model_validator(mode="after")
    def _compatible(self) -> SearchSettings:
        if self.draw_value != 0 and playouts(self.leaf_evaluator.build()):
            raise ValueError(
                f"draw_value = {self.draw_value}: playouts do not say how likely draws are;"
                ' expected leaf_evaluator = "network"'
            )
        if self.leaves_per_step > 1 and plans_ahead(self.root.build()):
            raise ValueError(
                f'leaves_per_step = {self.leaves_per_step}: root = "{self.root.name}" plans one'
                " simulation after the other; expected 1"
            )
        return self

    def check_self_play(self) -> None:
        """Raise ValueError, naming values, where root noise and root rule exclude each other.

        Other players have no noise, so a network may play with another root rule than in training.
        """
        if self.noise.fraction > 0 and plans_ahead(self.root.build()):
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
    """Return plain MCTS: UCT [Kocsis2006] with one random playout per leaf, no network.

    Ties go to the lowest action, as in [AZG]; `tie_break` = "random" makes a fairer opponent.
    """
    return _with_playouts(simulations, "uct")


def rave_settings(simulations: int) -> SearchSettings:
    """Return PUCT with RAVE, equal priors and one random playout per leaf, no network.

    This is zerolab's reading of the RAVE of [Wang2021b, Table 5.1]; see `rave.Rave`.
    """
    return _with_playouts(simulations, "rave")


def _with_playouts(simulations: int, selection: str) -> SearchSettings:
    values = {"simulations": simulations, "selection": selection, "leaf_evaluator": "playout"}
    return SearchSettings.model_validate(values)
