"""Claims of papers and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zerolab.report.interval import Cell, Interval
from zerolab.report.table import Table

Direction = Literal["above", "below"]

Word = Literal["holds", "does not hold", "undecided at this scale", "no data"]


@dataclass(frozen=True)
class Claim:
    """A published finding and the statistic that tests it."""

    key: str
    """Short name, such as ``value-loss-best``."""
    text: str
    """Finding in one sentence."""
    source: str
    """Source of the finding, such as ``[Wang2020b, Fig. 5.1]``."""
    statistic: str
    """Description of the statistic, with its runs and its unit."""
    threshold: float
    """Value that separates statistics for which the claim holds from other values."""
    direction: Direction
    """Side of the threshold for which the claim holds."""


@dataclass(frozen=True)
class Verdict:
    """Result of testing a claim."""

    claim: Claim
    estimate: Interval | None
    """Estimate of the statistic; None without data."""
    p: float | None
    """Two-sided p-value for a true statistic equal to the threshold; None without data."""
    adjusted: float | None
    """`p` adjusted for the number of claims in the study [Holm1979]."""
    word: Word
    """Verdict in words."""
    note: str = ""
    """Description of missing data, if there is not enough data for a test."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for JSON; unknown ends of intervals are None."""
        estimate = self.estimate
        return {
            "key": self.claim.key,
            "claim": self.claim.text,
            "source": self.claim.source,
            "statistic": self.claim.statistic,
            "threshold": self.claim.threshold,
            "direction": self.claim.direction,
            "value": None if estimate is None else estimate.value,
            "low": None if estimate is None else _finite_number(estimate.low),
            "high": None if estimate is None else _finite_number(estimate.high),
            "p": self.p,
            "adjusted_p": self.adjusted,
            "verdict": self.word,
            "note": self.note,
        }


def _finite_number(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class ClaimTable:
    """Verdicts on the claims of a study."""

    verdicts: Sequence[Verdict]
    name: str = "claims"

    def as_table(self) -> Table:
        """Return the verdicts as a table."""
        titles = ["key", "claim", "source", "statistic", "direction", "threshold", "found", "p"]
        rows: list[list[Cell]] = [
            [
                each.claim.key, each.claim.text, each.claim.source, each.claim.statistic,
                each.claim.direction, each.claim.threshold, each.estimate, each.p, each.adjusted,
                each.word, each.note,
            ]
            for each in self.verdicts
        ]  # fmt: skip
        return Table(self.name, "Claims", [*titles, "adjusted p", "verdict", "note"], rows)
