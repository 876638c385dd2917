"""The registered windows and mergings."""

from __future__ import annotations

from importlib import import_module

from zerolab.core.registry import import_modules
from zerolab.replay.interface import MERGINGS, WINDOWS

import_modules("zerolab.replay.windows")
import_module("zerolab.replay.merging")

__all__ = ["MERGINGS", "WINDOWS"]
