"""The registered losses."""

from __future__ import annotations

from zerolab.core.registry import import_modules
from zerolab.losses.interface import LOSSES, Loss

import_modules("zerolab.losses.kinds")

__all__ = ["LOSSES", "Loss"]
