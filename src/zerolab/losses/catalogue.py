"""The registered losses."""

from __future__ import annotations

from zerolab.core.registry import import_modules, load_plugins
from zerolab.losses.interface import LOSSES, Loss

import_modules("zerolab.losses.kinds")
load_plugins("training")

__all__ = ["LOSSES", "Loss"]
