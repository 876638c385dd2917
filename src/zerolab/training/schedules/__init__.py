"""Schedules of learning rate and momentum, one file each, that `learn.schedule` chooses from."""

from __future__ import annotations

from zerolab.core.registry import import_modules
from zerolab.training.schedules.interface import RATE_SCHEDULES, Moment, Rates, RateSchedule

import_modules(__name__)

__all__ = ["RATE_SCHEDULES", "Moment", "RateSchedule", "Rates"]
