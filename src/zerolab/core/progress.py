"""Progress of long-running work: callbacks, and observers of the compilation of kernels.

This module imports almost nothing, so that a command can register an observer before it imports
numba.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

ProgressBar = Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]]
"""Progress callback for long-running work.

It is called with a title, the total number of units and the name of a unit. It returns a context
manager that yields a function to call with the number of completed units and a note to display.
"""


class CompilationObserver(Protocol):
    """Observer of compilations, which can be nested."""

    def started(self) -> None:
        """Note that a compilation begins."""

    def ended(self) -> None:
        """Note that the innermost compilation has ended."""


observers: list[CompilationObserver] = []
"""Observers of all compilations in this process; kernels loaded from the cache are not compiled."""
