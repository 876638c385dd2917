"""Settings of the training data, the initial network and the optimisation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zerolab.core.config import Settings, variant_annotation
from zerolab.core.errors import quoted
from zerolab.core.registry import load_plugins
from zerolab.networks.catalogue import LOSSES
from zerolab.networks.objectives import TargetOptions
from zerolab.replay.window import SymmetryUse
from zerolab.replay.window_rules import MERGINGS, WINDOWS
from zerolab.training.optimization import OPTIMIZERS, RATE_SCHEDULES
from zerolab.training.shorthands import TransferMethod

load_plugins("training")  # the settings below list all registered types

SOLVED_TARGET_OPTIONS = TargetOptions(0, "visits", "visits", 0.0)
"""Target options for solved positions, whose facts come from `window_facts.solved_facts`."""


class SupervisedSettings(Settings):
    """Solved positions to learn from instead of self-play."""

    positions: str = ""
    """A file of solved positions for the run's game, written by `zerolab dataset`; empty for
    self-play. Of the file's games, 80 % are used for training, 10 % for validation and 10 % for
    testing [Clausen2021]."""

    digest: str = ""
    """Digest of the file of solved positions, which must not change. Set by `zerolab fit`."""

    @model_validator(mode="after")
    def _require_both(self) -> SupervisedSettings:
        if bool(self.positions) != bool(self.digest):
            raise ValueError("expected positions and digest together: zerolab fit FILE sets both")
        return self


class StartSettings(Settings):
    """The trained network from which network 0 of a run takes its weights."""

    source: str = Field(min_length=1)
    """The network to start from, RUN or RUN@N, such as runs/gobang@40. The architecture of this
    network replaces that of the preset, unless other settings change it."""

    transfer: TransferMethod = "trunk"
    """The weights to transfer: trunk (with new heads), heads (with a new trunk), all (unchanged),
    or channels (all, with planes and actions matched by their meaning in the two games;
    docs/transfer.md). [Hongcharoen2018]: trunk; [Soemers2023]: channels."""

    digest: str = ""
    """Digest of the weights of `source`. Set when the run starts."""

    iteration: int | None = Field(default=None, ge=0)
    """Iteration of `source`. Set when the run starts."""

    game: str = ""
    """Game of `source`. Set when the run starts."""


START_FIELDS_SET_BY_RUN = ("digest", "iteration", "game")
"""Fields of `StartSettings` that are set when the run starts."""


def _number_of_iterations(value: Any) -> Any:
    """Convert a whole number N to the settings of a window of N iterations."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return {"name": "iterations", "iterations": value} if is_number else value


class LearnSettings(Settings):
    """Training of the network on the replay window."""

    window: Annotated[variant_annotation(WINDOWS), BeforeValidator(_number_of_iterations)] = Field(  # type: ignore[valid-type]
        default_factory=WINDOWS["iterations"]
    )
    """Size of the replay window; a whole number is a number of iterations. [Wang2019], [Wang2020a],
    [Wang2020b], [Hongcharoen2018]: iterations; [Clausen2021]: positions, extended: slow; [Wu2019]:
    power_law."""

    merging: variant_annotation(MERGINGS) = Field(default_factory=MERGINGS["none"])  # type: ignore[valid-type]
    """Merging of equal positions in the window. Merged examples count once, in the window and in
    `replay_ratio`. [Wang2019], [Wang2020a], [Wang2020b]: none; [Clausen2021], extended: newest."""

    epochs: int | None = Field(default=10, ge=1)
    """ep: passes over the window per iteration; unset if `replay_ratio` is set. [Wang2019],
    [Wang2020a], [Wang2020b]: 10 ([Wang2020a] sweeps 5 to 15); [Clausen2021]: about 1."""

    replay_ratio: float | None = Field(default=None, gt=0, le=10_000)
    """Average number of times that an example is used, under any symmetry, before it leaves the
    window. An iteration trains on replay_ratio * new examples / batch_size batches, in passes over
    the window. Replaces `epochs`, which makes the work per iteration grow with the window.
    [Clausen2021]: about 7, one pass over 2,000,000 examples for every 300,000 new ones."""

    batch_size: int = Field(default=64, ge=2)
    """bs: examples per step. [Wang2019], [Wang2020a], [Wang2020b]: 64 ([Wang2020a] sweeps 32 to
    96); [Clausen2021]: 256; [Hongcharoen2018]: 4096."""

    learning_rate: float = Field(default=0.005, gt=0, lt=1)
    """lr: base learning rate, which the schedule multiplies. [Wang2019], [Wang2020a], [Wang2020b]:
    0.005 with Adam ([Wang2020a] sweeps 0.001 to 0.01); [Clausen2021]: 0.2 with SGD;
    [Hongcharoen2018]: 0.001 with Adam."""

    optimizer: variant_annotation(OPTIMIZERS) = Field(default_factory=OPTIMIZERS["adam"])  # type: ignore[valid-type]
    """The optimiser. [Wang2019], [Wang2020a], [Wang2020b], [Hongcharoen2018]: adam; [Clausen2021]:
    sgd."""

    schedule: variant_annotation(RATE_SCHEDULES) = Field(default_factory=RATE_SCHEDULES["constant"])  # type: ignore[valid-type]
    """Schedule of learning rate and momentum over the run. [Wang2019], [Wang2020a], [Wang2020b],
    [Hongcharoen2018]: constant; [Clausen2021]: steps, extended: cycle."""

    frozen: Literal["none", "trunk"] = "none"
    """Part of the network whose weights are fixed; with a frozen trunk, only heads are trained.
    [Hongcharoen2018], experiment (b): trunk."""

    clip_norm: float = Field(default=0.0, ge=0)
    """Maximum gradient norm, to which larger gradients are scaled down [Pascanu2013]; 0 for no
    limit. [Clausen2021]: 1."""

    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Decay per step of an exponential moving average of weights and batch norm statistics; 0 for
    no average. Games are played with the average, while training continues from the latest weights.
    The average covers about 1 / (1 - ema_decay) steps. [Wu2019]: 0.75 per 250,000 examples, which
    for batches of 256 is 0.9997 per step."""

    value_target_search_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight of the search's root value in value and outcome targets; the remaining weight is on
    the game's outcome. [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: 0."""

    surprise_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight w of policy surprise weighting [KataGoMethods]: in a pass over the window, an example
    is used (1 - w) + w * s / (mean of s in its iteration) times on average, where s is the
    Kullback-Leibler divergence of the search's policy from the priors at its root, including noise.
    If w > 0, surprises are stored with the examples. [KataGoMethods]: 0.5, relative to the mean of
    the game. [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: 0."""

    symmetries: SymmetryUse = "all"
    """Symmetries of each example: all ([Wang2019], [Wang2020a], [Wang2020b]), random (one at a
    time), or none ([Clausen2021])."""

    loss: variant_annotation(LOSSES) = Field(default_factory=LOSSES["sum"])  # type: ignore[valid-type]
    """The loss to minimise: a function of the policy and value errors, each multiplied by the
    weight of its head. The weighted errors of all other heads are added. With an `outcome` head
    instead of `value`, the error of `outcome` is the value error. [Wang2020b]: sum; [Wang2019] and
    [Wang2020a] compare policy, value, sum, product and weighted."""

    @model_validator(mode="before")
    @classmethod
    def _epochs_or_replay_ratio(cls, data: Any) -> Any:
        """Unset `epochs` if a replay ratio is given."""
        if not isinstance(data, dict) or data.get("replay_ratio") is None:
            return data
        if data.get("epochs") is not None:
            raise ValueError(
                f"epochs = {quoted(data['epochs'])} and replay_ratio ="
                f" {quoted(data['replay_ratio'])} both set the number of training steps: expected"
                " only one of the two settings"
            )
        return {**data, "epochs": None}

    @model_validator(mode="after")
    def _window_fits_a_batch(self) -> LearnSettings:
        size = self.window.max_positions(1, 0)
        if size is not None and size < self.batch_size:
            raise ValueError(
                f"window = {quoted(self.window.name)} begins with {size} positions, fewer than"
                f" batch_size = {self.batch_size}: expected at least {self.batch_size}"
            )
        return self

    @model_validator(mode="after")
    def _merging_fits_symmetries(self) -> LearnSettings:
        if self.merging.merges_across_symmetries and self.symmetries == "none":
            raise ValueError(
                "merging.across_symmetries stores only one image of each position, and symmetries ="
                ' "none" never trains on the other images: expected symmetries = "random" or "all"'
            )
        return self

    def steps_per_iteration(self, steps_per_epoch: int, new_examples: int) -> int:
        """Return the number of training steps per iteration, at least 1.

        An epoch is a pass over the window; every step trains on one batch.
        """
        if self.replay_ratio is None:
            return steps_per_epoch * (self.epochs or 1)
        return max(1, round(self.replay_ratio * new_examples / self.batch_size))
