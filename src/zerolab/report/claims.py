"""Claims of a paper and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zerolab.report.interval import Cell, IntervalLike
from zerolab.report.table import Table

Direction = Literal["above", "below"]

Word = Literal["holds", "does not hold", "undecided at this scale", "no data"]


@dataclass(frozen=True)
class Claim:
    """A published finding and the number that decides it."""

    key: str
    """Short name, such as ``value-loss-best``."""
    text: str
    """The finding in one sentence."""
    source: str
    """Such as ``[Wang2020b, Fig. 5.1]``."""
    statistic: str
    """Description of the number: the runs it is computed from, and its unit."""
    threshold: float
    direction: Direction
    """Side of the threshold on which the statistic lies if the claim holds."""


@dataclass(frozen=True)
class Verdict:
    """Outcome of the test of a claim."""

    claim: Claim
    estimate: IntervalLike | None
    p: float | None
    """Two-sided p-value for a true statistic equal to the threshold; None without data."""
    adjusted: float | None
    """`p` adjusted for the number of claims of the study [Holm1979]."""
    word: Word
    note: str = ""
    """Missing data, if there are not enough for a test."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for JSON; unknown ends of intervals are None."""
        found = self.estimate
        return {
            "key": self.claim.key,
            "claim": self.claim.text,
            "source": self.claim.source,
            "statistic": self.claim.statistic,
            "threshold": self.claim.threshold,
            "direction": self.claim.direction,
            "value": None if found is None else found.value,
            "low": None if found is None else _finite_number(found.low),
            "high": None if found is None else _finite_number(found.high),
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
