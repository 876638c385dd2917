"""Significance levels of repeated looks at growing data [OBrien1979].

A study adds seeds in rounds and can stop once its claims are decided. Testing at the full level
after every round would decide too much by chance. The boundaries of O'Brien and Fleming keep the
level: early looks need overwhelming evidence, and the last look costs little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_POINTS = 801  # of the numerical integration between the boundaries


@cache
def nominal_levels(level: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Return the significance level of a two-sided test at each look.

    `fractions` are the shares of the planned data at the looks, in ascending order; the last one is
    1 if the plan is carried out. Together, the looks reject a true hypothesis with probability
    `level`. The boundaries of the test statistic are c / sqrt(fraction).
    """
    from scipy.optimize import brentq  # noqa: PLC0415  slow to import
    from scipy.special import ndtr, ndtri  # noqa: PLC0415

    if not fractions or sorted(set(fractions)) != list(fractions) or fractions[0] <= 0.0:
        raise ValueError(f"{fractions}: expected positive fractions in ascending order")
    single = -float(ndtri(level / 2)) * math.sqrt(fractions[-1])
    c = single
    if len(fractions) > 1:
        c = brentq(
            lambda c: _rejection_rate(c, fractions) - level, single, 2.0 * single, xtol=1e-10
        )
    return tuple(2.0 * float(ndtr(-c / math.sqrt(fraction))) for fraction in fractions)


def _rejection_rate(c: float, fractions: Sequence[float]) -> float:
    """Return the probability that a random walk leaves (-c, c) at any of its looks.

    The walk has variance `fraction` at each look. Its boundary is c, because its standardised value
    has boundary c / sqrt(fraction). The density of the walks still inside is integrated from look
    to look [Armitage1969].
    """
    from scipy.integrate import simpson  # noqa: PLC0415  slow to import

    points = np.linspace(-c, c, _POINTS)
    density = _normal(points, fractions[0])
    for before, after in pairwise(fractions):
        steps = _normal(points[:, None] - points[None, :], after - before)
        density = simpson(steps * density, x=points, axis=1)
    return 1.0 - float(simpson(density, x=points))


def _normal(x: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    density: NDArray[np.float64] = np.exp(-(x**2) / (2.0 * variance)) / math.sqrt(
        2.0 * math.pi * variance
    )
    return density
