"""Observers of the compilation of kernels, which can take seconds.

This module imports nothing, so that a command can register an observer before it imports numba.
"""

from __future__ import annotations

from typing import Protocol


class CompilationObserver(Protocol):
    """Observer of compilations, which can be nested."""

    def started(self) -> None:
        """Note that a compilation begins."""

    def ended(self) -> None:
        """Note that the innermost compilation has ended."""


observers: list[CompilationObserver] = []
"""Observers of all compilations in this process; kernels loaded from the cache are not compiled."""
