"""Seeds of studies, and significance levels of looks at accumulating data [OBrien1979], [Lan1983].

A study adds seeds in rounds and can stop once its claims are decided. Testing at the full level
after every round would lead to too many wrong decisions. The boundaries of O'Brien and Fleming
preserve the level: early looks need overwhelming evidence, and the last look costs little. The part
of the level spent so far is a fixed function of the share of the data seen, so the number and
timing of later looks need not be known in advance.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted

_POINTS = 801  # points of the numerical integration between the boundaries
_MAX_BOUNDARY = 38.0  # no boundary is farther from 0
_MIN_LEVEL = 1e-300  # smaller levels have no boundary in floating point


class TakenLook(NamedTuple):
    """Past look at the claims."""

    seeds: list[int]
    """Seeds of all results seen, including those of earlier looks, in ascending order."""
    planned_seed_count: int
    """Number of seeds that were planned at that time."""
    merged_seed_shares: list[float]
    """`seed_share` of each ledger's last look if ledgers were merged; otherwise empty."""

    @property
    def seed_share(self) -> float:
        """Share of the planned seeds, in (0, 1]."""
        return len(self.seeds) / self.planned_seed_count

    def as_dict(self) -> dict[str, Any]:
        """Return the look as stored in ledgers and study folders; see `parse_looks`."""
        return {
            "seeds": self.seeds,
            "planned_count": self.planned_seed_count,
            "spent_shares": self.merged_seed_shares,
        }


def parse_looks(tables: Any, seeds: Sequence[int]) -> list[TakenLook]:
    """Parse the looks in a file; raise one of the `DECODING_ERRORS` if they are invalid.

    Each look must add seeds to those of the previous look, and `seeds` those of all looks.
    """
    looks = [
        TakenLook(
            check_seeds(table["seeds"]),
            int(table["planned_count"]),
            [float(share) for share in table["spent_shares"]],
        )
        for table in tables
    ]
    for earlier, later in pairwise([[], *(look.seeds for look in looks)]):
        if not set(earlier) < set(later):
            raise ValueError("a look does not add seeds to the previous one")
    if looks and not set(looks[-1].seeds) <= set(seeds):
        raise ValueError("a look includes seeds that are not planned")
    shares = [share for look in looks for share in (look.seed_share, *look.merged_seed_shares)]
    if not all(0.0 < share <= 1.0 for share in shares):
        raise ValueError("a look has a share outside 0 to 1")
    return looks


def level_at_last_look(level: float, looks: Sequence[TakenLook]) -> float:
    """Return the significance level of a two-sided test at the last of `looks`.

    For a look at merged ledgers, the level spent up to their last looks is subtracted. Later looks
    may spend only what remains. They do not benefit from the correlation between looks, because
    that between the ledgers' own looks is unknown.
    """
    *earlier, last = looks
    if not any(look.merged_seed_shares for look in looks):
        return nominal_levels(level, tuple(look.seed_share for look in looks))[-1]
    spent = sum(alpha_spent(level, share) for share in last.merged_seed_shares)
    if not last.merged_seed_shares:
        spent = max(
            alpha_spent(level, earlier[-1].seed_share),
            *(sum(alpha_spent(level, share) for share in each.merged_seed_shares)
              for each in earlier),
        )  # fmt: skip
    return max(0.0, alpha_spent(level, last.seed_share) - spent)


@cache
def nominal_levels(level: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Return the significance level of a two-sided test at each look.

    `fractions` are the shares of the planned data at the looks, in ascending order and at most 1.
    Together, the looks up to a share of 1 reject a true hypothesis with probability `level`.
    Raises ValueError unless the fractions are positive and ascending.
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  slow to import

    if not fractions or sorted(set(fractions)) != list(fractions) or fractions[0] <= 0.0:
        raise ValueError(f"{fractions}: expected positive fractions in ascending order")
    first, *later = fractions
    levels = [alpha_spent(level, first)]
    density = _ContinuationDensity.at_first_look(
        -float(ndtri(levels[0] / 2.0)) * math.sqrt(first), first
    )
    for fraction in later:
        spent = alpha_spent(level, fraction) - alpha_spent(level, density.fraction)
        bound = density.bound(fraction, spent)
        levels.append(2.0 * float(ndtr(-bound / math.sqrt(fraction))))
        density = density.at_next_look(bound, fraction)
    return tuple(levels)


class _ContinuationDensity(NamedTuple):
    """Density of cumulative data between the boundaries at a look [Armitage1969].

    The cumulative data are a random walk from 0 whose variance is the share of the data.
    """

    points: NDArray[np.float64]
    density: NDArray[np.float64]
    fraction: float

    @classmethod
    def at_first_look(cls, bound: float, fraction: float) -> _ContinuationDensity:
        """Return the density of data at most `bound` from 0 at the first look."""
        points = np.linspace(-bound, bound, _POINTS)
        return cls(points, _normal(points, math.sqrt(fraction)), fraction)

    def bound(self, fraction: float, probability: float) -> float:
        """Return the boundary that the data cross with the given probability at the next look."""
        from scipy.integrate import simpson  # noqa: PLC0415  slow to import
        from scipy.optimize import brentq  # noqa: PLC0415
        from scipy.special import ndtr  # noqa: PLC0415

        deviation = math.sqrt(fraction - self.fraction)

        def excess(bound: float) -> float:
            tails = ndtr((self.points - bound) / deviation)
            return 2.0 * float(simpson(self.density * tails, x=self.points)) - probability

        return float(brentq(excess, 0.0, _MAX_BOUNDARY, xtol=1e-12))

    def at_next_look(self, bound: float, fraction: float) -> _ContinuationDensity:
        """Return the density of data that are also at most `bound` from 0 at the next look."""
        from scipy.integrate import simpson  # noqa: PLC0415  slow to import

        points = np.linspace(-bound, bound, _POINTS)
        steps = _normal(points[:, None] - self.points[None, :], math.sqrt(fraction - self.fraction))
        return _ContinuationDensity(
            points, simpson(steps * self.density, x=self.points, axis=1), fraction
        )


def alpha_spent(level: float, fraction: float) -> float:
    """Return how much of a two-sided `level` may be spent once `fraction` of the data is seen."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  slow to import

    return max(_MIN_LEVEL, 4.0 * float(ndtr(ndtri(level / 4.0) / math.sqrt(fraction))))


def _normal(x: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    density: NDArray[np.float64] = np.exp(-((x / deviation) ** 2) / 2.0) / (
        deviation * math.sqrt(2.0 * math.pi)
    )
    return density


FIRST_SEED = 100
"""Smallest seed of studies. Smaller seeds were used while developing claims and designs."""

LAST_SEED = 999
"""Largest seed; larger numbers are seeds of other groups of runs (`plan_run`)."""

_LOOKS = 3  # number of looks at the claims if seeds are added in rounds
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def look_sizes(seed_count: int) -> list[int]:
    """Return the number of seeds at each look at the claims: after each third of the seeds."""
    return sorted({math.ceil(seed_count * look / _LOOKS) for look in range(1, _LOOKS + 1)})


def parse_seeds(text: str) -> list[int]:
    """Return the seeds written as numbers and ranges, such as ``100-107,112``, in order.

    Raises UserError if the text is in a different format, or if a seed is out of range or repeated.
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
        raise ValueError("seeds are repeated or not in ascending order")
    if seeds and not FIRST_SEED <= seeds[0] <= seeds[-1] <= LAST_SEED:
        raise ValueError(f"expected seeds from {FIRST_SEED} to {LAST_SEED}")
    return seeds


def format_seeds(seeds: Iterable[int]) -> str:
    """Return seeds as text for `parse_seeds`; ``none`` if there are none."""
    ranges: list[tuple[int, int]] = []
    for seed in seeds:
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1] = ranges[-1][0], seed
        else:
            ranges.append((seed, seed))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ",".join(parts) or "none"
