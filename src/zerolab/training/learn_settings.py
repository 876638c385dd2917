"""Settings of learning: from what network and data it starts, and how it proceeds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zerolab.core.config import Settings, assignment, variant_among
from zerolab.core.errors import UserError, quoted
from zerolab.networks.catalogue import LOSSES
from zerolab.networks.head import TargetOptions
from zerolab.replay.catalogue import MERGINGS, WINDOWS
from zerolab.replay.window import Symmetries
from zerolab.training.optimization import OPTIMIZERS, RATE_SCHEDULES
from zerolab.training.presets import Transfer, TransferOption

TARGETS = TargetOptions(0, "visits", "visits", 0.0)
"""The target of the policy is what `label_facts` calls policies, that of values the outcome."""


class SupervisedSettings(Settings):
    """Solved positions to learn from, in place of self-play."""

    positions: str = ""
    """A file of the run's game that `zerolab dataset` has written; self-play where it is empty.
    80 % of its games are learnt from, 10 % are for validation and 10 % for the test
    [Clausen2021]."""

    digest: str = ""
    """The digest of its content, which must stay as it is; `zerolab fit` fills it in."""

    @model_validator(mode="after")
    def _both(self) -> SupervisedSettings:
        if bool(self.positions) != bool(self.digest):
            raise ValueError("expected positions and digest together: zerolab fit FILE sets both")
        return self


START = "start.source"
"""The setting that names the network to start from."""


class StartSettings(Settings):
    """A network that was trained before, and what of it network 0 of this run is made of."""

    source: str = Field(min_length=1)
    """The network to start from, RUN or RUN@N, such as runs/gobang@40. Its architecture takes the
    place of a preset's, unless settings say otherwise."""

    transfer: Transfer = "trunk"
    """What is taken: the trunk, below new heads; the heads, on top of a new trunk; all weights as
    they are; or all, planes and actions by what they mean in both games (docs/transfer.md).
    [Hongcharoen2018]: trunk; [Soemers2023]: channels."""

    digest: str = ""
    """What identifies the weights of `source`, filled in when the run begins."""

    iteration: int | None = Field(default=None, ge=0)
    """The iteration of `source`, filled in when the run begins."""

    game: str = ""
    """The game of `source`, filled in when the run begins."""


FOUND = ("digest", "iteration", "game")
"""The settings of a start that are not chosen but found out when a run begins."""


def start_assignments(source: str, transfer: TransferOption) -> list[str]:
    """Return the assignments that a source and what is taken of it are short for."""
    frozen = ["learn.frozen=trunk"] if transfer == "frozen" else []
    taken: Transfer = "trunk" if transfer == "frozen" else transfer
    return [assignment(START, source), f"start.transfer={taken}", *frozen]


def require_frozen(transfer: TransferOption | None, frozen: str) -> None:
    """Raise UserError where `learn.frozen` contradicts a transfer that was asked for."""
    if transfer == "frozen" and frozen != "trunk":
        raise UserError(
            f'learn.frozen = {quoted(frozen)} contradicts the transfer "frozen": expected'
            ' learn.frozen = "trunk", or the transfer "trunk"'
        )


def _number_of_iterations(value: Any) -> Any:
    """Let a number be short for a window of iterations."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return {"name": "iterations", "iterations": value} if is_number else value


class LearnSettings(Settings):
    """How the network is trained on the examples of the latest iterations."""

    window: Annotated[variant_among(WINDOWS), BeforeValidator(_number_of_iterations)] = Field(  # type: ignore[valid-type]
        default_factory=WINDOWS["iterations"]
    )
    """Which examples are kept; a whole number is short for that many iterations. [Wang2019],
    [Wang2020a], [Wang2020b], [Hongcharoen2018]: iterations; [Clausen2021]: positions,
    extended: slow; [Wu2019]: power_law."""

    merging: variant_among(MERGINGS) = Field(default_factory=MERGINGS["none"])  # type: ignore[valid-type]
    """What becomes of equal positions of the window. Examples are then counted merged, in the
    window as in `reuse`. [Wang2019], [Wang2020a], [Wang2020b]: none; [Clausen2021], extended:
    newest."""

    epochs: int | None = Field(default=10, ge=1)
    """ep: passes over the window per iteration; unset where `reuse` is set. [Wang2019],
    [Wang2020a], [Wang2020b]: 10 ([Wang2020a] sweeps 5 to 15); [Clausen2021]: about 1."""

    reuse: float | None = Field(default=None, gt=0, le=10_000)
    """How often an example is seen on average, whatever the symmetry, before it leaves the window:
    an iteration takes reuse * new examples / batch_size batches, in passes over the window. It
    takes the place of `epochs`, with which the work per iteration grows along with the window.
    [Clausen2021]: about 7, as one pass over 2,000,000 examples comes with 300,000 new ones."""

    batch_size: int = Field(default=64, ge=2)
    """bs: examples per step. [Wang2019], [Wang2020a], [Wang2020b]: 64 ([Wang2020a] sweeps 32 to
    96); [Clausen2021]: 256; [Hongcharoen2018]: 4096."""

    learning_rate: float = Field(default=0.005, gt=0, lt=1)
    """lr: step size of the optimiser, before the schedule lowers it. [Wang2019], [Wang2020a],
    [Wang2020b]: 0.005 with Adam ([Wang2020a] sweeps 0.001 to 0.01); [Clausen2021]: 0.2 with SGD;
    [Hongcharoen2018]: 0.001 with Adam."""

    optimizer: variant_among(OPTIMIZERS) = Field(default_factory=OPTIMIZERS["adam"])  # type: ignore[valid-type]
    """What takes the steps. [Wang2019], [Wang2020a], [Wang2020b], [Hongcharoen2018]: adam;
    [Clausen2021]: sgd."""

    schedule: variant_among(RATE_SCHEDULES) = Field(default_factory=RATE_SCHEDULES["constant"])  # type: ignore[valid-type]
    """How learning rate and momentum change over the run. [Wang2019], [Wang2020a], [Wang2020b],
    [Hongcharoen2018]: constant; [Clausen2021]: steps, extended: cycle."""

    frozen: Literal["none", "trunk"] = "none"
    """What keeps its weights: with the trunk, only the heads learn. [Hongcharoen2018], (b):
    trunk."""

    clip_norm: float = Field(default=0.0, ge=0)
    """Norm of all gradients of a step together that they are scaled down to where it is larger
    [Pascanu2013]; 0 for none. [Clausen2021]: 1."""

    average: float = Field(default=0.0, ge=0, lt=1)
    """Decay per step of an exponential moving average of weights and batch norms' statistics, which
    becomes the network that plays, while learning goes on with the weights themselves; 0 for none.
    The average covers about 1 / (1 - average) steps. [Wu2019]: 0.75 per 250,000 samples, which for
    batches of 256 is 0.9997 per step."""

    value_target_search_weight: float = Field(default=0.0, ge=0, le=1)
    """Share in the targets of value and outcome of what the search expected at the root; the rest
    is the game's outcome. [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: 0."""

    symmetries: Symmetries = "all"
    """Every example under all symmetries ([Wang2019], [Wang2020a], [Wang2020b]), under a random one
    each time, or none ([Clausen2021])."""

    loss: variant_among(LOSSES) = Field(default_factory=LOSSES["sum"])  # type: ignore[valid-type]
    """What is minimised: this of the errors of policy and value, each times its head's weight, plus
    the weighted errors of all other heads. The value's error is that of `outcome` where a network
    has this head instead. [Wang2020b]: sum; [Wang2019] and [Wang2020a] compare policy, value, sum,
    product and weighted."""

    @model_validator(mode="before")
    @classmethod
    def _epochs_or_reuse(cls, data: Any) -> Any:
        """Leave epochs unset where reuse says how long to learn."""
        if not isinstance(data, dict) or data.get("reuse") is None:
            return data
        if data.get("epochs") is not None:
            raise ValueError(
                f"epochs = {quoted(data['epochs'])} and reuse = {quoted(data['reuse'])} both say"
                " how long to learn: expected one of them"
            )
        return {**data, "epochs": None}

    @model_validator(mode="after")
    def _window_holds_a_batch(self) -> LearnSettings:
        kept = self.window.positions(1, 0)
        if kept is not None and kept < self.batch_size:
            raise ValueError(
                f"window = {quoted(self.window.name)} begins with {kept} positions, fewer than"
                f" batch_size = {self.batch_size}: expected at least as many"
            )
        return self

    @model_validator(mode="after")
    def _all_images_are_seen(self) -> LearnSettings:
        if self.merging.is_symmetric and self.symmetries == "none":
            raise ValueError(
                "merging.across_symmetries keeps one image of each position, and symmetries ="
                ' "none" shows no other: expected symmetries = "random" or "all"'
            )
        return self

    def steps(self, epoch: int, fresh: int) -> int:
        """Return the batches of an iteration, at least one.

        `epoch` are those of a pass over the window, `fresh` the examples that are new in it.
        """
        if self.reuse is None:
            return epoch * (self.epochs or 1)
        return max(1, round(self.reuse * fresh / self.batch_size))
