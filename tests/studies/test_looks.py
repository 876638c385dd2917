"""Levels of repeated looks, against published boundaries and simulated trials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from zerolab.studies.looks import nominal_levels

EQUAL_THIRDS = (1 / 3, 2 / 3, 1.0)


@pytest.mark.parametrize(
    ("fractions", "last_boundary"),
    # Constants of O'Brien and Fleming for two to five equal looks [Jennison2000, Table 2.3].
    [(2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040)],
)
def test_boundaries_are_the_published_ones(fractions, last_boundary):
    looks = tuple((i + 1) / fractions for i in range(fractions))
    boundaries = [-norm.ppf(level / 2) for level in nominal_levels(0.05, looks)]
    expected = [last_boundary / np.sqrt(fraction) for fraction in looks]
    assert boundaries == pytest.approx(expected, abs=2e-3)


def test_single_look_has_the_full_level():
    assert nominal_levels(0.05, (1.0,)) == pytest.approx((0.05,))


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_looks_keep_the_level(level):
    random = np.random.default_rng(0)
    steps = random.normal(size=(200_000, 3)) / np.sqrt(3)
    sums = steps.cumsum(axis=1) / np.sqrt(EQUAL_THIRDS)
    p_values = 2 * norm.sf(np.abs(sums))
    rejected = (p_values < nominal_levels(level, EQUAL_THIRDS)).any(axis=1).mean()
    assert rejected == pytest.approx(level, rel=0.06)


@pytest.mark.parametrize("fractions", [(), (0.5, 0.5), (0.0, 1.0), (1.0, 0.5)])
def test_invalid_fractions_are_rejected(fractions):
    with pytest.raises(ValueError, match="ascending"):
        nominal_levels(0.05, fractions)
