"""Optimisers and learning-rate schedules.

The learner saves the whole optimiser state, so a resumed run is bit-for-bit identical to an
uninterrupted one. A schedule is a pure function of the time of a step and needs no saved state.

Weight decay applies to every parameter, including biases and batch norms, as in [ClausenCode].
[Silver2017] likewise adds the squares of all parameters to the loss.

Other packages can add types to `OPTIMIZERS` and `RATE_SCHEDULES` in modules named in the
``zerolab.training`` entry-point group.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import VariantSettings
from zerolab.core.registry import Registry

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class OptimizerSettings(VariantSettings):
    """Base class of optimiser settings; torch is imported only to create an optimiser."""

    state_names: ClassVar[frozenset[str] | None] = None
    """Names of the state of each trained parameter; None if they are unknown."""

    def new_optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """Return a torch optimiser for these parameters."""
        raise NotImplementedError

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """Return the option of the torch optimiser that sets the momentum, in [0, 1)."""
        raise NotImplementedError


OPTIMIZERS: Registry[type[OptimizerSettings]] = Registry("optimizer")


def _without_compiler(kind: type[Optimizer]) -> Callable[..., Optimizer]:
    """Return a subclass of a torch optimiser that does not import torch's compiler.

    Networks are never compiled here, and importing the compiler takes as long as importing torch.
    """
    import torch

    methods: dict[str, Any] = {
        name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")
    }
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return cast("type[Optimizer]", type(kind.__name__, (kind,), methods))


def _implementation(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the option for the fastest implementation: a single kernel per step on a GPU."""
    on_gpu = all(parameter.is_cuda for parameter in parameters)
    return {"fused": True} if on_gpu else {"foreach": True}


class _AdamBaseSettings(OptimizerSettings):
    """Base class of the settings of Adam and AdamW."""

    state_names = frozenset({"step", "exp_avg", "exp_avg_sq"})

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay rate of the running mean of gradients; schedules with momentum override this value.
    [Kingma2015], [Loshchilov2019]: 0.9."""

    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay rate of the running mean of squared gradients. [Kingma2015], [Loshchilov2019]:
    0.999."""

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        return {"betas": (momentum, self.beta2)}  # beta1 acts as Adam's momentum


class AdamSettings(_AdamBaseSettings):
    """Steps proportional to m / sqrt(v), with running means m of gradients and v of their squares.

    This is [Kingma2015, Algorithm 1] without weight decay, as in the papers that use it.
    """

    name: Literal["adam"] = "adam"

    def new_optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        parameters, betas = list(parameters), (self.beta1, self.beta2)
        return _without_compiler(torch.optim.Adam)(
            parameters, lr=learning_rate, betas=betas, **_implementation(parameters)
        )


OPTIMIZERS.add("adam", AdamSettings)


class AdamWSettings(_AdamBaseSettings):
    """Adam with decoupled weight decay [Loshchilov2019, Algorithm 2].

    Each step also shrinks every parameter by the fraction learning rate * weight decay.
    """

    name: Literal["adamw"] = "adamw"

    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Fraction by which a step with a learning rate of 1 would shrink every parameter."""

    def new_optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        parameters = list(parameters)
        return _without_compiler(torch.optim.AdamW)(
            parameters,
            lr=learning_rate,
            betas=(self.beta1, self.beta2),
            weight_decay=self.weight_decay,
            **_implementation(parameters),
        )


OPTIMIZERS.add("adamw", AdamWSettings)


class SgdSettings(OptimizerSettings):
    """Stochastic gradient descent, b <- momentum * b + g and p <- p - learning rate * b.

    g is the gradient of the loss plus weight decay * p. Learning rates are much larger than those
    for Adam; [Silver2018] and [Clausen2021] begin with 0.2.
    """

    name: Literal["sgd"] = "sgd"
    state_names = frozenset({"momentum_buffer"})

    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Fraction of b that the next step keeps. [Clausen2021], [Silver2017]: 0.9."""

    weight_decay: float = Field(default=1e-4, ge=0, lt=1)
    """Coefficient c of the term c * p added to the gradient, equivalent to c / 2 * p^2 in the loss.
    [ClausenCode]: 1e-4; [Clausen2021, Eq. 3], [Silver2017]: 2e-4, published as 1e-4 * p^2 in the
    loss."""

    def new_optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        parameters = list(parameters)
        return _without_compiler(torch.optim.SGD)(
            parameters,
            lr=learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            **_implementation(parameters),
        )

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        return {"momentum": momentum}


OPTIMIZERS.add("sgd", SgdSettings)


class CompletedShares(NamedTuple):
    """Shares of a run completed before and after an iteration, according to the run's stop rule.

    A share is 0 at the start of the run, 1 at its planned end, and greater than 1 beyond it.
    """

    before: float
    after: float
    """Share after the iteration if it takes as much of the run as the previous iteration."""

    def share_at(self, fraction: float) -> float:
        """Return the share after a fraction of the iteration's steps, by interpolation."""
        return self.before + (self.after - self.before) * fraction


class TimeInRun(NamedTuple):
    """Time of a training step within a run, in iterations."""

    iteration: int
    """Iteration of the step, counted from 1."""
    iteration_fraction: float
    """Fraction of the iteration's steps that precede the step, in [0, 1)."""
    total_iterations: int
    """Maximum number of iterations in the run."""
    completed_share: float = 0.0
    """Share of the run before the step, according to its stop rule; 0 if unknown."""

    @property
    def iterations_done(self) -> float:
        """Number of iterations that precede the step."""
        return self.iteration - 1 + self.iteration_fraction

    @property
    def expected_iterations(self) -> float:
        """Expected number of iterations if later ones are, on average, as long as earlier ones."""
        if self.completed_share <= 0:
            return self.total_iterations
        return min(self.total_iterations, self.iterations_done / self.completed_share)


class StepRates(NamedTuple):
    """Learning rate and momentum of one step."""

    learning_rate_factor: float = 1.0
    """Learning rate in units of `learn.learning_rate`."""
    momentum: float | None = None
    """Momentum of SGD, or beta1 of Adam and AdamW; None to leave the momentum unchanged."""


class RateSchedule(VariantSettings):
    """Base class of learning-rate schedules."""

    @property
    def last_scheduled_iteration(self) -> int | None:
        """Last iteration named by the schedule, which the run must include, or None."""
        return None

    @property
    def depends_on_run_length(self) -> bool:
        """True if the rates depend on the length of the run."""
        return False

    def step_rates(self, time: TimeInRun) -> StepRates:
        """Return the learning rate and momentum of a step."""
        raise NotImplementedError


RATE_SCHEDULES: Registry[type[RateSchedule]] = Registry("schedule")


class ConstantSchedule(RateSchedule):
    """Constant learning rate with the optimiser's momentum, as in [Wang2020a]."""

    name: Literal["constant"] = "constant"

    def step_rates(self, time: TimeInRun) -> StepRates:
        return StepRates()


RATE_SCHEDULES.add("constant", ConstantSchedule)


class CosineSchedule(RateSchedule):
    """Cosine annealing over the run after a linear warm-up.

    The rate changes with every step: end + (1 - end) * (1 + cos(pi * t)) / 2 for t from 0 to 1
    [Loshchilov2017, Eq. 5]. The warm-up from 0 follows [Goyal2017, Section 2.2]. t is the fraction
    of the iterations since the end of the warm-up, or since half of the run if that is earlier; the
    smaller of the two rates applies. The run ends after `iterations`, or earlier if it is expected
    to reach the hours or evaluations to which `stop` limits it. A run with this schedule cannot be
    extended later.
    """

    name: Literal["cosine"] = "cosine"

    end: float = Field(default=0.0, ge=0, le=1)
    """Learning rate at the end of the run, in units of `learn.learning_rate`."""

    warm_up: int = Field(default=0, ge=0)
    """Number of warm-up iterations with a rising learning rate."""

    @property
    def last_scheduled_iteration(self) -> int:
        return self.warm_up

    @property
    def depends_on_run_length(self) -> bool:
        return True

    def step_rates(self, time: TimeInRun) -> StepRates:
        done, expected = time.iterations_done, time.expected_iterations
        begin = min(self.warm_up, expected / 2)
        t = min(1.0, (done - begin) / (expected - begin)) if done > begin else 0.0
        annealed = self.end + (1 - self.end) * (1 + math.cos(math.pi * t)) / 2
        warmed = done / self.warm_up if self.warm_up else 1.0
        return StepRates(min(warmed, annealed))


RATE_SCHEDULES.add("cosine", CosineSchedule)


class CycleSchedule(RateSchedule):
    """One learning-rate cycle per iteration, with momentum cycled inversely.

    The learning rate changes linearly from `low` to its peak, back to `low` and down to `end`. The
    amplitude of the cycle shrinks over the first iterations. The momentum is high where the
    learning rate is low. This is the schedule of the extended baseline of [Clausen2021], after
    [Smith2018]: with learn.learning_rate = 0.2, the defaults result in the published rates 0.02,
    0.2, 0.02 and 0.003.
    """

    name: Literal["cycle"] = "cycle"

    low: float = Field(default=0.1, ge=0, le=1)
    """Learning rate before and after the peak, in units of the peak. [Clausen2021]: 0.1."""

    end: float = Field(default=0.015, ge=0, le=1)
    """Learning rate at the end of an iteration, in units of the peak. [Clausen2021]: 0.015."""

    peak_at: float = Field(default=0.35, gt=0, lt=1)
    """Position of the peak as a fraction of the iteration. [Clausen2021]: 0.35."""

    low_at: float = Field(default=0.7, gt=0, lt=1)
    """Position at which the rate returns to `low`, as a fraction of the iteration. [Clausen2021]:
    0.7."""

    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Momentum at low learning rates. [Clausen2021]: 0.95."""

    momentum_at_peak: float = Field(default=0.85, ge=0, lt=1)
    """Momentum at the peak of the learning rate. [Clausen2021]: 0.85."""

    annealed: float = Field(default=0.4, gt=0, le=1)
    """Final factor of the learning rate. The factor changes linearly from 1 in iteration 1 to
    `annealed` in iteration `anneal_iterations`. [Clausen2021]: 0.4."""

    anneal_iterations: int = Field(default=20, ge=2)
    """First iteration with the factor `annealed`. [Clausen2021]: 20; [ClausenCode]: 21."""

    @model_validator(mode="after")
    def _require_order(self) -> CycleSchedule:
        if self.low_at <= self.peak_at:
            raise ValueError(
                f"low_at = {self.low_at} is not after peak_at = {self.peak_at}: expected a larger"
                " fraction of the iteration"
            )
        return self

    @property
    def last_scheduled_iteration(self) -> int | None:
        return self.anneal_iterations if self.annealed < 1 else None

    def step_rates(self, time: TimeInRun) -> StepRates:
        factor = self._in_cycle(time.iteration_fraction, self.low, 1.0, self.end)
        momentum = self._in_cycle(
            time.iteration_fraction, self.momentum, self.momentum_at_peak, self.momentum
        )
        fraction = min(1.0, (time.iteration - 1) / (self.anneal_iterations - 1))
        return StepRates(factor * _interpolate(1.0, self.annealed, fraction), momentum)

    def _in_cycle(self, position: float, low: float, peak: float, end: float) -> float:
        """Return the value on line segments from `low` to `peak`, back to `low`, and to `end`."""
        if position < self.peak_at:
            return _interpolate(low, peak, position / self.peak_at)
        if position < self.low_at:
            return _interpolate(peak, low, (position - self.peak_at) / (self.low_at - self.peak_at))
        return _interpolate(low, end, (position - self.low_at) / (1 - self.low_at))


def _interpolate(start: float, end: float, fraction: float) -> float:
    return start + (end - start) * fraction


RATE_SCHEDULES.add("cycle", CycleSchedule)


class StepsSchedule(RateSchedule):
    """Stepwise decay: the learning rate is multiplied by a factor in certain iterations.

    With learn.learning_rate = 0.2, the defaults are those of the baseline of [Clausen2021]: 0.2,
    then 0.02 from iteration 7 and 0.002 from iteration 14.
    """

    name: Literal["steps"] = "steps"

    iterations: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(7, 14), min_length=1)
    """Iterations in which the learning rate drops, in order. [Clausen2021]: 7, 14."""

    factor: float = Field(default=0.1, gt=0, lt=1)
    """Factor by which each drop multiplies the learning rate. [Clausen2021]: 0.1."""

    @field_validator("iterations")
    @classmethod
    def _require_order(cls, iterations: tuple[int, ...]) -> tuple[int, ...]:
        for former, following in pairwise(iterations):
            if following <= former:
                raise ValueError(
                    f"{following} follows {former}: expected iterations in increasing order"
                )
        return iterations

    @property
    def last_scheduled_iteration(self) -> int:
        return self.iterations[-1]

    def step_rates(self, time: TimeInRun) -> StepRates:
        drops = sum(time.iteration >= first for first in self.iterations)
        return StepRates(self.factor**drops)


RATE_SCHEDULES.add("steps", StepsSchedule)
