"""Settings of a search that differ from tree to tree.

The rules here are those of `Puct`, `Fixed` and `WithDraws` with arrays in the place of numbers.
They are types of their own: where all trees are searched alike, kernels know nothing of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import quoted
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import FPUS, SELECTIONS, fpu_value
from zerolab.search.puct import FixedRule, PuctRule
from zerolab.search.search_settings import SearchSettings
from zerolab.search.values import UTILITIES, WithDraws, WithDrawsRule, ZeroSum


class PerTreeSettings(NamedTuple):
    """What a search with B trees sets for each tree; None is what `SearchSettings` say for all.

    The arrays may be written whenever the trees concerned are not being searched.
    """

    c: NDArray[np.float64] | None = None
    """float64[B]: `Puct.c`."""
    fpu: NDArray[np.float64] | None = None
    """float64[B]: `Fixed.value`."""
    draw_value: NDArray[np.float64] | None = None
    """float64[B]: `SearchSettings.draw_value`; 0 counts, too."""

    def check(self, settings: SearchSettings) -> None:
        """Raise ValueError where a search has another rule than the one that has the setting."""
        if self.c is not None and settings.selection.name != "puct":
            name = quoted(settings.selection.name)
            raise ValueError(f'selection = {name} has no c for each tree: expected "puct"')
        if self.fpu is not None and settings.fpu.name != "fixed":
            name = quoted(settings.fpu.name)
            raise ValueError(f'fpu = {name} has no value for each tree: expected "fixed"')

    def selection(self, settings: SearchSettings) -> Any:
        """Return the selection rule."""
        return settings.selection.build() if self.c is None else PuctPerTree(self.c)

    def first_play_urgency(self, settings: SearchSettings) -> Any:
        """Return the rule of first-play urgency."""
        return settings.fpu.build() if self.fpu is None else FixedPerTree(self.fpu)

    def utility(self, settings: SearchSettings) -> Any:
        """Return what values are worth."""
        if self.draw_value is not None:
            return WithDrawsPerTree(settings.discount, self.draw_value)
        if settings.draw_value != 0:
            return WithDraws(settings.discount, settings.draw_value)
        return ZeroSum(settings.discount)

    def wanted(self, settings: SearchSettings) -> frozenset[ExtraOutput]:
        """Return what the search needs of an evaluator beyond priors and values."""
        return settings.wanted if self.draw_value is None else settings.wanted | {"draws"}


class PuctPerTree(NamedTuple):
    """`Puct` with a c for each tree."""

    c: NDArray[np.float64]  # [B]


class PuctPerTreeRule(PuctRule):
    """See `PuctByTree`."""

    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c[b] * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(fpu_value(fpu, tree, b, node))


class FixedPerTree(NamedTuple):
    """`Fixed` with a value for each tree."""

    value: NDArray[np.float64]  # [B]


class FixedPerTreeRule(FixedRule):
    """See `FixedByTree`."""

    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(rule.value[b])


class WithDrawsPerTree(NamedTuple):
    """`WithDraws` with a draw value for each tree."""

    discount: float
    draw_value: NDArray[np.float64]  # [B]


class WithDrawsPerTreeRule(WithDrawsRule):
    """See `WithDrawsByTree`."""

    @staticmethod
    def draw_worth(utility, tree, b, node):
        return np.float32(utility.draw_value[b]) * tree.draws[b, node]

    @staticmethod
    def worth(utility, b, signal):
        return signal[0] + np.float32(utility.draw_value[b]) * signal[1]


SELECTIONS.implement(PuctPerTree, PuctPerTreeRule)
FPUS.implement(FixedPerTree, FixedPerTreeRule)
UTILITIES.implement(WithDrawsPerTree, WithDrawsPerTreeRule)
