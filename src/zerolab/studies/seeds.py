"""Seeds of studies: which are used, how they are written, and the looks at growing numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from zerolab.core.errors import UserError, quoted

FIRST_SEED = 100
"""First seed of all studies. Smaller seeds were used while claims and designs were developed."""

LAST_SEED = 999
"""Largest seed; larger numbers are seeds of other groups of runs, see `plan_run`."""

_LOOKS = 3  # at the claims, if seeds are added in rounds
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def look_sizes(seed_count: int) -> list[int]:
    """Return the number of seeds at each look at the claims: after each third of the seeds."""
    return sorted({math.ceil(seed_count * look / _LOOKS) for look in range(1, _LOOKS + 1)})


def parse_seeds(text: str) -> list[int]:
    """Return the seeds written as numbers and ranges, such as ``100-107,112``, in order.

    Raises UserError if the text has another form, a seed is outside the allowed range or repeated.
    """
    matches = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if not all(matches):
        raise UserError(f"--seeds {quoted(text)}: expected numbers and ranges such as 100-107,112")
    ends = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    seeds = [seed for first, last in ends for seed in range(first, last + 1)]
    try:
        if any(last < first for first, last in ends):
            raise ValueError("a range ends before it begins")
        return check_seeds(sorted(seeds))
    except ValueError as error:
        raise UserError(f"--seeds {quoted(text)}: {error}") from None


def check_seeds(seeds: Any) -> list[int]:
    """Return a list of seeds; raise ValueError if it is not in ascending order within the range."""
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise ValueError("expected a list of seeds")
    if any(other <= one for one, other in pairwise(seeds)):
        raise ValueError("a seed is repeated")
    if seeds and not FIRST_SEED <= seeds[0] <= seeds[-1] <= LAST_SEED:
        raise ValueError(f"expected seeds from {FIRST_SEED} to {LAST_SEED}")
    return seeds


def format_seeds(seeds: Iterable[int]) -> str:
    """Return seeds in the form of `parse_seeds`; ``none`` if there are none."""
    ranges: list[tuple[int, int]] = []
    for seed in seeds:
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1] = ranges[-1][0], seed
        else:
            ranges.append((seed, seed))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ",".join(parts) or "none"
