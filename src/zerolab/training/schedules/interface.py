"""What a schedule of learning rate and momentum is.

A schedule is a pure function of the moment of a step, so that a resumed run needs to save nothing
of it. Learning rates are shares of `learn.learning_rate`. Another package adds a schedule by
registering it in `RATE_SCHEDULES` from a module that the entry-point group ``zerolab.training``
names.
"""

from __future__ import annotations

from typing import NamedTuple

from zerolab.core.config import Choice
from zerolab.core.registry import Registry


class Moment(NamedTuple):
    """When a step of learning takes place."""

    iteration: int
    """Counted from 1."""
    progress: float
    """Share of the iteration's steps that are done before this one, in [0, 1]."""
    iterations: int
    """Iterations of the run."""


class Rates(NamedTuple):
    """What a schedule says for one step."""

    factor: float = 1.0
    """The learning rate as a share of `learn.learning_rate`."""
    momentum: float | None = None
    """Replaces the optimiser's momentum: that of SGD, beta1 of Adam and AdamW; None leaves it."""


class RateSchedule(Choice):
    """Base of schedules."""

    @property
    def last(self) -> int | None:
        """The last iteration that the schedule speaks of, if it does: no run may be shorter."""
        return None

    @property
    def spans_run(self) -> bool:
        """Whether the rates of early iterations depend on the number of iterations of the run."""
        return False

    def rates(self, moment: Moment) -> Rates:
        """Return learning rate and momentum of a step."""
        raise NotImplementedError


RATE_SCHEDULES: Registry[type[RateSchedule]] = Registry("schedule")
