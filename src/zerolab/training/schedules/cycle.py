"""A cycle of learning rate and momentum within every iteration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from zerolab.training.schedules.interface import RATE_SCHEDULES, Moment, Rates, RateSchedule


class Cycle(RateSchedule):
    """One cycle per iteration: the learning rate rises and falls, the momentum goes against it.

    The learning rate goes in straight lines from `low` to its peak, back to `low` and on to `end`,
    and the whole cycle shrinks over the first iterations. The momentum is highest where the rate is
    low. [Clausen2021], extended baseline, after [Smith2018]; with learn.learning_rate = 0.2 the
    defaults give its 0.02, 0.2, 0.02 and 0.003.
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
    """What learning rates are multiplied by from iteration `anneal_iterations` on; in the first one
    it is 1, and a straight line lies between them. [Clausen2021]: 0.4."""

    anneal_iterations: int = Field(default=20, ge=2)
    """The iteration in which `annealed` is reached. [Clausen2021]: 20; [ClausenCode]: 21."""

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
        """See `RateSchedule.last`."""
        return self.anneal_iterations if self.annealed < 1 else None

    def rates(self, moment: Moment) -> Rates:
        """See `RateSchedule.rates`."""
        factor = self._along(moment.progress, self.low, 1.0, self.end)
        momentum = self._along(moment.progress, self.momentum, self.momentum_at_peak, self.momentum)
        done = min(1.0, (moment.iteration - 1) / (self.anneal_iterations - 1))
        return Rates(factor * _between(1.0, self.annealed, done), momentum)

    def _along(self, progress: float, low: float, peak: float, end: float) -> float:
        """Return where straight lines from `low` to `peak` to `low` to `end` have got to."""
        if progress < self.peak_at:
            return _between(low, peak, progress / self.peak_at)
        if progress < self.low_at:
            return _between(peak, low, (progress - self.peak_at) / (self.low_at - self.peak_at))
        return _between(low, end, (progress - self.low_at) / (1 - self.low_at))


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


RATE_SCHEDULES.add("cycle", Cycle)
