"""Settings of a search that differ from tree to tree.

One batch thus serves many players. The rules here are those of `Puct`, `Fixed` and `WithDraws` with
arrays in place of numbers. They are separate types: kernels of searches without such settings know
nothing of them.
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
    """Settings of each of B trees; None for those that `SearchSettings` fix for all.

    The arrays may be written while the trees concerned are not being searched.
    """

    c: NDArray[np.float64] | None = None
    """float64[B]: `Puct.c`."""
    fpu: NDArray[np.float64] | None = None
    """float64[B]: `Fixed.value`."""
    draw_value: NDArray[np.float64] | None = None
    """float64[B]: `SearchSettings.draw_value`; 0 counts, too."""

    def check(self, settings: SearchSettings) -> None:
        """Raise ValueError where a search has no rule with such a setting."""
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
        """Return the utility that gives values their worth."""
        if self.draw_value is not None:
            return WithDrawsPerTree(settings.discount, self.draw_value)
        if settings.draw_value != 0:
            return WithDraws(settings.discount, settings.draw_value)
        return ZeroSum(settings.discount)

    def extra_outputs(self, settings: SearchSettings) -> frozenset[ExtraOutput]:
        """Return the outputs that the search needs of an evaluator beyond priors and values."""
        outputs = settings.extra_outputs
        return outputs if self.draw_value is None else outputs | {"draws"}


class PuctPerTree(NamedTuple):
    """`Puct` with a c for each tree."""

    c: NDArray[np.float64]  # [B]


class _PuctPerTreeRule(PuctRule):
    @staticmethod
    def prepare(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c[b] * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(fpu_value(fpu, tree, b, node))


class FixedPerTree(NamedTuple):
    """`Fixed` with a value for each tree."""

    value: NDArray[np.float64]  # [B]


class _FixedPerTreeRule(FixedRule):
    @staticmethod
    def fpu_value(rule, tree, b, node):
        return np.float32(rule.value[b])


class WithDrawsPerTree(NamedTuple):
    """`WithDraws` with a draw value for each tree."""

    discount: float
    draw_value: NDArray[np.float64]  # [B]


class _WithDrawsPerTreeRule(WithDrawsRule):
    @staticmethod
    def draw_worth(utility, tree, b, node):
        return np.float32(utility.draw_value[b]) * tree.draws[b, node]

    @staticmethod
    def worth(utility, b, backup_value):
        return backup_value[0] + np.float32(utility.draw_value[b]) * backup_value[1]


SELECTIONS.implement(PuctPerTree, _PuctPerTreeRule)
FPUS.implement(FixedPerTree, _FixedPerTreeRule)
UTILITIES.implement(WithDrawsPerTree, _WithDrawsPerTreeRule)
