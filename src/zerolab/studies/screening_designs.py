"""Two-level designs that screen many factors with few runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def plackett_burman(run_count: int) -> NDArray[np.int64]:
    """Return the design of [Plackett1946] for one factor less than runs.

    The result is int64[runs, factors], with -1 for the low level and 1 for the high level. Each
    column has as many low as high levels, and any two columns are orthogonal. The rows are the
    rotations of the quadratic residues of ``run_count - 1``, after [Paley1933], and a row of low
    levels. ValueError is raised unless ``run_count - 1`` is a prime that leaves 3 when divided
    by 4.
    """
    prime = run_count - 1
    if prime % 4 != 3 or any(prime % divisor == 0 for divisor in range(2, prime)):
        raise ValueError(f"{run_count} runs: expected a multiple of 4, one above a prime")
    residues = {x * x % prime for x in range(prime)}
    first = np.array([1 if x in residues else -1 for x in range(prime)], np.int64)
    rotations = [np.roll(first, shift) for shift in range(prime)]
    return np.stack([*rotations, np.full(prime, -1)])


def fold_over(design: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a two-level design followed by its mirror image, with all levels swapped.

    In a mirrored pair of runs, all main effects change their sign and no interaction of two factors
    does. Main effects are therefore orthogonal to these interactions [Box1951].
    """
    return np.concatenate([design, -design])
