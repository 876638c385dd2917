"""Optimisers, one file each, that `learn.optimizer` chooses from."""

from __future__ import annotations

from zerolab.core.registry import import_modules
from zerolab.training.optimizers.interface import OPTIMIZERS, OptimizerSettings

import_modules(__name__)

__all__ = ["OPTIMIZERS", "OptimizerSettings"]
