"""The registered windows and mergings."""

from __future__ import annotations

from importlib import import_module

from zerolab.replay.window_rules import MERGINGS, WINDOWS

import_module("zerolab.replay.merging")

__all__ = ["MERGINGS", "WINDOWS"]
