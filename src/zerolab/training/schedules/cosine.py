"""A learning rate that falls along half a cosine over the whole run."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from zerolab.training.schedules.interface import RATE_SCHEDULES, Moment, Rates, RateSchedule


class Cosine(RateSchedule):
    """The learning rate rises for some iterations, then falls along half a cosine to the last one.

    end + (1 - end) * (1 + cos(pi * t)) / 2 for t from 0 to 1 [Loshchilov2017, Eq. 5], within
    iterations as well as from one to the next. The rise, from 0 in a straight line, is that of
    [Goyal2017, Section 2.2]. A run with this schedule cannot be given more iterations later.
    """

    name: Literal["cosine"] = "cosine"

    end: float = Field(default=0.0, ge=0, le=1)
    """The learning rate at the end of the run, in units of `learn.learning_rate`."""

    warm_up: int = Field(default=0, ge=0)
    """Iterations in which the learning rate rises."""

    @property
    def last(self) -> int:
        """See `RateSchedule.last`."""
        return self.warm_up

    @property
    def spans_run(self) -> bool:
        """See `RateSchedule.spans_run`."""
        return True

    def rates(self, moment: Moment) -> Rates:
        """See `RateSchedule.rates`."""
        done = moment.iteration - 1 + moment.progress
        if done < self.warm_up:
            return Rates(done / self.warm_up)
        t = min(1.0, (done - self.warm_up) / max(1, moment.iterations - self.warm_up))
        return Rates(self.end + (1 - self.end) * (1 + math.cos(math.pi * t)) / 2)


RATE_SCHEDULES.add("cosine", Cosine)
