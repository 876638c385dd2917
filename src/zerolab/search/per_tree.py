"""Search settings that differ between trees, so one batch can serve many players.

The rules in this module are `Puct`, `FixedFpu` and `DrawValueUtility` with arrays in place of
numbers. They are separate types, so kernels of other searches are compiled without them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import quoted
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import FPUS, SELECTIONS, FpuRule, general_fpu, node_fpu_value
from zerolab.search.puct import PuctRule
from zerolab.search.search_settings import SearchSettings
from zerolab.search.values import UTILITIES, DrawValueUtility, DrawValueUtilityRule, ZeroSumUtility


class PerTreeSettings(NamedTuple):
    """Settings of B trees; None for a setting with one value for all trees in `SearchSettings`.

    An element can be changed whenever its tree is not being searched.
    """

    c: NDArray[np.float64] | None = None
    """float64[B]: `Puct.c` of each tree."""
    fpu: NDArray[np.float64] | None = None
    """float64[B]: `FixedFpu.value` of each tree."""
    draw_value: NDArray[np.float64] | None = None
    """float64[B]: `SearchSettings.draw_value` of each tree. If set, the search needs
    draw probabilities even if the value is 0."""

    def check(self, settings: SearchSettings) -> None:
        """Raise ValueError if the rules in `settings` do not support a value per tree."""
        if self.c is not None and settings.selection.name != "puct":
            name = quoted(settings.selection.name)
            raise ValueError(f'selection = {name} does not support c per tree: expected "puct"')
        if self.fpu is not None and settings.fpu.name != "fixed":
            name = quoted(settings.fpu.name)
            raise ValueError(f'fpu = {name} does not support a value per tree: expected "fixed"')

    def selection_rule(self, settings: SearchSettings) -> Any:
        """Return the selection rule."""
        return settings.selection.build() if self.c is None else PuctPerTree(self.c)

    def fpu_rule(self, settings: SearchSettings) -> Any:
        """Return the first-play urgency rule."""
        return general_fpu(settings.fpu.build()) if self.fpu is None else FixedFpuPerTree(self.fpu)

    def utility(self, settings: SearchSettings) -> Any:
        """Return the utility, which converts backup values to numbers."""
        if self.draw_value is not None:
            return DrawValueUtilityPerTree(settings.discount, self.draw_value)
        if settings.draw_value != 0:
            return DrawValueUtility(settings.discount, settings.draw_value)
        return ZeroSumUtility(settings.discount)

    def extra_outputs(self, settings: SearchSettings) -> frozenset[ExtraOutput]:
        """Return the evaluator outputs that the search needs in addition to priors and values."""
        outputs = settings.extra_outputs
        return outputs if self.draw_value is None else outputs | {"draws"}


class PuctPerTree(NamedTuple):
    """`Puct` with a separate c for each tree."""

    c: NDArray[np.float64]  # [B]


class _PuctPerTreeRule(PuctRule):
    @staticmethod
    def shared_score_terms(rule, fpu, tree, b, node):
        exploration = np.float32(rule.c[b] * math.sqrt(tree.visits[b, node]))
        return exploration, fpu, np.float32(node_fpu_value(fpu, tree, b, node))


class FixedFpuPerTree(NamedTuple):
    """`FixedFpu` with a separate value for each tree."""

    value: NDArray[np.float64]  # [B]


class _FixedFpuPerTreeRule(FpuRule):
    @staticmethod
    def node_fpu_value(rule, tree, b, node):
        return np.float32(rule.value[b])


class DrawValueUtilityPerTree(NamedTuple):
    """`DrawValueUtility` with a separate draw value for each tree."""

    discount: float
    draw_value: NDArray[np.float64]  # [B]


class _DrawValueUtilityPerTreeRule(DrawValueUtilityRule):
    @staticmethod
    def draw_contribution(utility, tree, b, node):
        return np.float32(utility.draw_value[b]) * tree.draw_probability[b, node]

    @staticmethod
    def scalar_value(utility, b, backup_value):
        return backup_value[0] + np.float32(utility.draw_value[b]) * backup_value[1]


SELECTIONS.implement(PuctPerTree, _PuctPerTreeRule)
FPUS.implement(FixedFpuPerTree, _FixedFpuPerTreeRule)
UTILITIES.implement(DrawValueUtilityPerTree, _DrawValueUtilityPerTreeRule)
