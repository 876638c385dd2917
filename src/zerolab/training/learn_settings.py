"""Settings of learning: its data, the network that it starts from, and the optimisation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zerolab.core.config import Settings, variant_among
from zerolab.core.errors import quoted
from zerolab.core.registry import load_plugins
from zerolab.networks.catalogue import LOSSES
from zerolab.networks.head import TargetOptions
from zerolab.replay.window import Symmetries
from zerolab.replay.window_rules import MERGINGS, WINDOWS
from zerolab.training.optimization import OPTIMIZERS, RATE_SCHEDULES
from zerolab.training.shorthands import Transfer

load_plugins("training")  # before settings choose among what is registered

TARGETS = TargetOptions(0, "visits", "visits", 0.0)
"""Targets from `facts.label_facts`: its policies, and the outcomes as values."""


class SupervisedSettings(Settings):
    """Solved positions to learn from instead of self-play."""

    positions: str = ""
    """A file for the run's game, written by `zerolab dataset`; empty for self-play. 80 % of its
    games are for training, 10 % for validation and 10 % for the test [Clausen2021]."""

    digest: str = ""
    """The digest of the file, whose content must not change; set by `zerolab fit`."""

    @model_validator(mode="after")
    def _both(self) -> SupervisedSettings:
        if bool(self.positions) != bool(self.digest):
            raise ValueError("expected positions and digest together: zerolab fit FILE sets both")
        return self


class StartSettings(Settings):
    """A trained network, and the part of it that network 0 of this run is made from."""

    source: str = Field(min_length=1)
    """The network to start from, RUN or RUN@N, such as runs/gobang@40. Its architecture replaces
    that of the preset, unless other settings change it."""

    transfer: Transfer = "trunk"
    """The weights taken: the trunk, below new heads; the heads, on a new trunk; all weights
    unchanged; or all, with planes and actions matched by their meaning in both games
    (docs/transfer.md). [Hongcharoen2018]: trunk; [Soemers2023]: channels."""

    digest: str = ""
    """The digest of the weights of `source`, set when the run begins."""

    iteration: int | None = Field(default=None, ge=0)
    """The iteration of `source`, set when the run begins."""

    game: str = ""
    """The game of `source`, set when the run begins."""


SET_BY_RUN = ("digest", "iteration", "game")
"""Fields of `StartSettings` that are set when the run begins."""


def _number_of_iterations(value: Any) -> Any:
    """Read a number as a window of that many iterations."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return {"name": "iterations", "iterations": value} if is_number else value


class LearnSettings(Settings):
    """Training of the network on the replay window."""

    window: Annotated[variant_among(WINDOWS), BeforeValidator(_number_of_iterations)] = Field(  # type: ignore[valid-type]
        default_factory=WINDOWS["iterations"]
    )
    """Size of the replay window; a whole number stands for that many iterations. [Wang2019],
    [Wang2020a], [Wang2020b], [Hongcharoen2018]: iterations; [Clausen2021]: positions,
    extended: slow; [Wu2019]: power_law."""

    merging: variant_among(MERGINGS) = Field(default_factory=MERGINGS["none"])  # type: ignore[valid-type]
    """Merging of equal positions in the window. Merged examples count once, in the window and in
    `replay_ratio`. [Wang2019], [Wang2020a], [Wang2020b]: none; [Clausen2021], extended: newest."""

    epochs: int | None = Field(default=10, ge=1)
    """ep: passes over the window per iteration; unset if `replay_ratio` is set. [Wang2019],
    [Wang2020a], [Wang2020b]: 10 ([Wang2020a] sweeps 5 to 15); [Clausen2021]: about 1."""

    replay_ratio: float | None = Field(default=None, gt=0, le=10_000)
    """Times that an example is seen on average, under any symmetry, before it leaves the window: an
    iteration takes replay_ratio * new examples / batch_size batches, in passes over the window. It
    replaces `epochs`, with which the work per iteration grows with the window. [Clausen2021]:
    about 7, one pass over 2,000,000 examples for every 300,000 new ones."""

    batch_size: int = Field(default=64, ge=2)
    """bs: examples per step. [Wang2019], [Wang2020a], [Wang2020b]: 64 ([Wang2020a] sweeps 32 to
    96); [Clausen2021]: 256; [Hongcharoen2018]: 4096."""

    learning_rate: float = Field(default=0.005, gt=0, lt=1)
    """lr: learning rate before the schedule changes it. [Wang2019], [Wang2020a],
    [Wang2020b]: 0.005 with Adam ([Wang2020a] sweeps 0.001 to 0.01); [Clausen2021]: 0.2 with SGD;
    [Hongcharoen2018]: 0.001 with Adam."""

    optimizer: variant_among(OPTIMIZERS) = Field(default_factory=OPTIMIZERS["adam"])  # type: ignore[valid-type]
    """The optimiser. [Wang2019], [Wang2020a], [Wang2020b], [Hongcharoen2018]: adam; [Clausen2021]:
    sgd."""

    schedule: variant_among(RATE_SCHEDULES) = Field(default_factory=RATE_SCHEDULES["constant"])  # type: ignore[valid-type]
    """Schedule of learning rate and momentum over the run. [Wang2019], [Wang2020a], [Wang2020b],
    [Hongcharoen2018]: constant; [Clausen2021]: steps, extended: cycle."""

    frozen: Literal["none", "trunk"] = "none"
    """Part whose weights stay fixed: with a frozen trunk, only the heads learn. [Hongcharoen2018],
    (b): trunk."""

    clip_norm: float = Field(default=0.0, ge=0)
    """Largest norm of the gradients of a step, to which larger ones are scaled down [Pascanu2013];
    0 for no limit. [Clausen2021]: 1."""

    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Decay per step of an exponential moving average of weights and batch norm statistics. The
    average is the network that plays, while learning continues from the latest weights; 0 for none.
    It covers about 1 / (1 - ema_decay) steps. [Wu2019]: 0.75 per 250,000 examples, which for
    batches of 256 is 0.9997 per step."""

    value_target_search_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight in value and outcome targets of the value that the search found at the root; the rest
    is the game's outcome. [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: 0."""

    symmetries: Symmetries = "all"
    """Symmetries of each example: all ([Wang2019], [Wang2020a], [Wang2020b]), a random one each
    time, or none ([Clausen2021])."""

    loss: variant_among(LOSSES) = Field(default_factory=LOSSES["sum"])  # type: ignore[valid-type]
    """Loss to be minimised: this function of the errors of policy and value, each times its head's
    weight, plus the weighted errors of all other heads. With the head `outcome` instead of `value`,
    its error takes the place of the value's. [Wang2020b]: sum; [Wang2019] and [Wang2020a] compare
    policy, value, sum, product and weighted."""

    @model_validator(mode="before")
    @classmethod
    def _epochs_or_replay_ratio(cls, data: Any) -> Any:
        """Leave epochs unset if a replay ratio is given."""
        if not isinstance(data, dict) or data.get("replay_ratio") is None:
            return data
        if data.get("epochs") is not None:
            raise ValueError(
                f"epochs = {quoted(data['epochs'])} and replay_ratio ="
                f" {quoted(data['replay_ratio'])} both set the length of learning: expected one of"
                " them"
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
                "merging.across_symmetries keeps one image of each position, and with symmetries ="
                ' "none" no other is learnt: expected symmetries = "random" or "all"'
            )
        return self

    def steps(self, epoch: int, fresh: int) -> int:
        """Return the number of batches of an iteration, at least one.

        `epoch` is the number of batches of a pass over the window, `fresh` that of new examples.
        """
        if self.replay_ratio is None:
            return epoch * (self.epochs or 1)
        return max(1, round(self.replay_ratio * fresh / self.batch_size))
