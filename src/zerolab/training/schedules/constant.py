"""The same learning rate throughout."""

from __future__ import annotations

from typing import Literal

from zerolab.training.schedules.interface import RATE_SCHEDULES, Moment, Rates, RateSchedule


class Constant(RateSchedule):
    """The learning rate throughout, and the optimiser's own momentum, as in [Wang2020a]."""

    name: Literal["constant"] = "constant"

    def rates(self, moment: Moment) -> Rates:
        """See `RateSchedule.rates`."""
        return Rates()


RATE_SCHEDULES.add("constant", Constant)
