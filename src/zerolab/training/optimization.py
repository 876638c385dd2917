"""Optimisers and learning-rate schedules.

The learner saves all tensors that an optimiser keeps for a parameter, so that a resumed run
continues bit for bit. A schedule is a pure function of the time of a step and needs no saved state.

Weight decay acts on every parameter, including biases and batch norms, as in [ClausenCode];
[Silver2017] also adds the squares of all parameters to the loss.

Other packages add types to `OPTIMIZERS` and `RATE_SCHEDULES` from modules named in the entry-point
group ``zerolab.training``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import Variant
from zerolab.core.registry import Registry

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


class OptimizerSettings(Variant):
    """Base of the settings of optimisers, which import torch only to create one."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        """Return a torch optimiser of these parameters."""
        raise NotImplementedError

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        """Return the options that set the momentum, in [0, 1), of the torch optimiser."""
        raise NotImplementedError


OPTIMIZERS: Registry[type[OptimizerSettings]] = Registry("optimizer")


def _without_compiler(kind: type[Optimizer]) -> Callable[..., Optimizer]:
    """Return a torch optimiser whose methods do not import torch's compiler.

    Nothing here compiles networks, and importing the compiler takes as long as importing torch.
    """
    import torch

    methods: dict[str, Any] = {
        name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")
    }
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return cast("type[Optimizer]", type(kind.__name__, (kind,), methods))


class _AdamSettings(OptimizerSettings):
    """Base of Adam and AdamW."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay per step of the mean of gradients; schedules of the momentum change it. [Kingma2015],
    [Loshchilov2019]: 0.9."""

    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay per step of the mean of squared gradients. [Kingma2015], [Loshchilov2019]: 0.999."""

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        return {"betas": (momentum, self.beta2)}  # beta1 is the momentum of Adam


class Adam(_AdamSettings):
    """Steps in proportion to m / sqrt(v), the running means of the gradient and of its square.

    [Kingma2015, Algorithm 1], without weight decay, as in the papers that use it.
    """

    name: Literal["adam"] = "adam"

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        betas = self.beta1, self.beta2
        return _without_compiler(torch.optim.Adam)(
            parameters, lr=learning_rate, betas=betas, foreach=True
        )


OPTIMIZERS.add("adam", Adam)


class AdamW(_AdamSettings):
    """Adam with decoupled weight decay [Loshchilov2019, Algorithm 2].

    A step also shrinks every parameter by learning rate * weight decay.
    """

    name: Literal["adamw"] = "adamw"

    weight_decay: float = Field(default=0.01, ge=0, lt=1)
    """Share by which a step at learning rate 1 would shrink every parameter."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        return _without_compiler(torch.optim.AdamW)(
            parameters,
            lr=learning_rate,
            betas=(self.beta1, self.beta2),
            weight_decay=self.weight_decay,
            foreach=True,
        )


OPTIMIZERS.add("adamw", AdamW)


class Sgd(OptimizerSettings):
    """Stochastic gradient descent: b <- momentum * b + g, then p <- p - learning rate * b.

    g is the gradient of the loss plus weight decay * p. Learning rates are far larger than with
    Adam: 0.2 at first in [Silver2018] and [Clausen2021].
    """

    name: Literal["sgd"] = "sgd"

    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Share of b that the next step keeps. [Clausen2021], [Silver2017]: 0.9."""

    weight_decay: float = Field(default=1e-4, ge=0, lt=1)
    """Factor of a parameter in its gradient; the loss gains half the parameter's square times this.
    [Clausen2021]: 1e-4; [Silver2017]: 2e-4, given as 1e-4 times the whole square."""

    def optimizer(self, parameters: Iterable[Parameter], learning_rate: float) -> Optimizer:
        import torch

        return _without_compiler(torch.optim.SGD)(
            parameters,
            lr=learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            foreach=True,
        )

    def momentum_option(self, momentum: float) -> dict[str, Any]:
        return {"momentum": momentum}


OPTIMIZERS.add("sgd", Sgd)


class Moment(NamedTuple):
    """The time of a step of learning."""

    iteration: int
    """Counted from 1."""
    progress: float
    """Share of the iteration's steps before this one, in [0, 1]."""
    iterations: int
    """Iterations of the run."""


class Rates(NamedTuple):
    """Learning rate and momentum of one step."""

    factor: float = 1.0
    """The learning rate as a share of `learn.learning_rate`."""
    momentum: float | None = None
    """Replaces the momentum of SGD, or beta1 of Adam and AdamW; None for no change."""


class RateSchedule(Variant):
    """Base of learning-rate schedules."""

    @property
    def last(self) -> int | None:
        """The last iteration with a change, if known; a run must reach it."""
        return None

    @property
    def spans_run(self) -> bool:
        """True if the rates of early iterations depend on the length of the run."""
        return False

    def rates(self, moment: Moment) -> Rates:
        """Return learning rate and momentum of a step."""
        raise NotImplementedError


RATE_SCHEDULES: Registry[type[RateSchedule]] = Registry("schedule")


class Constant(RateSchedule):
    """Constant learning rate, and the optimiser's own momentum, as in [Wang2020a]."""

    name: Literal["constant"] = "constant"

    def rates(self, moment: Moment) -> Rates:
        return Rates()


RATE_SCHEDULES.add("constant", Constant)


class Cosine(RateSchedule):
    """Half a cosine over the run, after a linear warm-up.

    end + (1 - end) * (1 + cos(pi * t)) / 2 for t from 0 to 1 [Loshchilov2017, Eq. 5], continuous
    within iterations. The warm-up from 0 is that of [Goyal2017, Section 2.2]. A run with this
    schedule cannot be extended later.
    """

    name: Literal["cosine"] = "cosine"

    end: float = Field(default=0.0, ge=0, le=1)
    """The learning rate at the end of the run, in units of `learn.learning_rate`."""

    warm_up: int = Field(default=0, ge=0)
    """Iterations in which the learning rate rises."""

    @property
    def last(self) -> int:
        return self.warm_up

    @property
    def spans_run(self) -> bool:
        return True

    def rates(self, moment: Moment) -> Rates:
        done = moment.iteration - 1 + moment.progress
        if done < self.warm_up:
            return Rates(done / self.warm_up)
        t = min(1.0, (done - self.warm_up) / max(1, moment.iterations - self.warm_up))
        return Rates(self.end + (1 - self.end) * (1 + math.cos(math.pi * t)) / 2)


RATE_SCHEDULES.add("cosine", Cosine)


class Cycle(RateSchedule):
    """One cycle per iteration: the learning rate rises and falls, the momentum falls and rises.

    The learning rate goes in straight lines from `low` to its peak, back to `low` and down to
    `end`, and the whole cycle shrinks over the first iterations. The momentum is highest where the
    rate is low. [Clausen2021], extended baseline, after [Smith2018]; with learn.learning_rate = 0.2
    the defaults give its 0.02, 0.2, 0.02 and 0.003.
    """

    name: Literal["cycle"] = "cycle"

    low: float = Field(default=0.1, ge=0, le=1)
    """The learning rate before and after the peak, in units of its peak. [Clausen2021]: 0.1."""

    end: float = Field(default=0.015, ge=0, le=1)
    """The learning rate at the end of an iteration, in units of its peak. [Clausen2021]: 0.015."""

    peak_at: float = Field(default=0.35, gt=0, lt=1)
    """Share of the iteration at which the learning rate peaks. [Clausen2021]: 0.35."""

    low_at: float = Field(default=0.7, gt=0, lt=1)
    """Share of the iteration at which it is low again. [Clausen2021]: 0.7."""

    momentum: float = Field(default=0.95, ge=0, lt=1)
    """The momentum while the learning rate is low. [Clausen2021]: 0.95."""

    momentum_at_peak: float = Field(default=0.85, ge=0, lt=1)
    """The momentum at the peak of the learning rate. [Clausen2021]: 0.85."""

    annealed: float = Field(default=0.4, gt=0, le=1)
    """Factor of learning rates from iteration `anneal_iterations` on; it starts at 1 and changes
    linearly. [Clausen2021]: 0.4."""

    anneal_iterations: int = Field(default=20, ge=2)
    """The iteration that reaches `annealed`. [Clausen2021]: 20; [ClausenCode]: 21."""

    @model_validator(mode="after")
    def _in_order(self) -> Cycle:
        if self.low_at <= self.peak_at:
            raise ValueError(
                f"low_at = {self.low_at} is not after peak_at = {self.peak_at}: expected a larger"
                " share of the iteration"
            )
        return self

    @property
    def last(self) -> int | None:
        return self.anneal_iterations if self.annealed < 1 else None

    def rates(self, moment: Moment) -> Rates:
        factor = self._along(moment.progress, self.low, 1.0, self.end)
        momentum = self._along(moment.progress, self.momentum, self.momentum_at_peak, self.momentum)
        done = min(1.0, (moment.iteration - 1) / (self.anneal_iterations - 1))
        return Rates(factor * _between(1.0, self.annealed, done), momentum)

    def _along(self, progress: float, low: float, peak: float, end: float) -> float:
        """Return the value on the straight lines from `low` to `peak` to `low` to `end`."""
        if progress < self.peak_at:
            return _between(low, peak, progress / self.peak_at)
        if progress < self.low_at:
            return _between(peak, low, (progress - self.peak_at) / (self.low_at - self.peak_at))
        return _between(low, end, (progress - self.low_at) / (1 - self.low_at))


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


RATE_SCHEDULES.add("cycle", Cycle)


class Steps(RateSchedule):
    """A learning rate that is multiplied by a factor at the start of chosen iterations.

    With learn.learning_rate = 0.2 the defaults are those of [Clausen2021], baseline: 0.2, then 0.02
    from iteration 7 and 0.002 from iteration 14.
    """

    name: Literal["steps"] = "steps"

    iterations: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(7, 14), min_length=1)
    """The first iterations with a lower learning rate, in order. [Clausen2021]: 7, 14."""

    factor: float = Field(default=0.1, gt=0, lt=1)
    """Factor of the learning rate each time. [Clausen2021]: 0.1."""

    @field_validator("iterations")
    @classmethod
    def _in_order(cls, iterations: tuple[int, ...]) -> tuple[int, ...]:
        for former, following in pairwise(iterations):
            if following <= former:
                raise ValueError(
                    f"{following} after {former}: expected iterations in increasing order"
                )
        return iterations

    @property
    def last(self) -> int:
        return self.iterations[-1]

    def rates(self, moment: Moment) -> Rates:
        steps = sum(moment.iteration >= first for first in self.iterations)
        return Rates(self.factor**steps)


RATE_SCHEDULES.add("steps", Steps)
