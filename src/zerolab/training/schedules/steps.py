"""A learning rate that falls in steps, from iteration to iteration."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, field_validator

from zerolab.training.schedules.interface import RATE_SCHEDULES, Moment, Rates, RateSchedule


class Steps(RateSchedule):
    """The learning rate, multiplied by a factor at the start of chosen iterations.

    With learn.learning_rate = 0.2 the defaults are those of [Clausen2021], baseline: 0.2, then 0.02
    from iteration 7 and 0.002 from iteration 14.
    """

    name: Literal["steps"] = "steps"

    iterations: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(7, 14), min_length=1)
    """The first iterations with a lower learning rate, in order. [Clausen2021]: 7, 14."""

    factor: float = Field(default=0.1, gt=0, lt=1)
    """What the learning rate is multiplied by each time. [Clausen2021]: 0.1."""

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
        """See `RateSchedule.last`."""
        return self.iterations[-1]

    def rates(self, moment: Moment) -> Rates:
        """See `RateSchedule.rates`."""
        steps = sum(moment.iteration >= first for first in self.iterations)
        return Rates(self.factor**steps)


RATE_SCHEDULES.add("steps", Steps)
