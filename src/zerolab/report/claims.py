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
    """A published finding, and the number that decides it."""

    key: str
    """Its short name, such as ``value-loss-best``."""
    text: str
    """The finding in one sentence."""
    source: str
    """Such as ``[Wang2020b, Fig. 5.1]``."""
    statistic: str
    """What is computed, in words: of which runs, in which unit."""
    threshold: float
    direction: Direction
    """On which side of the threshold the statistic lies if the claim holds."""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    claim: Claim
    estimate: IntervalLike | None
    p: float | None
    """Two-sided, that the true statistic is the threshold; None without data."""
    adjusted: float | None
    """`p` adjusted for the number of claims of the study [Holm1979]."""
    word: Word
    note: str = ""
    """What is missing, where there are no data."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON; ends of intervals that are not known are None."""
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
    """What became of the claims of a study."""

    verdicts: Sequence[Verdict]
    name: str = "claims"

    def as_table(self) -> Table:
        """Return everything about the claims as a table."""
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
